"""Contents of messages of magic 0 and 1, and errors of malformed ones."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from spark_kafkawire.errors import CorruptDataError, LimitError
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.log_index import index_batches
from spark_kafkawire.records.record_log import COLUMNS, decode_batches
from tests.records.batches import APPEND_TIME, batch, message, record, repaired
from tests.records.judges import column_records, judged
from tests.support.cases import for_each
from tests.support.codecs import CODEC_NUMBERS, compressed, judged_by_kafka_python

pytestmark = pytest.mark.usefixtures("kernels")
COMPRESSIONS = [*judged_by_kafka_python(1)[1:], "snappy block"]
SMALL = DecodeLimits(decompressed_bytes_max=1000, batch_bytes_max=300)


def wrapper(
    inner: list[bytes], offset: int, compression: str = "gzip", *, magic: int = 1, **more: Any
) -> bytes:
    """A message that holds messages, compressed."""
    attributes = CODEC_NUMBERS[compression.split()[0]] | more.pop("attributes", 0)
    value = compressed(compression, b"".join(inner))
    return message(offset, value, magic=magic, attributes=attributes, **more)


def decoded(data: bytes, start_offset: int = 0, stop_offset: int = 2**63 - 1, **more: Any) -> list[Columns]:
    return list(decode_batches(index_batches(data), start_offset, stop_offset, **more))


def rows(
    data: bytes, start_offset: int = 0, stop_offset: int = 2**63 - 1, **more: Any
) -> list[tuple[int, Any]]:
    """Offset and value of all records."""
    columns = decoded(data, start_offset, stop_offset, **more)
    return [(item.offset, item.value) for part in columns for item in column_records(part)]


@for_each("compression", COMPRESSIONS)
def test_inner_offsets_of_magic_1_count_back_from_that_of_the_outer_message(compression: str) -> None:
    inner = [message(0, b"a"), message(1, b"b"), message(4, b"e")]
    expected = [(20, b"a"), (21, b"b"), (24, b"e")]
    data = wrapper(inner, 24, compression)
    assert index_batches(data).next_offset == 25
    assert rows(data) == [(item.offset, item.value) for item in judged(data)] == expected
    # Compaction may take the first ones, and absolute offsets come to the same.
    assert rows(wrapper(inner[1:], 24, compression)) == expected[1:]
    assert rows(wrapper([message(21, b"b"), message(24, b"e")], 24, compression)) == expected[1:]


@for_each("compression", COMPRESSIONS)
def test_inner_offsets_of_magic_0_are_those_of_the_log(compression: str) -> None:
    inner = [message(offset, b"%d" % offset, magic=0) for offset in (20, 21, 24)]
    assert rows(wrapper(inner, 24, compression, magic=0)) == [(20, b"20"), (21, b"21"), (24, b"24")]


def test_timestamps_are_those_of_the_producer_or_of_the_log() -> None:
    inner = [message(0, b"a", timestamp_ms=5), message(1, b"b", timestamp_ms=6)]
    data = (
        wrapper(inner, 1, timestamp_ms=9)
        + wrapper(inner, 3, attributes=APPEND_TIME, timestamp_ms=9)
        + message(4, b"c", timestamp_ms=7, attributes=APPEND_TIME)
        + message(5, b"d", magic=0)
        + message(6, b"e", timestamp_ms=-1)
    )
    (columns,) = decoded(data)
    assert columns.timestamps_ms is not None
    assert columns.timestamp_types is not None
    assert columns.timestamps_ms.tolist() == [5, 6, 9, 9, 7, -1, -1]
    assert columns.timestamp_types.tolist() == [0, 0, 1, 1, 1, -1, 0]
    (columns,) = decoded(message(5, b"d", magic=0))
    assert columns.timestamps_ms is None
    assert columns.timestamp_types is None


def test_all_magics_may_alternate_and_come_in_order() -> None:
    data = (
        message(0, b"0", magic=0)
        + wrapper([message(1, b"1", magic=0), message(2, b"2", magic=0)], 2, magic=0)
        + message(3, b"3")
        + wrapper([message(0, b"4"), message(1, b"5")], 5, "lz4")
        + batch([record(0, b"6"), record(1, b"7")], 6)
        + message(8, b"8")
        + batch([record(0, b"9")], 9, compression="zstd")
    )
    assert rows(data) == [(i, b"%d" % i) for i in range(10)]
    assert rows(data, 2, 9) == [(i, b"%d" % i) for i in range(2, 9)]
    index = index_batches(data + message(10, b"cut")[:-1])
    assert (index.size, index.next_offset, index.cut_size) == (len(data), 10, len(message(10, b"cut")))


def test_a_range_may_begin_and_end_inside_a_compressed_message() -> None:
    data = wrapper([message(i, b"%d" % i) for i in range(4)], 13) + wrapper(
        [message(i, b"x") for i in range(4)], 17
    )
    assert rows(data, 12, 15) == [(12, b"2"), (13, b"3"), (14, b"x"), (15, b"x")][:3]
    assert rows(data, 0, 10) == rows(data, 18) == []
    damaged = bytearray(data)
    damaged[-1] ^= 1
    assert rows(bytes(damaged), 11, 14) == [(11, b"1"), (12, b"2"), (13, b"3")]


def test_null_and_empty_keys_and_values_are_distinguished() -> None:
    pairs = [(None, None), (b"", b""), (b"k", None), (None, b"v")]
    inner = [message(i, value, key) for i, (key, value) in enumerate(pairs)]
    for data in (b"".join(inner), wrapper(inner, 3)):
        (columns,) = decoded(data)
        assert [(item.key, item.value) for item in column_records(columns)] == pairs
    (columns,) = decoded(b"".join(inner), 2, 3, wanted=COLUMNS - {"value"})
    assert columns.values is None
    (columns,) = decoded(b"".join(inner), 3)
    assert columns.keys is None


def test_columns_come_in_parts_of_the_limit() -> None:
    data = b"".join(
        message(i, bytes(40)) if i % 3 else wrapper([message(0, bytes(40))], i) for i in range(30)
    )
    counts = [item.count for item in decoded(data, limits=SMALL)]
    assert sum(counts) == 30
    assert 2 <= max(counts) <= 5
    assert [offset for offset, _ in rows(data, limits=SMALL)] == list(range(30))
    large = message(0, b"a") + wrapper([message(0, bytes(500))], 1)
    assert [item.count for item in decoded(large, limits=SMALL)] == [1, 1]


def test_every_cut_gives_the_whole_messages_before_it() -> None:
    parts = [message(0, b"a"), wrapper([message(0, b"b"), message(1, b"c")], 2), message(3, None, magic=0)]
    data, ends, last = b"".join(parts), [0], [-1, 0, 2, 3]
    for part in parts:
        ends.append(ends[-1] + len(part))
    for size in range(len(data) + 1):
        whole = sum(end <= size for end in ends) - 1
        assert index_batches(data[:size]).size == ends[whole]
        assert [offset for offset, _ in rows(data[:size])] == list(range(last[whole] + 1))


GOOD = message(5, b"value", b"key")
BAD: dict[str, tuple[bytes, str]] = {
    "a size below the header": (GOOD[:8] + struct.pack(">i", 21) + GOOD[12:], "a size that is shorter"),
    "a wrong CRC": (GOOD[:-1] + b"!", "the CRC-32 of a message in it is wrong"),
    "a wrong CRC of what is compressed": (wrapper([GOOD], 5)[:-1] + b"!", "its CRC-32 is wrong"),
    "a wrong CRC inside": (wrapper([GOOD[:-1] + b"!"], 5), "the CRC-32 of a message in it is wrong"),
    "a key size of -2": (repaired(GOOD[:26] + b"\xff\xff\xff\xfe" + GOOD[30:]),
     "sizes of a message in it do not add up"),
    "a key longer than the message": (repaired(GOOD[:29] + b"\x63" + GOOD[30:]),
     "sizes of a message in it do not add up"),
    "a value size of -2": (repaired(message(5, None, b"key")[:-4] + b"\xff\xff\xff\xfe"),
     "sizes of a message in it do not add up"),
    "a value longer than the message": (repaired(GOOD[:36] + b"\x06" + GOOD[37:]),
     "sizes of a message in it do not add up"),
    "a value shorter than the message": (repaired(GOOD[:36] + b"\x04" + GOOD[37:]),
     "sizes of a message in it do not"),
    "a codec that does not exist": (message(5, b"x", attributes=5), "its compression codec 5 is unknown"),
    "zstd": (message(5, compressed("zstd", GOOD), attributes=4), "its compression codec 4 is unknown"),
    "nothing that is compressed": (wrapper([], 5), "it does not hold whole messages"),
    "a cut message inside": (wrapper([GOOD, GOOD[:-1]], 5), "it does not hold whole messages"),
    "a batch inside": (wrapper([batch([record(0, b"x")], 5)], 5), "it holds messages of another magic"),
    "another magic inside": (wrapper([message(5, b"x", magic=0)], 5), "it holds messages of another magic"),
    "compressed messages inside": (wrapper([wrapper([GOOD], 5)], 5), "it holds compressed messages"),
    "offsets before the log": (wrapper([message(0, b""), message(9, b"")], 5),
     "the offset of a message is not one"),
    "offsets after the last": (wrapper([message(9, b""), message(0, b"")], 5),
     "the offset of a message is not above"),
    "absolute offsets after the last": (wrapper([message(6, b"", magic=0)], 5, magic=0),
     "the offset of a message"),
    "an offset below 0 inside": (wrapper([message(-1, b"")], 5), "it does not hold whole messages"),
    "damaged gzip": (message(5, b"\x1f\x8b\x08\0junk", attributes=1), "its gzip data end too early"),
}  # fmt: skip


@for_each("name", BAD)
def test_what_cannot_be_is_damage_and_tells_where(name: str) -> None:
    data, reason = BAD[name]
    with pytest.raises(CorruptDataError, match=f"batch at offset 5 is damaged: .*{reason}") as caught:
        rows(message(4, b"good") + data)
    assert "\n" not in str(caught.value)
    assert str(caught.value).count("is damaged: ") == 1
    assert caught.value.offset == 5


@for_each("compression", COMPRESSIONS)
def test_a_message_that_becomes_too_large_is_refused_with_both_numbers(compression: str) -> None:
    fits, above = (wrapper([message(0, bytes(size))], 7, compression) for size in (960, 1000))
    assert rows(fits, limits=SMALL) == [(7, bytes(960))]
    with pytest.raises(
        LimitError, match=r"batch at offset 7: .*10\d\d bytes.*raise maxDecompressedBytes, which is 1000"
    ):
        rows(above, limits=SMALL)


def test_too_many_messages_in_one_are_refused() -> None:
    with pytest.raises(LimitError, match=r"batch at offset 27: it holds more than 4 messages.* is 1000"):
        rows(wrapper([message(i, None) for i in range(5)], 27), limits=SMALL)


def test_the_header_checksum_of_lz4_does_not_matter_before_magic_1() -> None:
    frame = bytearray(compressed("lz4", message(5, b"x", magic=0)))
    frame[6] ^= 0xFF
    assert rows(message(5, bytes(frame), magic=0, attributes=3)) == [(5, b"x")]
