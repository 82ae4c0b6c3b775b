"""Columns: their memory, rows to write, and record batches of any subset of the schema."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.records.arrays import room
from spark_kafkawire.records.arrow import BatchBuilder
from spark_kafkawire.records.columns import HEADERS, Columns, binary_array
from spark_kafkawire.records.message_set.decoding import decode
from spark_kafkawire.records.message_set.encoding import encode
from spark_kafkawire.records.record_log import encode_batches
from spark_kafkawire.records.rows import Records
from tests.records.message_set.trees import Compressed, Plain, message_set

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
PARTITION = TopicPartition("größe", 2, broker=7)
DATA = message_set([Plain(b"a"), Compressed((Plain(b"b"), Plain(b"")), codec=2)])


def batch(schema: pa.Schema, data: bytes = DATA, partition: TopicPartition = PARTITION) -> pa.RecordBatch:
    built = BatchBuilder(partition, schema).build(decode(data, 100, values="value" in schema.names).columns)
    built.validate(full=True)
    return built


def test_a_batch_has_all_columns_of_the_schema() -> None:
    built = batch(SCHEMA)
    assert built.schema == SCHEMA
    assert built.to_pydict() == {
        "key": [None] * 3,
        "value": [b"a", b"b", b""],
        "topic": ["größe"] * 3,
        "partition": [2] * 3,
        "offset": [100, 111, 111],
        "timestamp": [None] * 3,
        "timestampType": [-1] * 3,
        "broker": [7] * 3,
        "index": [0, 0, 1],
        "nextOffset": [111, 100 + len(DATA), 100 + len(DATA)],
    }


@pytest.mark.parametrize("names", [["offset", "value"], ["topic"], ["nextOffset", "key", "index"]])
def test_a_batch_has_only_the_columns_that_were_asked_for_in_their_order(names: list[str]) -> None:
    schema = pa.schema([SCHEMA.field(name) for name in names])
    built = batch(schema)
    assert built.schema == schema
    assert built.num_rows == 3
    assert built.to_pydict() == {
        name: batch(SCHEMA).column(SCHEMA.get_field_index(name)).to_pylist() for name in names
    }


def test_batches_of_growing_and_shrinking_counts_are_as_if_built_alone() -> None:
    batches = BatchBuilder(PARTITION, SCHEMA)
    for count in (2, 5, 0, 3, 9, 1):
        data = message_set([Plain(b"%d" % number) for number in range(count)])
        built = batches.build(decode(data, 100).columns)
        built.validate(full=True)
        assert built.equals(batch(SCHEMA, data))


def test_columns_that_are_the_same_in_all_rows_share_their_memory() -> None:
    batches = BatchBuilder(PARTITION, SCHEMA)
    first, second = (batches.build(decode(DATA, offset).columns) for offset in (100, 200))
    for name in ("topic", "partition", "timestampType", "broker"):
        assert first[name].buffers()[1].address == second[name].buffers()[1].address
    assert first["offset"].buffers()[1].address != second["offset"].buffers()[1].address


def test_a_batch_of_modern_records_has_their_columns() -> None:
    schema = pa.schema([*(SCHEMA.field(name) for name in SCHEMA.names[:7]), pa.field("headers", HEADERS)])
    columns = Columns(
        np.array([5, 7]),
        values=pa.array([b"v", None]),
        keys=pa.array([None, b"k"]),
        headers=pa.array([None, [("h", None)]], HEADERS),
        timestamps_ms=np.array([1_700_000_000_123, 0]),
        timestamp_types=np.array([0, 1], np.int32),
    )
    built = BatchBuilder(TopicPartition("t", 3), schema).build(columns)
    built.validate(full=True)
    assert built.schema == schema
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    assert built.to_pydict() == {
        "key": [None, b"k"],
        "value": [b"v", None],
        "topic": ["t", "t"],
        "partition": [3, 3],
        "offset": [5, 7],
        "timestamp": [epoch + datetime.timedelta(milliseconds=1_700_000_000_123), epoch],
        "timestampType": [0, 1],
        "headers": [None, [{"key": "h", "value": None}]],
    }


@pytest.mark.parametrize(
    ("timestamps_ms", "expected_us"),
    [
        ([-1, 5], [None, 5000]),
        ([-2, 2**53], [-2000, 2**53 * 1000]),
        ([2**63 - 1, -(2**63)], [(2**63 - 1) // 1000 * 1000, -((2**63 - 1) // 1000) * 1000]),
    ],
)
def test_timestamps_are_null_for_none_and_end_where_microseconds_do(
    timestamps_ms: list[int], expected_us: list[int | None]
) -> None:
    columns = Columns(np.arange(2), timestamps_ms=np.array(timestamps_ms))
    built = BatchBuilder(PARTITION, pa.schema([SCHEMA.field("timestamp")])).build(columns)
    built.validate(full=True)
    assert built["timestamp"].cast(pa.int64()).to_pylist() == expected_us


def test_columns_that_a_log_has_now_and_then_are_null_in_between() -> None:
    batches = BatchBuilder(
        PARTITION, pa.schema([SCHEMA.field(name) for name in ("key", "timestamp", "timestampType")])
    )
    stamped = Columns(
        np.arange(1),
        keys=pa.array([b"k"]),
        timestamps_ms=np.array([1]),
        timestamp_types=np.array([0], np.int32),
    )
    for count in (1, 3, 2):
        plain = batches.build(Columns(np.arange(count)))
        assert plain.to_pylist() == [{"key": None, "timestamp": None, "timestampType": -1}] * count
        (row,) = batches.build(stamped).to_pylist()
        assert (row["key"], row["timestampType"]) == (b"k", 0)


def test_a_batch_may_lack_columns_rows_and_a_broker() -> None:
    assert batch(pa.schema([])).num_rows == 3
    assert batch(SCHEMA, b"").num_rows == 0
    built = batch(pa.schema([SCHEMA.field("broker")]), partition=TopicPartition("t", 0))
    assert built["broker"].to_pylist() == [None] * 3


@pytest.mark.parametrize(
    ("field", "match"),
    [
        (pa.field("size", pa.int32()), "column size is unknown; known are key, topic, partition"),
        (pa.field("offset", pa.int32()), "column offset is int64: ask for it as that and not as int32"),
    ],
)
def test_other_columns_and_types_are_refused(field: pa.Field, match: str) -> None:
    with pytest.raises(OptionError, match=match):
        batch(pa.schema([field]))


SPANNED = np.frombuffer(b"abcdef", np.uint8)


def test_spans_become_values_without_a_copy() -> None:
    array = binary_array(SPANNED, np.array([0, 3, 3, 6], np.int32))
    assert array.to_pylist() == [b"abc", b"", b"def"]
    assert array.buffers()[2].address == SPANNED.ctypes.data


@pytest.mark.parametrize("offsets", [[0, 7], [-1, 3], [0, 4, 3], [0, 2**31 - 1, 6]])
def test_spans_that_leave_their_buffer_never_reach_arrow_nor_a_kernel(offsets: list[int]) -> None:
    spans = np.array(offsets, np.int32)
    with pytest.raises(AssertionError, match="leave their buffer"):
        binary_array(SPANNED, spans)
    if len(offsets) == 3:  # Arrow itself looks at the first and the last offset only.
        buffers = [None, pa.py_buffer(spans), pa.py_buffer(SPANNED)]
        unsafe = pa.BinaryArray.from_buffers(pa.binary(), 2, buffers)
        with pytest.raises(AssertionError, match="leave their buffer"):
            encode(unsafe)


@pytest.mark.parametrize(("count", "from_pool"), [(0, False), (1000, False), (4095, False), (4096, True)])
def test_large_rooms_alone_are_of_arrows_pool(count: int, from_pool: bool) -> None:
    column = room(count, np.int64)
    owner = column.base
    while isinstance(owner, memoryview):
        owner = owner.obj
    assert (column.dtype.name, len(column), column.flags.writeable) == ("int64", count, True)
    assert isinstance(owner, pa.Buffer) == from_pool


PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
VALUES = [b"", b"v", None, b"x" * 100, b"y" * 5000] * 40


@pytest.mark.parametrize("large", [False, True], ids=["binary", "large"])
@pytest.mark.parametrize("magic", [1, 2])
def test_sizes_are_about_those_of_records_and_not_below(magic: int, large: bool) -> None:
    binary = pa.large_binary() if large else pa.binary()
    # A slice: what lies before it is of no row.
    values = pa.array([b"z" * 100_000, *VALUES], binary).slice(1)
    keys = pa.array([None, b"k", b"key" * 30, None, b""] * 40, binary)
    records = Records(values, keys)
    contents = sum(len(value or b"") for value in VALUES) + 40 * (1 + 90)
    batches = encode_batches(
        records, magic=magic, batch_bytes_max=1 << 30, request_bytes_max=1 << 30, now_ms=1
    )
    encoded = sum(len(batch.data) for batch in batches)
    assert records.sizes()[:4].tolist() == [12, 14, 102, 112]
    assert contents < records.sizes().sum() <= 1.1 * encoded
    assert magic == 1 or encoded <= records.sizes().sum()


def test_headers_count_as_what_rows_have_of_them_on_average() -> None:
    headers = pa.array([[{"key": "h", "value": b"x" * 1000}], None], pa.list_(PAIR))
    sizes = Records(pa.array([b"", b""]), headers=headers).sizes()
    assert sizes[0] == sizes[1]
    assert 500 <= sizes[0] <= 600
