"""Buffers are used again, and never while somebody looks at them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_kafkawire.protocol import v07
from spark_kafkawire.protocol.connection import Connection, Reply
from spark_kafkawire.protocol.frames import KEPT_COUNT_MAX, ROOM_BYTES_MAX, Frames
from spark_kafkawire.protocol.v07 import FetchRequest

from .streams import feed

SIZE = 300_000


def address(frame: memoryview) -> int:
    return int(np.frombuffer(frame, np.uint8).ctypes.data)


def test_a_frame_ends_with_room_for_the_reply() -> None:
    for size in (0, 1, 4, 1000, ROOM_BYTES_MAX, SIZE):
        frame, start = Frames().take(size)
        assert len(frame) - start == size
        assert start == min(size, ROOM_BYTES_MAX)
        frame[:] = b"x" * len(frame)


def test_a_frame_that_nobody_looks_at_is_used_again_for_replies_of_its_size_and_smaller() -> None:
    frames = Frames()
    frame, _ = frames.take(SIZE)
    first = address(frame)
    for size in (SIZE, 5, SIZE - 1, SIZE):
        del frame
        frame, start = frames.take(size)
        assert address(frame) == first
        assert len(frame) - start == size


def test_a_larger_reply_gets_a_larger_frame() -> None:
    frames = Frames()
    frames.take(5)
    frame, start = frames.take(SIZE)
    assert len(frame) - start == SIZE


def test_frames_that_are_looked_at_are_left_alone() -> None:
    frames = Frames()
    kept: list[object] = []
    frame, start = frames.take(SIZE)
    frame[start:] = b"a" * SIZE
    looks = [frame[start : start + 1], np.frombuffer(frame, np.uint8), pa.py_buffer(frame[start:])]
    del frame
    for look in looks:
        del kept[:]
        kept.append(look)
        other, start = frames.take(SIZE)
        other[:] = b"b" * len(other)
        del other
    assert bytes(looks[0]) == b"a"
    assert looks[2].to_pybytes() == b"a" * SIZE


def test_a_frame_is_free_again_after_the_last_look() -> None:
    frames = Frames()
    frame, _ = frames.take(SIZE)
    first, look = address(frame), frame[5:]
    del frame
    assert address(frames.take(SIZE)[0]) != first
    del look
    taken = [frames.take(SIZE)[0] for _ in range(KEPT_COUNT_MAX)]
    assert first in map(address, taken)


def test_a_bounded_number_of_buffers_is_kept() -> None:
    frames = Frames()
    held = [frames.take(SIZE)[0] for _ in range(KEPT_COUNT_MAX + 5)]
    assert len(frames._kept) == KEPT_COUNT_MAX
    assert len(set(map(address, held))) == len(held)


def reply(connection: Connection, payload: bytes) -> Reply:
    connection.send(FetchRequest("t", 0, 0, len(payload)))
    size = (2 + len(payload)).to_bytes(4, "big")
    [reply] = feed(connection, [size + b"\0\0" + payload])
    return reply


def test_replies_come_into_the_same_memory_once_they_are_read() -> None:
    connection = Connection(v07.DIALECT)
    places = set()
    for number in range(5):
        payload = bytes([number]) * SIZE
        answer = reply(connection, payload)
        assert answer.body.message_set == payload
        places.add(address(answer.frame))
        del answer
    assert len(places) == 1


def test_a_reply_that_is_kept_stays_as_it_is() -> None:
    connection = Connection(v07.DIALECT)
    answers = [reply(connection, bytes([number]) * SIZE) for number in range(5)]
    for number, answer in enumerate(answers):
        assert answer.body.message_set == bytes([number]) * SIZE
