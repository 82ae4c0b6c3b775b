"""What differs between the protocols of old and new brokers, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ..errors import ProtocolError
from ..model import Generation
from .primitives import INT16, INT32, Buffer, String
from .replies import Faults
from .schema import Struct, codec, wire

#: Header version, by our count, of a protocol without versions and correlation ids.
BARE: Final = -1
#: Parts of a message below this many bytes are copied together.
_COPIED_BYTES_MAX: Final = 512
#: Highest version that a request header can name.
VERSION_MAX: Final = 32_767


def always(_: object) -> bool:
    """``Api.is_answered`` where every request gets its reply."""
    return True


def any_version(_: object) -> int:
    """``Api.version_max`` where every version carries every request."""
    return VERSION_MAX


def no_refusal(_: memoryview) -> None:
    """``Api.read_refusal`` where a broker that does not know the version just closes."""


def no_reply_bytes(_: object) -> int:
    """``Api.reply_bytes_max`` where there are no replies."""
    return 0


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
class VersionRange:
    """Versions of an API, both ends included, as brokers offer them."""

    min: int
    max: int

    def __contains__(self, version: int) -> bool:
        return self.min <= version <= self.max

    def __str__(self) -> str:
        return f"{self.min}" if self.min == self.max else f"{self.min}-{self.max}"


@dataclass(frozen=True, slots=True)
class Api:
    """One request type and its reply.

    ``response`` is None where the broker never answers; ``is_answered`` tells which requests get
    their reply. ``reply_bytes_max`` tells from a request how long its reply may be: a longer one
    is a lie, refused before memory is taken for it. ``faults`` tells from a request, its reply and
    their version what is wrong with the reply: whatever is answered declares it (see ``replies``).

    ``versions`` are those that this package knows; from ``flexible_since`` on they are flexible.
    ``version_max`` tells the highest version that can carry a request. ``read_refusal`` reads the
    reply of a broker that does not know the request's version; None where it is not one. From
    ``throttles_since`` on a broker answers at once and leaves it to the client to wait for
    ``throttle_time_ms``; before, it has waited itself. Source: KIP-219. A request that
    ``may_be_passed_over`` is one that some broker neither answers nor closes on: the reply to the
    request behind it may come in its place.
    """

    name: str
    key: int
    request: type[Any]
    response: type[Any] | None = None
    reply_bytes_max: Callable[[Any], int] = no_reply_bytes
    versions: VersionRange = VersionRange(0, 0)
    flexible_since: int | None = None
    has_flexible_reply_header: bool = True
    faults: Callable[[Any, Any, int], Faults] | None = None
    is_answered: Callable[[Any], bool] = always
    version_max: Callable[[Any], int] = any_version
    read_refusal: Callable[[memoryview], Any] = no_refusal
    throttles_since: int | None = None
    may_be_passed_over: bool = False

    def __post_init__(self) -> None:
        assert (self.response is None) == (self.faults is None), f"{self.name}: what is wrong with a reply?"

    def awaits_reply(self, request: object) -> bool:
        """Whether the broker answers this request."""
        return self.response is not None and self.is_answered(request)

    def throttle_time_ms(self, reply: Any, version: int) -> int:
        """How long the client has to wait after a reply before it sends again."""
        if self.throttles_since is None or version < self.throttles_since:
            return 0
        throttle_time_ms: int = reply.throttle_time_ms
        return max(throttle_time_ms, 0)

    def check(self, request: Any, reply: Any, version: int) -> None:
        """Raises ``ProtocolError`` for a reply that is none to the request."""
        assert self.faults is not None
        for fault in self.faults(request, reply, version):
            raise ProtocolError(f"the {self.name} reply is none to its request: {fault}")

    def is_flexible(self, version: int) -> bool:
        """Whether the messages of a version have compact lengths and tagged fields."""
        return self.flexible_since is not None and version >= self.flexible_since

    def request_codec(self, version: int) -> Struct[Any]:
        """Reads and writes the request in one version."""
        return codec(self.request, version, self.is_flexible(version))

    def reply_codec(self, version: int) -> Struct[Any]:
        """Reads and writes the reply in one version."""
        assert self.response is not None
        return codec(self.response, version, self.is_flexible(version))


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
