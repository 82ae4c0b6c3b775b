"""One attempt of a task: its rows, sent in a transaction that is left open for the driver to end.

with AttemptSender(...) as sender:
    sender.add(log, records)
    receipts = sender.finish()
sender.transaction              # for the driver; None where nothing was sent
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Collection, Iterator
from typing import Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from .....cluster.modern.metadata import Metadata
from .....cluster.modern.transactions import Transaction, Transactions
from .....errors import DeliveryError
from .....model import TopicPartition
from .....options import WriteOptions
from .....records.rows import Records
from ...sender import LogReceipt
from ..batches import ProducerId
from ..producer import Membership, Producer
from .asking import Asker
from .task import TaskStep, TaskTransaction

_log = logging.getLogger("spark_kafkawire")

#: Parts of the timeout that a task tells to be used up.
_TOLD_AT: Final = (0.5, 0.9)


class AttemptSender:
    """Sends the records of one attempt; asks nothing before the first ones come. ``timeout_ms`` is that of
    its transaction."""

    def __init__(
        self, metadata: Metadata, options: WriteOptions, task: TaskTransaction, timeout_ms: int
    ) -> None:
        self._metadata = metadata
        self._options = options
        self._task = task
        assert options.transactions is not None
        in_two_phases = options.transactions.two_phase_commit
        self._asker = Asker(metadata, options.net, timeout_ms, two_phase_commit=in_two_phases)
        self._timeout_s = timeout_ms / 1000
        self._producer: Producer | None = None
        self._began_s = 0.0
        self._ends_in_time = not in_two_phases
        self._left_to_tell = list(_TOLD_AT) if self._ends_in_time else []
        self._topic = ""
        self.row_count = 0
        self._size = 0

    @property
    def transaction(self) -> Transaction | None:
        """What the driver is to end; None where nothing was sent."""
        return self._task.transaction if self._task.step is TaskStep.DONE else None

    def add(self, log: TopicPartition, records: Records) -> None:
        """Take the records of a log, and send what is enough for a request; where the batch is committed
        already they are counted. Raises ``DeliveryError`` and others (fatal)."""
        if self._task.step is TaskStep.BEGIN:
            self._begin()
        self._topic = self._topic or log.topic
        self.row_count += records.count
        self._size += _payload_size(records)
        if self._producer is not None:
            self._tell_time()
            with self._telling_age():
                self._producer.add(log, records)

    def finish(self) -> tuple[LogReceipt, ...]:
        """Send what is left, and put the batch into the transaction. Raises as ``add``."""
        if self._task.step is TaskStep.BEGIN:
            return ()
        with self._telling_age():
            receipts = self._producer.finish() if self._producer else ()
            self._task = self._task.wrote(self.row_count, self._size, self._topic)
            self._advance()
        return receipts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._producer is not None:
            self._producer.close()
        if exc_info[1] is not None and self._task.step in (TaskStep.WRITE, TaskStep.COMPARE):
            self._task = self._task.broke("")
            self._asked()

    def _begin(self) -> None:
        self._asker.transactions.locate([self._task.id], [self._task.group])
        self._advance()
        self._began_s = time.monotonic()
        if self._task.step is TaskStep.WRITE:
            assert self._task.transaction is not None
            membership = membership_of(self._asker.transactions, self._task.transaction)
            self._producer = Producer(self._metadata, self._options, membership=membership)

    def _advance(self) -> None:
        """Ask what is due. Raises ``DeliveryError`` (fatal) where the task failed by that."""
        self._asked()
        if self._task.step is TaskStep.FAILED:
            raise DeliveryError(self._task.failure)

    def _asked(self) -> None:
        while (request := self._task.request()) is not None:
            self._task = self._task.answered(self._asker.answer(request))

    @contextlib.contextmanager
    def _telling_age(self) -> Iterator[None]:
        """An error of a transaction that has had its time says so: brokers say only that it is over."""
        try:
            yield
        except DeliveryError as error:
            age_s = time.monotonic() - self._began_s
            if not self._ends_in_time or age_s < self._timeout_s:
                raise
            raise error.advised(
                f"the task has had its transaction for {age_s:.1f} s, and kafka.transaction.timeout.ms="
                f"{round(1000 * self._timeout_s)} lets brokers abort it before: raise that, or write less"
            ) from error

    def _tell_time(self) -> None:
        used = (time.monotonic() - self._began_s) / self._timeout_s
        while self._left_to_tell and used >= self._left_to_tell[0]:
            _log.warning(
                "%.0f %% of kafka.transaction.timeout.ms=%d are used up, and the task has more rows: when it "
                "is over the brokers abort the transaction, and the write fails; raise it, or write less",
                100 * self._left_to_tell.pop(0),
                round(1000 * self._timeout_s),
            )


def membership_of(transactions: Transactions, transaction: Transaction) -> Membership:
    """How the batches of a producer are of a transaction."""
    producer = ProducerId(transaction.producer_id, transaction.epoch, transaction.id, transaction.version)

    def add_partitions(logs: Collection[TopicPartition]) -> None:
        transactions.add_partitions(transaction, logs)

    return Membership(producer, add_partitions)


def _payload_size(records: Records) -> int:
    """Bytes of all keys and values."""
    columns = [column for column in (records.keys, records.values) if column is not None]
    return sum(_bytes_of(column) for column in columns)


def _bytes_of(column: pa.Array) -> int:
    return pc.sum(pc.binary_length(column)).as_py() or 0
