"""Records of modern logs: what others write is read, what we write they read, and public functions."""

from __future__ import annotations

import datetime
import gzip
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from spark_kafkawire import decode_record_batches, encode_record_batches
from spark_kafkawire.errors import CorruptDataError, OptionError
from spark_kafkawire.records.columns import HEADERS
from spark_kafkawire.records.log_index import index_batches
from spark_kafkawire.records.record_log import decode_batches, encode_batches
from tests.records.batch.golden_batches import BATCHES
from tests.records.batches import Aborted, batch, marker, message, record
from tests.records.judges import (
    JUDGED,
    Batch,
    MessageSet,
    Record,
    arrow_records,
    column_records,
    judged,
)
from tests.support.cases import for_each
from tests.support.codecs import CODEC_NUMBERS, judged_by_kafka_python

RECORDS = (
    Record(b"a", b"k", timestamp_ms=5, offset=0),
    Record(None, None, (("h", b"1"), ("größe", None), ("h", b"")), timestamp_ms=123, offset=1),
    Record(b"x" * 200, b"", timestamp_ms=7, offset=2),
    Record(b"", b"kk", timestamp_ms=2**60, offset=3),
)
OLD_FORMATS = [(magic, name) for magic in (0, 1) for name in judged_by_kafka_python(magic)]


def decoded(data: bytes, start_offset: int = 0, stop_offset: int = 2**63 - 1) -> list[Record]:
    columns = decode_batches(index_batches(data), start_offset, stop_offset)
    return [record for item in columns for record in column_records(item)]


def test_the_table_names_the_codecs_of_kafka_python() -> None:
    from kafka.record.default_records import DefaultRecordBatch

    known = [name for name in CODEC_NUMBERS if hasattr(DefaultRecordBatch, f"CODEC_{name.upper()}")]
    assert list(JUDGED) == known


@pytest.mark.usefixtures("kernels")
@for_each("compression", JUDGED)
def test_batches_of_kafka_python_are_read(compression: str) -> None:
    data = Batch(RECORDS, 0, compression).encoded()
    assert index_batches(data).next_offset == 4
    assert decoded(data) == list(RECORDS)


@pytest.mark.usefixtures("kernels")
def test_only_records_of_the_range_come() -> None:
    data = Batch(RECORDS, 10).encoded() + Batch(RECORDS, 20).encoded()
    offsets = [record.offset for record in decoded(data, 12, 21)]
    assert offsets == [12, 13, 20]


@pytest.mark.usefixtures("kernels")
@for_each(("magic", "compression"), OLD_FORMATS)
def test_message_sets_of_kafka_python_are_read(compression: str, magic: int) -> None:
    data = b"".join(MessageSet(RECORDS, magic, first, compression).encoded() for first in (10, 14))
    index = index_batches(data)
    assert index.next_offset == 18
    expected = [
        Record(
            item.value, item.key, timestamp_ms=item.timestamp_ms if magic else -1, offset=first + item.offset
        )
        for first in (10, 14)
        for item in RECORDS
    ]
    assert decoded(data) == judged(data) == expected


def overlapping(magic: int) -> dict[str, bytes]:
    """Logs that give offsets a second time, each in its own way."""
    first, more = (
        [batch([record(i, b"x") for i in range(5)])],
        {"overlaps": batch([record(i, b"x") for i in range(9)], 3)},
    )
    if magic < 2:
        first = [message(i, b"x", magic=magic) for i in range(5)]
        # The outermost offset is that of the last message: only what is inside overlaps.
        inner = [message(3 + i, b"x", magic=magic) for i in range(9)]
        more = {"overlaps inside": message(11, gzip.compress(b"".join(inner)), magic=magic, attributes=1)}
    log = b"".join(first)
    again = {
        "repeats": first[-1],
        "goes back": first[0],
        "is of the other format": batch([record(0, b"x")], 4) if magic < 2 else message(4, b"x"),
    }
    return {name: log + item for name, item in {**again, **more}.items()}


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_what_repeats_offsets_is_damage_in_every_format(magic: int) -> None:
    for name, data in overlapping(magic).items():
        with pytest.raises(CorruptDataError, match=r"batch at offset \d+ is damaged: .* offset") as caught:
            decoded(data)
        assert caught.value.offset in (0, 3, 4, 11), name


