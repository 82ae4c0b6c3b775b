"""Contents of batches of magic 2, and errors of malformed ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from spark_kafkawire.errors import CorruptDataError, LimitError
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.log_index import BATCH_OVERHEAD, index_batches
from spark_kafkawire.records.record_log import COLUMNS, decode_batches
from tests.records.batches import (
    APPEND_TIME,
    CONTROL,
    TRANSACTIONAL,
    Aborted,
    batch,
    marker,
    record,
    repaired,
    varint,
)
from tests.records.judges import column_records
from tests.support.cases import for_each
from tests.support.codecs import BY_NAME, FORMS

pytestmark = pytest.mark.usefixtures("kernels")
SMALL = DecodeLimits(decompressed_bytes_max=1000, batch_bytes_max=300)


def values(
    data: bytes, start_offset: int = 0, stop_offset: int = 2**63 - 1, **more: Any
) -> list[bytes | None]:
    columns = decode_batches(index_batches(data), start_offset, stop_offset, **more)
    return [record.value for item in columns for record in column_records(item)]


def offsets(data: bytes, start_offset: int = 0, stop_offset: int = 2**63 - 1, **more: Any) -> list[int]:
    columns = decode_batches(index_batches(data), start_offset, stop_offset, **more)
    return [offset for item in columns for offset in item.offset.tolist()]


def test_gaps_and_lost_ends_of_compaction_are_stepped_over() -> None:
    data = batch([record(1, b"b"), record(4, b"e")], 10, last_delta=9)
    data += batch([], 20, last_delta=4) + batch([record(0, b"z")], 30)
    assert [index_batches(data[:size]).next_offset for size in (10, 80, 150, len(data))] == [None, 20, 25, 31]
    assert offsets(data) == [11, 14, 30]


@for_each(("start", "stop", "expected"), [(0, 9, []), (11, 12, [11]), (12, 30, [14]), (31, 99, [])])
def test_a_range_may_begin_and_end_inside_a_batch(start: int, stop: int, expected: list[int]) -> None:
    data = batch([record(1, b"b"), record(4, b"e")], 10, last_delta=9) + batch([record(0, b"z")], 30)
    assert offsets(data, start, stop) == expected


def test_batches_outside_of_the_range_are_not_looked_at() -> None:
    damaged = bytearray(batch([record(0, b"x")], 5))
    damaged[-1] ^= 1
    data = bytes(damaged) + batch([record(0, b"y")], 6) + bytes(damaged[:7]) + b"\x09" + bytes(damaged[8:])
    assert values(data, 6, 9) == [b"y"]
    with pytest.raises(CorruptDataError, match=r"batch at offset 5 is damaged: its CRC-32C is wrong; .* 6$"):
        values(data)


def test_every_cut_gives_the_whole_batches_before_it() -> None:
    batches = [batch([record(0, bytes(size)), record(1, None)], 2 * i) for i, size in enumerate((0, 5, 99))]
    data, ends = b"".join(batches), [sum(map(len, batches[:i])) for i in range(4)]
    for size in range(len(data) + 1):
        index = index_batches(data[:size])
        whole = sum(end <= size for end in ends) - 1
        assert (index.size, index.count) == (ends[whole], whole)
        assert offsets(data[:size]) == list(range(2 * whole))
        assert index.cut_size == (len(batches[whole]) if size - ends[whole] >= 12 else None)


@pytest.mark.parametrize(("base", "delta"), [(1, 2**63 - 2), (-1, 1 - 2**63)])
def test_timestamps_reach_both_ends_of_int64(base: int, delta: int) -> None:
    data = batch([record(0, b"", timestamp_delta=delta)], timestamps=(base, 0))
    [columns] = decode_batches(index_batches(data), 0, 1)
    assert columns.timestamps_ms is not None
    assert columns.timestamps_ms.tolist() == [base + delta]


def test_the_batch_that_reaches_the_limit_is_the_last_of_its_part() -> None:
    first = batch([record(0, bytes(400))])
    index, size = index_batches(first + batch([record(0, b"")], 1)), len(first) - BATCH_OVERHEAD
    for batch_bytes_max, parts in ((size, 2), (size + 1, 1)):
        limits = replace(SMALL, batch_bytes_max=batch_bytes_max)
        assert len(list(decode_batches(index, 0, 2, limits=limits))) == parts


def test_timestamps_are_those_of_the_producer_or_of_the_log() -> None:
    records = [record(0, b"a", timestamp_delta=-3), record(1, b"b", timestamp_delta=2**40)]
    data = batch(records) + batch(records, 2, attributes=APPEND_TIME)
    (columns,) = decode_batches(index_batches(data))
    assert columns.timestamps_ms is not None
    assert columns.timestamp_types is not None
    assert columns.timestamps_ms.tolist() == [997, 1000 + 2**40, 2000, 2000]
    assert columns.timestamp_types.tolist() == [0, 0, 1, 1]
    (columns,) = decode_batches(index_batches(data), 1, 3)
    assert columns.timestamp_types is not None
    assert columns.timestamp_types.tolist() == [0, 1]


@for_each(
    ("name", "attribute"),
    [
        ("value", "values"),
        ("key", "keys"),
        ("headers", "headers"),
        ("timestamp", "timestamps_ms"),
        ("timestampType", "timestamp_types"),
    ],
)
def test_columns_that_are_not_wanted_are_not_built(name: str, attribute: str) -> None:
    index = index_batches(batch([record(0, b"v", b"k", ((b"h", b"x"),))]))
    (alone,), (others,) = (
        decode_batches(index, wanted=(name,)),
        decode_batches(index, wanted=COLUMNS - {name}),
    )
    attributes = ("values", "keys", "headers", "timestamps_ms", "timestamp_types")
    assert [item for item in attributes if getattr(alone, item) is not None] == [attribute]
    assert [item for item in attributes if getattr(others, item) is None] == [attribute]


def test_headers_keep_their_order_duplicates_and_nulls() -> None:
    headers = ((b"a", b"1"), ("größe".encode(), None), (b"a", b""), (b"", b"2"))
    data = batch([record(0, b"x"), record(1, b"y", headers=headers), record(2, b"z", headers=headers[:1])])
    (columns,) = decode_batches(index_batches(data))
    assert columns.headers is not None
    columns.headers.validate(full=True)
    assert columns.headers.null_count == 1
    assert [item.headers for item in column_records(columns)] == [
        (),
        (("a", b"1"), ("größe", None), ("a", b""), ("", b"2")),
        (("a", b"1"),),
    ]


def test_a_header_key_that_is_not_utf_8_is_damage_of_its_batch() -> None:
    good = batch([record(0, b"x", headers=(("ä".encode(), b""),))])
    # Two halves of a character in two keys are UTF-8 only together.
    for keys in ((b"\xff",), (b"\xc3", b"\xa4")):
        bad = batch([record(0, b"x", headers=tuple((key, None) for key in keys))], 1)
        with pytest.raises(
            CorruptDataError, match="batch at offset 1 is damaged: the key of a header is not UTF-8"
        ):
            values(good + bad)
        assert values(good + bad, wanted=("value",)) == [b"x", b"x"]


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_control_batches_are_left_out(compression: str) -> None:
    data = batch([record(0, b"x")], compression=compression) + marker(1, 5, 1)
    assert index_batches(data).next_offset == 2
    assert values(data) == [b"x"]


def transactions() -> bytes:
    """Producers 1 and 2 and one without transactions; 1 aborts, then commits."""
    plan: list[tuple[int | None, bytes | int]] = [
        (1, b"a1"),
        (2, b"b1"),
        (None, b"c1"),
        (1, b"a2"),
        (1, 0),
        (1, b"a3"),
        (2, 1),
        (1, 1),
        (2, b"b2"),
    ]
    parts = []
    for offset, (producer_id, what) in enumerate(plan):
        if isinstance(what, int):
            assert producer_id is not None
            parts.append(marker(offset, producer_id, what))
        else:
            transactional = producer_id is not None
            parts.append(
                batch(
                    [record(0, what)],
                    offset,
                    attributes=TRANSACTIONAL if transactional else 0,
                    producer=(producer_id or -1, 0, 0),
                )
            )
    return b"".join(parts)


def test_records_of_aborted_transactions_are_left_out_up_to_the_marker() -> None:
    data = transactions()
    assert values(data) == [b"a1", b"b1", b"c1", b"a2", b"a3", b"b2"]
    assert values(data, aborted=[Aborted(1, 0)]) == [b"b1", b"c1", b"a3", b"b2"]
    assert values(data, aborted=[Aborted(2, 8), Aborted(1, 0)]) == [b"b1", b"c1", b"a3"]
    # A response that begins inside the transaction.
    assert values(data[len(batch([record(0, b"a1")])) :], 1, aborted=[Aborted(1, 0)]) == [
        b"b1",
        b"c1",
        b"a3",
        b"b2",
    ]


def test_a_marker_without_a_type_is_damage() -> None:
    bad = batch([record(0, b"", b"\0")], 4, attributes=CONTROL | TRANSACTIONAL, producer=(1, 0, -1))
    with pytest.raises(CorruptDataError, match=r"batch at offset 4 .* without a type"):
        values(bad, aborted=[Aborted(1, 0)])


def test_a_marker_that_commits_what_the_response_calls_aborted_is_damage() -> None:
    data = batch([record(0, b"x")], 3, attributes=TRANSACTIONAL, producer=(1, 0, 0)) + marker(4, 1, 1)
    assert values(data, 0) == [b"x"]
    with pytest.raises(
        CorruptDataError,
        match=r"^batch at offset 4 .*: it commits the transaction of producer 1, which the response",
    ):
        values(data, 0, aborted=[Aborted(1, 3)])
    # Another one of the same producer is another matter.
    data += batch([record(0, b"y")], 5, attributes=TRANSACTIONAL, producer=(1, 0, 1)) + marker(6, 1, 0)
    assert values(data, 0, aborted=[Aborted(1, 5)]) == [b"x"]


def test_a_marker_whose_record_was_compacted_away_ends_nothing() -> None:
    ended = batch([], 0, attributes=CONTROL | TRANSACTIONAL, producer=(1, 0, -1), last_delta=0)
    aborted = batch([record(0, b"x")], 1, attributes=TRANSACTIONAL, producer=(1, 0, 0))
    assert values(ended + aborted, aborted=[Aborted(1, 0)]) == []


@pytest.mark.parametrize("bit", [CONTROL, TRANSACTIONAL], ids=["control", "transactional"])
def test_a_wrong_bit_does_not_hide_a_batch(bit: int) -> None:
    damaged = bytearray(batch([record(0, b"x")], 5, producer=(1, 0, 0)))
    damaged[22] ^= bit
    with pytest.raises(CorruptDataError, match="batch at offset 5 is damaged: its CRC-32C is wrong"):
        values(bytes(damaged), aborted=[Aborted(1, 0)])
    assert values(bytes(damaged), 6) == []


def test_a_producer_without_transactions_is_never_left_out() -> None:
    data = batch([record(0, b"x")], producer=(1, 0, 0))
    assert values(data, aborted=[Aborted(1, 0)]) == [b"x"]


GOOD = record(0, b"value", b"key")
BAD: dict[str, tuple[bytes, str]] = {
    "a magic that does not exist": (batch([GOOD])[:16] + b"\3" + batch([GOOD])[17:], "an unknown magic"),
    "a size below the header": (b"".join((bytes(8), b"\0\0\0\x30", batch([GOOD])[12:])),
     "shorter than its header"),
    "a negative size": (b"".join((bytes(8), b"\xff" * 4, batch([GOOD])[12:])), "shorter than its header"),
    "an offset below 0": (b"\x80" + batch([GOOD])[1:], "offsets that are below 0 or leave int64"),
    "offsets that leave int64": (batch([GOOD], 2**63 - 1), "offsets that are below 0 or leave int64"),
    "a last offset before the first": (batch([GOOD], last_delta=-1), "offsets that are below 0"),
    "a codec that does not exist": (batch([GOOD], attributes=7), "its compression codec 7 is unknown"),
    "a count above what the bytes can hold": (batch([GOOD], count=99), r"claims 99 records in 15 bytes"),
    "a negative count": (batch([GOOD], count=-1, last_delta=0), "claims -1 records"),
    "a count above the records": (batch([GOOD], count=2), "the sizes of a record do not add up"),
    "a count below the records": (batch([GOOD, GOOD], count=1), "the sizes of a record do not add up"),
    "no record where bytes are": (batch([GOOD], count=0, last_delta=0),
     "the sizes of a record do not add up"),
    "a record of no bytes": (batch([b"\0", GOOD]), "the sizes of a record do not add up"),
    "a record of a negative size": (batch([b"\1" + GOOD]), "the sizes of a record do not add up"),
    "a record longer than the batch": (batch([varint(99) + GOOD]), "the sizes of a record do not add up"),
    "a record and its key that leave the buffer": (batch([varint(1000) + b"\0\0\0" + varint(500) + b"key"]),
     "the sizes of a record do not add up"),
    "a varint without an end": (batch([b"\xff" * 20]), "the sizes of a record do not add up"),
    "a varint of 33 bits": (batch([b"\xff\xff\xff\xff\x1f" + GOOD]), "the sizes of a record do not add up"),
    "a timestamp of 65 bits": (batch([varint(15) + b"\0" + b"\x80" * 9 + b"\x03" + b"\0\1\1\0"]),
     "the sizes of a record do not add up"),
    "a key size of -2": (batch([varint(6) + b"\0\0\0\3\1\0", GOOD]), "the sizes of a record do not add up"),
    "a value size of -2": (batch([varint(6) + b"\0\0\0\1\3\0", GOOD]), "the sizes of a record do not add up"),
    "a key longer than the record": (batch([varint(8) + b"\0\0\0\x7e\0\0\0\0"]), "the sizes of a record"),
    "a header count below 0": (batch([varint(6) + b"\0\0\0\1\1\1"]), "the sizes of a record do not add up"),
    "more headers than bytes": (batch([varint(8) + b"\0\0\0\1\1\4\0\0"]),
     "the sizes of a record do not add up"),
    "bytes after the headers": (batch([varint(9) + b"\0\0\0\1\1\2\0\1\0"]),
     "the sizes of a record's headers do not add up"),
    "bytes after a record without headers": (batch([varint(8) + b"\0\0\0\1\1\0\0\0"]),
     "the sizes of a record do not add up"),
    "a header without a key": (batch([record(0, b"", headers=((None, b""),))]), "headers do not add up"),
    "a header value longer than the record": (batch([varint(8) + b"\0\0\0\1\1\2\0\x08"]),
     "the sizes of a record's headers do not add up"),
    "an offset after the last": (batch([record(1, b"")]), "the offset of a record is not one of the batch"),
    "an offset before the first": (batch([record(-1, b"")]),
     "the offset of a record is not one of the batch"),
    "a timestamp that leaves int64": (batch([record(0, b"", timestamp_delta=2**63 - 1)]),
     "the timestamp of a record leaves int64"),
    "a timestamp that leaves int64 downwards": (batch([record(0, b"", timestamp_delta=-(2**63))],
     timestamps=(-2, 0)), "the timestamp of a record leaves int64"),
}  # fmt: skip


@for_each("name", BAD)
def test_what_cannot_be_is_damage_and_tells_where(name: str) -> None:
    data, reason = BAD[name]
    good = batch([GOOD, record(1, None)], 0)
    if data[:8] == bytes(8):
        data = (2).to_bytes(8, "big") + data[8:]
    with pytest.raises(CorruptDataError, match=reason) as caught:
        values(good + repaired(data))
    assert "\n" not in str(caught.value)
    assert caught.value.offset == int.from_bytes(data[:8], "big", signed=True)


def test_offsets_rise_from_record_to_record_over_gaps_perhaps() -> None:
    assert offsets(batch([record(2, b"a"), record(5, b"b")], 10, last_delta=5)) == [12, 15]
    for deltas in [(0, 0), (2, 1), (0, 1, 1), (1, 0, 2)]:
        data = batch([record(delta, b"x") for delta in deltas], 10, last_delta=5)
        with pytest.raises(CorruptDataError, match=r"batch at offset 10 .* not above the one before it"):
            offsets(data)


@for_each("compression", FORMS)
def test_damaged_compression_is_damage_of_its_batch(compression: str) -> None:
    records = [record(i, b"value") for i in range(20)]
    good = batch(records, compression=compression)
    assert len(values(good)) == 20
    name = compression.split()[0]
    for payload in (b"x", good[61:-9], bytes(len(good) - 61)):
        bad = batch(records, 3, compression=compression, payload=payload)
        with pytest.raises(
            CorruptDataError, match=f"batch at offset 3 is damaged: its {name} .*; to read on"
        ):
            values(bad)


@for_each("compression", BY_NAME)
def test_a_batch_without_records_needs_no_compressed_data(compression: str) -> None:
    assert values(batch([], compression=compression, last_delta=3, payload=b"")) == []
    with pytest.raises(CorruptDataError, match="claims 1 record in 0 bytes"):
        values(batch([], compression=compression, last_delta=3, count=1, payload=b""))


@for_each("compression", FORMS)
def test_a_batch_that_becomes_too_large_is_refused_with_both_numbers(compression: str) -> None:
    fits, above = (batch([record(0, bytes(size))], 7, compression=compression) for size in (980, 1000))
    assert values(fits, limits=SMALL) == [bytes(980)]
    with pytest.raises(
        LimitError, match=r"batch at offset 7: .*10\d\d bytes.*raise maxDecompressedBytes, which is 1000"
    ):
        values(above, limits=SMALL)


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_a_batch_of_too_many_records_is_refused(compression: str) -> None:
    data = batch([record(i, None) for i in range(16)], 7, compression=compression)
    with pytest.raises(
        LimitError, match=r"batch at offset 7: it holds 16 records.*raise maxDecompressedBytes, which is 1000"
    ):
        values(data, limits=SMALL)


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_columns_come_in_parts_of_the_limit(compression: str) -> None:
    data = b"".join(batch([record(0, bytes(40))], i, compression=compression) for i in range(30))
    counts = [item.count for item in decode_batches(index_batches(data), limits=SMALL)]
    assert sum(counts) == 30
    assert 2 <= max(counts) <= 5
    assert offsets(data, limits=SMALL) == list(range(30))
