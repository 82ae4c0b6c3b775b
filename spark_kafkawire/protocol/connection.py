"""One client connection as a value: bytes in, replies out. No socket, no clock.

    parts = connection.send(request)         # hand these buffers to the socket
    size = sock.recv_into(connection.wanted())
    reply = connection.received(size)        # a Reply when its last byte has come, else None
    connection.negotiated(versions)          # where the dialect has versions: what the broker offers

The connection tells where the next bytes go, so a reply's body is received in place and read
without a copy. What it waits for is its state; requests may be sent in both of the first two:

========  =======================  =====================================  ===================
state     ``wanted()`` has         what comes                             next state
========  =======================  =====================================  ===================
LENGTH    4 bytes                  a length that the request allows       BODY
BODY      as many as that says     a reply that answers its request       LENGTH, and a Reply
LENGTH    4 bytes                  no length, or what nothing asked for   POISONED
BODY      as many as that says     anything else                          POISONED
POISONED  raises                   what follows has no known meaning      POISONED
========  =======================  =====================================  ===================

A poisoned connection raises the same ``ProtocolError`` at every call.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from ..errors import ConnectionLost, ProtocolError
from .api import Api
from .buffers import Buffers
from .dialect import Dialect
from .primitives import INT32, Buffer, read_int32
from .versions import BrokerVersions

LENGTH_BYTES: Final = 4
#: Correlation ids are counted from 0 and start anew after this one: the field is a signed int32.
CORRELATION_ID_MAX: Final = (1 << 31) - 1
#: Bytes in front of a large reply that are free for its reader.
ROOM_BYTES_MAX: Final = 1 << 16
#: First bytes of a TLS record that carries an alert.
TLS_ALERT: Final = b"\x15\x03"


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply with the request it answers. ``body``'s byte fields are views of ``frame``.

    The reply's bytes end the frame. What lies before them, as much as the reply and at most
    ``ROOM_BYTES_MAX``, is free for who reads the reply. The memory is used again once no view of
    it is alive. For ``throttle_time_ms`` the broker wants nothing more to be sent on this connection.
    """

    request: Any
    body: Any
    frame: memoryview
    throttle_time_ms: int = 0


class _State(enum.Enum):
    """What a connection waits for, as the table above has it."""

    LENGTH = "the length of a reply"
    BODY = "the reply"
    POISONED = "nothing any more"


@dataclass(frozen=True, slots=True)
class _Awaited:
    """A request that was sent, and how its reply will look."""

    api: Api
    request: Any
    version: int
    correlation_id: int


