"""Batches that Apache Kafka's own classes made. Provenance: tests/golden/kafka-clients-3.9.1/README.md."""

from __future__ import annotations

import pytest

from spark_kafkawire.errors import CorruptDataError
from spark_kafkawire.records.log_index import index_batches
from spark_kafkawire.records.record_log import decode_batches, encode_batches
from tests.records.judges import Record, arrow_records, column_records
from tests.support.cases import for_each

from .golden_batches import BATCHES

NOW_MS = 1_700_000_000_000
APPEND_TIME_MS = 1_700_000_009_999
NO_TIMESTAMP_TYPE, CREATE_TIME, APPEND_TIME = -1, 0, 1


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
    if magic == "0":
        return [Record(each.value, each.key, (), -1, each.offset) for each in records]
    if "append" in rest:
        return [Record(each.value, each.key, each.headers, APPEND_TIME_MS, each.offset) for each in records]
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

    class Aborted:
        producer_id, first_offset = 21, 5

    assert [each.offset.tolist() for each in decode_batches(index_batches(data))] == [[5]]
    assert list(decode_batches(index_batches(data), aborted=[Aborted()])) == []
    after = bytearray(bytes.fromhex(BATCHES["transactional"]))
    after[:8] = (9).to_bytes(8, "big")
    data = bytes.fromhex(BATCHES["abort"]) + after
    assert [each.offset.tolist() for each in decode_batches(index_batches(data), aborted=[Aborted()])] == [
        [9]
    ]
    data = bytes.fromhex(BATCHES["commit"]) + after
    with pytest.raises(
        CorruptDataError, match="it commits the transaction of producer 21, which the response"
    ):
        list(decode_batches(index_batches(data), aborted=[Aborted()]))


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_uncompressed_batches_are_byte_for_byte_those_of_kafka(magic: int) -> None:
    name = f"magic-{magic}-none"
    (batch,) = encode_batches(
        arrow_records(
            [Record(each.value, each.key, each.headers, max(each.timestamp_ms, 0)) for each in expected(name)]
        ),
        magic=magic,
        batch_bytes_max=10**6,
        request_bytes_max=10**6,
        now_ms=0,
    )
    ours, theirs = bytearray(batch.with_producer()), bytearray.fromhex(BATCHES[name])
    for data in (ours, theirs):
        # Offsets, and the leader's epoch of magic 2, are the broker's to write.
        positions = index_batches(bytes(data)).column(0).tolist()
        for pos in positions:
            data[pos : pos + 8] = bytes(8)
            if magic == 2:
                data[pos + 12 : pos + 16] = bytes(4)
    assert ours == theirs


def test_the_lz4_header_of_magic_0_is_that_of_kafka() -> None:
    (batch,) = encode_batches(
        arrow_records([Record(b"x" * 100)]),
        magic=0,
        compression="lz4",
        batch_bytes_max=10**6,
        request_bytes_max=10**6,
        now_ms=0,
    )
    header = bytes.fromhex("04224d1860401a")
    assert header in bytes(batch.data)
    assert header in bytes.fromhex(BATCHES["magic-0-lz4"])
