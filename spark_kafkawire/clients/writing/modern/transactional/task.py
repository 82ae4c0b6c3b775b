"""The transaction of one task: which request is due, and what its answer makes of it. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from .....cluster.modern.transactions import Transaction
from .....errors import quoted
from .meanings import Meaning
from .records import OTHER_ROWS, BatchId, HeldBatch
from .requests import Answer, Begin, End, Hold, Read, Record, Refused, Request


class TaskStep(enum.Enum):
    """Where a task stands."""

    BEGIN = "it begins its transactional id"
    READ = "it asks what that holds"
    WRITE = "its rows are sent"
    HOLD = "its batch is put into the transaction"
    COMPARE = "its rows are counted: they are there already"
    DROP = "what it sent is aborted"
    DONE = "all is sent, and the transaction left open; or there was nothing to send"
    FAILED = "it failed, and nothing of it counts"


@dataclass(frozen=True, slots=True)
class TaskTransaction:
    """An attempt of a task from its first row on; one without rows asks nothing. ``id`` is its transactional
    id, ``group`` keeps what the task has committed; where ``may_be_held`` (see ``Decision``) it is asked
    for that."""

    id: str
    group: str
    batch: BatchId
    may_be_held: bool = True
    step: TaskStep = TaskStep.BEGIN
    transaction: Transaction | None = None
    held: HeldBatch | None = None
    topic: str = ""
    failure: str = ""

    def request(self) -> Request | None:
        """What is to be asked now; None where rows come next, or nothing."""
        match self.step:
            case TaskStep.BEGIN:
                return Begin(self.id)
            case TaskStep.READ:
                return Read(self.group)
            case TaskStep.HOLD:
                assert self.transaction is not None
                assert self.held is not None
                return Hold(self.transaction, self.group, self.topic, self.held.record())
            case TaskStep.DROP:
                assert self.transaction is not None
                return End(self.transaction, committed=False)
        return None

    def answered(self, answer: Answer) -> TaskTransaction:
        """The task after the answer to its request. Raises ``OptionError`` for records of others."""
        match self.step, answer:
            case TaskStep.DROP, _:
                # Whatever the broker says of it: nobody commits what no message tells of.
                return replace(self, step=TaskStep.FAILED)
            case _, Refused():
                return self._refused(answer)
            case TaskStep.BEGIN, Transaction():
                step = TaskStep.READ if self.may_be_held else TaskStep.WRITE
                return replace(self, step=step, transaction=answer)
            case TaskStep.READ, tuple():
                return self._told(answer)
            case TaskStep.HOLD, None:
                return replace(self, step=TaskStep.DONE)
        raise AssertionError(f"{self.step}: {answer}")

    def wrote(self, rows: int, size: int, topic: str) -> TaskTransaction:
        """All its rows are in their logs, or, where they were there before, all are counted."""
        if self.step is TaskStep.WRITE:
            held = HeldBatch(self.batch, rows, size)
            return replace(self, step=TaskStep.HOLD, held=held, topic=topic)
        assert self.step is TaskStep.COMPARE
        assert self.held is not None
        if (rows, size) == (self.held.rows, self.held.size):
            return replace(self, step=TaskStep.DONE, transaction=None)
        return self._failed(
            f"batch {self.batch} is committed already, by {quoted(self.group)} with {self.held.rows} row(s) "
            f"of {self.held.size} bytes, and now the task has {rows} row(s) of {size} bytes: {OTHER_ROWS}"
        )

    def broke(self, line: str) -> TaskTransaction:
        """Its rows could not be sent, or not be made."""
        if self.transaction is None:
            return self._failed(line)
        return replace(self, step=TaskStep.DROP, failure=line)

    def _told(self, records: tuple[Record, ...]) -> TaskTransaction:
        for record in records:
            held = HeldBatch.of(record, self.group)
            if held.batch == self.batch:
                return replace(self, step=TaskStep.COMPARE, held=held)
            if fault := self.batch.fault_after(held.batch):
                return self._failed(fault)
        return replace(self, step=TaskStep.WRITE)

    def _refused(self, refused: Refused) -> TaskTransaction:
        line = refused.line
        if refused.meaning is Meaning.FENCED:
            line += "; another write with this kafka.transactional.id began, or the transaction timed out"
        return self.broke(line)

    def _failed(self, line: str) -> TaskTransaction:
        return replace(self, step=TaskStep.FAILED, transaction=None, failure=line)
