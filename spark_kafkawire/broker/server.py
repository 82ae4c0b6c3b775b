"""A whole broker in this process: port, connections, logs, registration. A thread per connection.

As with 0.7 a connection lives as long as its peer likes: there is no idle timeout.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ..errors import log_of
from ..model import WireFormat
from .config import BrokerConfig
from .faults import Fault, FaultScript
from .handlers import Handlers, Speaker
from .housekeeping import Housekeeping
from .listener import listen
from .log import now_ms
from .log_directory import LogDirectory
from .proposal import ProposalHandlers
from .registry import Registry
from .serving import Serving

LOG: Final = log_of(__name__)

#: How long ``stop`` waits for each thread; closed sockets end them within milliseconds.
STOP_TIMEOUT_S: Final = 10.0
#: The handlers of each wire format of a 0.7 broker.
_SPEAKERS: Final[Mapping[WireFormat, Callable[[BrokerConfig, LogDirectory], Speaker]]] = {
    WireFormat.V07: Handlers,
    WireFormat.PROPOSAL: ProposalHandlers,
}


class BrokerServer:
    """A broker in this process: listens, registers in ZooKeeper, keeps its logs. Starts once.

    ``faults`` are its scripted faults, for tests of clients. ``clock_ms`` is the clock of its logs, ms since
    the epoch.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        faults: Iterable[Fault] = (),
        clock_ms: Callable[[], int] = now_ms,
    ) -> None:
        self.config = config
        self._clock_ms = clock_ms
        self._faults = FaultScript(faults)
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._stopping = threading.Event()

    @property
    def port(self) -> int:
        """The port it listens on, also where its property says 0."""
        port: int = self._listener.getsockname()[1]
        return port

    @property
    def address(self) -> str:
        """``host:port``"""
        return f"{self.config.hostname}:{self.port}"

    @property
    def logs(self) -> LogDirectory:
        """Logs of this broker, for tests that flush or clean them by hand."""
        return self._logs

    def start(self) -> None:
        """Open the logs, listen, register, serve.

        Raises ``OptionError``, ``CorruptDataError`` (logs), ``ConnectFailed`` (port, ZooKeeper)
        and ``DiscoveryError`` (registration). After an error no thread is left running.
        """
        with contextlib.ExitStack() as undo:
            self._listener = undo.enter_context(_listen(self.config))
            self._logs = LogDirectory(self.config, clock_ms=self._clock_ms)
            speakers = [_SPEAKERS[each](self.config, self._logs) for each in self.config.wire_formats]
            self._serving = Serving(speakers, self._faults, self.config.max_socket_request_bytes)
            self._registry = Registry(self.config, self.port) if self.config.zookeeper else None
            if self._registry:
                self._logs.on_new_topic = self._registry.add_topic
                self._registry.start(self._logs.topics)
                undo.callback(self._registry.stop)
            self._housekeeping = Housekeeping(self.config, self._logs)
            self._housekeeping.start()
            undo.pop_all()
        self._wake, self._woken = socket.socketpair()
        self._acceptor = threading.Thread(target=self._accept, name=f"accept {self.address}", daemon=True)
        self._acceptor.start()

    def stop(self) -> None:
        """Close all connections, flush the logs, leave ZooKeeper. Waits for every thread."""
        self._end_connections()
        self._housekeeping.stop()
        self._logs.close()
        if self._registry:
            self._registry.stop()

    def __enter__(self) -> BrokerServer:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def _end_connections(self) -> None:
        self._stopping.set()
        self._wake.close()
        self._acceptor.join(STOP_TIMEOUT_S)
        self._listener.close()
        self._woken.close()
        with self._lock:
            connections = dict(self._connections)
        for connection in connections:
            # Ends a running receive or send of another thread; a close does not.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._logs.arrivals.notify()  # waiting fetches check whether their client is still there
        for thread in connections.values():
            thread.join(STOP_TIMEOUT_S)

    def _accept(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while not self._stopping.is_set():
                for key, _ in selector.select():
                    if key.fileobj is self._listener:
                        self._accept_one()

    def _accept_one(self) -> None:
        try:
            connection, (host, port, *_) = self._listener.accept()
        except OSError as error:
            LOG.warning("no connection accepted: %s", error)
            return
        thread = threading.Thread(
            target=self._run, args=(connection,), name=f"serve {host}:{port}", daemon=True
        )
        with self._lock:
            self._connections[connection] = thread
        try:
            thread.start()
        except RuntimeError as error:
            LOG.warning("connection closed: %s", error)
            with self._lock:
                del self._connections[connection]
            connection.close()

    def _run(self, connection: socket.socket) -> None:
        try:
            self._serving.run(connection)
        finally:
            with self._lock:
                del self._connections[connection]
            connection.close()


def _listen(config: BrokerConfig) -> socket.socket:
    listener = listen(config.hostname, config.port)
    # Connections inherit these; 0.7's own defaults (100 KiB) would switch the kernel's tuning off.
    if config.socket_send_buffer:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.socket_send_buffer)
    if config.socket_receive_buffer:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, config.socket_receive_buffer)
    listener.setblocking(False)
    return listener
