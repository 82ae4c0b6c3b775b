"""Byte windows: the order in which they are asked for, and the messages that they become."""

from __future__ import annotations

import struct
from itertools import count, pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.clients.reading.task import MessageCrossesStop
from spark_kafkawire.clients.reading.v07.stitcher import Stitcher
from spark_kafkawire.clients.reading.v07.windows import Window, Windows
from spark_kafkawire.errors import CorruptDataError, LimitError
from spark_kafkawire.model import OffsetRange, TopicPartition
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.message_set.encoding import encode
from tests.records.message_set.trees import column_rows
from tests.support.failing_case import failing_case


def ask_all(windows: Windows[bytes]) -> list[Window]:
    asked = []
    while (window := windows.ask()) is not None:
        asked.append(window)
    return asked


def test_a_jump_forgets_what_is_held() -> None:
    windows: Windows[bytes] = Windows(0, 40, 10, 3)
    ask_all(windows)
    windows.answer(10, b"b" * 10, 10)
    windows.restart(25)
    assert windows.next_offset == 25
    assert ask_all(windows) == [Window(25, 10), Window(35, 5)]


@given(
    st.binary(min_size=1, max_size=300),
    st.integers(1, 40),
    st.integers(1, 5),
    st.lists(st.integers(0, 299), max_size=6),
    st.sets(st.integers(0, 60), max_size=8),
)
def test_the_stream_is_the_log_and_no_byte_comes_twice(
    log: bytes, window_bytes: int, in_flight: int, segment_ends: list[int], losses: set[int]
) -> None:
    windows: Windows[bytes] = Windows(0, len(log), window_bytes, in_flight)
    on_their_way: list[Window] = []
    stream, received = b"", 0
    for step in count():
        if windows.done:
            break
        on_their_way += ask_all(windows)
        if step in losses:
            windows.restart()
            on_their_way = []
            continue
        if (chunk := windows.take()) is not None:
            stream += chunk
            continue
        window = on_their_way.pop(0)
        segment_end = min((end for end in segment_ends if end > window.offset), default=len(log))
        data = log[window.offset : min(window.offset + window.size, segment_end)]
        received += len(data)
        windows.answer(window.offset, data, len(data))
    assert stream == log
    assert received == len(log)


PARTITION = TopicPartition("t", 0, 0)
BASE = 1000


def stitcher(size: int, message_bytes_max: int = 1 << 20) -> Stitcher:
    return Stitcher(OffsetRange(PARTITION, BASE, BASE + size), message_bytes_max, DecodeLimits())


def rows(stitched: Stitcher, chunks: list[bytes], room: int = 0) -> list[tuple[int, int, int, bytes]]:
    """All rows; each chunk comes in a frame with ``room`` before it, overwritten afterwards."""
    found = []
    for chunk in chunks:
        frame = bytearray(room) + chunk
        for columns in stitched.feed(memoryview(frame), room):
            found += column_rows(columns)
        frame[:] = b"\xff" * len(frame)
    stitched.finish()
    return found


def plain(*values: bytes) -> bytes:
    return bytes(encode(pa.array(values, pa.binary())))


SETS = plain(b"one", b"", b"three" * 40) + bytes(encode(pa.array([b"in", b"gzip"]), "gzip")) + plain(b"last")


@pytest.mark.parametrize("room", [0, 1, 20, 1000])
def test_every_window_size_gives_the_same_rows(room: int) -> None:
    whole = rows(stitcher(len(SETS)), [SETS])
    assert [value for _, _, _, value in whole] == [b"one", b"", b"three" * 40, b"in", b"gzip", b"last"]
    for size in range(1, len(SETS) + 1):
        chunks = [SETS[at : at + size] for at in range(0, len(SETS), size)]
        with failing_case(f"{size=}"):
            assert rows(stitcher(len(SETS)), chunks, room) == whole


@given(st.lists(st.integers(0, len(SETS)), max_size=12).map(sorted), st.integers(0, 300))
def test_every_cutting_gives_the_same_rows(cuts: list[int], room: int) -> None:
    ends = [0, *cuts, len(SETS)]
    chunks = [SETS[start:stop] for start, stop in pairwise(ends)]
    assert rows(stitcher(len(SETS)), chunks, room) == rows(stitcher(len(SETS)), [SETS])


def test_a_cut_message_is_decoded_together_with_what_follows_where_there_is_room() -> None:
    data = plain(*[b"%03d" % number for number in range(100)])
    chunks = [data[at : at + 450] for at in range(0, len(data), 450)]
    # The first chunk ends 8 bytes after a message, which is just the room of one of these.
    batches = {0: 0, 8: 0, 13: 0}
    for room in batches:
        stitched = stitcher(len(data))
        for chunk in chunks:
            batches[room] += len(list(stitched.feed(memoryview(bytearray(room) + chunk), room)))
    assert batches == {0: 5, 8: 3, 13: 3}


def test_a_message_above_the_limit_is_an_error_as_soon_as_its_length_is_known() -> None:
    data = plain(b"x" * 5000)
    with pytest.raises(LimitError, match=r"offset 1000 has 5006 bytes, more than maxMessageBytes=5005"):
        rows(stitcher(len(data), 5005), [data[:4]])
    assert len(rows(stitcher(len(data), 5006), [data[:4], data[4:]])) == 1


def test_a_range_that_ends_inside_a_message_is_an_error_that_says_so() -> None:
    data = plain(b"one", b"two")
    with pytest.raises(MessageCrossesStop, match=r"offset 1013 extends beyond 1020, the end of the range"):
        rows(stitcher(20), [data[:20]])


def test_a_range_that_ends_inside_a_length_is_an_error_too() -> None:
    data = plain(b"one", b"two")
    with pytest.raises(MessageCrossesStop):
        rows(stitcher(15), [data[:15]])


def test_damage_tells_the_offset_of_its_message() -> None:
    damaged = bytearray(plain(b"one", b"two"))
    damaged[-1] ^= 1
    with pytest.raises(CorruptDataError) as caught:
        rows(stitcher(len(damaged)), [bytes(damaged[:16]), bytes(damaged[16:])])
    assert caught.value.offset == BASE + 13


def test_an_impossible_length_is_damage() -> None:
    data = plain(b"one") + struct.pack(">i", -5) + b"junk"
    with pytest.raises(CorruptDataError):
        rows(stitcher(len(data)), [data])
