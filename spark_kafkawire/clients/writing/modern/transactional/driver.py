"""State machine of the driver of an exactly-once write to modern Kafka. No I/O.

The driver finishes earlier writes, decides, and ends the transactions of all tasks:

    take over ─► read ─┬─► ready ─► check ─► record the decision ─► commit tasks ─► await completion
                       │                                                    ─► record that it is done ─► done
                       └─► commit tasks of an earlier decision ─► await completion
                                                               ─► record that it is done ─► take over

``abort`` ends the transactions of a failed write. It first reads whether the write was decided after all, and
then commits it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from spark_kafkawire.cluster.modern.transactions import Transaction
from spark_kafkawire.errors import counted, quoted

from .requests import (
    Answer,
    AwaitCompletion,
    CommitOffset,
    EndTransaction,
    FenceIfCurrent,
    FetchOffsets,
    InitProducerId,
    IsOngoing,
    Refused,
    Request,
    TransactionOutcome,
)
from .write_state import (
    TOPIC_COUNT_MAX,
    BatchId,
    Decision,
    OffsetAndMetadata,
    decision_groups,
    driver_id,
    newest,
    part_count,
)


class DriverStep(enum.Enum):
    """Step of the driver."""

    TAKE_OVER = "take over the transactional id, which fences the driver before"
    READ = "fetch the last decision"
    READ_PARTS = "fetch the other parts of the last decision"
    COMMIT_TASKS = "commit the transactions of a decision"
    AWAIT_COMPLETION = "wait until all partitions have the markers"
    RECORD_DONE = "commit an offset that says that the write is done"
    COMMIT_DONE = "commit the transaction of that offset"
    READY = "let the tasks begin, or continue"
    CHECK = "ask whether the transactions of all tasks are ongoing"
    RECORD_DECISION = "commit the offsets that hold the decision"
    COMMIT_DECISION = "commit the transaction of the decision, which counts from then on"
    FENCE_SELF = "fence its own id: nothing is decided after that, and attempts find that out"
    ABORT_TASKS = "abort the transactions of all tasks"
    DONE = "end: all transactions are committed"
    ABORTED = "end: none of the rows is committed"
    FAILED = "end: the outcome is unknown or partial, and the next run with the name settles it"


class Phase(enum.Enum):
    """Phase of a write, which determines what follows after reading and finishing."""

    OPEN = "to begin a write"
    COMMIT = "to commit it"
    ABORT = "to abort it"


@dataclass(frozen=True, slots=True)
class WriteSummary:
    """Summary of the commit messages of all tasks.

    It has the batch, None without messages; the number of tasks, and of tasks with rows; the transactions of
    tasks that sent rows; and the topics of all rows, sorted."""

    batch: BatchId | None
    tasks: int
    busy: int
    open: tuple[Transaction, ...]
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Due:
    """Requests without an answer yet: all but the first ``answered`` ones.

    Answers come in the order of the requests. So the cost of an answer does not grow with the number of
    requests."""

    requests: tuple[Request, ...] = ()
    answered: int = 0

    def __bool__(self) -> bool:
        return self.answered < len(self.requests)

    def left(self) -> tuple[Request, ...]:
        """Return the requests, in order."""
        return self.requests[self.answered :]

    def without(self, request: Request) -> Due:
        """Return what is due after the answer to a request."""
        at = self.requests.index(request, self.answered)
        if at == self.answered:
            return Due(self.requests, at + 1)
        return Due(self.requests[:at] + self.requests[at + 1 :], self.answered)


@dataclass(frozen=True, slots=True)
class DriverTransaction:
    """Driver of the writes of one prefix. ``last`` is the decision that counts now, ``earlier`` that of an
    interrupted write whose transactions this driver has committed; None without one."""

    prefix: str
    step: DriverStep = DriverStep.TAKE_OVER
    phase: Phase = Phase.OPEN
    transaction: Transaction | None = None
    last: Decision | None = None
    earlier: Decision | None = None
    write: WriteSummary | None = None
    due: Due = Due()
    #: Parts of the last decision that were fetched.
    parts: tuple[tuple[str, OffsetAndMetadata], ...] = ()
    #: Topics that keep them.
    topics: tuple[str, ...] = ()
    lost: int = 0
    failure: str = ""

    @classmethod
    def begin(cls, prefix: str) -> DriverTransaction:
        """Return a driver that takes over the name: the previous driver can decide nothing any more."""
        return cls(prefix, due=Due((InitProducerId(driver_id(prefix)),)))

    @property
    def id(self) -> str:
        """Transactional id of the driver, and the group of its decisions."""
        return driver_id(self.prefix)

    @property
    def next_serial(self) -> int:
        """Serial of the decision after the last one."""
        return self.last.serial + 1 if self.last else 1

    def requests(self) -> tuple[Request, ...]:
        """Requests to send now, in any order or at the same time; none while the caller has to act."""
        return self.due.left()

    def fault_of(self, batch: BatchId | None) -> str | None:
        """Reason why a batch must not follow the last decision; None if it may."""
        return self.last.fault_before(batch) if self.last else None

    def _fault(self, write: WriteSummary) -> str | None:
        last = self.last
        if last is None or last.batch != write.batch:
            return self.fault_of(write.batch)
        return last.fault_again(write.tasks, write.busy, len(write.open), write.topics)

    def may_be_committed(self, batch: BatchId) -> bool:
        """Return whether rows of a batch may be committed already."""
        return self.last is not None and self.last.may_be_committed(batch)

    def commit(self, write: WriteSummary) -> DriverTransaction:
        """Commit the transactions of all tasks, which are done."""
        assert self.step is DriverStep.READY
        committing = replace(self, phase=Phase.COMMIT, write=write)
        if fault := self._fault(write):
            return committing._abort_tasks(fault)
        if not write.open:
            return replace(committing, step=DriverStep.DONE, due=Due())
        return replace(committing, step=DriverStep.CHECK, due=Due(tuple(map(IsOngoing, write.open))))

    def abort(self, write: WriteSummary) -> DriverTransaction:
        """Abort a write that failed, unless it was decided."""
        aborting = replace(self, phase=Phase.ABORT, write=write)
        if self.transaction is None:
            return aborting
        return replace(aborting, step=DriverStep.FENCE_SELF, due=Due((FenceIfCurrent(self.transaction),)))

    def answered(self, request: Request, answer: Answer) -> DriverTransaction:
        """Return the driver after the answer to a request. Raises ``OptionError`` for records of another
        program."""
        return replace(self, due=self.due.without(request))._after(request, answer)

    def _after(self, request: Request, answer: Answer) -> DriverTransaction:
        match self.step, answer:
            case DriverStep.COMMIT_TASKS, Refused(outcome, message):
                return self._commit_refused(outcome, message)
            case DriverStep.AWAIT_COMPLETION, Refused(
                TransactionOutcome.UNKNOWN | TransactionOutcome.FATAL, message
            ):
                return self._fail(message)
            case DriverStep.AWAIT_COMPLETION, _:
                return self if self.due else self._record_done()
            case DriverStep.ABORT_TASKS, _:
                return self if self.due else self._aborted()
            case DriverStep.FENCE_SELF, _:
                # A refusal changes nothing: another driver took over, or the transaction was ongoing.
                return self._read_last()
            case DriverStep.CHECK, False:
                assert isinstance(request, IsOngoing)
                return self._abort_tasks(
                    f"the transaction {quoted(request.transaction.id)} is not open any more: it took longer "
                    "than kafka.transaction.timeout.ms, or another attempt or write began it again"
                )
            case ((DriverStep.RECORD_DONE | DriverStep.COMMIT_DONE), Refused(_, message)) if (
                self.phase is Phase.COMMIT
            ):
                return self._done_not_recorded(message)
            case ((DriverStep.CHECK | DriverStep.RECORD_DECISION), Refused(outcome, message)):
                return self._abort_tasks(_blamed(outcome, message))
            case _, Refused(outcome, message):
                return self._fail(_blamed(outcome, message))
        return self._next(request, answer)

    def _next(self, request: Request, answer: Answer) -> DriverTransaction:
        match self.step, answer:
            case DriverStep.TAKE_OVER, Transaction():
                return replace(self, transaction=answer)._read_last()
            case DriverStep.READ, tuple():
                return self._read(answer)
            case DriverStep.READ_PARTS, tuple():
                assert isinstance(request, FetchOffsets)
                return self._read_part(request.group, answer)
            case DriverStep.COMMIT_TASKS, _:
                return self if self.due else self._await_completion()
            case DriverStep.RECORD_DONE, None:
                return self._commit_own(DriverStep.COMMIT_DONE)
            case DriverStep.COMMIT_DONE, Transaction():
                return self._done_recorded(answer)
            case DriverStep.CHECK, True | None:
                return self if self.due else self._record_decision()
            case DriverStep.RECORD_DECISION, None:
                return self if self.due else self._commit_own(DriverStep.COMMIT_DECISION)
            case DriverStep.COMMIT_DECISION, Transaction():
                return replace(self, transaction=answer)._commit_tasks()
        raise AssertionError(f"{self.step}: {answer}")

    def _read_last(self) -> DriverTransaction:
        return replace(self, step=DriverStep.READ, due=Due((FetchOffsets(self.id, is_stable=True),)))

    def _read(self, records: tuple[OffsetAndMetadata, ...]) -> DriverTransaction:
        record = newest(records)
        if record is None:
            return self._last_known(None)
        count = part_count(record, self.id)
        groups = tuple(decision_groups(self.id, count))
        topics = tuple(sorted(each.topic for each in records if each.offset == record.offset))
        if count == 1:
            return self._last_known(Decision.of((record,), self.prefix, self.id, topics))
        return replace(
            self,
            step=DriverStep.READ_PARTS,
            parts=((self.id, record),),
            topics=topics,
            due=Due(tuple(FetchOffsets(group, is_stable=True) for group in groups[1:])),
        )

    def _read_part(self, group: str, records: tuple[OffsetAndMetadata, ...]) -> DriverTransaction:
        record = newest(records)
        serial = self.parts[0][1].offset
        if record is None or record.offset != serial:
            message = f"group {quoted(group)} lacks a part of decision {serial} of {quoted(self.prefix)}"
            return replace(self, step=DriverStep.FAILED, due=Due(), failure=message)
        read = replace(self, parts=(*self.parts, (group, record)))
        if read.due:
            return read
        texts = tuple(each for _, each in sorted(read.parts))
        return replace(read, parts=())._last_known(Decision.of(texts, self.prefix, self.id, self.topics))

    def _last_known(self, last: Decision | None) -> DriverTransaction:
        """Continue with the last decision, which is known now."""
        known = replace(self, last=last, due=Due())
        if self.phase is Phase.ABORT:
            assert self.write is not None
            return known._abort_unless_decided(last, self.write)
        if last is not None and last.open:
            return replace(known, earlier=last)._commit_tasks()
        return replace(known, step=DriverStep.READY)

    def _abort_unless_decided(self, last: Decision | None, write: WriteSummary) -> DriverTransaction:
        # Other batches of a stream use the same ids.
        is_decided = last is not None and write.open and last.batch == write.batch
        if last is None or not is_decided or last.first != write.open[0].id:
            return self._abort_tasks(self.failure or "the write failed")
        if last.lost:
            return replace(self, lost=last.lost)._finished()
        return self._commit_tasks()

    def _record_decision(self) -> DriverTransaction:
        write = self.write
        assert write is not None
        assert write.batch is not None
        assert self.transaction is not None
        counts = write.tasks, write.busy
        # A stable read sees that an offset is pending where the group has one already.
        known = self.last.topics if self.last else ()
        kept = sorted(write.topics, key=lambda topic: topic not in known)[:TOPIC_COUNT_MAX]
        topics = tuple(sorted(kept)), len(write.topics)
        decision = Decision(self.next_serial, write.batch, *counts, write.open, *topics, write.open[0].id)
        deciding = replace(self, last=decision)
        return replace(
            deciding, step=DriverStep.RECORD_DECISION, due=deciding._commit_offsets(self.transaction)
        )

    def _commit_offsets(self, transaction: Transaction) -> Due:
        assert self.last is not None
        records = self.last.records(self.prefix)
        groups = decision_groups(self.id, len(records))
        commits = (
            CommitOffset(transaction, group, tuple(replace(record, topic=each) for each in self.last.topics))
            for group, record in zip(groups, records, strict=True)
        )
        return Due(tuple(commits))

    def _commit_own(self, step: DriverStep) -> DriverTransaction:
        assert self.transaction is not None
        return replace(self, step=step, due=Due((EndTransaction(self.transaction, committed=True),)))

    def _commit_tasks(self) -> DriverTransaction:
        assert self.last is not None
        ends = tuple(EndTransaction(each, committed=True) for each in self.last.open)
        return replace(self, step=DriverStep.COMMIT_TASKS, due=Due(ends)) if ends else self._finished()

    def _commit_refused(self, outcome: TransactionOutcome, message: str) -> DriverTransaction:
        """Count a decided transaction that cannot be committed any more, or fail."""
        if outcome in (TransactionOutcome.GONE, TransactionOutcome.FENCED):
            lost = replace(self, lost=self.lost + 1, failure=self.failure or message)
            return lost if lost.due else lost._await_completion()
        return self._fail(message)

    def _await_completion(self) -> DriverTransaction:
        """Wait for completion before it is recorded: the next tasks that read must find these offsets."""
        assert self.last is not None
        return replace(
            self,
            step=DriverStep.AWAIT_COMPLETION,
            due=Due(tuple(map(AwaitCompletion, self.last.open))),
        )

    def _record_done(self) -> DriverTransaction:
        assert self.last is not None
        finished = replace(self, last=self.last.finished(self.lost))
        assert self.transaction is not None
        if self.phase is Phase.ABORT:
            # The next driver commits it again, and records that.
            return finished._done_recorded(self.transaction)
        return replace(finished, step=DriverStep.RECORD_DONE, due=finished._commit_offsets(self.transaction))

    def _done_recorded(self, transaction: Transaction) -> DriverTransaction:
        marked = replace(self, transaction=transaction)
        if self.phase is Phase.OPEN:
            # A new epoch: the state of the id shows whether the driver decided (see ``IsDriverWaiting``).
            return replace(
                marked, step=DriverStep.TAKE_OVER, due=Due((InitProducerId(self.id),)), lost=0, failure=""
            )
        return marked._finished()

    def _done_not_recorded(self, message: str) -> DriverTransaction:
        """Finish without the record: the next driver commits all again, which changes nothing."""
        return (
            self._finished() if self.lost else replace(self, step=DriverStep.DONE, due=Due(), failure=message)
        )

    def _finished(self) -> DriverTransaction:
        if not self.lost:
            return replace(self, step=DriverStep.DONE, due=Due())
        return self._fail(f"{self._lost} could not be committed any more: {self.failure}")

    @property
    def _lost(self) -> str:
        busy = self.last.busy if self.last is not None else self.lost
        if self.lost < busy:
            return f"{self.lost} of {busy} transactions"
        return "the only transaction" if self.lost == 1 else f"all {counted(self.lost, 'transaction')}"

    def _fail(self, message: str) -> DriverTransaction:
        return replace(self, step=DriverStep.FAILED, due=Due(), failure=message)

    def _abort_tasks(self, message: str) -> DriverTransaction:
        assert self.write is not None
        ends = tuple(EndTransaction(each, committed=False) for each in self.write.open)
        if self.step is DriverStep.RECORD_DECISION and self.transaction is not None:
            ends += (EndTransaction(self.transaction, committed=False),)
        aborting = replace(self, step=DriverStep.ABORT_TASKS, due=Due(ends), failure=message)
        return aborting if ends else aborting._aborted()

    def _aborted(self) -> DriverTransaction:
        return replace(self, step=DriverStep.ABORTED, due=Due())


def _blamed(outcome: TransactionOutcome, message: str) -> str:
    """Add to an error who may have caused it."""
    if outcome is TransactionOutcome.FENCED:
        return f"{message}; another run with this kafka.transactional.id began, and this one gives way"
    return message
