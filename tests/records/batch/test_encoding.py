"""Rows to batches: bytes, splitting, what is refused, and round trips."""

from __future__ import annotations

import dataclasses
import random
import struct
from typing import Any

import crc32c
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError, RowError
from spark_kafkawire.records.columns import HEADERS
from spark_kafkawire.records.encoded_batch import EncodedBatch
from spark_kafkawire.records.log_index import index_batches
from spark_kafkawire.records.record_log import decode_batches, encode_batches
from spark_kafkawire.records.rows import Records
from tests.records.judges import (
    JUDGED,
    Batch,
    MessageSet,
    Record,
    arrow_records,
    column_records,
    judged,
)
from tests.support.codecs import CODEC_NUMBERS, CODECS, judged_by_kafka_python, of_magic

LIMITS: dict[str, Any] = {"batch_bytes_max": 10**6, "request_bytes_max": 10**6, "now_ms": 77}
COMPRESSIONS = list(CODEC_NUMBERS)
#: Values around the sizes where their varints, and those of their records, get longer.
NULLABLE = st.none() | st.binary(max_size=8) | st.sampled_from([63, 64, 8191, 8192]).map(bytes)
RECORDS = st.lists(
    st.builds(
        Record,
        NULLABLE,
        NULLABLE,
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple),
        st.integers(0, 2**63 - 1),
    ),
    max_size=20,
)


def encoded(records: list[Record], **options: Any) -> list[EncodedBatch]:
    return list(encode_batches(arrow_records(records), **{**LIMITS, **options}))


def decoded(data: Any) -> list[Record]:
    columns = decode_batches(index_batches(data))
    return [record for item in columns for record in column_records(item)]


def numbered(records: list[Record]) -> list[Record]:
    return [dataclasses.replace(item, offset=i) for i, item in enumerate(records)]


@pytest.mark.usefixtures("kernels")
@given(RECORDS, st.sampled_from(COMPRESSIONS))
def test_what_is_encoded_decodes_to_the_same_records(records: list[Record], compression: str) -> None:
    batches = encoded(records, compression=compression)
    assert sum(item.count for item in batches) == len(records)
    for batch in batches:
        data = bytes(batch.with_producer())
        part, records = records[: batch.count], records[batch.count :]
        assert decoded(data) == numbered(part)
        assert compression not in JUDGED or judged(data) == numbered(part)


@pytest.mark.usefixtures("kernels")
@given(RECORDS, st.sampled_from(of_magic(1)), st.sampled_from([0, 1]))
def test_old_messages_decode_to_the_same_records(records: list[Record], compression: str, magic: int) -> None:
    records = [dataclasses.replace(item, headers=()) for item in records]
    for batch in encoded(records, compression=compression, magic=magic):
        data = bytes(batch.with_producer())
        part, records = records[: batch.count], records[batch.count :]
        expected = [
            dataclasses.replace(item, timestamp_ms=item.timestamp_ms if magic else -1) for item in part
        ]
        assert decoded(data) == numbered(expected)
        assert compression not in judged_by_kafka_python(magic) or judged(data) == numbered(expected)


@pytest.mark.usefixtures("kernels")
@given(RECORDS.filter(bool))
def test_uncompressed_batches_are_byte_for_byte_those_of_kafka_python(records: list[Record]) -> None:
    (batch,) = encoded(records)
    expected = bytearray(Batch(tuple(numbered(records))).encoded())
    # The broker fills in the leader's epoch; kafka-python writes 0, Java's producer -1.
    expected[12:16] = b"\xff" * 4
    assert bytes(batch.with_producer()) == expected


@given(RECORDS.filter(bool), st.sampled_from([0, 1]))
def test_uncompressed_messages_are_those_of_kafka_python(records: list[Record], magic: int) -> None:
    records = [dataclasses.replace(item, headers=()) for item in records]
    (batch,) = encoded(records, magic=magic)
    assert bytes(batch.with_producer()) == MessageSet(tuple(numbered(records)), magic).encoded()


