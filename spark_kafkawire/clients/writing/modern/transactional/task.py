"""Task's side of an exactly-once write to modern Kafka: rows in a transaction that the driver ends.

Each attempt of a task sends its rows in a transaction of its own, which stays open after the task.
"""

from __future__ import annotations

import contextlib
import enum
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow.compute as pc

from spark_kafkawire.clients.writing.modern.producer import Producer, ProducerTransaction
from spark_kafkawire.clients.writing.rows import Rows
from spark_kafkawire.clients.writing.sender import PartitionReceipt, Sender
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transaction
from spark_kafkawire.errors import LOG, DeliveryError, quote
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.records.rows import Records

from .requests import (
    Answer,
    CommitOffset,
    FenceIfCurrent,
    FetchOffsets,
    InitProducerId,
    IsDriverWaiting,
    Refused,
    Request,
    TransactionOutcome,
    TransactionRequests,
)
from .write_state import OTHER_ROWS, BatchId, CommittedBatch, OffsetAndMetadata

#: Shares of the timeout at which to warn.
_WARN_AT: Final = (0.5, 0.9)


class TaskStep(enum.Enum):
    """Step of a task."""

    INIT_PRODUCER_ID = "take over the transactional id"
    CHECK_DRIVER = "ask whether the driver waits for it"
    READ = "fetch the batch that the task committed last"
    WRITE = "send the rows"
    COMMIT_OFFSET = "commit the offset of the batch in the transaction"
    COMPARE = "count and hash the rows, which are committed already"
    ABORT = "fence the id, which aborts the transaction"
    DONE = "end: all rows are sent and the transaction is open, or there was nothing to send"
    FAILED = "end: none of its rows will be committed"


#: Steps in which an attempt that fails has an id to fence.
_BEGUN: Final = (TaskStep.CHECK_DRIVER, TaskStep.READ, TaskStep.WRITE, TaskStep.COMPARE)


@dataclass(frozen=True, slots=True)
class TaskTransaction:
    """State machine of an attempt, from its first row on; an attempt without rows sends no request.

    ``id`` is its transactional id, ``group`` keeps the batch that the task committed last. The group is read
    only if ``may_be_committed`` (see ``Decision``).

    A driver that has decided or aborted fences the ids that attempts have taken over. ``driver`` is the
    transaction of the driver while it waits. An attempt that takes over its id later finds that the driver no
    longer waits, and sends nothing.
    """

    id: str
    group: str
    batch: BatchId
    driver: Transaction
    may_be_committed: bool = True
    step: TaskStep = TaskStep.INIT_PRODUCER_ID
    transaction: Transaction | None = None
    committed: CommittedBatch | None = None
    #: Serial of the decision about this write.
    serial: int = 1
    failure: str = ""

    def request(self) -> Request | None:
        """Request to send now; None while the caller has to send rows, or at the end."""
        match self.step:
            case TaskStep.INIT_PRODUCER_ID:
                return InitProducerId(self.id)
            case TaskStep.CHECK_DRIVER:
                return IsDriverWaiting(self.driver)
            case TaskStep.READ:
                return FetchOffsets(self.group)
            case TaskStep.COMMIT_OFFSET:
                assert self.transaction is not None
                assert self.committed is not None
                return CommitOffset(self.transaction, self.group, self.committed.records())
            case TaskStep.ABORT:
                assert self.transaction is not None
                # Late produce requests must not begin the transaction again.
                return FenceIfCurrent(self.transaction)
        return None

    def answered(self, answer: Answer) -> TaskTransaction:
        """Return the task after the answer to its request. Raises ``OptionError`` for records of another
        program."""
        match self.step, answer:
            case TaskStep.ABORT, _:
                # A refusal changes nothing: no commit message names the transaction, so no driver commits it.
                return replace(self, step=TaskStep.FAILED)
            case _, Refused():
                return self._refuse(answer)
            case TaskStep.INIT_PRODUCER_ID, Transaction():
                return replace(self, step=TaskStep.CHECK_DRIVER, transaction=answer)
            case TaskStep.CHECK_DRIVER, False:
                return self.fail(
                    "the driver does not wait for this attempt any more: the write was decided or given up, "
                    "or another one with this kafka.transactional.id began"
                )
            case TaskStep.CHECK_DRIVER, True | None:
                return replace(self, step=TaskStep.READ if self.may_be_committed else TaskStep.WRITE)
            case TaskStep.READ, tuple():
                return self._read_committed(answer)
            case TaskStep.COMMIT_OFFSET, None:
                return replace(self, step=TaskStep.DONE)
        raise AssertionError(f"{self.step}: {answer}")

    def wrote(
        self, rows: int, size: int, content: int, topics: tuple[tuple[str, str], ...]
    ) -> TaskTransaction:
        """Continue after all rows: they are in their partitions, or compared if the batch is committed
        already. Arguments are those of ``CommittedBatch``."""
        now = CommittedBatch(self.batch, rows, size, content, self.serial, topics)
        if self.step is TaskStep.WRITE:
            return replace(self, step=TaskStep.COMMIT_OFFSET, committed=now)
        assert self.step is TaskStep.COMPARE
        assert self.committed is not None
        if (difference := self.committed.difference(now)) is None:
            return replace(self, step=TaskStep.DONE, transaction=None)
        return self._failed(
            f"batch {self.batch} is committed already, by {quote(self.group)} {difference}; {OTHER_ROWS}"
        )

    def fail(self, message: str) -> TaskTransaction:
        """Abort: the rows could not be sent, or Spark could not produce them."""
        if self.transaction is None:
            return self._failed(message)
        return replace(self, step=TaskStep.ABORT, failure=message)

    def _read_committed(self, records: tuple[OffsetAndMetadata, ...]) -> TaskTransaction:
        committed = CommittedBatch.last(records, self.group)
        if committed is not None and committed.batch == self.batch:
            return replace(self, step=TaskStep.COMPARE, committed=committed)
        if committed is not None and (fault := self.batch.fault_after(committed.batch)):
            return self._failed(fault)
        return replace(self, step=TaskStep.WRITE)

    def _refuse(self, refused: Refused) -> TaskTransaction:
        message = refused.message
        if refused.outcome is TransactionOutcome.FENCED:
            message += "; another write with this kafka.transactional.id began, or the transaction timed out"
        return self.fail(message)

    def _failed(self, message: str) -> TaskTransaction:
        return replace(self, step=TaskStep.FAILED, transaction=None, failure=message)


