"""One connection through the proxy, and the fault that strikes it.

It has a thread of its own, which alone touches its two sockets: so a reset is a reset, and no close races
with a read.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from collections import Counter
from typing import Final

from .faults import AT_ONCE, Fault, FaultKind, Way
from .frames import Framer, View

HOST: Final = "127.0.0.1"
#: How long a peer may take to take bytes, or a thread to end: longer than anything takes.
WAIT_MAX_S: Final = 20.0
#: How long the bytes of a reset client, or a connection that another one should overtake, are held.
_OVERTAKEN_S: Final = 0.3
#: After that long without a byte a client has sent all that it has.
_QUIET_S: Final = 0.01
_CHUNK_BYTES: Final = 1 << 16
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class Shared:
    """State that the connections of a proxy share. ``broken`` counts those that a fault struck, by kind;
    ``is_ending`` is set, and ``ending`` readable, once the proxy ends."""

    def __init__(self) -> None:
        self.broken: Counter[FaultKind] = Counter()
        self.is_ending = threading.Event()
        self._stop, self.ending = socket.socketpair()
        self._answered = threading.Condition()
        self._last = (-1.0, -1)

    def end(self) -> None:
        """All connections end."""
        self.is_ending.set()
        self._stop.close()

    def note_answer(self, accepted_s: float, number: int) -> None:
        """A connection has got bytes of its upstream."""
        with self._answered:
            self._last = max(self._last, (accepted_s, number))
            self._answered.notify_all()

    def await_later(self, accepted_s: float, number: int) -> None:
        """Wait until a connection that was taken later has been answered, or for a moment."""
        with self._answered:
            self._answered.wait_for(lambda: self._last > (accepted_s, number), _OVERTAKEN_S)


class Connection:
    """The connection of ``client``, the ``number``-th one, and the one to the port of its upstream."""

    def __init__(
        self,
        shared: Shared,
        client: socket.socket,
        port: int,
        number: int,
        view: View,
        fault: Fault | None,
    ) -> None:
        self._shared, self._client, self._port, self._view, self._fault = shared, client, port, view, fault
        self._place = time.monotonic(), number
        self._broker: socket.socket | None = None
        self._requests, self._responses = Framer(), Framer()
        self._passed = dict.fromkeys(Way, 0)
        self._is_open = dict.fromkeys(Way, True)
        self._silent_until_s = dict.fromkeys(Way, 0.0)
        self._held = dict.fromkeys(Way, b"")
        self._trickle = dict.fromkeys(Way, 0)

    def run(self) -> None:
        """Until both directions have ended."""
        with contextlib.suppress(OSError):
            if self._begins():
                self._broker = socket.create_connection((HOST, self._port), WAIT_MAX_S)
                for sock in (self._client, self._broker):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    sock.settimeout(WAIT_MAX_S)
                while any(self._is_open.values()) and not self._shared.is_ending.is_set():
                    self._step()
        self._client.close()
        if self._broker:
            self._broker.close()

    def _begins(self) -> bool:
        """Apply a fault that strikes before any byte. Returns True if bytes follow."""
        fault = self._fault
        if fault is None or fault.kind not in AT_ONCE:
            return True
        self._struck(fault)
        if fault.kind is FaultKind.REORDERED:
            self._shared.await_later(*self._place)
        elif fault.kind is FaultKind.SLOW_START:
            self._shared.is_ending.wait(fault.seconds)
        elif fault.kind is not FaultKind.CLOSED_AT_ONCE:
            _reset(self._client)
        return fault.kind in (FaultKind.REORDERED, FaultKind.SLOW_START)

    def _struck(self, fault: Fault) -> None:
        self._shared.broken[fault.kind] += 1
        self._fault = None

    def _step(self) -> None:
        """Pass on what is there, in both directions."""
        assert self._broker is not None
        now_s = time.monotonic()
        for way in Way:
            if self._held[way] and self._silent_until_s[way] <= now_s:
                held, self._held[way] = self._held[way], b""
                self._deliver(held, way)
        sources = {self._client: Way.TO_BROKER, self._broker: Way.TO_CLIENT}
        heard = {
            sock: way
            for sock, way in sources.items()
            if self._is_open[way] and self._silent_until_s[way] <= now_s
        }
        waits = [until_s - now_s for until_s in self._silent_until_s.values() if until_s > now_s]
        ready, _, _ = select.select([*heard, self._shared.ending], [], [], min(waits, default=None))
        for sock in ready:
            if sock in heard and self._is_open[heard[sock]]:
                self._pass_on(sock, heard[sock])

    def _pass_on(self, source: socket.socket, way: Way) -> None:
        data = source.recv(_CHUNK_BYTES)
        if not data:
            if way is Way.TO_CLIENT:
                self._send(self._responses.rest, way)
            self._end(way)
        elif way is Way.TO_BROKER:
            for frame in self._requests.frames(data):
                self._view.request(frame)
            self._send(data, way)
        else:
            self._shared.note_answer(*self._place)
            self._send(b"".join(map(self._view.response, self._responses.frames(data))), way)

    def _end(self, way: Way) -> None:
        """Close one direction, in order."""
        if self._is_open[way]:
            self._is_open[way] = False
            with contextlib.suppress(OSError):
                self._sink(way).shutdown(socket.SHUT_WR)

    def _sink(self, way: Way) -> socket.socket:
        sink = self._broker if way is Way.TO_BROKER else self._client
        assert sink is not None
        return sink

    def _send(self, data: bytes, way: Way) -> None:
        """Send bytes, up to where the fault strikes."""
        fault = self._fault
        room = fault.at - self._passed[way] if fault is not None and fault.way is way else len(data)
        if room >= len(data) or fault is None:
            self._deliver(data, way)
        else:
            self._deliver(data[:room], way)
            self._struck(fault)
            self._strike(fault, data[room:])

    def _deliver(self, data: bytes, way: Way) -> None:
        sink, slow = self._sink(way), min(self._trickle[way], len(data))
        for pos in range(slow):
            sink.sendall(data[pos : pos + 1])
        self._trickle[way] -= slow
        sink.sendall(data[slow:])
        self._passed[way] += len(data)

    def _strike(self, fault: Fault, rest: bytes) -> None:
        """Let the fault happen before ``rest`` has passed."""
        way = fault.way
        if fault.kind is FaultKind.RESET:
            _reset(self._client)
            _reset(self._sink(Way.TO_BROKER))
            self._is_open = dict.fromkeys(Way, False)
        elif fault.kind is FaultKind.CUT:
            self._end(Way.TO_BROKER)
            self._end(Way.TO_CLIENT)
        elif fault.kind is FaultKind.HALF_CLOSE:
            self._end(way)
        elif fault.kind is FaultKind.LATE:
            self._be_late(rest)
        elif fault.kind is FaultKind.BYTE_BY_BYTE:
            self._trickle[way] = fault.size
            self._deliver(rest, way)
        else:
            self._silent_until_s[way] = time.monotonic() + fault.seconds
            self._held[way] = rest

    def _be_late(self, rest: bytes) -> None:
        """Reset the client; what it has sent arrives once a later connection was answered."""
        broker = self._sink(Way.TO_BROKER)
        while select.select([self._client], [], [], _QUIET_S)[0] and (
            more := self._client.recv(_CHUNK_BYTES)
        ):
            rest += more
        _reset(self._client)
        self._is_open = dict.fromkeys(Way, False)
        self._shared.await_later(*self._place)
        broker.sendall(rest)
        broker.shutdown(socket.SHUT_WR)
        # A broker that has carried out all of it closes its end, too.
        while select.select([broker], [], [], _OVERTAKEN_S)[0] and broker.recv(_CHUNK_BYTES):
            pass


def _reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    sock.close()
