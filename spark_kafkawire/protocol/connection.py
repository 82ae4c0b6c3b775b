"""A client connection to a broker of any Kafka version, without a socket and a clock.

It frames requests, and turns received bytes into responses to them::

    parts = connection.send(request)         # hand these buffers to the socket
    size = sock.recv_into(connection.wanted())
    response = connection.received(size)        # a Response when its last byte has come, else None
    connection.negotiated(versions)          # if the dialect negotiates: the versions of the broker

The connection provides the memory for the next bytes, so a response's body is received in place and read
without a copy. Its state names the bytes that it waits for. Requests may be sent in the states LENGTH and
BODY:

========  =======================  ========================================  =======================
state     ``wanted()`` has         received                                  next state
========  =======================  ========================================  =======================
LENGTH    4 bytes                  a length that the request allows          BODY
BODY      bytes of that length     a response that matches its request       LENGTH, and a Response
LENGTH    4 bytes                  no valid length, or no request is open    POISONED
BODY      bytes of that length     anything else                             POISONED
POISONED  raises                   nothing                                   POISONED
========  =======================  ========================================  =======================

A poisoned connection raises the same ``ProtocolError`` at every call.

Streams ask the same again and again. So the connection keeps the bytes of the last exchange of each polled
API: if the same request object is sent again, it is not encoded again, and if the same response comes, its
body is the same object.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from ..errors import ConnectionLost, ProtocolError
from .api import Api, BrokerVersions
from .dialect import Dialect
from .primitives import CHECK_PEER, INT32, Buffer, Buffers, read_int32

LENGTH_BYTES: Final = 4
#: Correlation ids count from 0 and start again at 0 after this one: the field is a signed int32.
CORRELATION_ID_MAX: Final = (1 << 31) - 1
#: Bytes in front of a large response that are free for its reader.
ROOM_BYTES_MAX: Final = 1 << 16
#: First bytes of a TLS record that carries an alert.
TLS_ALERT: Final = b"\x15\x03"


@dataclass(frozen=True, slots=True)
class Response:
    """A response with the request it answers. ``body``'s byte fields are views of ``frame``.

    The response's bytes end the frame. The bytes before them are free for the reader of the response: their
    number is the size of the response, at most ``ROOM_BYTES_MAX``. The memory is used again when no view of
    it is alive. The client must not send on this connection for ``throttle_time_ms``.
    """

    request: Any
    body: Any
    frame: memoryview
    throttle_time_ms: int = 0


class _State(enum.Enum):
    """State of a connection, named after the bytes it waits for; see the table above."""

    LENGTH = "the length of a response"
    BODY = "the response"
    POISONED = "nothing more"


@dataclass(frozen=True, slots=True)
class _Awaited:
    """A request that was sent, and the expected form of its response."""

    api: Api
    request: Any
    version: int
    correlation_id: int


@dataclass(slots=True)
class _Exchange:
    """The last request of a polled API, its bytes without the header, and its response: the bytes after the
    correlation id, and the body."""

    request: Any
    version: int
    content: bytes
    response: bytes = b""
    body: Any = None


class Connection:
    """Frames requests, pairs responses with them, checks lengths before memory is taken.

    ``client_id`` is the name that the broker logs and keeps quotas by, in dialects that have it.
    Until the broker's versions are ``use_versions``, requests go in the highest of our own.
    """

    def __init__(self, dialect: Dialect, client_id: str | None = None) -> None:
        self._dialect = dialect
        self._client_id = client_id
        self._versions: BrokerVersions | None = None
        self._next_correlation_id = 0
        self._awaited: deque[_Awaited] = deque()
        self._polled: dict[int, _Exchange] = {}
        self._buffers = Buffers()
        self._length = bytearray(LENGTH_BYTES)
        self._state = _State.LENGTH
        self._poison: ProtocolError | None = None
        self._await_length()

    @property
    def in_flight(self) -> int:
        """Requests whose responses have not come yet."""
        return len(self._awaited)

    def use_versions(self, versions: BrokerVersions) -> None:
        """Use the highest versions that are common with these from now on."""
        self._versions = versions

    @property
    def transaction_version(self) -> int:
        """The protocol of transactions at the other end: 1, or 2 (see ``modern.transactions``)."""
        return 1 if self._versions is None else self._versions.transaction_version

    def version_of(self, api: Api, request: object | None = None) -> int:
        """The version in which a request (or the richest of its kind) would be sent now. Raises
        ``UnsupportedVersionError`` (fatal)."""
        ours = api.versions_of(request)
        return ours.max if self._versions is None else self._versions.highest_common(api, ours)

    def send(self, request: object) -> list[Buffer]:
        """The buffers of a request's frame. Its response, if it has one, is awaited from now on. Raises
        ``UnsupportedVersionError`` or ``OptionError`` (fatal; nothing is sent, and the connection stays
        usable)."""
        self._check()
        api = self._dialect.api_of(request)
        awaited = _Awaited(api, request, self.version_of(api, request), self._next_correlation_id)
        content = self._poll_content(awaited) if api.is_polled else None
        parts = self._dialect.write_request(
            request, awaited.version, awaited.correlation_id, self._client_id, content
        )
        self._next_correlation_id = (awaited.correlation_id + 1) & CORRELATION_ID_MAX
        if api.awaits_response(request):
            self._awaited.append(awaited)
        return parts

    def wanted(self) -> memoryview:
        """Memory for the next received bytes; never empty."""
        self._check()
        return self._frame[self._filled :]

    def receive(self, size: int) -> Response | None:
        """Account for ``size`` bytes put into ``wanted()``; the response they complete, if any. Raises
        ``ProtocolError`` (fatal, poisons) for a response that has no request, is longer than its request
        allows, is malformed, or does not match its request."""
        self._check()
        self._filled += size
        if self._filled < len(self._frame):
            return None
        try:
            if self._state is _State.BODY or self._await_body() == 0:  # no byte is to come
                return self._finish()
        except ProtocolError as error:
            self._state, self._poison = _State.POISONED, error
            raise
        return None

    def closed(self) -> ConnectionLost:
        """The error for a peer that closed now; it names the first request left unanswered."""
        if not self._awaited:
            return ConnectionLost("the peer closed the connection; see its log")
        api = self._awaited[0].api
        came, size = self._filled - self._start, len(self._frame) - self._start
        partial = f" after {came} of {size} bytes" if self._state is _State.BODY else ""
        return ConnectionLost(
            f"the peer closed the connection instead of answering {api.name}{partial}; see its log"
        )

    def _await_length(self) -> None:
        # The frame's length has its own buffer; the response is received at the end of another buffer.
        self._frame, self._start, self._filled = memoryview(self._length), 0, 0
        self._state = _State.LENGTH

    def _await_body(self) -> int:
        """Allocate memory for the response after its length has come; returns the number of awaited bytes."""
        size = self._body_size()
        self._start = self._filled = min(size, ROOM_BYTES_MAX)
        self._frame = self._buffers.take(self._start + size)
        self._state = _State.BODY
        return size

    def _body_size(self) -> int:
        size = read_int32(self._length)
        if not self._awaited:
            raise ProtocolError(
                f"the peer sent {bytes(self._length)!r}, but no response was expected; {CHECK_PEER}"
            )
        awaited = self._awaited[0]
        limit = awaited.api.response_bytes_max(awaited.request)
        if 0 <= size <= limit:
            return size
        raise ProtocolError(
            f"{awaited.api.name} response announces {size} bytes, at most {limit} were expected{self._hint()}"
        )

    def _hint(self) -> str:
        """Guess the peer's protocol from the start of a frame that is not Kafka's."""
        if self._length.startswith(TLS_ALERT):
            return ": it begins like TLS; does this port want kafka.security.protocol=SSL?"
        if self._length.isascii() and self._length.decode("ascii").isprintable():
            port = f"the port of a Kafka {self._dialect.generation.value} broker"
            return f": it begins with {bytes(self._length)!r}; is this {port}? Correct the address if not"
        return f"; {CHECK_PEER}"

    def _finish(self) -> Response:
        frame, start = self._frame, self._start
        awaited = self._answered(frame[start:])
        self._await_length()
        api, version = awaited.api, awaited.version
        last = self._polled.get(api.key)
        if last is None or last.request is not awaited.request or last.version != version:
            last = None
        elif last.body is not None and self._is_repeated(last, frame[start:], awaited.correlation_id):
            return Response(awaited.request, last.body, frame, api.throttle_time_ms(last.body, version))
        response = self._dialect.read_response(api, frame[start:], version, awaited.correlation_id)
        api.check(awaited.request, response, version)
        if last is not None:
            last.response, last.body = bytes(frame[start + INT32.size :]), response
        return Response(awaited.request, response, frame, api.throttle_time_ms(response, version))

    def _poll_content(self, awaited: _Awaited) -> list[Buffer]:
        """Bytes of a request of a polled API without the header; written once for the same object."""
        last = self._polled.get(awaited.api.key)
        if last is None or last.request is not awaited.request or last.version != awaited.version:
            content = b"".join(self._dialect.write_content(awaited.request, awaited.version))
            last = self._polled[awaited.api.key] = _Exchange(awaited.request, awaited.version, content)
        return [last.content]

    @staticmethod
    def _is_repeated(last: _Exchange, body: memoryview, correlation_id: int) -> bool:
        """True if a response is the last one once more, in answer to this request."""
        is_answer = len(body) >= INT32.size and read_int32(body) == correlation_id
        return is_answer and body[INT32.size :] == last.response

    def _answered(self, body: memoryview) -> _Awaited:
        """The request of a response: the oldest one, or the next one if the oldest was passed over."""
        oldest = self._awaited.popleft()
        may_be_next = oldest.api.may_be_passed_over and self._awaited and len(body) >= INT32.size
        if may_be_next and read_int32(body) == self._awaited[0].correlation_id:
            return self._awaited.popleft()
        return oldest

    def _check(self) -> None:
        if self._poison is not None:
            raise self._poison
