"""Rows of any DataFrame become messages of a topic.

rows = messages(frame, MessageColumns(value="body", key="id"))
for written in publish(rows, {"kafka.bootstrap.servers": ..., "topic": "events"}):
    print(written.log, written.message_count)
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import col, map_entries, struct, timestamp_millis, to_json
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ..clients.sender import LogReceipt
from ..errors import OptionError
from ..model import TopicPartition
from ..options import WriteOptions
from ..source.writer import KafkaWireCommitMessage, create_writer
from .written import Written, total

_HEADERS: Final = "array<struct<key:string,value:binary>>"
_RECEIPTS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("broker", pa.int32()),
        ("messages", pa.int64()),
        ("size", pa.int64()),
        ("start", pa.int64()),
        ("stop", pa.int64()),
    ]
)
_RECEIPTS_DDL: Final = (
    "topic string, partition int, broker int, messages long, size long, start long, stop long"
)


#: Makes a column of a write out of one of some type; None where that cannot be.
_Make = Callable[[Column, DataType], Column | None]


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """The columns that messages are made of; without ``value`` a message is the whole row as JSON."""

    value: str | None = None
    key: str | None = None
    partition: str | None = None
    broker: str | None = None
    headers: str | None = None
    timestamp: str | None = None
    topic: str | None = None


def messages(frame: DataFrame, columns: MessageColumns) -> DataFrame:
    """The frame as the columns of a write: ``value``, and those that are named.

    Keys and values are text or bytes as they are, structs, arrays and maps are JSON, and other
    types are their text. Partitions are cast to int. Headers may be a map, too. Timestamps may be
    numbers, milliseconds since 1970. Raises ``OptionError`` (fatal) for a column that is not there
    or cannot become what it should.
    """
    made = [
        _made(frame, "value", columns.value, _text) if columns.value else to_json(struct("*")).alias("value")
    ]
    for name, given, make in (
        ("key", columns.key, _text),
        ("partition", columns.partition, _int),
        ("broker", columns.broker, _int),
        ("headers", columns.headers, _headers),
        ("timestamp", columns.timestamp, _timestamp),
        ("topic", columns.topic, _text),
    ):
        if given is not None:
            made.append(_made(frame, name, given, make))
    return frame.select(*made)


def publish(rows: DataFrame, options: Mapping[str, str]) -> list[Written]:
    """Write rows as ``df.write`` does, and tell what was written, sorted by log.

    The numbers are the tasks' own receipts, by which Spark commits a write: what others write
    meanwhile is not among them, and neither is what a task wrote that failed and ran again.
    Raises ``OptionError`` before anything is sent; what a task raises comes as Spark's own error.
    """
    writer = create_writer(WriteOptions.parse(options), rows.schema, overwrite=False)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield _receipts(writer.write(iter(batches)))

    return total(
        LogReceipt(
            TopicPartition(row.topic, row.partition, row.broker), row.messages, row.size, row.start, row.stop
        )
        for row in rows.mapInArrow(write, _RECEIPTS_DDL).collect()
    )


def _receipts(message: object) -> pa.RecordBatch:
    assert isinstance(message, KafkaWireCommitMessage)
    rows = [
        (
            receipt.log.topic,
            receipt.log.partition,
            receipt.log.broker,
            receipt.message_count,
            receipt.size,
            receipt.start_offset,
            receipt.stop_offset,
        )
        for receipt in message.receipts
    ]
    return pa.RecordBatch.from_pylist(
        [dict(zip(_RECEIPTS.names, row, strict=True)) for row in rows], _RECEIPTS
    )


def _made(frame: DataFrame, name: str, given: str, make: _Make) -> Column:
    if given not in frame.columns:
        close = difflib.get_close_matches(given, frame.columns, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(frame.columns)}"
        raise OptionError(f"argument --{name}-column: there is no column {given!r}; {hint}")
    data_type = frame.schema[given].dataType
    column = make(col(f"`{given.replace('`', '``')}`"), data_type)
    if column is None:
        raise OptionError(
            f"argument --{name}-column: {given!r} is {data_type.simpleString()}, which cannot be a {name}"
        )
    return column.alias(name)


def _text(column: Column, data_type: DataType) -> Column | None:
    if isinstance(data_type, StringType | BinaryType):
        return column
    if isinstance(data_type, StructType | ArrayType | MapType):
        return to_json(column)
    return column.cast("string")


def _int(column: Column, data_type: DataType) -> Column | None:
    return column.cast("int") if isinstance(data_type, IntegralType | StringType) else None


def _headers(column: Column, data_type: DataType) -> Column | None:
    if isinstance(data_type, MapType):
        if not isinstance(data_type.valueType, BinaryType):
            column = column.cast("map<string,string>")
        return map_entries(column).cast(_HEADERS)
    pair = data_type.elementType if isinstance(data_type, ArrayType) else None
    is_pair = isinstance(pair, StructType) and pair.fieldNames() == ["key", "value"]
    return column.cast(_HEADERS) if is_pair else None


def _timestamp(column: Column, data_type: DataType) -> Column | None:
    if isinstance(data_type, IntegralType):
        return timestamp_millis(column)
    if isinstance(data_type, TimestampType | TimestampNTZType | DateType | StringType):
        return column.cast("timestamp")
    return None


def with_topic(options: Mapping[str, str], topic: str | None) -> dict[str, str]:
    """The options of the write; the topic is an argument of its own. Raises ``OptionError`` (fatal)."""
    if any(name.lower() == "topic" for name in options):
        raise OptionError("argument --option: topic is told by --topic or --topic-column")
    WriteOptions.parse(options)
    return {**options, "topic": topic} if topic is not None else dict(options)
