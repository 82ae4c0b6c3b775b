"""TCP connections with a deadline on every wait."""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from dataclasses import dataclass, replace
from typing import Any, Final

from ..bounded import NotEnded, call_bounded
from ..errors import ConnectFailed, ConnectionLost, KafkaWireError, RequestTimedOut, printable
from ..model import Broker
from ..protocol.primitives import Buffer

#: Buffers handed to one sendmsg call; Linux refuses more than 1,024.
_BUFFERS_PER_CALL: Final = 512
#: Least number of expected bytes for a low-water mark: then the receiver wakes up at ``_MARK_BYTES_MAX`` or
#: at the last byte. Brokers send at most 100 KiB at once, and each wake-up takes 10 microseconds.
_MARKED_BYTES_MIN: Final = 64 << 10
_MARK_BYTES_MAX: Final = 256 << 10
#: Least receive buffer of a connection with a mark, as the system has grown it. Linux fixes the window of a
#: connection whose mark is above half of its buffer, and a broker some milliseconds away could send no more
#: than that in a round trip.
_MARKED_BUFFER_BYTES_MIN: Final = 4 * _MARK_BYTES_MAX
#: Longest wait for a mark, seconds. A connection that takes longer has no mark any more: its peer is slow, or
#: its system (Linux before 4.18) has no buffer for that many bytes.
_MARK_WAIT_S: Final = 0.05
#: Shortest wait, seconds, even if the outer deadline has passed: bytes that have arrived are received.
LAST_LOOK_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment of the monotonic clock, ``timeout_s`` after it was made; ``option`` set that time.

    Its text names both: ``30 s (requestTimeout)``. ``dial_s`` bounds only the TCP connection, if that must
    not take all of the time; ``dial_option`` set it, if that is another option.
    """

    at_s: float
    timeout_s: float
    option: str = "requestTimeout"
    dial_s: float | None = None
    dial_option: str | None = None

    @classmethod
    def after(cls, timeout_s: float, option: str = "requestTimeout") -> Deadline:
        """The deadline ``timeout_s`` seconds from now."""
        return cls(time.monotonic() + timeout_s, timeout_s, option)

    def sooner(self, timeout_s: float) -> Deadline:
        """The deadline ``timeout_s`` seconds from now, or this one if it is sooner."""
        return replace(self, at_s=min(self.at_s, time.monotonic() + timeout_s))

    def later(self, seconds: float) -> Deadline:
        """The deadline that many seconds after this one."""
        return replace(self, at_s=self.at_s + seconds)

    def within(self, outer: Deadline | None, least_s: float = LAST_LOOK_S) -> Deadline:
        """This deadline, or the outer one if it is sooner, but at least ``least_s`` seconds from now: bytes
        that have arrived are received."""
        if outer is None or outer.at_s >= self.at_s:
            return self
        return replace(outer, at_s=min(self.at_s, max(outer.at_s, time.monotonic() + least_s)))

    def to_dial(self) -> Deadline:
        """The deadline of the TCP connection."""
        if self.dial_s is None:
            return self
        option = self.dial_option if self.dial_option and self.dial_s < self.timeout_s else self.option
        bound = self.sooner(self.dial_s)
        return replace(bound, timeout_s=min(self.dial_s, self.timeout_s), option=option)

    @property
    def left_s(self) -> float:
        """Seconds left, 0 after the deadline."""
        return max(self.at_s - time.monotonic(), 0.0)

    def remaining_s(self) -> float:
        """Seconds left. Raises ``RequestTimedOut`` after the deadline."""
        if not (left_s := self.left_s):
            raise RequestTimedOut(self.passed())
        return left_s

    def passed(self) -> str:
        """The text of the error after the deadline."""
        return f"no answer within {self}; {IF_SLOW}"

    def __str__(self) -> str:
        return f"{self.timeout_s:g} s ({self.option})"


#: Errors of the system when no more files can be opened: in this process, on this machine.
_NO_FILES: Final = (errno.EMFILE, errno.ENFILE)
#: What to do when a deadline has passed.
IF_SLOW: Final = "raise that if the peer is slow, else see its log, and check the network"
#: What to do when nothing listens at an address.
_ADVICE: Final = "; check that it is running and that this machine can reach the address"


class Transport:
    """TCP connection. Every failure is a ``KafkaWireError``."""

    #: True if receives may set a low-water mark.
    _has_marks = True

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._mark = 1
        self._is_roomy = False

    @classmethod
    def connect(cls, broker: Broker, deadline: Deadline) -> Transport:
        """Connect to a broker: try each address of its host until one accepts. A silent address leaves time
        for the next ones.

        Raises ``ConnectFailed`` (retriable).
        """
        result = addresses(broker, deadline := deadline.to_dial())
        failure: Exception = OSError("the host has no address")
        for index, (family, kind, protocol, _, address) in enumerate(result):
            try:
                share = deadline.sooner(deadline.remaining_s() / (len(result) - index))
                return cls(_connect(socket.socket(family, kind, protocol), address, share))
            except (OSError, RequestTimedOut) as error:
                failure = error
        if isinstance(failure, TimeoutError | RequestTimedOut):
            raise ConnectFailed(f"cannot connect within {deadline}{_ADVICE}") from failure
        advice = "" if is_out_of_files(failure) else _ADVICE
        raise ConnectFailed(f"cannot connect: {reason(failure)}{advice}") from failure

    def detach(self) -> socket.socket:
        """The socket, for a layer above. This transport must not be used afterwards."""
        return self._sock

    def send(self, parts: list[Buffer], deadline: Deadline) -> None:
        """Send all buffers, without joining them."""
        views = [memoryview(part).cast("B") for part in parts if len(part)]
        try:
            while views:
                self._sock.settimeout(deadline.remaining_s())
                views = _unsent(views, self._write(views))
        except OSError as error:
            raise self._lost(error, deadline) from error

    def receive_into(self, view: memoryview, deadline: Deadline, *, is_due: bool = False) -> int:
        """Receive into ``view``. Returns the number of bytes, 0 after the peer has closed.

        If all of it ``is_due``, one wait covers many bytes.
        """
        try:
            timeout_s = deadline.remaining_s()
            if self._set_mark(len(view) if is_due else 0):
                timeout_s = min(timeout_s, _MARK_WAIT_S)
            self._sock.settimeout(timeout_s)
            came = self._sock.recv_into(view)
        except ConnectionResetError:
            # A peer that closes with unread bytes sends a reset, as old JVMs do.
            return 0
        except OSError as error:
            if isinstance(error, TimeoutError) and self._mark > 1:
                self._has_marks = False
                return self.receive_into(view, deadline)
            raise self._lost(error, deadline) from error
        if came == len(view):
            self._set_mark(0)
        return came

    def is_quiet(self) -> bool:
        """True if the connection is open and the peer has sent nothing, neither bytes nor an end."""
        poll = select.poll()
        try:
            poll.register(self._sock, select.POLLIN)
        except (OSError, ValueError):  # ValueError: it was closed here
            return False
        return not poll.poll(0)

    def close(self) -> None:
        """Close the connection; never fails."""
        self._sock.close()

    def _set_mark(self, due_bytes: int) -> bool:
        """Set the low-water mark for that many expected bytes. Returns True if one is set."""
        if due_bytes < _MARKED_BYTES_MIN and self._mark == 1:
            return False  # most responses are small
        mark = min(due_bytes, _MARK_BYTES_MAX) if self._has_marks and due_bytes >= _MARKED_BYTES_MIN else 1
        if mark != self._mark:
            try:
                if not self._has_room():
                    return False
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, mark)
            except OSError:  # the system has no such mark: receives are only slower
                self._has_marks = False
                return False
            self._mark = mark
        return mark > 1

    def _has_room(self) -> bool:
        """True if the receive buffer is many times the mark. It never shrinks."""
        if not self._is_roomy:
            room_bytes = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
            self._is_roomy = room_bytes >= _MARKED_BUFFER_BYTES_MIN
        return self._is_roomy

    def _write(self, views: list[memoryview]) -> int:
        """Send a part of the views. Returns the number of bytes."""
        return self._sock.sendmsg(views[:_BUFFERS_PER_CALL])

    def _lost(self, error: OSError, deadline: Deadline) -> KafkaWireError:
        if isinstance(error, TimeoutError):
            return RequestTimedOut(deadline.passed())
        return ConnectionLost(
            f"the connection broke: {reason(error)}; see the log of the peer, and the network"
        )


def addresses(broker: Broker, deadline: Deadline) -> list[Any]:
    """The addresses of a broker's host, as ``socket.getaddrinfo`` has them. The system's look-up has no
    deadline and takes half a minute if name servers are down. Raises ``ConnectFailed`` (retriable)."""

    def look_up() -> list[Any]:
        return list(socket.getaddrinfo(broker.host, broker.port, type=socket.SOCK_STREAM))

    try:
        return call_bounded(look_up, deadline.remaining_s(), "kafkawire-look-up")
    except NotEnded:
        raise ConnectFailed(
            f"cannot find the host within {deadline}; check its name and the DNS of this machine"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: text that cannot be a host name
        raise ConnectFailed(
            f"cannot find the host: {reason(error)}; check its name and the DNS of this machine"
        ) from error


def _connect(sock: socket.socket, address: Any, deadline: Deadline) -> socket.socket:
    try:
        sock.settimeout(deadline.remaining_s())
        sock.connect(address)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        sock.close()
        raise
    return sock


def is_out_of_files(error: BaseException | None) -> bool:
    """True if an error, or its cause, comes from a limit on open files: of the process, or of the machine."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _NO_FILES:
            return True
        if isinstance(error, socket.gaierror) and not _can_open():
            return True
        error = error.__cause__
    return False


def _can_open() -> bool:
    """True if the process can open another file: the look-up of a host does not report why it failed."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno not in _NO_FILES
    return True


def reason(error: Exception) -> str:
    """The system's text for an error, without its number."""
    return printable((isinstance(error, OSError) and error.strerror) or str(error))


def _unsent(views: list[memoryview], sent: int) -> list[memoryview]:
    """The rest of ``views`` after their first ``sent`` bytes."""
    done = 0
    while done < len(views) and sent >= len(views[done]):
        sent -= len(views[done])
        done += 1
    rest = views[done:]
    if sent:
        rest[0] = rest[0][sent:]
    return rest