@pytest.mark.usefixtures("kernels")
@for_each("offset", [5, 2**63 - 3, 2**63 - 2, 2**63 - 1])
def test_no_message_after_the_last_offset_of_all_goes_unchecked(offset: int) -> None:
    damaged = bytearray(message(offset, b"value"))
    damaged[-1] ^= 1
    with pytest.raises(CorruptDataError, match=rf"batch at offset {offset} is damaged"):
        decoded(message(2**63 - 2, b"last of all") + bytes(damaged))


@pytest.mark.parametrize("compression", JUDGED)
def test_columns_become_batches_and_the_same_columns(compression: str) -> None:
    values, keys = pa.array([b"a", None, b""]), pa.array([None, "größe", ""])
    headers = pa.array([None, [("h", b"1"), ("h", None)], None], HEADERS)
    timestamps = pa.array([None, 1_700_000_000_123, 0], pa.int64())
    data = encode_record_batches(values, keys, headers, timestamps, compression=compression, base_offset=100)
    table = decode_record_batches(data)
    table.validate(full=True)
    assert table.schema.types == [
        pa.int64(),
        pa.timestamp("us", tz="UTC"),
        pa.int32(),
        pa.binary(),
        pa.binary(),
        HEADERS,
    ]
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    assert table.to_pydict() == {
        "offset": [100, 101, 102],
        "timestamp": [None, epoch + datetime.timedelta(milliseconds=1_700_000_000_123), epoch],
        "timestampType": [0, 0, 0],
        "key": [None, "größe".encode(), b""],
        "value": [b"a", None, b""],
        "headers": [None, [{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None],
    }
    assert [item.offset for item in judged(data)] == [100, 101, 102]


def test_a_log_may_hold_all_formats_and_end_anywhere() -> None:
    data = message(0, b"a", magic=0) + message(1, b"b") + batch([record(0, b"c")], 2) + marker(3, 1, 1)
    table = decode_record_batches(data + b"cut")
    assert table["value"].to_pylist() == [b"a", b"b", b"c"]
    assert table["timestampType"].to_pylist() == [-1, 0, 0]
    assert decode_record_batches(b"").num_rows == 0
    assert encode_record_batches(pa.array([], pa.binary())) == b""
    with pytest.raises(CorruptDataError, match="offset 5"):
        decode_record_batches(batch([record(0, b"x")], 5)[:-1] + b"!")
    values = pa.array([bytes(600_000), bytes(600_000), bytes(3_000_000), b"x"])
    data = encode_record_batches(values, base_offset=7)
    assert len(data) > 4_200_000
    assert decode_record_batches(data)["offset"].to_pylist() == [7, 8, 9, 10]
    assert decode_record_batches(data, 8, 10)["value"].to_pylist() == [bytes(600_000), bytes(3_000_000)]


@pytest.mark.parametrize("base_offset", [-1, 2**63 - 1])
def test_a_base_offset_outside_of_any_log_is_refused(base_offset: int) -> None:
    with pytest.raises(OptionError, match=f"base_offset {base_offset}"):
        encode_record_batches(pa.array([b"x"]), base_offset=base_offset)


NOW_MS = 1_700_000_000_000
APPEND_TIME_MS = 1_700_000_009_999
CREATE_TIME, APPEND_TIME = 0, 1


def expected(name: str) -> list[Record]:
    """Records that the program put into the batch of that name."""
    _, magic, *rest = name.split("-")
    headers = (("h", None), ("h", b"\x01"), ("größe", b"")) if magic == "2" else ()
    long = "größe ".encode() * 30
    if "large" in rest:
        return [Record("größe ".encode() * 20_000, None, (), -1 if magic == "0" else NOW_MS, 100)]
    records = [
        Record(b"v", b"k", (), NOW_MS, 100),
        Record(long, None, headers, NOW_MS, 101),
        Record(None, b"", (), NOW_MS - 5000, 102),
        Record(b"", b"last", (), NOW_MS + 86_400_000, 103),
    ]
    if "compacted" in rest:
        records = records[::2]
    if magic == "0" or "append" in rest:
        return [replace(item, timestamp_ms=-1 if magic == "0" else APPEND_TIME_MS) for item in records]
    return records


NAMES = [name for name in BATCHES if name.startswith("magic-")]


@pytest.mark.usefixtures("kernels")
@for_each("name", NAMES)
def test_batches_of_kafka_are_read(name: str) -> None:
    index = index_batches(bytes.fromhex(BATCHES[name]))
    (columns,) = decode_batches(index)
    assert column_records(columns) == expected(name)
    assert index.cut_size is None
    types = [] if columns.timestamp_types is None else columns.timestamp_types.tolist()
    wanted = APPEND_TIME if "append" in name else CREATE_TIME
    assert set(types) == (set() if "magic-0" in name else {wanted})


def test_the_next_offset_counts_records_that_compaction_took() -> None:
    for name, next_offset in (("magic-2-none", 104), ("magic-2-none-compacted", 104), ("emptied", 104)):
        assert index_batches(bytes.fromhex(BATCHES[name])).next_offset == next_offset
    assert list(decode_batches(index_batches(bytes.fromhex(BATCHES["emptied"])))) == []


def test_markers_end_transactions_and_are_no_records() -> None:
    data = bytes.fromhex(BATCHES["transactional"] + BATCHES["abort"])
    assert index_batches(data).next_offset == 8
    aborted = [Aborted(21, 5)]
    assert [item.offset.tolist() for item in decode_batches(index_batches(data))] == [[5]]
    assert list(decode_batches(index_batches(data), aborted=aborted)) == []
    after = bytearray(bytes.fromhex(BATCHES["transactional"]))
    after[:8] = (9).to_bytes(8, "big")
    data = bytes.fromhex(BATCHES["abort"]) + after
    assert [item.offset.tolist() for item in decode_batches(index_batches(data), aborted=aborted)] == [[9]]
    data = bytes.fromhex(BATCHES["commit"]) + after
    with pytest.raises(
        CorruptDataError, match="it commits the transaction of producer 21, which the response"
    ):
        list(decode_batches(index_batches(data), aborted=aborted))


def encoded(records: list[Record], **options: Any) -> bytes:
    options |= {"batch_bytes_max": 10**6, "request_bytes_max": 10**6, "now_ms": 0}
    (batch,) = encode_batches(arrow_records(records), **options)
    return bytes(batch.with_producer())


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_uncompressed_batches_are_byte_for_byte_those_of_kafka(magic: int) -> None:
    name = f"magic-{magic}-none"
    records = [replace(item, timestamp_ms=max(item.timestamp_ms, 0)) for item in expected(name)]
    ours, theirs = bytearray(encoded(records, magic=magic)), bytearray.fromhex(BATCHES[name])
    for data in (ours, theirs):
        # Offsets, and the leader's epoch of magic 2, are the broker's to write.
        positions = index_batches(bytes(data)).column(0).tolist()
        for pos in positions:
            data[pos : pos + 8] = bytes(8)
            if magic == 2:
                data[pos + 12 : pos + 16] = bytes(4)
    assert ours == theirs


def test_the_lz4_header_of_magic_0_is_that_of_kafka() -> None:
    header = bytes.fromhex("04224d1860401a")
    assert header in encoded([Record(b"x" * 100)], magic=0, compression="lz4")
    assert header in bytes.fromhex(BATCHES["magic-0-lz4"])
