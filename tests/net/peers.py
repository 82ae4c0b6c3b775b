"""TCP servers on loopback that play a script: what a broker does wrong, byte by byte."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_kafkawire.model import Broker
from spark_kafkawire.protocol.v07 import LATEST_TIME, OffsetsRequest

if TYPE_CHECKING:
    from typing_extensions import Self
Script = Callable[[socket.socket], None]
#: A script that waits for the client to act gives up after this time: the test is stuck then.
STUCK_S: Final = 90.0
#: A request, and a broker's answer to it: the log ends at 202,000.
OFFSETS: Final = OffsetsRequest("t", 0, LATEST_TIME, 1)
ANSWER: Final = bytes.fromhex("0000000e 0000 00000001 0000000000031510")


class Peer:
    """A server whose n-th connection plays the n-th script, then closes; the last script repeats."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = scripts
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._connections: list[socket.socket] = []
        self.broker = Broker(7, *self._listener.getsockname()[:2])
        self.failures: list[BaseException] = []

    @property
    def connection_count(self) -> int:
        """Count of connections so far."""
        return len(self._connections)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.settimeout(STUCK_S)
                script = self._scripts[min(len(self._connections), len(self._scripts) - 1)]
                self._connections.append(connection)
                self._start(self._play, script, connection)

    def _play(self, script: Script, connection: socket.socket) -> None:
        try:
            script(connection)
        except ConnectionError:
            pass  # The client has gone: that is its right.
        except BaseException as error:
            self.failures.append(error)
        finally:
            connection.close()

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(STUCK_S)
        if kind is None and self.failures:
            raise self.failures[0]


def read_frame(connection: socket.socket) -> bytes:
    """The body of the next request; empty when the client has closed."""
    size = int.from_bytes(_read(connection, 4), "big")
    return _read(connection, size)


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            return b""
        data += chunk
    return data


def answering(*responses: bytes) -> Script:
    """Answer one request with each of ``responses``."""

    def script(connection: socket.socket) -> None:
        for response in responses:
            if read_frame(connection):
                connection.sendall(response)

    return script


def stalling(*responses: bytes) -> Script:
    """Answer one request with each of ``responses``, then stay silent until the client closes."""

    def script(connection: socket.socket) -> None:
        answering(*responses)(connection)
        while connection.recv(1 << 16):
            pass

    return script


def drip(connection: socket.socket, rest: bytes) -> None:
    """Send the rest again and again, until the client closes."""
    connection.settimeout(0.02)
    while True:
        try:
            if not connection.recv(1 << 16):
                return
        except TimeoutError:
            connection.sendall(rest)


@contextlib.contextmanager
def unreachable() -> Iterator[Broker]:
    """An address that neither accepts nor refuses: its queue of connections is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, contextlib.ExitStack() as queue:
        address = listener.getsockname()
        for _ in range(4):
            waiting = queue.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(address)
        yield Broker(7, *address[:2])


def closed_port() -> Broker:
    """An address that refuses connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return Broker(7, *listener.getsockname()[:2])


def serving(server: ssl.SSLContext, script: Script) -> Script:
    """The script behind TLS. Handshakes that fail are the client's to tell of."""

    def secured(connection: socket.socket) -> None:
        try:
            with server.wrap_socket(connection, server_side=True) as wrapped:
                script(wrapped)
        except OSError:
            pass

    return secured


def server_of(pem: Path) -> ssl.SSLContext:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem)
    return server