class TransactionAge:
    """Time that a task's transaction, and the write as a whole, have used of the transaction timeout.

    The first task's transaction stays open until the last task is done, so the write has to end within the
    timeout as well. ``timeout_ms`` is None for transactions without a timeout. ``write_began_s`` is the start
    of the write by the driver's clock, in seconds since 1970, None if unknown."""

    def __init__(self, timeout_ms: int | None, write_began_s: float | None = None) -> None:
        self._timeout_ms = timeout_ms
        self._began_s = time.monotonic()
        # Clocks of two machines may differ: the age is never negative.
        self._before_s = max(time.time() - write_began_s, 0.0) if write_began_s is not None else 0.0
        self._own_left, self._write_left = list(_WARN_AT), list(_WARN_AT)

    def warn(self) -> None:
        """Warn once for each share of the timeout that the task has used, or the write may have used."""
        if self._timeout_ms is None:
            return
        own_s = time.monotonic() - self._began_s
        if used := self._used(own_s, self._own_left):
            LOG.warning(
                "%.0f %% of kafka.transaction.timeout.ms=%d are used up, and the task has more rows: when it "
                "is over the brokers abort the transaction, and the write fails; raise it, or write less",
                *(100 * used, self._timeout_ms),
            )
        write_s = own_s + self._before_s
        used_by_write = self._used(write_s, self._write_left)
        if used_by_write > used:
            LOG.warning(
                "the driver began this write %.1f s ago, more than %.0f %% of "
                "kafka.transaction.timeout.ms=%d, and there are more rows: what the first tasks left open "
                "may be as old, and the write fails where brokers abort it; raise it, or write less",
                *(write_s, 100 * used_by_write, self._timeout_ms),
            )

    def _used(self, age_s: float, left: list[float]) -> float:
        """Greatest share that is used up and was not logged yet; 0 if there is no such share."""
        assert self._timeout_ms is not None
        used = 0.0
        while left and 1000 * age_s >= left[0] * self._timeout_ms:
            used = left.pop(0)
        return used

    @contextlib.contextmanager
    def explain(self) -> Iterator[None]:
        """Add the age to errors of a transaction that is older than its timeout: brokers report only that the
        transaction is over."""
        try:
            yield
        except DeliveryError as error:
            age_s = time.monotonic() - self._began_s
            if self._timeout_ms is None or 1000 * age_s < self._timeout_ms:
                raise
            raise error.advise(
                f"the task has had its transaction for {age_s:.1f} s, and kafka.transaction.timeout.ms="
                f"{self._timeout_ms} lets brokers abort it earlier: raise that, or write less in each task"
            ) from error


