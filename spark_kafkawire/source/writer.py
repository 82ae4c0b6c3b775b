"""The batch writer: checked and planned once on the driver, then one ``write`` for each task."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructType

from ..clients.partitioner import Partitioner
from ..clients.rows import Rows
from ..clients.sender import LogReceipt, Sender
from ..clients.targets import Targets, topic_fault
from ..errors import KafkaWireError, OptionError
from ..options import WriteOptions

_log = logging.getLogger("spark_kafkawire")

_TEXT: Final = (StringType, BinaryType)
#: The columns that are written or that choose the log, and the types they may have.
WRITE_COLUMNS: Final[dict[str, tuple[type[DataType], ...]]] = {
    "key": _TEXT,
    "value": _TEXT,
    "topic": (StringType,),
    "partition": (IntegerType,),
    "broker": (IntegerType,),
}
#: Columns of a read that tell where a row came from. They say nothing of where it goes, so that
#: what was read can be written as it is.
IGNORED_COLUMNS: Final = ("offset", "timestamp", "timestampType", "index", "nextOffset")


def create_writer(options: WriteOptions, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """The writer for rows of ``schema``; everything that can be checked before rows is checked.

    Raises ``OptionError``, ``DiscoveryError`` (fatal). Nothing is sent.
    """
    if overwrite:
        raise OptionError('mode "overwrite": a Kafka log can only be appended to; use .mode("append")')
    check_write_schema(schema, topic_given=options.topic is not None)
    if options.topic is not None and (fault := topic_fault(options.topic)):
        raise OptionError(f"option topic: {options.topic!r}: {fault}")
    targets = Targets.discover(options.discovery, options.net)
    if options.topic is not None:
        targets = targets.of_topic(options.topic)
    return KafkaWireBatchWriter(replace(options, discovery=targets.discovery), targets)


def check_write_schema(schema: StructType, *, topic_given: bool) -> None:
    """Check names and types of the columns to write.

    Raises ``OptionError`` (fatal) naming the column, its type and what it may be.
    """
    names = schema.fieldNames()
    for field in schema.fields:
        if field.name in IGNORED_COLUMNS:
            continue
        if field.name not in WRITE_COLUMNS:
            raise _unknown_column(field.name, field.dataType)
        if not isinstance(field.dataType, WRITE_COLUMNS[field.name]):
            raise _wrong_type(field.name, field.dataType)
        if names.count(field.name) > 1:
            raise OptionError(f"schema: column {field.name!r} is there twice; drop or rename one")
    if "value" not in names:
        raise OptionError("schema: required attribute 'value' not found; it is the message, string or binary")
    if not topic_given and "topic" not in names:
        raise OptionError(
            "topic option required when no 'topic' attribute is present; set the option topic or add a column"
        )


def _wrong_type(name: str, given: DataType) -> OptionError:
    allowed = " or ".join(kind().simpleString() for kind in WRITE_COLUMNS[name])
    return OptionError(
        f"schema: {name} attribute unsupported type {given.simpleString()}; "
        f"{name} must be a(n) {allowed}: cast it"
    )


def _unknown_column(name: str, given: DataType) -> OptionError:
    close = difflib.get_close_matches(name.lower(), WRITE_COLUMNS, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "drop it or put it into the value"
    return OptionError(
        f"schema: there is no column {name!r} ({given.simpleString()}) in Kafka 0.7; {hint} "
        f"Known are {', '.join(WRITE_COLUMNS)}"
    )


@dataclass(frozen=True)
class KafkaWireCommitMessage(WriterCommitMessage):
    """What one task wrote, by log."""

    receipts: tuple[LogReceipt, ...]

    @property
    def message_count(self) -> int:
        """Messages written by the task."""
        return sum(receipt.message_count for receipt in self.receipts)

    @property
    def size(self) -> int:
        """Bytes of all message sets that the task sent."""
        return sum(receipt.size for receipt in self.receipts)


class KafkaWireBatchWriter(DataSourceArrowWriter):
    """Appends rows to the logs of the topics. Travels to the tasks, without any credential."""

    def __init__(self, options: WriteOptions, targets: Targets) -> None:
        self._options = options
        self._targets = targets

    def write(self, iterator: Iterator[pa.RecordBatch]) -> KafkaWireCommitMessage:
        """Write all batches of one task.

        Raises ``RowError`` before anything of the batch at fault is sent, ``DiscoveryError``,
        ``ConnectFailed``, ``DeliveryError`` (all fatal for the task).
        """
        context = TaskContext.get()
        partitioner = Partitioner(self._targets, first=context.partitionId() if context else 0)
        with Sender(self._targets.cluster.brokers, self._options) as sender:
            for number, batch in enumerate(iterator):
                try:
                    rows = to_rows(batch, self._options)
                    parts = partitioner.split(rows)
                except KafkaWireError as error:
                    raise error.located(f"batch {number} of the task") from error
                for log, values in parts:
                    sender.add(log, values)
            return KafkaWireCommitMessage(sender.finish())

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what was written."""
        _log.info("wrote %s; acks=%s", _summary(messages), self._options.acks)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what stays written although the write failed: 0.7 takes nothing back."""
        _log.warning(
            "the write failed, and what its tasks have sent stays in the logs; finished tasks wrote %s; "
            "writing again doubles what is there",
            _summary(messages),
        )


def to_rows(batch: pa.RecordBatch, options: WriteOptions) -> Rows:
    """The batch's columns as the clients take them, checked. Raises ``RowError``."""
    topic = options.topic if options.topic is not None else batch.column("topic").cast(pa.string())
    rows = Rows(
        values=batch.column("value").cast(pa.binary()),
        topic=topic,
        keys=batch.column("key").cast(pa.binary()) if "key" in batch.schema.names else None,
        brokers=_column(batch, "broker"),
        partitions=_column(batch, "partition"),
    )
    rows.check(options)
    return rows


def _column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    return batch.column(name) if name in batch.schema.names else None


def _summary(messages: Iterable[WriterCommitMessage | None]) -> str:
    """Counts over all tasks, in one line."""
    receipts = [
        receipt
        for message in messages
        if isinstance(message, KafkaWireCommitMessage)
        for receipt in message.receipts
    ]
    if not receipts:
        return "nothing"
    count = sum(receipt.message_count for receipt in receipts)
    size = sum(receipt.size for receipt in receipts)
    logs = {receipt.log for receipt in receipts}
    topics = ", ".join(sorted({log.topic for log in logs}))
    return f"{count} message(s) ({size} bytes) to {len(logs)} log(s) of {topics}"
