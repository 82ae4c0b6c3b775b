"""One attempt of a task: its rows, sent in a transaction that is left open for the driver to end.

with AttemptSender(...) as sender:
    sender.add(log, records)
    receipts = sender.finish()
sender.transaction              # for the driver; None where nothing was sent
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

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
from .age import Age
from .asking import Asker
from .task import TaskStep, TaskTransaction


class AttemptSender:
    """Sends the records of one attempt; asks nothing before the first ones come. ``timeout_ms`` is that of
    its transaction, ``write_began_s`` when the driver began the write (see ``Age``)."""

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
        self._asker = Asker(metadata, options.net, timeout_ms, two_phase_commit=in_two_phases)
        self._timeout_ms = None if in_two_phases else timeout_ms
        self._write_began_s = write_began_s
        self._producer: Producer | None = None
        self._age = Age(None)
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
            self._age.tell()
            with self._age.told():
                self._producer.add(log, records)

    def rooms(self, logs: Sequence[TopicPartition]) -> None:
        """Which rows go where is not changed by brokers here."""

    def finish(self) -> tuple[LogReceipt, ...]:
        """Send what is left, and put the batch into the transaction. Raises as ``add``."""
        if self._task.step is TaskStep.BEGIN:
            return ()
        with self._age.told():
            receipts = self._producer.finish() if self._producer else ()
            self._task = self._task.wrote(self.row_count, self._size, self._topic)
            self._advance()
        return receipts

    def __enter__(self) -> AttemptSender:
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
        self._age = Age(self._timeout_ms, self._write_began_s)
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
