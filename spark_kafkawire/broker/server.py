"""The broker's sockets: a thread per connection, file bytes sent by the kernel.

A connection is served like 0.7's: one request after the other, as long as the peer likes, without
an idle timeout. FETCH replies go from file to socket by ``sendfile``; no message is looked at.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import socket
import struct
import threading
from collections.abc import Iterable
from typing import Final, Self

from ..errors import ConnectFailed, ProtocolError
from ..protocol import v07
from ..protocol.primitives import read_int32
from .config import BrokerConfig
from .faults import CONNECT, Fault, FaultKind, FaultScript, Then
from .handlers import CLOSE, Answer, Handlers
from .housekeeping import Housekeeping
from .log import FileSlice
from .log_directory import LogDirectory
from .registry import Registry

LOGGER: Final = logging.getLogger(__name__)

LENGTH_BYTES: Final = 4
#: How long ``stop`` waits for each thread; closed sockets end them within milliseconds.
STOP_TIMEOUT_S: Final = 10.0
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
# Linux gathers the header of a reply and the file bytes that follow it into one packet.
_MORE_FOLLOWS: Final[int] = getattr(socket, "MSG_MORE", 0)


class BrokerServer:
    """A broker in this process: listens, registers in ZooKeeper, keeps its logs.

    ``faults`` are what it does wrong, for tests of clients.
    """

    def __init__(self, config: BrokerConfig, *, faults: Iterable[Fault] = ()) -> None:
        self.config = config
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
        """Its logs, for tests that look after them by hand."""
        return self._logs

    def start(self) -> None:
        """Open the logs, listen, register, serve.

        Raises ``OptionError``, ``CorruptDataError`` (logs), ``ConnectFailed`` (port, ZooKeeper)
        and ``DiscoveryError`` (registration); nothing is left running then.
        """
        with contextlib.ExitStack() as undo:
            self._listener = undo.enter_context(_listen(self.config))
            self._logs = LogDirectory(self.config)
            self._handlers = Handlers(self.config, self._logs)
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

    def kill(self) -> None:
        """End as a killed process does: connections are reset, nothing is flushed or noted.

        The ZooKeeper session is left to run out.
        """
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._end_connections()
        self._housekeeping.stop()
        if self._registry:
            self._registry.abandon()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if not self._stopping.is_set():
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
            # Ends a receive or a send that another thread is in; a close would not.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
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
            LOGGER.warning("no connection accepted: %s", error)
            return
        thread = threading.Thread(
            target=self._serve, args=(connection,), name=f"serve {host}:{port}", daemon=True
        )
        with self._lock:
            self._connections[connection] = thread
        thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.setblocking(True)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not self._faults.take(CONNECT):
                while (body := self._receive(connection)) is not None and self._answer(connection, body):
                    pass
            _finish(connection)
        except OSError as error:
            LOGGER.debug("connection lost: %s", error)
        finally:
            with self._lock:
                del self._connections[connection]
            connection.close()

    def _receive(self, connection: socket.socket) -> memoryview | None:
        """The body of the next request; None when the peer is done or the length is a lie."""
        header = _receive_exactly(connection, LENGTH_BYTES)
        if header is None:
            return None
        size = read_int32(header)
        if not 0 < size <= self.config.max_socket_request_bytes:
            LOGGER.warning(
                "request of %d bytes refused, 1 to %d are allowed", size, self.config.max_socket_request_bytes
            )
            return None
        return _receive_exactly(connection, size)

    def _answer(self, connection: socket.socket, body: memoryview) -> bool:
        """Carry out one request and answer it; whether the connection goes on."""
        try:
            api, request = v07.DIALECT.read_request(body)
        except ProtocolError as error:
            LOGGER.warning("request refused: %s", error)
            return False
        fault = self._faults.take(api.name)
        if fault:
            return self._misbehave(connection, fault, request)
        answer = self._handlers.answer(request)
        try:
            _send(connection, answer)
        except FileNotFoundError:
            # Retention deleted the segment since it was looked up: look again.
            answer = self._handlers.answer(request)
            _send(connection, answer)
        return not answer.close

    def _misbehave(self, connection: socket.socket, fault: Fault, request: object) -> bool:
        answer = CLOSE if fault.kind is FaultKind.DROP else self._handlers.answer(request)
        data, then = fault.spoil(_joined(answer))
        connection.sendall(data)
        if then is Then.STALL:
            self._stopping.wait()
        return then is Then.GO_ON


def _listen(config: BrokerConfig) -> socket.socket:
    try:
        listener = socket.create_server((config.hostname, config.port), backlog=128)
    except OSError as error:
        raise ConnectFailed(
            f"cannot listen on {config.hostname}:{config.port}: {error.strerror or error}"
        ) from error
    # Connections inherit these; 0.7's own defaults (100 KiB) would switch the kernel's tuning off.
    if config.socket_send_buffer:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.socket_send_buffer)
    if config.socket_receive_buffer:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, config.socket_receive_buffer)
    listener.setblocking(False)
    return listener


def _receive_exactly(connection: socket.socket, size: int) -> memoryview | None:
    view = memoryview(bytearray(size))
    filled = 0
    while filled < size:
        received = connection.recv_into(view[filled:])
        if not received:
            return None
        filled += received
    return view


def _send(connection: socket.socket, answer: Answer) -> None:
    """Send an answer. Raises ``FileNotFoundError`` before anything was sent, else ``OSError``."""
    with contextlib.ExitStack() as files:
        opened = [
            files.enter_context(open(part.path, "rb", buffering=0)) if isinstance(part, FileSlice) else None
            for part in answer.parts
        ]
        for index, (part, file) in enumerate(zip(answer.parts, opened, strict=True)):
            if isinstance(part, FileSlice):
                assert file is not None
                _send_slice(connection, file.fileno(), part.pos, part.size)
            else:
                connection.sendall(part, 0 if index == len(opened) - 1 else _MORE_FOLLOWS)


def _send_slice(connection: socket.socket, descriptor: int, pos: int, size: int) -> None:
    while size:
        sent = os.sendfile(connection.fileno(), descriptor, pos, size)
        if not sent:
            raise OSError("a segment file is shorter than its log says")
        pos += sent
        size -= sent


def _joined(answer: Answer) -> bytes:
    frame = b""
    for part in answer.parts:
        if isinstance(part, FileSlice):
            with open(part.path, "rb") as file:
                file.seek(part.pos)
                frame += file.read(part.size)
        else:
            frame += part
    return frame


def _finish(connection: socket.socket) -> None:
    """End the stream; drop requests that came already, or the kernel would send RST for FIN."""
    connection.shutdown(socket.SHUT_WR)
    with contextlib.suppress(BlockingIOError):
        while connection.recv(1 << 16, socket.MSG_DONTWAIT):
            pass
