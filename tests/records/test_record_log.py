"""Records of modern logs: what kafka-python writes is read, and what we write it reads."""

from __future__ import annotations

import dataclasses
import datetime
import io

import kio.records.schema
import kio.records.writers
import pytest
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from spark_kafkawire.records.batch_encoding import encode_batches
from spark_kafkawire.records.record_log import decode_batches, index_batches
from tests.records.judges import Batch, MessageSet, Record, arrow_records, column_records, judged

RECORDS = (
    Record(b"a", b"k", timestamp_ms=5, offset=0),
    Record(None, None, (("h", b"1"), ("größe", None), ("h", b"")), timestamp_ms=123, offset=1),
    Record(b"x" * 200, b"", timestamp_ms=7, offset=2),
    Record(b"", b"kk", timestamp_ms=2**60, offset=3),
)
#: lz4 of magic 0 is missing: kafka-python needs another package for it.
OLD_FORMATS = [
    *((0, name) for name in ("none", "gzip", "snappy")),
    *((1, name) for name in ("none", "gzip", "snappy", "lz4")),
]
COMPRESSIONS = ["none", "gzip", "snappy", "lz4", "zstd"]


def decoded(data: bytes, start_offset: int = 0, stop_offset: int = 2**63 - 1) -> list[Record]:
    columns = decode_batches(index_batches(data), start_offset, stop_offset)
    return [record for each in columns for record in column_records(each)]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_batches_of_kafka_python_are_read(compression: str) -> None:
    data = Batch(RECORDS, 0, compression).encoded()
    assert index_batches(data).next_offset == 4
    assert decoded(data) == list(RECORDS)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_our_batches_are_read_by_kafka_python(compression: str) -> None:
    batches = encode_batches(
        arrow_records(RECORDS),
        compression=compression,
        batch_bytes_max=10**6,
        request_bytes_max=10**6,
        now_ms=0,
    )
    (batch,) = batches
    assert batch.count == 4
    assert judged(batch.with_producer()) == list(RECORDS)


@pytest.mark.usefixtures("kernels")
def test_only_records_of_the_range_come() -> None:
    data = Batch(RECORDS, 10).encoded() + Batch(RECORDS, 20).encoded()
    offsets = [record.offset for record in decoded(data, 12, 21)]
    assert offsets == [12, 13, 20]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("magic", "compression"), OLD_FORMATS)
def test_message_sets_of_kafka_python_are_read(compression: str, magic: int) -> None:
    data = MessageSet(RECORDS, magic, 10, compression).encoded() * 2
    index = index_batches(data)
    assert index.next_offset == 14
    expected = [
        Record(
            each.value,
            each.key,
            timestamp_ms=each.timestamp_ms if magic else -1,
            offset=10 + each.offset,
        )
        for each in RECORDS
    ]
    assert decoded(data) == judged(data) == expected * 2


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("magic", "compression"), OLD_FORMATS)
def test_our_message_sets_are_read_by_kafka_python(compression: str, magic: int) -> None:
    records = [dataclasses.replace(each, headers=()) for each in RECORDS]
    (batch,) = encode_batches(
        arrow_records(records),
        magic=magic,
        compression=compression,
        batch_bytes_max=10**6,
        request_bytes_max=10**6,
        now_ms=0,
    )
    data = batch.with_producer()
    expected = [
        dataclasses.replace(each, timestamp_ms=each.timestamp_ms if magic else -1) for each in records
    ]
    assert judged(data) == decoded(bytes(data)) == expected
    if compression == "none":
        assert bytes(data) == MessageSet(tuple(records), magic).encoded()


def test_batches_of_kio_are_read() -> None:
    when = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    records = tuple(
        kio.records.schema.Record(
            attributes=i8(0),
            timestamp=TZAwareMicros.parse(when + datetime.timedelta(milliseconds=7 * i)),
            offset=i64(100 + i),
            key=key,
            value=value,
            headers=headers,
        )
        for i, (key, value, headers) in enumerate(
            [
                (b"k", b"v" * 100, (kio.records.schema.RecordHeader(key=b"h", value=None),)),
                (None, None, ()),
            ]
        )
    )
    new = kio.records.schema.NewRecordBatch(
        producer_id=i64(5),
        producer_epoch=i16(1),
        base_sequence=i32(9),
        records=records,
        attributes=i16(0),
    )
    buffer = io.BytesIO()
    kio.records.writers.write_batch(buffer, new)
    first_ms = int(when.timestamp() * 1000)
    assert decoded(buffer.getvalue()) == [
        Record(b"v" * 100, b"k", (("h", None),), first_ms, 100),
        Record(None, None, (), first_ms + 7, 101),
    ]
