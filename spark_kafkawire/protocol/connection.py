"""One client connection as a value: bytes in, replies out. No socket, no clock.

    parts = connection.send(request)         # hand these buffers to the socket
    size = sock.recv_into(connection.wanted())
    reply = connection.received(size)        # a Reply when its last byte has come, else None

The connection tells where the next bytes go, so a reply's body is received in place and read
without a copy. After the first framing error it is poisoned: every later call raises the same
``ProtocolError``, because what follows on the wire has no known meaning.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from ..errors import ConnectionLost, ProtocolError
from .dialect import Api, Dialect
from .primitives import Buffer, read_int32

LENGTH_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply with the request it answers. ``body``'s byte fields are views of its frame."""

    request: Any
    body: Any


class Connection:
    """Frames requests, pairs replies with them, checks lengths before memory is taken."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._awaited: deque[tuple[Api, Any]] = deque()
        self._frame = bytearray(LENGTH_BYTES)
        self._filled = 0
        self._in_body = False
        self._poison: ProtocolError | None = None

    @property
    def in_flight(self) -> int:
        """Requests whose replies have not come yet."""
        return len(self._awaited)

    def send(self, request: object) -> list[Buffer]:
        """The buffers of a request's frame. Its reply, if it has one, is awaited from now on."""
        self._check()
        api = self._dialect.api_of(request)
        parts = self._dialect.write_request(request)
        if api.response is not None:
            self._awaited.append((api, request))
        return parts

    def wanted(self) -> memoryview:
        """Where the next received bytes go; never empty."""
        self._check()
        return memoryview(self._frame)[self._filled :]

    def received(self, size: int) -> Reply | None:
        """Account for ``size`` bytes put into ``wanted()``; the reply they complete, if any.

        Raises ``ProtocolError`` (fatal, poisons) for a reply that nothing asked for, that is
        longer than its request allows, or that is malformed.
        """
        self._check()
        self._filled += size
        if self._filled < len(self._frame):
            return None
        try:
            if self._in_body:
                return self._finish()
            body_size = self._body_size()
            self._frame, self._filled, self._in_body = bytearray(body_size), 0, True
            return self._finish() if body_size == 0 else None
        except ProtocolError as error:
            self._poison = error
            raise

    def closed(self) -> ConnectionLost:
        """The error for a peer that closed now; it names the first request left unanswered."""
        if not self._awaited:
            return ConnectionLost("the peer closed the connection")
        api, _ = self._awaited[0]
        partial = f" after {self._filled} of {len(self._frame)} bytes" if self._in_body else ""
        return ConnectionLost(f"the peer closed the connection instead of answering {api.name}{partial}")

    def _body_size(self) -> int:
        size = read_int32(self._frame)
        if not self._awaited:
            raise ProtocolError(f"the peer sent {bytes(self._frame)!r}, which nothing asked for")
        api, request = self._awaited[0]
        limit = api.reply_bytes_max(request)
        if 0 <= size <= limit:
            return size
        printable = self._frame.isascii() and self._frame.decode("latin-1").isprintable()
        hint = (
            f": it begins with {bytes(self._frame)!r}; is this the port of a Kafka 0.7 broker?"
            if printable
            else ""
        )
        raise ProtocolError(f"{api.name} reply announces {size} bytes, at most {limit} were asked for{hint}")

    def _finish(self) -> Reply:
        api, request = self._awaited.popleft()
        body = memoryview(self._frame)
        self._frame, self._filled, self._in_body = bytearray(LENGTH_BYTES), 0, False
        return Reply(request, self._dialect.read_reply(api, body))

    def _check(self) -> None:
        if self._poison is not None:
            raise self._poison
