"""A proxy that breaks connections as a plan says, and tells what became of them.

    with Proxy((Upstream("broker", port, "kafka"),), plan) as proxy:
        ...connect to proxy.port("broker")...
    proxy.made, proxy.broken, proxy.spoken

Each connection has a thread of its own, which alone touches its two sockets: so a reset is a reset, and
no close races with a read.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self

from .faults import AT_ONCE, NO_FAULTS, Fault, FaultKind, Plan, Way
from .frames import Framer, KafkaView, Spoken, Unseen, View, ZooKeeperView

HOST: Final = "127.0.0.1"
#: How long a peer may take to take bytes, or a thread to end: longer than anything takes.
_PATIENCE_S: Final = 20.0
#: How long the bytes of a reset client, or a connection that another one should overtake, are held.
_OVERTAKEN_S: Final = 0.3
#: After that long without a byte a client has sent all that it has.
_QUIET_S: Final = 0.01
_CHUNK_BYTES: Final = 1 << 16
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Upstream:
    """A server behind the proxy, and what is spoken with it."""

    name: str
    port: int
    speaks: Literal["kafka", "kafka 0.7", "zookeeper"]


class Proxy:
    """A port for each upstream, from ``with`` on. ``made`` counts connections, ``broken`` those that a
    fault struck, by kind; both are complete once the block has ended."""

    def __init__(self, upstreams: Sequence[Upstream], plan: Plan = NO_FAULTS) -> None:
        self.plan = plan
        self.made = 0
        self.broken: Counter[FaultKind] = Counter()
        self.spoken: Spoken = Counter()
        self.closing = threading.Event()
        self.answered = Answered()
        self._ports = [Port(self, upstream) for upstream in upstreams]
        self._stop, self._stopped = socket.socketpair()

    def port(self, name: str) -> int:
        """Where clients connect to in place of an upstream."""
        return next(port.number for port in self._ports if port.upstream.name == name)

    @property
    def ports(self) -> Mapping[int, int]:
        """Our port for each upstream's."""
        return {port.upstream.port: port.number for port in self._ports}

    @property
    def stopped(self) -> socket.socket:
        """Readable once the proxy ends."""
        return self._stopped

    def __enter__(self) -> Self:
        for port in self._ports:
            port.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.closing.set()
        self._stop.close()
        for port in self._ports:
            port.join()
        self._stopped.close()