def test_a_producer_is_stamped_when_the_batch_is_sent_and_again() -> None:
    (batch,) = encoded([Record(b"x")])
    for producer in ((1, 2, 3), (2**62, 2**15 - 1, 2**31 - 1), (-1, -1, -1)):
        data = bytes(batch.with_producer(*producer))
        assert struct.unpack_from(">qhi", data, 43) == producer
        assert struct.unpack_from(">I", data, 17)[0] == crc32c.crc32c(data[21:])
        assert judged(data) == [Record(b"x")]


@pytest.mark.parametrize(("magic", "sizes"), [(2, (61, 7 + 100)), (1, (0, 34 + 100)), (0, (0, 26 + 100))])
def test_batches_are_as_full_as_they_may_be(magic: int, sizes: tuple[int, int]) -> None:
    head, size = sizes[0], sizes[1] + (magic == 2) * 2  # two sizes take two bytes each

    def counts(batch_bytes_max: int) -> list[int]:
        batches = encoded([Record(bytes(100))] * 10, magic=magic, batch_bytes_max=batch_bytes_max)
        return [item.count for item in batches]

    assert counts(head + 3 * size) == [3, 3, 3, 1]
    assert counts(head + 3 * size - 1) == [2] * 5
    assert counts(1) == [1] * 10


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_splitting_counts_bytes_before_compression_and_keeps_the_order(compression: str) -> None:
    chance = random.Random(1)
    records = [Record(chance.randbytes(chance.randrange(300)), timestamp_ms=i) for i in range(600)]
    batches = encoded(records, compression=compression, batch_bytes_max=1000)
    for batch in batches:
        result = decoded(bytes(batch.with_producer()))
        plain = encoded(result)[0]
        assert batch.count == len(result)
        assert len(plain.data) <= 1000
        assert [item.value for item in result] == [item.value for item in records[: batch.count]]
        records = records[batch.count :]
    assert records == []


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_record_that_no_request_can_carry_is_named(magic: int, compression: str) -> None:
    records = [Record(b"small"), Record(bytes(900)), Record(bytes(1000)), Record(bytes(2000))]
    message = r"row 2: a batch of this record alone has 10\d\d bytes, more than max.request.size 1000"
    with pytest.raises(RowError, match=message):
        encoded(records, magic=magic, compression=compression, request_bytes_max=1000)


@pytest.mark.parametrize(
    "value_type", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()], ids=str
)
def test_any_string_or_binary_type_is_written_also_a_slice_of_it(value_type: pa.DataType) -> None:
    array = pa.array(["before", "größe", None, "", "after"], value_type)[1:4]
    for magic in (0, 1, 2):
        (batch,) = encode_batches(Records(array, array), magic=magic, **LIMITS)
        result = judged(batch.with_producer())
        assert [(item.key, item.value) for item in result] == [
            (item, item) for item in ("größe".encode(), None, b"")
        ]


def test_headers_of_any_similar_type_are_written_also_a_slice_of_them() -> None:
    headers = [None, [], [("a", b"1"), ("a", None)], [("b", b"")], [("c", b"3")]]
    similar = pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())]))
    for header_type in (HEADERS, similar):
        array = pa.array(headers, header_type)
        (batch,) = encode_batches(Records(pa.nulls(3, pa.binary()), headers=array[1:4]), **LIMITS)
        assert [item.headers for item in judged(batch.with_producer())] == [
            (),
            (("a", b"1"), ("a", None)),
            (("b", b""),),
        ]


def test_a_row_without_a_timestamp_has_the_time_of_encoding() -> None:
    values = pa.array([b"a", b"b"])
    for timestamps, expected in ((None, [77, 77]), (pa.array([None, 5], pa.int64()), [77, 5])):
        (batch,) = encode_batches(Records(values, timestamps_ms=timestamps), **LIMITS)
        assert [item.timestamp_ms for item in judged(batch.with_producer())] == expected


def test_the_latest_timestamp_is_in_the_header_of_a_batch_and_of_what_is_compressed() -> None:
    records = [Record(b"x", timestamp_ms=item) for item in (5, 9, 7)]
    (batch,) = encoded(records)
    assert struct.unpack_from(">qq", batch.data, 27) == (5, 9)
    (batch,) = encoded(records, magic=1, compression="gzip")
    assert struct.unpack_from(">q", batch.data, 18) == (9,)


