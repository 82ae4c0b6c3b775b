"""Messages are written to topics, and their tasks tell what they have written.

for written in publish(rows, {"kafka.bootstrap.servers": ..., "topic": "events"}):
    print(written.log, written.message_count)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from ..clients.sender import LogReceipt
from ..errors import OptionError
from ..model import TopicPartition
from ..options import WriteOptions
from ..source.write_schema import WRITE_SCHEMAS, WriteSchema
from ..source.writer import KafkaWireCommitMessage, create_writer
from .written import Written, total

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


def with_topic(options: Mapping[str, str], topic: str | None) -> dict[str, str]:
    """The options of the write; the topic is an argument of its own. Raises ``OptionError`` (fatal)."""
    if any(name.lower() == "topic" for name in options):
        raise OptionError("argument --option: topic is told by --topic or --topic-column")
    WriteOptions.parse(options)
    return {**options, "topic": topic} if topic is not None else dict(options)


def write_schema(options: Mapping[str, str]) -> WriteSchema:
    """What the brokers that the options name make of columns. Raises ``OptionError`` (fatal)."""
    return WRITE_SCHEMAS[WriteOptions.parse(options).net.connection.dialect.name]
