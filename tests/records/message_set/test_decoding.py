"""Message sets of 0.7: their index, rows and offsets, what a call leaves over, limits, public functions."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire import decode_message_set, encode_message_set
from spark_kafkawire.errors import CorruptDataError, LimitError, OptionError
from spark_kafkawire.records import public
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.message_set.decoding import decode
from spark_kafkawire.records.message_set.index import Stop, index_messages, message_size
from tests.records.message_set.trees import (
    COMPRESSORS,
    MESSAGES,
    Compressed,
    Message,
    Plain,
    batch_rows,
    column_rows,
    message,
    message_set,
    rows,
)
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
    [struct.pack(">i", -1), struct.pack(">i", 4), struct.pack(">ib", 5, 1), struct.pack(">ib", 100, 2)],
)
def test_bytes_that_cannot_begin_a_message_are_refused(start: bytes) -> None:
    with pytest.raises(CorruptDataError, match=r"no message of Kafka 0\.7 begins here"):
        message_size(start)


THREE = (Plain(b"a"), Plain(b"", magic=0), Plain(b"ccc"))


@given(MESSAGES, st.integers(0, 2**62))
def test_any_message_set_decodes_to_its_rows(messages: list[Message], base_offset: int) -> None:
    data = message_set(messages)
    decoded = decode(data, base_offset)
    assert column_rows(decoded.columns) == rows(messages, base_offset)
    assert decoded.size == len(data)
    assert decoded.cut


@given(MESSAGES, st.data())
def test_a_cut_set_decodes_to_its_whole_messages(messages: list[Message], data: st.DataObject) -> None:
    whole = message_set(messages)
    cut = data.draw(st.integers(0, len(whole)))
    decoded = decode(whole[:cut], 0)
    assert column_rows(decoded.columns) == [row for row in rows(messages) if row[2] <= cut]
    assert decoded.cut


@given(MESSAGES, st.integers(1, 2000))
def test_a_small_limit_ends_calls_between_messages(messages: list[Message], batch_bytes_max: int) -> None:
    data = message_set(messages)
    limits = DecodeLimits(batch_bytes_max=batch_bytes_max)
    result, pos, cut = [], 0, False
    while not cut:
        decoded = decode(data[pos:], pos, limits)
        assert decoded.size or decoded.cut
        result += column_rows(decoded.columns)
        pos, cut = pos + decoded.size, decoded.cut
    assert pos == len(data)
    assert result == rows(messages)


def test_the_batch_limit_counts_what_nested_messages_hold() -> None:
    inner = Compressed(tuple(Plain(bytes(1000)) for _ in range(10)), codec=1)
    outer = Compressed((Plain(b"first"), inner), codec=1)
    decoded = decode(message_set([outer] * 20), 0, DecodeLimits(batch_bytes_max=25_000))
    assert decoded.columns.count == 33
    assert decoded.size == 3 * len(outer.encoded())


def test_the_batch_limit_counts_a_message_as_128_bytes_at_least() -> None:
    limits = DecodeLimits(decompressed_bytes_max=12800, batch_bytes_max=12800)
    wrapper = Compressed((Plain(b""),) * 90, codec=2)
    decoded = decode(message_set([wrapper] * 5), 0, limits)
    assert column_rows(decoded.columns) == rows([wrapper] * 2)
    assert not decoded.cut
    plain = decode(message_set([Plain(b"")] * 500), 0, limits)
    assert (plain.columns.count, plain.size, plain.cut) == (200, 2000, False)
    with pytest.raises(
        LimitError,
        match="offset 0: it holds more than 200 messages, and each counts as 128 bytes; "
        "raise maxDecompressedBytes, which is 12800",
    ):
        decode(Compressed((Plain(b""),) * 201, codec=2).encoded(), 0, limits)


def test_without_values_checksums_are_checked_all_the_same() -> None:
    decoded = decode(message_set(THREE), 0, values=False)
    assert decoded.columns.values is None
    assert decoded.columns.count == 3
    with pytest.raises(CorruptDataError):
        decode(message(b"x", crc=1), 0, values=False)


@pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
def test_every_kind_of_buffer_decodes(buffer_type: type[bytes] | type[bytearray] | type[memoryview]) -> None:
    data = message_set(THREE)
    assert column_rows(decode(buffer_type(data), 0).columns) == rows(THREE)


def test_columns_do_not_depend_on_the_buffer_they_were_decoded_from() -> None:
    buf = bytearray(message_set(THREE))
    columns = decode(buf, 0).columns
    buf[:] = bytes(len(buf))
    assert column_rows(columns) == rows(THREE)


@pytest.mark.parametrize(
    "damaged",
    [
        message(b"x", crc=1),
        message(b"x", magic=0, crc=1),
        message(b"x", magic=2),
        message(b"x", attributes=3),
        struct.pack(">i", -1) + bytes(20),
        struct.pack(">i", 0) + bytes(20),
        struct.pack(">i", 4) + bytes(20),
        struct.pack(">ib", 5, 1) + bytes(20),
        message(message(b"x", crc=1), attributes=2),
        message(COMPRESSORS[1][0](message(b"x")), attributes=1, crc=1),
        message(COMPRESSORS[2][0](message(b"x", crc=1)), attributes=2),
    ],
)
@pytest.mark.usefixtures("compiled")
def test_report_damage_with_the_offset_of_the_outermost_message(damaged: bytes) -> None:
    before = message_set(THREE)
    with pytest.raises(CorruptDataError, match=f"{1000 + len(before)}") as error:
        decode(before + damaged + message_set(THREE), 1000)
    assert error.value.offset == 1000 + len(before)


def test_report_damage_inside_and_outside() -> None:
    with pytest.raises(CorruptDataError, match="cut"):
        decode(Compressed((), codec=1, cut=message(b"value")[:-1]).encoded(), 0)
    with pytest.raises(CorruptDataError, match="offset 50"):
        decode_message_set(message(b"value", crc=0), 50)


def test_too_large_a_content_is_refused_with_both_numbers() -> None:
    limits = DecodeLimits(decompressed_bytes_max=1000)
    for codec in (1, 2):
        with pytest.raises(
            LimitError, match=r"message at offset 7.*10\d\d bytes.*raise maxDecompressedBytes, which is 1000"
        ):
            decode(Compressed((Plain(bytes(1000)),), codec).encoded(), 7, limits)
        assert decode(Compressed((Plain(bytes(990)),), codec).encoded(), 7, limits).columns.count == 1
    inner = Compressed((Plain(bytes(500)),), codec=2)
    limits = DecodeLimits(decompressed_bytes_max=1500)
    assert decode(message_set([Compressed((inner,), 1)] * 9), 0, limits).columns.count == 9
    with pytest.raises(LimitError, match="maxDecompressedBytes"):
        decode(message_set([Compressed((inner, inner, inner), 1)]), 0, limits)


@pytest.mark.usefixtures("kernels")
@for_each("codec", [0, 1, 2])
@for_each("before", [0, 3, 2000])
def test_wrong_checksums_whose_errors_cancel_out_are_damage_of_the_first_one(codec: int, before: int) -> None:
    """One CRC-32 over both payloads is right: the same bit is wrong twice, and the second one is empty."""
    right = message(b"right") * before
    wrong = b"".join(message(value, crc=zlib.crc32(value) ^ 1 << 9) for value in (b"P", b""))
    data, offset = right + wrong, len(right)
    if codec:
        data, offset = message(COMPRESSORS[codec][0](data), attributes=codec), 0
    with pytest.raises(CorruptDataError, match=f"^message at offset {offset} is damaged: the CRC-32 of its"):
        decode(data, 0)


def test_nesting_and_limits_are_bounded() -> None:
    nested: Message = Plain(b"x")
    for _ in range(8):
        nested = Compressed((nested,), codec=1)
    assert decode(nested.encoded(), 0).columns.count == 1
    with pytest.raises(LimitError, match=r"offset 3 .*8 levels"):
        decode(Compressed((nested,), codec=1).encoded(), 3)
    with pytest.raises(OptionError, match="maxDecompressedBytes"):
        DecodeLimits(decompressed_bytes_max=2**31)
    with pytest.raises(OptionError, match="maxDecompressedBytes"):
        DecodeLimits(decompressed_bytes_max=0)


def test_a_set_becomes_a_batch_without_its_cut_tail() -> None:
    batch = decode_message_set(message_set([Plain(b"a"), Plain(b"bb", magic=0)]), base_offset=1000)
    assert batch.schema == pa.schema(
        {"offset": pa.int64(), "index": pa.int32(), "nextOffset": pa.int64(), "value": pa.binary()}
    )
    assert batch_rows(batch) == [(1000, 0, 1011, b"a"), (1011, 0, 1022, b"bb")]
    data = message(b"first") + message(b"second")
    assert decode_message_set(data[:-1])["value"].to_pylist() == [b"first"]
    assert decode_message_set(data[:10]).num_rows == 0
    assert decode_message_set(b"").num_rows == 0


@pytest.mark.parametrize(
    "values",
    [
        ["größe", b"\xff\x00", ""],
        ("größe", b"\xff\x00", b""),
        pa.array(["größe".encode(), b"\xff\x00", b""]),
        pa.chunked_array([[b"gr\xc3\xb6\xc3\x9fe"], [b"\xff\x00", b""]]),
        (value for value in ["größe", b"\xff\x00", ""]),
    ],
)
def test_any_values_of_bytes_or_text_are_encoded(values: Any) -> None:
    data = encode_message_set(values)
    assert data == message("größe".encode()) + message(b"\xff\x00") + message(b"")


@pytest.mark.parametrize("values", [[1], [b"x", 2.5], ["\ud800"], 7, [["x"]]])
def test_other_values_are_refused_without_showing_them(values: Any) -> None:
    with pytest.raises(OptionError, match="bytes"):
        encode_message_set(values)


@pytest.mark.parametrize("base_offset", [-1, 2**63, 2**63 - 5])
def test_a_base_offset_outside_of_any_log_is_refused(base_offset: int) -> None:
    with pytest.raises(OptionError, match=f"base_offset {base_offset}"):
        decode_message_set(message(b"value"), base_offset)


def test_more_than_a_batch_holds_is_refused_with_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(public, "_LIMITS", DecodeLimits(batch_bytes_max=100))
    with pytest.raises(LimitError, match=r"more than 100 bytes: .* from offset 90 on"):
        decode_message_set(message(bytes(35)) * 4)
