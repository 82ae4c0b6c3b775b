"""What differs between the protocols of old and new brokers, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ..errors import ProtocolError
from ..model import Generation
from .api import Api
from .primitives import INT16, INT32, Buffer, String
from .schema import Struct, codec, wire

#: Header version, by our count, of a protocol without versions and correlation ids.
BARE: Final = -1
#: Parts of a message below this many bytes are copied together.
_COPIED_BYTES_MAX: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeader:
    """What comes before a request. Its version follows from dialect and request::

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
class ReplyHeader:
    """What comes before a reply: nothing (-1), the correlation id (0), and tagged fields (1)."""

    correlation_id: int = wire(INT32, since=0, default=0, ignorable=True)


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a generation speaks on the wire: its requests, and how they are framed.

    ``correlates`` tells whether replies carry the id of their request; where they do not,
    requests and replies have no version either. Replies come in the order of the requests in
    both. Frames::

        length int32 | RequestHeader | request
        length int32 | ReplyHeader | reply
    """

    generation: Generation
    correlates: bool
    apis: tuple[Api, ...]

    def api_of(self, request: object) -> Api:
        """The API that a request message belongs to."""
        return next(api for api in self.apis if api.request is type(request))

    def write_request(
        self, request: object, version: int = 0, correlation_id: int = 0, client_id: str | None = None
    ) -> list[Buffer]:
        """The request's frame, as buffers to send one after the other.

        Raises ``UnsupportedVersionError`` (fatal) where the version cannot carry the request.
        """
        api = self.api_of(request)
        header = RequestHeader(
            api_key=api.key, api_version=version, correlation_id=correlation_id, client_id=client_id
        )
        out: list[Buffer] = []
        self._request_header(api.is_flexible(version)).write(header, out)
        api.request_codec(version).write(request, out)
        return _framed(out)

    def read_request(self, body: memoryview) -> tuple[Api, Any]:
        """The request in a frame's body (what follows the length). Extra bytes are ignored.

        Raises ``ProtocolError`` for an unknown key or version, or a short body.
        """
        api, header, pos = self.read_request_header(body)
        return api, api.request_codec(header.api_version).read(body, pos)[0]

    def read_request_header(self, body: memoryview) -> tuple[Api, RequestHeader, int]:
        """The API and header of the request in a frame's body, and where the request begins."""
        key, pos = INT16.read(body, 0)
        api = next((api for api in self.apis if api.key == key), None)
        if api is None:
            raise ProtocolError(f"unknown request type {key}")
        version = INT16.read(body, pos)[0] if self.correlates else 0
        if version not in api.versions:
            raise ProtocolError(f"unknown version {version} of {api.name}; known are {api.versions}")
        header, pos = self._request_header(api.is_flexible(version)).read(body, 0)
        return api, header, pos

    def read_reply(self, api: Api, body: memoryview, version: int = 0, correlation_id: int = 0) -> Any:
        """The reply in a frame's body.

        Raises ``ProtocolError`` where the body is too short, answers another request, or, without
        correlation ids to tell by, holds more than the reply.
        """
        header, pos = self._reply_header(api, version).read(body, 0)
        if self.correlates and header.correlation_id != correlation_id:
            raise ProtocolError(
                f"{api.name} request {correlation_id} got the reply to request {header.correlation_id}"
            )
        refusal = api.read_refusal(body[pos:])
        if refusal is not None:
            return refusal
        reply, end = api.reply_codec(version).read(body, pos)
        # Kafka's own clients ignore what follows, and librdkafka's mock cluster (2.16) ends a
        # flexible Metadata reply with a byte too many.
        if end != len(body) and not self.correlates:
            raise ProtocolError(f"{api.name} reply of {len(body)} bytes ends after {end}")
        return reply

    def write_reply(self, api: Api, reply: object, version: int = 0, correlation_id: int = 0) -> list[Buffer]:
        """The reply's frame, as buffers to send one after the other."""
        out: list[Buffer] = []
        self._reply_header(api, version).write(ReplyHeader(correlation_id=correlation_id), out)
        api.reply_codec(version).write(reply, out)
        return _framed(out)

    def _request_header(self, flexible: bool) -> Struct[RequestHeader]:
        if not self.correlates:
            return codec(RequestHeader, BARE, False)
        return codec(RequestHeader, 2 if flexible else 1, flexible)

    def _reply_header(self, api: Api, version: int) -> Struct[ReplyHeader]:
        if not self.correlates:
            return codec(ReplyHeader, BARE, False)
        flexible = api.is_flexible(version) and api.has_flexible_reply_header
        return codec(ReplyHeader, 1 if flexible else 0, flexible)


def _framed(parts: list[Buffer]) -> list[Buffer]:
    """The frame of a message: its length and its parts. Small parts that follow each other are joined,
    for each buffer that is sent costs more than a copy of it."""
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
