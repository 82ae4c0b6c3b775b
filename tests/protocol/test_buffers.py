"""Buffers are used again, but never while a view of them exists."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_kafkawire.protocol import v07
from spark_kafkawire.protocol.buffers import KEPT_COUNT_MAX, Buffers
from spark_kafkawire.protocol.connection import ROOM_BYTES_MAX, Connection, Response
from spark_kafkawire.protocol.v07 import FetchRequest

from .streams import feed

SIZE = 300_000


def address(buffer: memoryview) -> int:
    return int(np.frombuffer(buffer, np.uint8).ctypes.data)


def test_a_buffer_has_the_size_that_was_asked_for() -> None:
    for size in (0, 1, 4, 1000, SIZE):
        buffer = Buffers().take(size)
        assert len(buffer) == size
        buffer[:] = b"x" * size


def test_a_buffer_that_nobody_looks_at_is_used_again_for_its_size_and_smaller() -> None:
    buffers = Buffers()
    buffer = buffers.take(SIZE)
    first = address(buffer)
    for size in (SIZE, 5, SIZE - 1, SIZE, SIZE + SIZE // 10):
        del buffer
        buffer = buffers.take(size)
        assert address(buffer) == first
        assert len(buffer) == size


def test_a_larger_size_gets_a_larger_buffer() -> None:
    buffers = Buffers()
    buffers.take(5)
    assert len(buffers.take(SIZE)) == SIZE


def test_buffers_that_are_looked_at_are_left_alone() -> None:
    buffers = Buffers()
    kept: list[object] = []
    buffer = buffers.take(SIZE)
    buffer[:] = b"a" * SIZE
    looks = [buffer[:1], np.frombuffer(buffer, np.uint8), pa.py_buffer(buffer)]
    del buffer
    for look in looks:
        del kept[:]
        kept.append(look)
        other = buffers.take(SIZE)
        other[:] = b"b" * len(other)
        del other
    assert bytes(looks[0]) == b"a"
    assert looks[2].to_pybytes() == b"a" * SIZE


def test_a_buffer_is_free_again_after_the_last_look() -> None:
    buffers = Buffers()
    buffer = buffers.take(SIZE)
    first, look = address(buffer), buffer[5:]
    del buffer
    assert address(buffers.take(SIZE)) != first
    del look
    taken = [buffers.take(SIZE) for _ in range(KEPT_COUNT_MAX)]
    assert first in map(address, taken)


def test_a_bounded_number_of_buffers_is_kept() -> None:
    buffers = Buffers()
    held = [buffers.take(SIZE) for _ in range(KEPT_COUNT_MAX + 5)]
    assert len(buffers._kept) == KEPT_COUNT_MAX
    assert len(set(map(address, held))) == len(held)


def response(connection: Connection, payload: bytes) -> Response:
    connection.send(FetchRequest("t", 0, 0, len(payload)))
    size = (2 + len(payload)).to_bytes(4, "big")
    [response] = feed(connection, [size + b"\0\0" + payload])
    return response


def test_responses_come_into_the_same_memory_once_they_are_read() -> None:
    connection = Connection(v07.DIALECT)
    places = set()
    for number in range(5):
        payload = bytes([number]) * SIZE
        answer = response(connection, payload)
        assert len(answer.frame) == ROOM_BYTES_MAX + 2 + SIZE
        assert answer.body.message_set == payload
        places.add(address(answer.frame))
        del answer
    assert len(places) == 1


def test_a_response_that_is_kept_stays_as_it_is() -> None:
    connection = Connection(v07.DIALECT)
    answers = [response(connection, bytes([number]) * SIZE) for number in range(5)]
    for number, answer in enumerate(answers):
        assert answer.body.message_set == bytes([number]) * SIZE
