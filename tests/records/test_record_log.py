"""Records of modern logs: what kafka-python writes is read, and what we write it reads."""

from __future__ import annotations

import dataclasses
import datetime
import gzip
import io

import pytest

from spark_kafkawire.errors import CorruptDataError
from spark_kafkawire.records.log_index import index_batches
from spark_kafkawire.records.record_log import decode_batches, encode_batches
from tests.records.batches import batch, message, record
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
from tests.support.kio_library import HAS_KIO, NEEDS_KIO

if HAS_KIO:
    import kio.records.schema
    import kio.records.writers
    from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

RECORDS = (
    Record(b"a", b"k", timestamp_ms=5, offset=0),
    Record(None, None, (("h", b"1"), ("größe", None), ("h", b"")), timestamp_ms=123, offset=1),
    Record(b"x" * 200, b"", timestamp_ms=7, offset=2),
    Record(b"", b"kk", timestamp_ms=2**60, offset=3),
)
OLD_FORMATS = [(magic, name) for magic in (0, 1) for name in judged_by_kafka_python(magic)]


def decoded(data: bytes, start_offset: int = 0, stop_offset: int = 2**63 - 1) -> list[Record]:
    columns = decode_batches(index_batches(data), start_offset, stop_offset)
    return [record for each in columns for record in column_records(each)]


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
@for_each("compression", JUDGED)
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
@for_each(("magic", "compression"), OLD_FORMATS)
def test_message_sets_of_kafka_python_are_read(compression: str, magic: int) -> None:
    data = b"".join(MessageSet(RECORDS, magic, first, compression).encoded() for first in (10, 14))
    index = index_batches(data)
    assert index.next_offset == 18
    expected = [
        Record(
            each.value,
            each.key,
            timestamp_ms=each.timestamp_ms if magic else -1,
            offset=first + each.offset,
        )
        for first in (10, 14)
        for each in RECORDS
    ]
    assert decoded(data) == judged(data) == expected


@pytest.mark.usefixtures("kernels")
@for_each(("magic", "compression"), OLD_FORMATS)
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


@NEEDS_KIO
def test_batches_of_kio_are_read() -> None:
    when = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
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
    return {name: log + each for name, each in {**again, **more}.items()}


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_what_repeats_offsets_is_damage_in_every_format(magic: int) -> None:
    for name, data in overlapping(magic).items():
        with pytest.raises(CorruptDataError, match=r"batch at offset \d+ is damaged: .* offset") as caught:
            decoded(data)
        assert caught.value.offset in (0, 3, 4, 11), name


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("magic", [0, 1])
def test_offsets_inside_a_compressed_message_rise_up_to_its_own(magic: int) -> None:
    for inner in [(5, 5, 6), (6, 5, 7), (5, 7, 6)]:
        content = b"".join(message(offset, b"x", magic=magic) for offset in inner)
        with pytest.raises(CorruptDataError, match="batch at offset 6 is damaged: the offset of a message"):
            decoded(message(6, gzip.compress(content), magic=magic, attributes=1))


def test_absolute_offsets_inside_a_compressed_message_end_with_its_own() -> None:
    content = b"".join(message(offset, b"x", magic=0) for offset in range(3))
    with pytest.raises(CorruptDataError, match=r"batch at offset 102 .* not one of those it holds"):
        decoded(message(102, gzip.compress(content), magic=0, attributes=1), 100)


@pytest.mark.usefixtures("kernels")
@for_each("offset", [5, 2**63 - 3, 2**63 - 2, 2**63 - 1])
def test_no_message_after_the_last_offset_of_all_goes_unchecked(offset: int) -> None:
    damaged = bytearray(message(offset, b"value"))
    damaged[-1] ^= 1
    with pytest.raises(CorruptDataError, match=rf"batch at offset {offset} is damaged"):
        decoded(message(2**63 - 2, b"last of all") + bytes(damaged))
