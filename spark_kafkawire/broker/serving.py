"""One connection of the embedded 0.7 broker: it answers requests in order until one side ends it.

A request's first two bytes are its id, which identifies the wire format: no two formats share an id. FETCH
responses go from file to socket by ``sendfile``: the broker does not read the messages.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterable
from typing import Final

from ..errors import ProtocolError, log_of
from ..protocol.buffers import Buffers
from ..protocol.primitives import INT16, read_int32
from .faults import CONNECT, Fault, FaultKind, FaultScript, Then
from .handlers import CLOSE, Answer, Call, Speaker
from .log import FileSlice

LOG: Final = log_of(__name__)

LENGTH_BYTES: Final = 4
#: Bytes per read of requests that are no longer answered, and the number of reads before a connection closes.
READ_BYTES: Final = 1 << 16
DROPPED_READS_MAX: Final = 64
# Linux gathers the header of a response and the file bytes that follow it into one packet.
_MORE_FOLLOWS: Final[int] = getattr(socket, "MSG_MORE", 0)


class Serving:
    """State that all connections of a broker share. ``run`` is called by a thread per connection."""

    def __init__(self, speakers: Iterable[Speaker], faults: FaultScript, request_bytes_max: int) -> None:
        speakers = tuple(speakers)
        self._speakers = {api.key: speaker for speaker in speakers for api in speaker.dialect.apis}
        assert len(self._speakers) == sum(len(speaker.dialect.apis) for speaker in speakers)
        self._faults = faults
        self._request_bytes_max = request_bytes_max

    def run(self, connection: socket.socket) -> None:
        """Serve until the peer is done, a request is refused, or the socket is shut down."""
        try:
            connection.setblocking(True)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not self._faults.take(CONNECT):
                buffers = Buffers()
                while self._serve_one(connection, buffers):
                    pass
            _finish(connection)
        except OSError as error:
            LOG.debug("connection lost: %s", error)

    def _serve_one(self, connection: socket.socket, buffers: Buffers) -> bool:
        """Receive and answer one request; returns whether the connection stays open."""
        header = memoryview(bytearray(LENGTH_BYTES))
        if not _receive_all(connection, header):
            return False
        size = read_int32(header)
        if not 0 < size <= self._request_bytes_max:
            LOG.warning("request of %d bytes refused, 1 to %d are allowed", size, self._request_bytes_max)
            return False
        body = buffers.take(size)
        return _receive_all(connection, body) and self._answer(connection, body)

    def _answer(self, connection: socket.socket, body: memoryview) -> bool:
        """Carry out one request and answer it; returns whether the connection stays open."""
        try:
            call = self._read(body)
        except ProtocolError as error:
            LOG.warning("request refused: %s", error)
            return False
        if fault := self._faults.take(call.api.name):
            return self._misbehave(connection, fault, call)
        answer = call.answer(lambda: _is_open(connection))
        try:
            _send(connection, answer)
        except FileNotFoundError:
            # Retention deleted the segment since it was looked up: look again.
            answer = call.answer(lambda: _is_open(connection))
            _send(connection, answer)
        return not answer.close

    def _read(self, body: memoryview) -> Call:
        key, _ = INT16.read(body, 0)
        if key not in self._speakers:
            raise ProtocolError(f"unknown request type {key}; does the client speak another protocol?")
        return self._speakers[key].read(body)

    def _misbehave(self, connection: socket.socket, fault: Fault, call: Call) -> bool:
        answer = CLOSE if fault.kind is FaultKind.DROP else call.answer(lambda: _is_open(connection))
        data, then = fault.spoil(_joined(answer))
        connection.sendall(data)
        if then is Then.STALL:
            while connection.recv(READ_BYTES):
                pass
        return then is Then.GO_ON


def _is_open(connection: socket.socket) -> bool:
    """True until the peer or this side has ended the connection."""
    try:
        return bool(connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True
    except OSError:
        return False


def _receive_all(connection: socket.socket, view: memoryview) -> bool:
    """Fill ``view``; whether the peer sent that much."""
    filled = 0
    while filled < len(view):
        received = connection.recv_into(view[filled:])
        if not received:
            return False
        filled += received
    return True


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
            raise OSError("a segment file is shorter than its log says; start the broker again")
        pos += sent
        size -= sent


def _joined(answer: Answer) -> bytes:
    frame = b""
    for part in answer.parts:
        if isinstance(part, FileSlice):
            frame += part.content()
        else:
            frame += part
    return frame


def _finish(connection: socket.socket) -> None:
    """End the stream; drop requests that came already, or the kernel would send RST for FIN."""
    connection.shutdown(socket.SHUT_WR)
    with contextlib.suppress(BlockingIOError):
        for _ in range(DROPPED_READS_MAX):
            if not connection.recv(READ_BYTES, socket.MSG_DONTWAIT):
                return
