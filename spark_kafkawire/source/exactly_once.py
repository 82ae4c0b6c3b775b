"""The writer of batches and streams whose rows are there once, or not at all: ``delivery=exactly-once``."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from ..clients.writing.modern.transactional.attempt import AttemptSender
from ..clients.writing.modern.transactional.conductor import Conductor, open_of
from ..clients.writing.modern.transactional.names import attempt_id, task_group
from ..clients.writing.modern.transactional.records import BatchId
from ..clients.writing.modern.transactional.steps import Write
from ..clients.writing.modern.transactional.task import TaskTransaction
from ..clients.writing.sender import Sender
from ..cluster.modern.metadata import Metadata
from ..cluster.modern.transactions import Transaction
from ..options import WriteOptions
from .writer import KafkaWireBatchWriter, KafkaWireCommitMessage, create_writer, summary_of

_log = logging.getLogger("spark_kafkawire")

#: What a failed delivery advises.
ABORTED: Final = (
    "what the task has sent counts nowhere: its transaction is aborted, and a retried task writes all its "
    "rows again"
)


@dataclass(frozen=True)
class TransactionMessage(KafkaWireCommitMessage):
    """What one task wrote, and the transaction that the driver is to commit; None where it sent nothing."""

    batch: BatchId
    row_count: int
    transaction: Transaction | None


def create_exactly_once_writer(
    options: WriteOptions, schema: StructType, overwrite: bool, *, is_stream: bool = False
) -> ExactlyOnceWriter:
    """The writer for rows of ``schema``, after all that earlier writes of the name left is ended.

    Raises as ``create_writer`` and ``Conductor.begin``.
    """
    assert options.transactions is not None
    batch = None if is_stream else BatchId(options.transactions.batch)

    def make(options: WriteOptions, *args: Any) -> ExactlyOnceWriter:
        return ExactlyOnceWriter(Conductor.begin(options, batch), batch, options, *args)

    writer = create_writer(options, schema, overwrite, ABORTED, make)
    assert isinstance(writer, ExactlyOnceWriter)
    return writer


class ExactlyOnceWriter(KafkaWireBatchWriter):
    """Writes all rows in transactions of the tasks, which the driver commits. ``batch`` is None for streams,
    whose tasks know theirs."""

    def __init__(self, conductor: Conductor, batch: BatchId | None, *args: Any) -> None:
        super().__init__(*args)
        self._conductor = conductor
        self._batch = batch

    def _sender(self, task: int) -> Sender:
        assert self._options.transactions is not None
        prefix = self._options.transactions.prefix
        batch, attempt = self._of_task()
        names = attempt_id(prefix, task, attempt), task_group(prefix, task)
        transaction = TaskTransaction(*names, batch, self._conductor.may_hold(batch))
        metadata = Metadata(self._options.discovery.bootstrap_servers, self._options.net)
        conductor = self._conductor
        return AttemptSender(metadata, self._options, transaction, conductor.timeout_ms, conductor.began_s)

    def _message(self, sender: Sender) -> TransactionMessage:
        assert isinstance(sender, AttemptSender)
        receipts = sender.finish()
        return TransactionMessage(receipts, self._of_task()[0], sender.row_count, sender.transaction)

    def _of_task(self) -> tuple[BatchId, str]:
        """The batch that a task is of, and the name of its attempt. No other one has it; in a stream none of
        this batch and of the one before: brokers remember names for a week.

        Where Spark attempts a stage again it counts anew: two attempts of one name fence each other, and a
        batch that is hit by that fails and is run again.
        """
        context = TaskContext.get()
        if self._batch is not None:
            return self._batch, f"{self._conductor.nonce}.{context.taskAttemptId() if context else 0}"
        assert context is not None
        number, query = (context.getLocalProperty(name) for name in (_BATCH, _QUERY))
        assert number is not None
        assert query is not None
        batch = BatchId(query, int(number), is_stream=True)
        run = (context.getLocalProperty(_RUN) or query).replace("-", "")[:12]
        return batch, f"{run}.{batch.number % 2}.{context.attemptNumber()}"

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit all tasks' transactions, as one. Raises ``DeliveryError`` (fatal)."""
        write = write_of(messages, self._batch)
        self._conductor.commit(write)
        skipped = sum(1 for each in _told(messages) if each.row_count and each.transaction is None)
        if skipped:
            _log.warning(
                "batch %s: %d of %d task(s) found their rows committed already, and wrote none of them",
                *(write.batch, skipped, write.tasks),
            )
        _log.info("committed %s, exactly once", summary_of(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort what tasks have left open, unless the write was decided."""
        _log.warning("the write failed: %s", self._conductor.undo(write_of(messages, self._batch)))


def write_of(messages: Sequence[WriterCommitMessage | None], batch: BatchId | None) -> Write:
    """What the driver is to decide about, by what tasks told; ``batch`` is None of streams."""
    told = _told(messages)
    open_ = open_of([each.transaction for each in told])
    topics = [receipt.log.topic for each in told if each.transaction for receipt in each.receipts]
    busy = sum(1 for each in told if each.row_count)
    return Write(told[0].batch if told else batch, len(messages), busy, open_, min(topics, default=""))


def _told(messages: Sequence[WriterCommitMessage | None]) -> list[TransactionMessage]:
    return [each for each in messages if isinstance(each, TransactionMessage)]


#: Spark's names of what a task of a stream is of.
_BATCH: Final = "streaming.sql.batchId"
_QUERY: Final = "sql.streaming.queryId"
_RUN: Final = "spark.jobGroup.id"
