"""A proxy between clients and brokers that breaks connections, and the faults that are drawn for each."""

from __future__ import annotations

import contextlib
import enum
import random
import select
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from .frames import Framer, KafkaView, Spoken, View, ZooKeeperView

if TYPE_CHECKING:
    from typing_extensions import Self
#: Half of the faults strike within so many bytes: there the questions for versions and brokers are.
_EARLY_BYTES: Final = 700
_LATE_BYTES_MAX: Final = 60_000
#: How often a fault strikes the connections of an operation: some meet none at all.
_SHARES: Final = (0.0, 0.3, 0.5, 0.7, 0.9)
#: Waits that end before a deadline of the operations does, and one that never does, seconds.
_SHORT_S: Final = (0.005, 0.02, 0.05)
FOR_EVER_S: Final = 60.0


class FaultKind(enum.Enum):
    """Kinds of faults of a connection. The last five strike before any byte has passed."""

    RESET = "both ends are reset (RST)"
    CUT = "both ends are closed (FIN)"
    HALF_CLOSE = "one direction ends, the other goes on"
    STALL = "one direction falls silent, for a while or for ever"
    BYTE_BY_BYTE = "bytes of one direction come one at a time"
    LATE = "the client is reset, its bytes reach the broker after a later connection was answered"
    REORDERED = "nothing passes until a later connection was answered"
    SLOW_START = "nothing passes for a while"
    CLOSED_AT_ONCE = "it is taken and closed (FIN)"
    RESET_AT_ONCE = "it is taken and reset (RST)"
    REFUSED = "it is taken and reset, and the port refuses connections for a while"


class Way(enum.Enum):
    """A direction."""

    TO_BROKER = "to broker"
    TO_CLIENT = "to client"


#: Those that strike before any byte has passed, whatever ``at`` says.
AT_ONCE: Final = frozenset([*FaultKind][-5:])
_WEIGHTS: Final = dict(zip(FaultKind, (5, 5, 3, 3, 3, 4, 1, 1, 1, 1, 1), strict=True))


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that strikes once ``at`` bytes have passed in the direction ``way``.

    ``size`` is how many bytes come one at a time, ``seconds`` how long silence and refusal last.
    """

    kind: FaultKind
    way: Way = Way.TO_CLIENT
    at: int = 0
    size: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The faults of one operation: the same text gives the same ones.

    ``share`` is how many of the connections one strikes, from 0 to 1.
    """

    text: str
    share: float

    @classmethod
    def drawn(cls, text: str) -> Plan:
        """The faults that belong to a seed's text."""
        return cls(text, random.Random(f"{text} share").choice(_SHARES))

    def fault(self, upstream: str, number: int) -> Fault | None:
        """Fault of connection ``number`` (from 0) to an upstream; None for no fault."""
        chance = random.Random(f"{self.text} {upstream} {number}")
        return _drawn(chance) if chance.random() < self.share else None


#: Lets everything pass.
NO_FAULTS: Final = Plan("none", 0.0)


def _drawn(chance: random.Random) -> Fault:
    kind = chance.choices(tuple(_WEIGHTS), tuple(_WEIGHTS.values()))[0]
    # A client that waits for a broker waits for its deadline: most silences are shorter than that.
    seconds = FOR_EVER_S if kind is FaultKind.STALL and chance.random() < 0.25 else chance.choice(_SHORT_S)
    return Fault(
        kind,
        Way.TO_BROKER if kind is FaultKind.LATE else chance.choice(tuple(Way)),
        _position(chance),
        chance.choice((1, 10, 100, 1000)),
        seconds,
    )


def _position(chance: random.Random) -> int:
    if chance.random() < 0.5:
        return chance.randrange(_EARLY_BYTES)
    return int(_LATE_BYTES_MAX ** chance.random())


