"""A replay of recorded exchanges, which reports differences from the answers of the real broker.

It speaks to the broker by sockets and ``struct`` alone: the judge shares no code with the judged.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Final

from tests.support.golden import Exchange

HOST: Final = "127.0.0.1"
#: An answer that does not come within this time does not come.
ANSWER_TIMEOUT_S: Final = 60.0
#: How long a connection must stay silent to count as waiting.
SILENCE_S: Final = 0.2
_EARLIEST: Final = struct.pack(">qi", -2, 1)


def differences(exchange: Exchange, port: int, flush: Callable[[], None] = lambda: None) -> list[str]:
    """Replay one exchange; what is not as recorded, one line for each.

    ``flush`` makes the broker show what was appended, where its settings would take their time.
    """
    before = end_offset(port, exchange.log) if exchange.log else 0
    result = _replay(exchange, port)
    if exchange.log:
        flush()
        after = end_offset(port, exchange.log)
        if after - before != exchange.gain:
            result.append(f"the log grew from {before} to {after}, should by {exchange.gain}")
        elif exchange.gain and fetch(port, exchange.log, before, exchange.gain) != exchange.appended:
            result.append("other bytes were stored")
    return result


def _replay(exchange: Exchange, port: int) -> list[str]:
    with connect(port) as sock:
        pieces = [exchange.request]
        if exchange.name == "protocol/byte_by_byte":
            pieces = [bytes([byte]) for byte in exchange.request]
        for piece in pieces:
            sock.sendall(piece)
        if exchange.name == "protocol/half_close":
            sock.shutdown(socket.SHUT_WR)
        answered = b""
        while exchange.response.startswith(answered) and len(answered) < len(exchange.response):
            data, end = receive(sock, 1, at_most=len(exchange.response) - len(answered))
            if end != "full":
                return [f"{end} after {answered.hex()[:80]} of {exchange.response.hex()[:80]}"]
            answered += data
        if answered != exchange.response:
            return [f"answered {answered.hex()[:80]}, not {exchange.response.hex()[:80]}"]
        return _connection_differences(exchange, sock)


def _connection_differences(exchange: Exchange, sock: socket.socket) -> list[str]:
    if exchange.is_closed:
        extra, end = receive(sock, 1)
        return [] if end == "closed" else [f"the connection is not closed: {end} {extra.hex()}"]
    if exchange.is_waiting:
        extra, end = receive(sock, 1, SILENCE_S)
        return [] if end == "silent" else [f"the broker does not wait: {end} {extra.hex()}"]
    try:
        sock.sendall(frame(4, "replay-sentinel", 0, _EARLIEST))
        answer, end = receive(sock, 18)
    except OSError:
        answer, end = b"", "closed"
    usable = answer == bytes.fromhex("0000000e0000000000010000000000000000")
    return [] if usable else [f"the connection is not usable afterwards: {end} {answer.hex()}"]


def frame(api_key: int, topic: str, partition: int, rest: bytes) -> bytes:
    """A request frame: ``length | key | topic | partition | rest``."""
    name = topic.encode()
    body = struct.pack(">hh", api_key, len(name)) + name + struct.pack(">i", partition) + rest
    return struct.pack(">i", len(body)) + body


def produce(port: int, log: tuple[str, int], message_set: bytes) -> bool:
    """Send a PRODUCE and wait until the broker has carried it out; False where it has closed instead."""
    with connect(port) as sock:
        sock.sendall(frame(0, *log, struct.pack(">i", len(message_set)) + message_set))
        sock.sendall(frame(4, "replay-sentinel", 0, _EARLIEST))
        return receive(sock, 18)[1] == "full"


def fetch(port: int, log: tuple[str, int], offset: int, max_bytes: int) -> bytes:
    """The bytes that a FETCH gives."""
    return ask(port, fetch_request(log, offset, max_bytes))[2:]


def fetch_request(log: tuple[str, int], offset: int, max_bytes: int) -> bytes:
    """A FETCH."""
    return frame(1, *log, struct.pack(">qi", offset, max_bytes))


def end_offset(port: int, log: tuple[str, int]) -> int:
    """The end of a partition as OFFSETS tells it."""
    return offsets(port, log, -1, 1)[0]


def offsets(port: int, log: tuple[str, int], time_ms: int, count_max: int) -> tuple[int, ...]:
    """The offsets that OFFSETS gives."""
    answer = ask(port, frame(4, *log, struct.pack(">qi", time_ms, count_max)))
    return struct.unpack(f">{(len(answer) - 6) // 8}q", answer[6:])


def ask(port: int, request: bytes) -> bytes:
    """Send one request on a connection of its own; the body of the response."""
    with connect(port) as sock:
        sock.sendall(request)
        header, end = receive(sock, 4)
        assert len(header) == 4, f"no answer: {end}"
        body, end = receive(sock, int.from_bytes(header, "big"))
        assert len(body) == int.from_bytes(header, "big"), f"half an answer: {end}"
        return body


def receive(
    sock: socket.socket, size: int, timeout_s: float = ANSWER_TIMEOUT_S, *, at_most: int = 0
) -> tuple[bytes, str]:
    """``size`` bytes, up to ``at_most`` of them, and how it ended: ``full``, ``closed``, ``silent``."""
    sock.settimeout(timeout_s)
    received = b""
    while len(received) < size:
        try:
            data = sock.recv(max(size, at_most) - len(received))
        except TimeoutError:
            return received, "silent"
        except OSError:
            return received, "closed"
        if not data:
            return received, "closed"
        received += data
    return received, "full"


@contextlib.contextmanager
def listening() -> Iterator[int]:
    """A port that somebody listens on who is no broker: connections are made, nothing is said."""
    with socket.create_server((HOST, 0)) as sock:
        yield sock.getsockname()[1]


def connect(port: int) -> socket.socket:
    """A connection to a broker."""
    sock = socket.create_connection((HOST, port), ANSWER_TIMEOUT_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def threads() -> set[threading.Thread]:
    """The threads of now; the clients' pool, which tests share, sets a new timer when one has run."""
    return {thread for thread in threading.enumerate() if not isinstance(thread, threading.Timer)}
