"""The differences between the protocols of Kafka 0.7 and modern Kafka (0.8 and later), as data.

A ``Dialect`` has the APIs of a protocol and their headers. It frames requests and reads responses.

``dialect_of`` gives that of each wire format. A process imports only the dialects that it uses.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ..errors import ProtocolError
from ..model import Generation, WireFormat
from .api import Api
from .primitives import CHECK_PEER, INT16, INT32, Buffer, String
from .schema import Struct, codec, wire

#: Header version, by our count, of a protocol without versions and correlation ids.
BARE: Final = -1
#: Parts of a message below this many bytes are copied together.
_COPIED_BYTES_MAX: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeader:
    """Header of a request. Its version follows from dialect and request::

        -1   api key
         1   api key | api version | correlation id | client id
         2   api key | api version | correlation id | client id | tagged fields

    The client id keeps its plain length in version 2, so that old brokers can read the header of
    a request that they do not know. Source: KIP-482, KIP-511.
    """

    api_key: int = wire(INT16)
    api_version: int = wire(INT16, since=0, default=0, ignorable=True)
    correlation_id: int = wire(INT32, since=0, default=0, ignorable=True)
    client_id: str | None = wire(
        String(), since=1, nullable_since=1, default=None, ignorable=True, compact=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHeader:
    """Header of a response: nothing (-1), the correlation id (0), and tagged fields (1).

    ``api_version`` is None if responses do not carry it.
    """

    correlation_id: int = wire(INT32, since=0, default=0, ignorable=True)
    api_version: int | None = None


@dataclass(frozen=True, slots=True)
class Headers:
    """Headers of the requests and the responses of one API in one version."""

    request: Struct[Any]
    response: Struct[Any]


def bare_headers(_api: Api, _version: int) -> Headers:
    """Headers of a protocol without versions and correlation ids."""
    return Headers(codec(RequestHeader, BARE, False), codec(ResponseHeader, BARE, False))


def kafka_headers(api: Api, version: int) -> Headers:
    """Headers of Kafka from 0.8 on."""
    flexible = api.is_flexible(version)
    flexible_response = flexible and api.has_flexible_response_header
    return Headers(
        codec(RequestHeader, 2 if flexible else 1, flexible),
        codec(ResponseHeader, 1 if flexible_response else 0, flexible_response),
    )


class Apis(Protocol):
    """The APIs of a dialect, in the order of their keys."""

    def __iter__(self) -> Iterator[Api]: ...

    def of(self, request: type[Any]) -> Api:
        """The API whose requests have this type."""


class ListedApis(tuple[Api, ...]):
    """APIs in a list, all of them declared."""

    __slots__ = ()

    def of(self, request: type[Any]) -> Api:
        """The API whose requests have this type."""
        for api in self:
            if api.request is request:
                return api
        raise LookupError(f"no API has requests of {request}")


@dataclass(frozen=True, slots=True)
class Dialect:
    """The protocol of a generation of brokers: its requests, and how they are framed.

    ``correlates`` is true if responses carry the id of their request; responses come in the order of the
    requests in any case. ``negotiates`` is true if the client asks brokers for their versions. ``headers``
    gives the headers of an API in a version; all headers of an API hold the version at the same place.
    Frames::

        length int32 | Headers.request | request
        length int32 | Headers.response | response
    """

    generation: Generation
    correlates: bool
    negotiates: bool
    apis: Apis
    headers: Callable[[Api, int], Headers]

    def api_of(self, request: object) -> Api:
        """The API that a request message belongs to."""
        return self.apis.of(type(request))

    def write_request(
        self,
        request: object,
        version: int = 0,
        correlation_id: int = 0,
        client_id: str | None = None,
        content: Sequence[Buffer] | None = None,
    ) -> list[Buffer]:
        """The request's frame, as buffers to send one after the other. ``content`` is that of
        ``write_content``, if it was written before. Raises ``UnsupportedVersionError`` (fatal) if the version
        cannot carry the request."""
        api = self.api_of(request)
        codec = self.headers(api, version).request
        header = codec.message(
            api_key=api.key, api_version=version, correlation_id=correlation_id, client_id=client_id
        )
        out: list[Buffer] = []
        codec.write(header, out)
        return _frame_parts([*out, *(self.write_content(request, version) if content is None else content)])

    def write_content(self, request: object, version: int) -> list[Buffer]:
        """The request without a header. Raises as ``write_request`` does."""
        out: list[Buffer] = []
        self.api_of(request).request_codec(version).write(request, out)
        return out

    def read_request(self, body: memoryview) -> tuple[Api, Any]:
        """The request in a frame's body (the bytes after the length). Extra bytes are ignored. Raises
        ``ProtocolError`` for an unknown key or version, or a short body."""
        api, header, pos = self.read_request_header(body)
        return api, api.request_codec(header.api_version).read(body, pos)[0]

    def read_request_header(self, body: memoryview) -> tuple[Api, Any, int]:
        """The API and header of the request in a frame's body, and where the request begins."""
        key, _ = INT16.read(body, 0)
        api = next((api for api in self.apis if api.key == key), None)
        if api is None:
            raise ProtocolError(f"unknown request type {key}; does the client speak another protocol?")
        oldest = self.headers(api, api.versions.min).request
        header, pos = oldest.read(body, 0)
        version = header.api_version
        if version not in api.versions:
            raise ProtocolError(
                f"unknown version {version} of {api.name}; known are {api.versions}; use one of these"
            )
        codec = self.headers(api, version).request
        if codec is not oldest:
            header, pos = codec.read(body, 0)
        return api, header, pos

    def read_response(self, api: Api, body: memoryview, version: int = 0, correlation_id: int = 0) -> Any:
        """The response in a frame's body. Raises ``ProtocolError`` if the body is too short, answers another
        request, or has bytes after the response. A dialect that negotiates versions ignores bytes after the
        response."""
        header, pos = self.headers(api, version).response.read(body, 0)
        if self.correlates and header.correlation_id != correlation_id:
            raise ProtocolError(
                f"{api.name} request {correlation_id} got the response to request "
                f"{header.correlation_id}; {CHECK_PEER}"
            )
        if header.api_version not in (None, version):
            raise ProtocolError(
                f"{api.name} request of version {version} got a response of version {header.api_version}; "
                f"{CHECK_PEER}"
            )
        refusal = api.read_refusal(body[pos:])
        if refusal is not None:
            return refusal
        response, end = api.response_codec(version).read(body, pos)
        # Kafka's own clients ignore extra bytes, and librdkafka's mock cluster (2.16) ends a
        # flexible Metadata response with one.
        if end != len(body) and not self.negotiates:
            raise ProtocolError(f"{api.name} response of {len(body)} bytes ends after {end}; {CHECK_PEER}")
        return response

    def write_response(
        self, api: Api, response: object, version: int = 0, correlation_id: int = 0
    ) -> list[Buffer]:
        """The response's frame, as buffers to send one after the other."""
        codec = self.headers(api, version).response
        out: list[Buffer] = []
        codec.write(codec.message(correlation_id=correlation_id, api_version=version), out)
        api.response_codec(version).write(response, out)
        return _frame_parts(out)


def _frame_parts(parts: list[Buffer]) -> list[Buffer]:
    """The frame of a message: its length and its parts. Adjacent small parts are joined, because sending
    another buffer costs more than a copy."""
    small: list[Buffer] = [sum(map(len, parts)).to_bytes(4, "big")]
    frame: list[Buffer] = []
    for part in parts:
        if len(part) < _COPIED_BYTES_MAX:
            small.append(part)
        else:
            frame += (b"".join(small), part)
            small = []
    if small:
        frame.append(b"".join(small))
    return frame


_HOMES: Final = {WireFormat.V07: "v07", WireFormat.PROPOSAL: "proposal", WireFormat.MODERN: "modern"}


@functools.cache
def dialect_of(wire_format: WireFormat) -> Dialect:
    """The dialect of a wire format."""
    dialect: Dialect = importlib.import_module(f".{_HOMES[wire_format]}", __package__).DIALECT
    return dialect