class Connection:
    """Frames requests, pairs replies with them, checks lengths before memory is taken.

    ``client_id`` is the name that the broker logs and keeps quotas by, in dialects that have it.
    Until the broker's versions are ``negotiated``, requests go in the highest of our own.
    """

    def __init__(self, dialect: Dialect, client_id: str | None = None) -> None:
        self._dialect = dialect
        self._client_id = client_id
        self._versions: BrokerVersions | None = None
        self._next_correlation_id = 0
        self._awaited: deque[_Awaited] = deque()
        self._buffers = Buffers()
        self._length = bytearray(LENGTH_BYTES)
        self._state = _State.LENGTH
        self._poison: ProtocolError | None = None
        self._await_length()

    @property
    def in_flight(self) -> int:
        """Requests whose replies have not come yet."""
        return len(self._awaited)

    def negotiated(self, versions: BrokerVersions) -> None:
        """Speak the highest versions that are common with these, from now on."""
        self._versions = versions

    @property
    def transaction_version(self) -> int:
        """The protocol of transactions at the other end: 1, or 2 (see ``modern.end_txn``)."""
        return 1 if self._versions is None else self._versions.transaction_version

    def version_of(self, api: Api, request: object | None = None) -> int:
        """The version in which a request (or the richest of its kind) would be sent now.

        Raises ``UnsupportedVersionError`` (fatal).
        """
        ours = api.versions_of(request)
        return ours.max if self._versions is None else self._versions.highest_common(api, ours)

    def send(self, request: object) -> list[Buffer]:
        """The buffers of a request's frame. Its reply, if it has one, is awaited from now on.

        Raises ``UnsupportedVersionError`` or ``OptionError`` (fatal; nothing is to be sent, and
        the connection stays usable).
        """
        self._check()
        api = self._dialect.api_of(request)
        awaited = _Awaited(api, request, self.version_of(api, request), self._next_correlation_id)
        parts = self._dialect.write_request(
            request, awaited.version, awaited.correlation_id, client_id=self._client_id
        )
        self._next_correlation_id = (awaited.correlation_id + 1) & CORRELATION_ID_MAX
        if api.awaits_reply(request):
            self._awaited.append(awaited)
        return parts

    def wanted(self) -> memoryview:
        """Where the next received bytes go; never empty."""
        self._check()
        return self._frame[self._filled :]

    def received(self, size: int) -> Reply | None:
        """Account for ``size`` bytes put into ``wanted()``; the reply they complete, if any.

        Raises ``ProtocolError`` (fatal, poisons) for a reply that nothing asked for, that is
        longer than its request allows, that is malformed, or that is about something else than its
        request.
        """
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
            return ConnectionLost("the peer closed the connection")
        api = self._awaited[0].api
        came, size = self._filled - self._start, len(self._frame) - self._start
        partial = f" after {came} of {size} bytes" if self._state is _State.BODY else ""
        return ConnectionLost(f"the peer closed the connection instead of answering {api.name}{partial}")

    def _await_length(self) -> None:
        # The frame's length comes into one place, the reply at the end of another.
        self._frame, self._start, self._filled = memoryview(self._length), 0, 0
        self._state = _State.LENGTH

    def _await_body(self) -> int:
        """Make room for the reply whose length has come; how many bytes are awaited."""
        size = self._body_size()
        self._start = self._filled = min(size, ROOM_BYTES_MAX)
        self._frame = self._buffers.take(self._start + size)
        self._state = _State.BODY
        return size

    def _body_size(self) -> int:
        size = read_int32(self._length)
        if not self._awaited:
            raise ProtocolError(f"the peer sent {bytes(self._length)!r}, which nothing asked for")
        awaited = self._awaited[0]
        limit = awaited.api.reply_bytes_max(awaited.request)
        if 0 <= size <= limit:
            return size
        raise ProtocolError(
            f"{awaited.api.name} reply announces {size} bytes, at most {limit} were asked for{self._hint()}"
        )

    def _hint(self) -> str:
        """What the start of a frame that is none says of the peer."""
        if self._length.startswith(TLS_ALERT):
            return ": it begins like TLS; does this port want kafka.security.protocol=SSL?"
        if self._length.isascii() and self._length.decode("ascii").isprintable():
            port = f"the port of a Kafka {self._dialect.generation.value} broker"
            return f": it begins with {bytes(self._length)!r}; is this {port}?"
        return ""

    def _finish(self) -> Reply:
        frame, start = self._frame, self._start
        awaited = self._answered(frame[start:])
        self._await_length()
        api, version = awaited.api, awaited.version
        reply = self._dialect.read_reply(api, frame[start:], version, awaited.correlation_id)
        api.check(awaited.request, reply, version)
        return Reply(awaited.request, reply, frame, api.throttle_time_ms(reply, version))

    def _answered(self, body: memoryview) -> _Awaited:
        """The request that a reply is for: the oldest, or the one behind it where that was passed over."""
        oldest = self._awaited.popleft()
        may_be_next = oldest.api.may_be_passed_over and self._awaited and len(body) >= INT32.size
        if may_be_next and read_int32(body) == self._awaited[0].correlation_id:
            return self._awaited.popleft()
        return oldest

    def _check(self) -> None:
        if self._poison is not None:
            raise self._poison