class Answered:
    """Which connections have got a reply. Those that wait to be overtaken wait here."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._last = (-1.0, -1)

    def note(self, accepted_s: float, number: int) -> None:
        """A connection has got bytes of its upstream."""
        with self._changed:
            self._last = max(self._last, (accepted_s, number))
            self._changed.notify_all()

    def await_later(self, accepted_s: float, number: int) -> None:
        """Wait until a connection that was taken later has been answered, or for a moment."""
        with self._changed:
            self._changed.wait_for(lambda: self._last > (accepted_s, number), _OVERTAKEN_S)


class Port:
    """A listening port, which refuses connections while ``_open_at_s`` is in the future."""

    def __init__(self, proxy: Proxy, upstream: Upstream) -> None:
        self.upstream = upstream
        self._proxy = proxy
        # Bound and never listening: it keeps the number while nobody listens on it.
        self._holder = _bound(0)
        self.number: int = self._holder.getsockname()[1]
        self._listener: socket.socket | None = None
        self._count = 0
        self._open_at_s = 0.0
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept, name=f"proxy {self.number}", daemon=True)
        self._listen()

    def start(self) -> None:
        self._acceptor.start()

    def join(self) -> None:
        self._acceptor.join(_PATIENCE_S)
        if self._listener:
            self._listener.close()
        for thread in self._threads:
            thread.join(_PATIENCE_S)
        self._holder.close()

    def _listen(self) -> None:
        self._listener = _bound(self.number)
        self._listener.listen(64)

    def _accept(self) -> None:
        while not self._proxy.closing.is_set():
            if self._listener is None:
                if not self._proxy.closing.wait(max(0.0, self._open_at_s - time.monotonic())):
                    self._listen()
                continue
            ready, _, _ = select.select([self._listener, self._proxy.stopped], [], [])
            if self._listener in ready:
                self._take(self._listener)

    def _take(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except OSError:  # it is gone already
            return
        fault = self._proxy.plan.fault(self.upstream.name, self._count)
        self._proxy.made += 1
        connection = Connection(self._proxy, self.upstream, client, self._count, fault)
        self._count += 1
        if fault is not None and fault.kind is FaultKind.REFUSED:
            self._open_at_s = time.monotonic() + fault.seconds
            listener.close()
            self._listener = None
        thread = threading.Thread(target=connection.run, name=f"proxy {self.number}", daemon=True)
        self._threads.append(thread)
        thread.start()


class Connection:
    """One client's connection and the one to its upstream."""

    def __init__(
        self, proxy: Proxy, upstream: Upstream, client: socket.socket, number: int, fault: Fault | None
    ) -> None:
        self._proxy, self._upstream, self._fault = proxy, upstream, fault
        self._client = client
        self._place = time.monotonic(), number
        self._broker: socket.socket | None = None
        self._view = _view(proxy, upstream)
        self._requests, self._replies = Framer(), Framer()
        self._passed = dict.fromkeys(Way, 0)
        self._is_open = dict.fromkeys(Way, True)
        self._silent_until_s = dict.fromkeys(Way, 0.0)
        self._held = dict.fromkeys(Way, b"")
        self._trickle = dict.fromkeys(Way, 0)

    def run(self) -> None:
        """Until both directions have ended."""
        with contextlib.suppress(OSError):
            if self._begins():
                self._broker = socket.create_connection((HOST, self._upstream.port), _PATIENCE_S)
                for sock in (self._client, self._broker):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    sock.settimeout(_PATIENCE_S)
                while any(self._is_open.values()) and not self._proxy.closing.is_set():
                    self._step()
        self._client.close()
        if self._broker:
            self._broker.close()

    def _begins(self) -> bool:
        """What strikes before any byte; whether anything follows."""
        fault = self._fault
        if fault is None or fault.kind not in AT_ONCE:
            return True
        self._struck(fault)
        if fault.kind is FaultKind.REORDERED:
            self._proxy.answered.await_later(*self._place)
        elif fault.kind is FaultKind.SLOW_START:
            self._proxy.closing.wait(fault.seconds)
        elif fault.kind is FaultKind.CLOSED_AT_ONCE:
            return False
        else:
            _reset(self._client)
            return False
        return True

    def _struck(self, fault: Fault) -> None:
        self._proxy.broken[fault.kind] += 1
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
        ready, _, _ = select.select([*heard, self._proxy.stopped], [], [], min(waits, default=None))
        for sock in ready:
            if sock in heard and self._is_open[heard[sock]]:
                self._pass_on(sock, heard[sock])

    def _pass_on(self, source: socket.socket, way: Way) -> None:
        data = source.recv(_CHUNK_BYTES)
        if not data:
            if way is Way.TO_CLIENT:
                self._send(self._replies.rest, way)
            self._end(way)
        elif way is Way.TO_BROKER:
            for frame in self._requests.frames(data):
                self._view.request(frame)
            self._send(data, way)
        else:
            self._proxy.answered.note(*self._place)
            self._send(b"".join(map(self._view.reply, self._replies.frames(data))), way)

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
        self._proxy.answered.await_later(*self._place)
        broker.sendall(rest)
        broker.shutdown(socket.SHUT_WR)
        # A broker that has carried out all of it closes its end, too.
        while select.select([broker], [], [], _OVERTAKEN_S)[0] and broker.recv(_CHUNK_BYTES):
            pass


def _bound(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind((HOST, port))
    return sock


def _reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    sock.close()


def _view(proxy: Proxy, upstream: Upstream) -> View:
    if upstream.speaks == "kafka":
        return KafkaView(proxy.ports, proxy.spoken)
    return ZooKeeperView(proxy.ports) if upstream.speaks == "zookeeper" else Unseen()