@given(
    RECORDS, st.lists(st.integers(0, 20), max_size=3), st.integers(1, 300), st.sampled_from(["none", "lz4"])
)
def test_parts_become_the_batches_of_all_their_rows(
    records: list[Record], cuts: list[int], batch_bytes_max: int, compression: str
) -> None:
    stops = [*sorted(min(cut, len(records)) for cut in cuts), len(records)]
    parts = [records[start:stop] for start, stop in zip([0, *stops], stops, strict=False)]
    options: Any = {**LIMITS, "batch_bytes_max": batch_bytes_max, "compression": compression}
    for magic in (1, 2):
        if magic == 1 and any(record.headers for record in records):
            continue
        batches = encode_batches(*map(arrow_records, parts), magic=magic, **options)
        whole = encoded(records, magic=magic, batch_bytes_max=batch_bytes_max, compression=compression)
        assert [(bytes(item.data), item.count) for item in batches] == [
            (bytes(item.data), item.count) for item in whole
        ]


def test_no_rows_are_no_batches() -> None:
    for magic in (0, 1, 2):
        assert encoded([], magic=magic) == []


@pytest.mark.parametrize("magic", [1, 2])
def test_a_timestamp_before_1970_is_refused_with_its_row(magic: int) -> None:
    records = Records(pa.array([b"a"] * 3), timestamps_ms=pa.array([1, None, -5]))
    with pytest.raises(RowError, match="row 2: timestamp -5 ms is before 1970"):
        list(encode_batches(records, magic=magic, **LIMITS))


def test_a_header_without_a_key_is_refused_with_its_row() -> None:
    for bad in ([None], [("a", b""), (None, b"x")]):
        records = Records(pa.nulls(3, pa.binary()), headers=pa.array([None, [("a", None)], bad], HEADERS))
        with pytest.raises(RowError, match="row 2: a header has no key"):
            list(encode_batches(records, **LIMITS))


@pytest.mark.parametrize("magic", [0, 1])
def test_headers_are_refused_where_the_broker_has_none(magic: int) -> None:
    records = [Record(b"x"), Record(b"y", headers=(("h", b""),))]
    with pytest.raises(RowError, match=r"row 1: headers need Kafka 0\.11"):
        encoded(records, magic=magic)


@pytest.mark.parametrize(
    ("records", "match"),
    [
        (Records(pa.array([1])), "value is int64 and must be a string or binary: cast it"),
        (Records(pa.array([b"x"]), pa.array([1.5])), "key is double and must be a string or binary: cast it"),
        (
            Records(pa.array([b"x"]), headers=pa.array([{"a": 1}])),
            "headers have the type list<.*, not struct",
        ),
        (
            Records(pa.array([b"x"]), headers=pa.array([[1]])),
            "headers have the type list<.*, not list<item: int64>",
        ),
    ],
)
def test_other_types_are_refused_by_name(records: Records, match: str) -> None:
    for magic in (0, 1, 2):
        with pytest.raises(OptionError, match=match):
            list(encode_batches(records, magic=magic, **LIMITS))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"compression": "brotli"}, "compression 'brotli' is unknown; choose one of none, gzip, snappy, "),
        ({"compression": "zstd", "magic": 1}, "compression zstd needs Kafka 2.1"),
        ({"compression": "gzip", "level": 10}, "gzip has the compression levels 1 to 9, not 10"),
        ({"compression": "snappy", "level": 1}, "snappy has no compression levels"),
    ],
)
def test_other_compressions_and_levels_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(OptionError, match=match):
        encoded([Record(b"x")], **options)


def test_levels_make_batches_smaller() -> None:
    text = " ".join(random.Random(0).choices(["offset", "epoch", "leader"], k=25_000)).encode()
    for codec in CODECS:
        if codec.levels is None:
            continue
        low, high = (
            encoded([Record(text)], compression=codec.name, level=level)[0] for level in codec.levels
        )
        assert len(high.data) < len(low.data)
        if codec.name in JUDGED:
            assert judged(high.with_producer()) == judged(low.with_producer()) == [Record(text)]