HOST: Final = "127.0.0.1"
#: How long a peer may take to take bytes, or a thread to end: longer than anything takes.
WAIT_MAX_S: Final = 20.0
#: How long the bytes of a reset client, or a connection that another one should overtake, are held.
_OVERTAKEN_S: Final = 0.3
#: After that long without a byte a client has sent all that it has.
_QUIET_S: Final = 0.01
_CHUNK_BYTES: Final = 1 << 16
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class Connection:
    """The connection of ``client``, the ``number``-th one, and the one to the port of its upstream."""

    def __init__(
        self,
        proxy: Proxy,
        client: socket.socket,
        port: int,
        number: int,
        view: View,
        fault: Fault | None,
    ) -> None:
        self._proxy, self._client, self._port, self._view, self._fault = proxy, client, port, view, fault
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
                while any(self._is_open.values()) and not self._proxy.is_ending.is_set():
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
            self._proxy.await_later(*self._place)
        elif fault.kind is FaultKind.SLOW_START:
            self._proxy.is_ending.wait(fault.seconds)
        elif fault.kind is not FaultKind.CLOSED_AT_ONCE:
            _reset(self._client)
        return fault.kind in (FaultKind.REORDERED, FaultKind.SLOW_START)

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
        ready, _, _ = select.select([*heard, self._proxy.ending], [], [], min(waits, default=None))
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
            self._proxy.note_answer(*self._place)
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
        self._proxy.await_later(*self._place)
        broker.sendall(rest)
        broker.shutdown(socket.SHUT_WR)
        # A broker that has carried out all of it closes its end, too.
        while select.select([broker], [], [], _OVERTAKEN_S)[0] and broker.recv(_CHUNK_BYTES):
            pass


def _reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    sock.close()


@dataclass(frozen=True, slots=True)
class Upstream:
    """A server behind the proxy, and what is spoken with it."""

    name: str
    port: int
    speaks: Literal["kafka", "kafka 0.7", "zookeeper"]


class Proxy:
    """A port for each upstream, from ``with`` on. ``made`` counts connections, ``broken`` those that a
    fault struck, by kind; both are complete once the block has ended.

    ``is_ending`` is set, and ``ending`` readable, once it ends.
    """

    def __init__(self, upstreams: Sequence[Upstream], plan: Plan = NO_FAULTS) -> None:
        self.plan = plan
        self.made = 0
        self.broken: Counter[FaultKind] = Counter()
        self.spoken: Spoken = Counter()
        self.is_ending = threading.Event()
        self._stop, self.ending = socket.socketpair()
        self._answered = threading.Condition()
        self._last = (-1.0, -1)
        self._ports = [Port(self, upstream) for upstream in upstreams]

    def port(self, name: str) -> int:
        """Port that clients connect to in place of an upstream."""
        return next(port.number for port in self._ports if port.upstream.name == name)

    def view(self, upstream: Upstream, client_port: int) -> View:
        """Handler of the frames of a connection to an upstream. Subclasses use ``client_port`` to
        know the client."""
        del client_port
        ports: Mapping[int, int] = {port.upstream.port: port.number for port in self._ports}
        if upstream.speaks == "kafka":
            return KafkaView(ports, self.spoken)
        return ZooKeeperView(ports) if upstream.speaks == "zookeeper" else View()

    def note_answer(self, accepted_s: float, number: int) -> None:
        """A connection has got bytes of its upstream."""
        with self._answered:
            self._last = max(self._last, (accepted_s, number))
            self._answered.notify_all()

    def await_later(self, accepted_s: float, number: int) -> None:
        """Wait until a connection that was taken later has been answered, or for a moment."""
        with self._answered:
            self._answered.wait_for(lambda: self._last > (accepted_s, number), _OVERTAKEN_S)

    def __enter__(self) -> Self:
        for port in self._ports:
            port.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.is_ending.set()
        self._stop.close()
        for port in self._ports:
            port.join()
        self.ending.close()


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
        self._acceptor.join(WAIT_MAX_S)
        if self._listener:
            self._listener.close()
        for thread in self._threads:
            thread.join(WAIT_MAX_S)
        self._holder.close()

    def _listen(self) -> None:
        self._listener = _bound(self.number)
        self._listener.listen(64)

    def _accept(self) -> None:
        while not self._proxy.is_ending.is_set():
            if self._listener is None:
                if not self._proxy.is_ending.wait(max(0.0, self._open_at_s - time.monotonic())):
                    self._listen()
                continue
            ready, _, _ = select.select([self._listener, self._proxy.ending], [], [])
            if self._listener in ready:
                self._take(self._listener)

    def _take(self, listener: socket.socket) -> None:
        try:
            client, (_, client_port) = listener.accept()
        except OSError:  # it is gone already
            return
        fault = self._proxy.plan.fault(self.upstream.name, self._count)
        self._proxy.made += 1
        view = self._proxy.view(self.upstream, client_port)
        connection = Connection(self._proxy, client, self.upstream.port, self._count, view, fault)
        self._count += 1
        if fault is not None and fault.kind is FaultKind.REFUSED:
            self._open_at_s = time.monotonic() + fault.seconds
            listener.close()
            self._listener = None
        thread = threading.Thread(target=connection.run, name=f"proxy {self.number}", daemon=True)
        self._threads.append(thread)
        thread.start()


def _bound(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind((HOST, port))
    return sock
