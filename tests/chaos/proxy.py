"""A proxy that breaks connections by a plan, and reports the results.

with Proxy((Upstream("broker", port, "kafka"),), plan) as proxy:
    ...connect to proxy.port("broker")...
proxy.made, proxy.broken, proxy.spoken
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .connection import HOST, WAIT_MAX_S, Connection, Shared
from .faults import NO_FAULTS, FaultKind, Plan
from .frames import KafkaView, Spoken, View, ZooKeeperView

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["HOST", "Proxy", "Upstream"]


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
        self.spoken: Spoken = Counter()
        self.shared = Shared()
        self._ports = [Port(self, upstream) for upstream in upstreams]

    @property
    def broken(self) -> Counter[FaultKind]:
        """Connections that a fault struck, by kind."""
        return self.shared.broken

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

    def __enter__(self) -> Self:
        for port in self._ports:
            port.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.shared.end()
        for port in self._ports:
            port.join()
        self.shared.ending.close()


class Port:
    """A listening port, which refuses connections while ``_open_at_s`` is in the future."""

    def __init__(self, proxy: Proxy, upstream: Upstream) -> None:
        self.upstream = upstream
        self._proxy, self._shared = proxy, proxy.shared
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
        while not self._shared.is_ending.is_set():
            if self._listener is None:
                if not self._shared.is_ending.wait(max(0.0, self._open_at_s - time.monotonic())):
                    self._listen()
                continue
            ready, _, _ = select.select([self._listener, self._shared.ending], [], [])
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
        connection = Connection(self._proxy.shared, client, self.upstream.port, self._count, view, fault)
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
