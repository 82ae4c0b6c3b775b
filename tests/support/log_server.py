"""A ``LogBroker`` on a TCP port, honest or with the lies that a test sets."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from spark_kafkawire.broker.server import listen
from spark_kafkawire.model import Broker
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api, VersionRange
from spark_kafkawire.protocol.primitives import Buffer

from .log_broker import OFFERED, LogBroker
from .memory_log import Log

if TYPE_CHECKING:
    from typing_extensions import Self

HOST: Final = "127.0.0.1"
#: A silent server gives up waiting for its client after this time: the test is stuck then.
STUCK_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Sent:
    """Bytes that replace an honest response, and the server's next step."""

    data: bytes
    then: Literal["go on", "close", "be silent"] = "go on"


#: Gets an honest response's frame, length included, and says what is sent.
Lie = Callable[[Api, bytes], Sent]


class LogServer:
    """A broker with a thread for each connection, from ``start`` (or ``with``) to ``close``."""

    def __init__(
        self,
        logs: Mapping[str, Sequence[Log]],
        *,
        lie: Lie | None = None,
        offered: Mapping[int, VersionRange] = OFFERED,
    ) -> None:
        self._listener = listen(HOST, 0)
        self.port: int = self._listener.getsockname()[1]
        self.broker = LogBroker(Broker(0, HOST, self.port), logs, offered)
        self.requests: list[Api] = []
        self.failures: list[BaseException] = []
        self.lie = lie
        self._threads: list[threading.Thread] = []
        self._connections: list[socket.socket] = []

    @property
    def bootstrap_servers(self) -> str:
        """Its address, as clients take it."""
        return f"{HOST}:{self.port}"

    @property
    def connection_count(self) -> int:
        """Number of connections that were accepted so far."""
        return len(self._connections)

    def answer_as(self, other: LogServer) -> None:
        """Answer as ``other`` does from here on."""
        self._answer = other._answer  # type: ignore[method-assign]

    def start(self) -> None:
        """Accept connections from here on."""
        self._start_thread(self._accept)

    def serve_forever(self) -> None:
        """Accept connections in this thread."""
        self._accept()

    def close(self) -> None:
        """End all connections. Raises what went wrong in a thread of the server."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(STUCK_S)
        if self.failures:
            raise self.failures[0]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _start_thread(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.settimeout(STUCK_S)
                self._connections.append(connection)
                self._start_thread(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                while (frame := read_frame(connection)) is not None:
                    if not self._answer(connection, frame):
                        return
        except OSError:
            pass  # The client has gone, or the test has ended: that is their right.
        except BaseException as error:
            self.failures.append(error)

    def _send(self, connection: socket.socket, parts: Sequence[Buffer]) -> None:
        """Send a response's frame."""
        send_all(connection, parts)

    def _answer(self, connection: socket.socket, frame: memoryview) -> bool:
        """Answer one request. Returns True if the connection goes on."""
        api, header, pos = modern.DIALECT.read_request_header(frame)
        self.requests.append(api)
        request = api.request_codec(header.api_version).read(frame, pos)[0]
        result = self.broker.answer(api, header.api_version, request)
        if result is None:
            return not api.awaits_response(request)
        parts = modern.DIALECT.write_response(api, *result, header.correlation_id)
        if self.lie is None:
            self._send(connection, parts)
            return True
        return tell(connection, self.lie(api, b"".join(parts)))


def tell(connection: socket.socket, sent: Sent) -> bool:
    """Send what replaces a response. Returns True if the connection goes on."""
    connection.sendall(sent.data)
    if sent.then == "be silent":
        while connection.recv(1 << 16):
            pass
    return sent.then == "go on"


#: The default of a broker's ``socket.request.max.bytes``.
REQUEST_BYTES_MAX: Final = 104_857_600


def read_frame(connection: socket.socket) -> memoryview | None:
    """The body of the next request; None when the client has closed, or announces too much for a broker."""
    size = _read(connection, 4)
    if size is None or int.from_bytes(size, "big") > REQUEST_BYTES_MAX:
        return None
    return _read(connection, int.from_bytes(size, "big"))


def _read(connection: socket.socket, size: int) -> memoryview | None:
    data = memoryview(bytearray(size))
    filled = 0
    while filled < size:
        came = connection.recv_into(data[filled:])
        if not came:
            return None
        filled += came
    return data


def send_all(connection: socket.socket, parts: Sequence[Buffer]) -> None:
    """Send buffers one after the other, without joining them first."""
    left = [memoryview(part).cast("B") for part in parts if len(part)]
    while left:
        sent = connection.sendmsg(left[:1024])
        while left and sent >= len(left[0]):
            sent -= len(left.pop(0))
        if left:
            left[0] = left[0][sent:]
