"""The writer of batches and streams that are all or nothing: ``delivery=exactly-once``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from ..clients.writing.modern import ModernWritePartitions
from ..clients.writing.modern.transactional.driver import WriteCommitter, WriteSummary
from ..clients.writing.modern.transactional.task import AttemptSender, TaskTransaction
from ..clients.writing.modern.transactional.write_state import BatchId, attempt_id, task_group
from ..clients.writing.sender import Sender, WriteTotals
from ..cluster.modern.metadata import Metadata
from ..cluster.modern.transactions import Transaction
from ..errors import LOG
from ..options import WriteOptions
from .edge import edge
from .worker import Packed
from .writer import KafkaWireBatchWriter, KafkaWireCommitMessage, create_writer, summary_of

if TYPE_CHECKING:
    from ..clients.writing.rows import Rows

#: The advice in the error of a failed delivery.
ABORTED: Final = (
    "readers of read_committed see nothing of what the task has sent: its transaction is aborted, and a "
    "retried task writes all its rows again"
)


@dataclass(frozen=True)
class TransactionMessage(KafkaWireCommitMessage):
    """Result of one task: its totals, the topics of its rows, and the transaction that the driver will
    commit, None if the task sent nothing."""

    batch: BatchId = field(kw_only=True)
    row_count: int = field(kw_only=True)
    topics: tuple[str, ...] = field(kw_only=True)
    transaction: Transaction | None = field(kw_only=True)


def create_exactly_once_writer(
    options: WriteOptions, schema: StructType, overwrite: bool, *, is_stream: bool = False
) -> ExactlyOnceWriter:
    """The writer for rows of ``schema``, after all that earlier writes of the name left is ended.

    Raises as ``create_writer`` and ``WriteCommitter.begin``.
    """
    assert options.transactions is not None
    batch = None if is_stream else BatchId(options.transactions.batch)

    def make(options: WriteOptions, *args: Any) -> ExactlyOnceWriter:
        return ExactlyOnceWriter(WriteCommitter.begin(options, batch), batch, options, *args)

    writer = create_writer(options, schema, overwrite, ABORTED, make)
    assert isinstance(writer, ExactlyOnceWriter)
    return writer


class ExactlyOnceWriter(KafkaWireBatchWriter):
    """Writes all rows in transactions of the tasks, which the driver commits. ``batch`` is None for streams,
    whose tasks know theirs."""

    def __init__(self, committer: WriteCommitter, batch: BatchId | None, *args: Any) -> None:
        super().__init__(*args)
        self._packed_committer = Packed(committer)
        self._batch = batch

    @property
    def _committer(self) -> WriteCommitter:
        return self._packed_committer.value

    def _sender(self, task: int) -> Sender:
        assert self._options.transactions is not None
        prefix = self._options.transactions.prefix
        batch, attempt = self._name_attempt()
        names = attempt_id(prefix, task, attempt), task_group(prefix, task)
        committer, driver = self._committer, self._committer.driver
        assert driver.transaction is not None
        transaction = TaskTransaction(
            *names,
            batch,
            driver.transaction,
            driver.may_be_committed(batch),
            serial=driver.next_serial,
        )
        assert isinstance(self._targets, ModernWritePartitions)
        servers, topic_ids = self._options.discovery.bootstrap_servers, self._targets.topic_ids
        metadata = Metadata(servers, self._options.net, topic_ids=topic_ids)
        return AttemptSender(metadata, self._options, transaction, committer.timeout_ms, committer.began_s)

    def _note(self, sender: Sender, rows: Rows) -> None:
        assert isinstance(sender, AttemptSender)
        sender.note(rows)

    def _message(self, sender: Sender) -> TransactionMessage:
        assert isinstance(sender, AttemptSender)
        receipts = sender.finish()
        return TransactionMessage(
            WriteTotals.of(receipts),
            receipts=receipts,
            batch=self._name_attempt()[0],
            row_count=sender.row_count,
            topics=tuple(sorted(sender.topics)),
            transaction=sender.transaction,
        )

    def _name_attempt(self) -> tuple[BatchId, str]:
        """The batch of a task, and the name of its attempt. The name is unique; in a stream, among the
        attempts of this batch and of the one before: brokers remember names for a week.

        If Spark attempts a stage again, it counts from 0 again: two attempts of one name fence each other,
        the batch fails, and Spark runs it again.
        """
        context = TaskContext.get()
        if self._batch is not None:
            return self._batch, f"{self._committer.run_name}.{context.taskAttemptId() if context else 0}"
        assert context is not None
        number, query = (context.getLocalProperty(name) for name in (_BATCH, _QUERY))
        assert number is not None
        assert query is not None
        batch = BatchId(query, int(number), is_stream=True)
        run = (context.getLocalProperty(_RUN) or query).replace("-", "")[:12]
        return batch, f"{run}.{batch.number % 2}.{context.attemptNumber()}"

    @edge
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the transactions of all tasks as one. Raises ``DeliveryError`` (fatal)."""
        write = write_summary(messages, self._batch)
        self._committer.commit(write)
        skipped = sum(1 for item in _keep_finished(messages) if item.row_count and item.transaction is None)
        if skipped:
            LOG.warning(
                "batch %s: %d of %d task(s) found their rows committed already, and wrote none of them",
                *(write.batch, skipped, write.tasks),
            )
        LOG.info("committed %s, exactly once", summary_of(messages))

    @edge
    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort the transactions that tasks left open, unless the write was decided."""
        LOG.warning("the write failed: %s", self.settle(messages))

    def settle(self, messages: Sequence[WriterCommitMessage | None]) -> str:
        """Abort as ``abort`` does; the outcome in words."""
        return self._committer.abort(write_summary(messages, self._batch))


def write_summary(messages: Sequence[WriterCommitMessage | None], batch: BatchId | None) -> WriteSummary:
    """The write that the driver decides about, from the messages of its tasks; ``batch`` is None for
    streams."""
    done = _keep_finished(messages)
    open_ = tuple(sorted(item.transaction for item in done if item.transaction is not None))
    topics = {topic for item in done for topic in item.topics}
    busy = sum(1 for item in done if item.row_count)
    return WriteSummary(done[0].batch if done else batch, len(messages), busy, open_, tuple(sorted(topics)))


def _keep_finished(messages: Sequence[WriterCommitMessage | None]) -> list[TransactionMessage]:
    return [item for item in messages if isinstance(item, TransactionMessage)]


#: Spark's names for the batch, query and run of a task.
_BATCH: Final = "streaming.sql.batchId"
_QUERY: Final = "sql.streaming.queryId"
_RUN: Final = "spark.jobGroup.id"
