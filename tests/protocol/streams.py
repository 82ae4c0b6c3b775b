"""Recorded responses as byte streams, and ways to hand them to a connection."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from spark_kafkawire.errors import ProtocolError
from spark_kafkawire.protocol import v07
from spark_kafkawire.protocol.connection import Connection, Response
from tests.support.golden import exchanges


@dataclass(frozen=True, slots=True)
class Stream:
    """Requests that a real broker was sent on one connection, and the bytes that came back."""

    name: str
    requests: tuple[Any, ...]
    responses: bytes

    def connection(self) -> Connection:
        """A connection on which all requests have been sent."""
        connection = Connection(v07.DIALECT)
        for request in self.requests:
            connection.send(request)
        return connection


@functools.cache
def recorded_streams() -> tuple[Stream, ...]:
    """Every recorded exchange that was answered."""
    return tuple(
        Stream(item.name, tuple(parse_requests(item.request)), item.response)
        for item in exchanges()
        if item.response
    )


def parse_requests(data: bytes) -> Iterator[Any]:
    """The requests in the frames of ``data``, up to the first that is none."""
    view = memoryview(data)
    while len(view) >= 4:
        size = int.from_bytes(view[:4], "big", signed=True)
        if not 0 < size <= len(view) - 4:
            return
        try:
            yield v07.DIALECT.read_request(view[4 : 4 + size])[1]
        except ProtocolError:
            return
        view = view[4 + size :]


def feed(connection: Connection, chunks: Iterable[bytes]) -> list[Response]:
    """The responses that a connection finds in the chunks. A chunk is what one ``recv`` gives."""
    responses = []
    for chunk in chunks:
        rest = memoryview(chunk)
        while rest:
            wanted = connection.wanted()
            size = min(len(wanted), len(rest))
            wanted[:size] = rest[:size]
            response = connection.receive(size)
            rest = rest[size:]
            if response is not None:
                responses.append(response)
    return responses


def cut(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """``data`` in chunks of these sizes, again and again until its end."""
    chunks, pos, turn = [], 0, 0
    while pos < len(data):
        size = sizes[turn % len(sizes)]
        chunks.append(data[pos : pos + size])
        pos, turn = pos + size, turn + 1
    return chunks


def comparable(responses: Iterable[Response]) -> list[str]:
    """Responses as text: their byte fields are views, which know no contents."""
    return [repr(_plain(response.body)) for response in responses]


def mutated(data: bytes, draw: random.Random) -> bytes:
    """``data`` with a few bytes changed, taken out, doubled, or set to an extreme number."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 3)):
        pos = draw.randrange(len(changed) + 1)
        match draw.randrange(5):
            case 0:
                changed[pos : pos + 1] = draw.randbytes(1)
            case 1:
                del changed[pos : pos + draw.randint(1, 8)]
            case 2:
                changed[pos:pos] = changed[pos : pos + draw.randint(1, 8)]
            case 3:
                changed[pos : pos + 4] = draw.choice([b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x00" * 4])
            case _:
                changed += draw.randbytes(draw.randint(1, 8))
    return bytes(changed)


def _plain(value: Any) -> Any:
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    if hasattr(value, "__slots__"):
        return (type(value).__name__, *(_plain(getattr(value, name)) for name in value.__slots__))
    return value
