"""Columns as record batches of any subset of the schema."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.records.arrow import BatchBuilder
from spark_kafkawire.records.message_set import decode
from tests.records.trees import Compressed, Plain, message_set

SCHEMA = pa.schema(
    {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        "broker": pa.int32(),
        "index": pa.int32(),
        "nextOffset": pa.int64(),
    }
)
LOG = TopicPartition("größe", 2, broker=7)
DATA = message_set([Plain(b"a"), Compressed((Plain(b"b"), Plain(b"")), codec=2)])


def batch(schema: pa.Schema, data: bytes = DATA, log: TopicPartition = LOG) -> pa.RecordBatch:
    built = BatchBuilder(log, schema).build(decode(data, 100, values="value" in schema.names).columns)
    built.validate(full=True)
    return built


def test_a_batch_has_all_columns_of_the_schema() -> None:
    built = batch(SCHEMA)
    assert built.schema == SCHEMA
    assert built.to_pylist() == [
        {
            "key": None,
            "value": value,
            "topic": "größe",
            "partition": 2,
            "offset": offset,
            "timestamp": None,
            "timestampType": -1,
            "broker": 7,
            "index": index,
            "nextOffset": next_offset,
        }
        for value, offset, index, next_offset in [
            (b"a", 100, 0, 111),
            (b"b", 111, 0, 100 + len(DATA)),
            (b"", 111, 1, 100 + len(DATA)),
        ]
    ]


@pytest.mark.parametrize("names", [["offset", "value"], ["topic"], ["nextOffset", "key", "index"]])
def test_a_batch_has_only_the_columns_that_were_asked_for_in_their_order(names: list[str]) -> None:
    schema = pa.schema([SCHEMA.field(name) for name in names])
    built = batch(schema)
    assert built.schema == schema
    assert built.num_rows == 3
    assert built.equals(batch(SCHEMA).select(names))


def test_batches_of_growing_and_shrinking_counts_are_as_if_built_alone() -> None:
    batches = BatchBuilder(LOG, SCHEMA)
    for count in (2, 5, 0, 3, 9, 1):
        data = message_set([Plain(b"%d" % number) for number in range(count)])
        built = batches.build(decode(data, 100).columns)
        built.validate(full=True)
        assert built.equals(batch(SCHEMA, data))


def test_columns_that_are_the_same_in_all_rows_share_their_memory() -> None:
    batches = BatchBuilder(LOG, SCHEMA)
    first, second = (batches.build(decode(DATA, offset).columns) for offset in (100, 200))
    for name in ("topic", "partition", "timestampType", "broker"):
        assert first[name].buffers()[1].address == second[name].buffers()[1].address
    assert first["offset"].buffers()[1].address != second["offset"].buffers()[1].address


def test_a_batch_without_columns_still_has_its_rows() -> None:
    assert batch(pa.schema([])).num_rows == 3


def test_a_batch_may_be_empty() -> None:
    assert batch(SCHEMA, b"").num_rows == 0


def test_a_log_without_a_broker_has_none() -> None:
    built = batch(pa.schema([SCHEMA.field("broker")]), log=TopicPartition("t", 0))
    assert built["broker"].to_pylist() == [None] * 3


@pytest.mark.parametrize(
    ("field", "match"),
    [
        (pa.field("size", pa.int32()), "column size is unknown; known are key, topic, partition"),
        (pa.field("offset", pa.int32()), "column offset has the type int64, not int32"),
    ],
)
def test_other_columns_and_types_are_refused(field: pa.Field, match: str) -> None:
    with pytest.raises(OptionError, match=match):
        batch(pa.schema([field]))