class AttemptSender(Sender):
    """Sends the records of one attempt, and takes over its id with the first of them. It ignores the speed of
    brokers. ``timeout_ms`` is the timeout of its transaction, ``write_began_s`` the start of the write (see
    ``TransactionAge``)."""

    def __init__(
        self,
        metadata: Metadata,
        options: WriteOptions,
        task: TaskTransaction,
        timeout_ms: int,
        write_began_s: float | None = None,
    ) -> None:
        self._metadata = metadata
        self._options = options
        self._task = task
        assert options.transactions is not None
        in_two_phases = options.transactions.two_phase_commit
        self._requests = TransactionRequests(
            metadata, options.net, timeout_ms, two_phase_commit=in_two_phases
        )
        self._timeout_ms = None if in_two_phases else timeout_ms
        self._write_began_s = write_began_s
        self._producer: Producer | None = None
        self._age = TransactionAge(None)
        self.topics: set[str] = set()
        self.row_count = 0
        self._size = 0
        self._content = 0

    @property
    def transaction(self) -> Transaction | None:
        """Transaction for the driver to end; None if nothing was sent."""
        return self._task.transaction if self._task.step is TaskStep.DONE else None

    def note(self, rows: Rows) -> None:
        """Add the content of rows to what identifies the batch, before ``add`` gets them in parts."""
        self._content = (self._content + rows.content_sum()) % (1 << 64)

    def add(self, partition: TopicPartition, records: Records) -> None:
        """Buffer the records of a partition, and send what fills a request. If the batch is committed
        already, they are counted instead. Raises ``DeliveryError`` and others (fatal)."""
        if self._task.step is TaskStep.INIT_PRODUCER_ID:
            self._begin()
        self.topics.add(partition.topic)
        self.row_count += records.count
        self._size += _payload_size(records)
        if self._producer is not None:
            self._age.warn()
            with self._age.explain():
                self._producer.add(partition, records)

    def finish(self) -> tuple[PartitionReceipt, ...]:
        """Send the rest, and commit the batch's offset in the transaction. Raises as ``add``."""
        if self._task.step is TaskStep.INIT_PRODUCER_ID:
            return ()
        with self._age.explain():
            receipts = self._producer.finish() if self._producer else ()
            ids = {topic: self._metadata.id_of(topic) for topic in sorted(self.topics)}
            topics = tuple((topic, id_.hex if id_ else "") for topic, id_ in ids.items())
            self._task = self._task.wrote(self.row_count, self._size, self._content, topics)
            self._advance()
        return receipts

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close()

    def __exit__(self, *exc_info: object) -> None:
        self.close()
        if exc_info[1] is not None and self._task.step in _BEGUN:
            self._task = self._task.fail("")
            self._send_due()

    def _begin(self) -> None:
        self._requests.transactions.locate([self._task.id, self._task.driver.id], [self._task.group])
        self._advance()
        self._age = TransactionAge(self._timeout_ms, self._write_began_s)
        if self._task.step is TaskStep.WRITE:
            assert self._task.transaction is not None
            transaction = ProducerTransaction(self._requests.transactions, self._task.transaction)
            self._producer = Producer(self._metadata, self._options, transaction=transaction)

    def _advance(self) -> None:
        """Send the requests that are due. Raises ``DeliveryError`` (fatal) if the task failed."""
        self._send_due()
        if self._task.step is TaskStep.FAILED:
            raise DeliveryError(self._task.failure)

    def _send_due(self) -> None:
        while (request := self._task.request()) is not None:
            self._task = self._task.answered(self._requests.send(request))


def _payload_size(records: Records) -> int:
    """Count the bytes of all keys and values."""
    columns = [column for column in (records.keys, records.values) if column is not None]
    return sum(pc.sum(pc.binary_length(column)).as_py() or 0 for column in columns)
