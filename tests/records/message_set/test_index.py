"""The shallow index of a message set."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.errors import CorruptDataError
from spark_kafkawire.records.message_set.index import Stop, index_messages, message_size
from tests.records.message_set.trees import Compressed, Message, Plain, message, message_set
from tests.support.cases import for_each


def test_entries_tell_all_fields_of_both_magics() -> None:
    messages: list[Message] = [
        Plain(b"abc", magic=0),
        Plain(b"", attributes=0xF8),
        Compressed((Plain(b"x"),), codec=2),
    ]
    data = message_set(messages)
    entries = index_messages(data)
    assert entries.pos.tolist() == [0, 12, 22]
    assert entries.next_pos.tolist() == [12, 22, len(data)]
    assert entries.payload_pos.tolist() == [9, 22, 32]
    assert entries.payload_size.tolist() == [3, 0, len(data) - 32]
    assert entries.magic.tolist() == [0, 1, 1]
    assert entries.attributes.tolist() == [0, 0xF8, 2]
    assert entries.codec.tolist() == [0, 0, 2]
    assert entries.crc.tolist() == [0x352441C2, 0, int.from_bytes(data[28:32], "big")]
    assert (entries.size, entries.stop) == (len(data), Stop.END)


@for_each(
    ("rest", "stop"),
    [
        (b"", Stop.END),
        (b"\0", Stop.CUT),
        (message(b"value")[:-1], Stop.CUT),
        (message(b"value")[:4], Stop.CUT),
        (struct.pack(">i", 2**31 - 1) + bytes(9), Stop.CUT),
        (struct.pack(">i", -1) + bytes(9), Stop.BAD_LENGTH),
        (struct.pack(">i", 4) + bytes(9), Stop.BAD_LENGTH),
        (struct.pack(">ib", 5, 1) + bytes(9), Stop.BAD_LENGTH),
        (message(b"value", magic=2), Stop.BAD_MAGIC),
        (message(b"value", magic=255), Stop.BAD_MAGIC),
    ],
)
@for_each("count", [0, 1, 3000])
def test_a_walk_tells_where_and_why_it_stopped(rest: bytes, stop: Stop, count: int) -> None:
    before = message(b"v") * count
    entries = index_messages(before + rest)
    assert (entries.count, entries.size, entries.stop) == (count, len(before), stop)


@given(st.binary(max_size=300))
def test_a_walk_over_any_bytes_stays_inside_them(data: bytes) -> None:
    entries = index_messages(data)
    assert 0 <= entries.size <= len(data)
    assert (entries.next_pos <= entries.size).all()
    assert (entries.payload_size >= 0).all()


def test_the_size_of_a_message_is_known_from_its_length() -> None:
    data = message(b"value")
    assert [message_size(data[:size]) for size in range(4)] == [None] * 4
    assert [message_size(data[:size]) for size in range(4, len(data) + 1)] == [15] * 12


@pytest.mark.parametrize(
    "start",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 4),
        struct.pack(">ib", 5, 1),
        struct.pack(">ib", 100, 2),
    ],
)
def test_bytes_that_cannot_begin_a_message_are_refused(start: bytes) -> None:
    with pytest.raises(CorruptDataError, match="no message begins here"):
        message_size(start)
