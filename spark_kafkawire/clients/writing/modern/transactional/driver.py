"""The driver of a write: what earlier ones left, the decision, and the end of all tasks' transactions. Pure.

    take over ─► read ─┬──────────────────────────► ready ─► check ─► decide ─► finish ─► mark ─► done
                       └─► finish ─► mark (an earlier write that was decided and not done) ─► ready

What a write that failed has left, ``undo`` ends: it reads first whether it was decided after all, and then
goes on to commit it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .....cluster.modern.transactions import Transaction
from .....errors import quoted
from .meanings import Meaning
from .names import driver_id
from .records import BatchId, Decision, each_group, parts_of
from .requests import Answer, Begin, End, Hold, IsOpen, Read, Record, Refused, Request, Settle, newest
from .steps import DriverStep, Purpose, Write


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver of the writes of one prefix. ``last`` is the decision that counts now."""

    prefix: str
    step: DriverStep = DriverStep.TAKE_OVER
    purpose: Purpose = Purpose.OPEN
    transaction: Transaction | None = None
    last: Decision | None = None
    write: Write | None = None
    #: What is to be asked, and has not been answered; and what came of the parts of it.
    due: tuple[Request, ...] = ()
    parts: tuple[tuple[str, Record], ...] = ()
    lost: int = 0
    failure: str = ""

    @classmethod
    def begin(cls, prefix: str) -> Driver:
        """One that takes the name over: the driver before it decides nothing any more."""
        return cls(prefix, due=(Begin(driver_id(prefix)),))

    @property
    def id(self) -> str:
        """Its transactional id, and the group of its records."""
        return driver_id(self.prefix)

    def requests(self) -> tuple[Request, ...]:
        """What is to be asked now, in any order or side by side; nothing where others come next."""
        return self.due

    def fault_of(self, batch: BatchId | None) -> str | None:
        """Why a batch is not to be written after what was decided last; None where it may be."""
        return self.last.fault_before(batch) if self.last else None

    def _fault(self, write: Write) -> str | None:
        last = self.last
        if last is None or last.batch != write.batch:
            return self.fault_of(write.batch)
        return last.fault_again(write.tasks, write.busy, len(write.open))

    def may_hold(self, batch: BatchId) -> bool:
        """Whether tasks may find rows of a batch there."""
        return self.last is not None and self.last.may_hold(batch)

    def commit(self, write: Write) -> Driver:
        """All tasks are done: commit what they wrote."""
        assert self.step is DriverStep.READY
        committing = replace(self, purpose=Purpose.COMMIT, write=write)
        if fault := self._fault(write):
            return committing._abort(fault)
        if not write.open:
            return replace(committing, step=DriverStep.DONE, due=())
        return replace(committing, step=DriverStep.CHECK, due=tuple(IsOpen(each) for each in write.open))

    def undo(self, write: Write) -> Driver:
        """The write failed, whatever this driver knows of it: abort it, unless it was decided."""
        undoing = replace(self, purpose=Purpose.UNDO, write=write)
        if self.transaction is None:
            return undoing
        return replace(undoing, step=DriverStep.DROP, due=(End(self.transaction, committed=False),))

    def answered(self, request: Request, answer: Answer) -> Driver:
        """The driver after the answer to a request. Raises ``OptionError`` for records of others."""
        at = self.due.index(request)  # mostly the first: a write of a thousand tasks has a thousand
        return replace(self, due=self.due[:at] + self.due[at + 1 :])._after(request, answer)

    def _after(self, request: Request, answer: Answer) -> Driver:
        match self.step, answer:
            case DriverStep.FINISH, Refused(meaning, line):
                return self._not_committed(meaning, line)
            case DriverStep.COMPLETE, Refused(Meaning.UNKNOWN | Meaning.FATAL, line):
                return self._unsettled(line)
            case DriverStep.COMPLETE, _:
                return self if self.due else self._mark()
            case DriverStep.ABORT, _:
                return self if self.due else self._aborted()
            case DriverStep.DROP, _:
                # Refused, too, where there is nothing to abort, or another driver took over.
                return replace(self, step=DriverStep.READ, due=(Read(self.id, is_stable=True),))
            case DriverStep.CHECK, False:
                assert isinstance(request, IsOpen)
                return self._abort(
                    f"the transaction {quoted(request.transaction.id)} is not open any more: it took longer "
                    "than kafka.transaction.timeout.ms, or another attempt or write began it anew"
                )
            case ((DriverStep.MARK | DriverStep.END_MARK), Refused(_, line)) if (
                self.purpose is Purpose.COMMIT
            ):
                # All is committed, and the next driver commits it again, which changes nothing.
                return (
                    self._outcome()
                    if self.lost
                    else replace(self, step=DriverStep.DONE, due=(), failure=line)
                )
            case ((DriverStep.CHECK | DriverStep.DECIDE), Refused(meaning, line)):
                return self._abort(_blamed(meaning, line))
            case _, Refused(meaning, line):
                return self._unsettled(_blamed(meaning, line))
        return self._next(request, answer)

    def _next(self, request: Request, answer: Answer) -> Driver:
        match self.step, answer:
            case DriverStep.TAKE_OVER, Transaction():
                return replace(
                    self, step=DriverStep.READ, transaction=answer, due=(Read(self.id, is_stable=True),)
                )
            case DriverStep.READ, tuple():
                return self._read(answer)
            case DriverStep.READ_PARTS, tuple():
                assert isinstance(request, Read)
                return self._read_part(request.group, answer)
            case DriverStep.FINISH, _:
                return self if self.due else self._complete()
            case DriverStep.MARK, None:
                return self._ending(DriverStep.END_MARK)
            case DriverStep.END_MARK, Transaction():
                return self._marked(answer)
            case DriverStep.CHECK, True | None:
                return self if self.due else self._decide()
            case DriverStep.DECIDE, None:
                return self if self.due else self._ending(DriverStep.END_DECISION)
            case DriverStep.END_DECISION, Transaction():
                return replace(self, transaction=answer)._finish()
        raise AssertionError(f"{self.step}: {answer}")

    def _read(self, records: tuple[Record, ...]) -> Driver:
        record = newest(records)
        if record is None:
            return self._settled(None)
        count = parts_of(record, self.id)
        groups = tuple(each_group(self.id, count))
        if count == 1:
            return self._settled(Decision.of((record,), self.prefix, self.id))
        return replace(
            self,
            step=DriverStep.READ_PARTS,
            parts=((self.id, record),),
            due=tuple(Read(group, is_stable=True) for group in groups[1:]),
        )

    def _read_part(self, group: str, records: tuple[Record, ...]) -> Driver:
        record = newest(records)
        serial = self.parts[0][1].number
        if record is None or record.number != serial:
            line = f"group {quoted(group)} lacks a part of decision {serial} of {quoted(self.prefix)}"
            return replace(self, step=DriverStep.FAILED, due=(), failure=line)
        read = replace(self, parts=(*self.parts, (group, record)))
        if read.due:
            return read
        texts = tuple(each for _, each in sorted(read.parts))
        return replace(read, parts=())._settled(Decision.of(texts, self.prefix, self.id))

    def _settled(self, last: Decision | None) -> Driver:
        """What was decided last is known."""
        known = replace(self, last=last, due=())
        if self.purpose is Purpose.UNDO:
            assert self.write is not None
            return known._undone(last, self.write)
        return known._finish() if last is not None and last.open else replace(known, step=DriverStep.READY)

    def _undone(self, last: Decision | None, write: Write) -> Driver:
        # Ids are used again in other batches of a stream.
        is_decided = last is not None and write.open and last.batch == write.batch
        if last is None or not is_decided or last.first != write.open[0].id:
            return self._abort(self.failure or "the write failed")
        if last.lost:
            return replace(self, lost=last.lost)._outcome()
        return self._finish()

    def _decide(self) -> Driver:
        write = self.write
        assert write is not None
        assert write.batch is not None
        assert self.transaction is not None
        serial = self.last.serial + 1 if self.last else 1
        counts = write.tasks, write.busy
        last = Decision(serial, write.batch, *counts, write.open, write.topic, write.open[0].id)
        deciding = replace(self, last=last)
        return replace(deciding, step=DriverStep.DECIDE, due=deciding._held(self.transaction))

    def _held(self, transaction: Transaction) -> tuple[Request, ...]:
        assert self.last is not None
        records = self.last.records(self.prefix)
        groups = each_group(self.id, len(records))
        return tuple(
            Hold(transaction, group, self.last.topic, record)
            for group, record in zip(groups, records, strict=True)
        )

    def _ending(self, step: DriverStep) -> Driver:
        assert self.transaction is not None
        return replace(self, step=step, due=(End(self.transaction, committed=True),))

    def _finish(self) -> Driver:
        assert self.last is not None
        ends = tuple(End(each, committed=True) for each in self.last.open)
        return replace(self, step=DriverStep.FINISH, due=ends) if ends else self._outcome()

    def _not_committed(self, meaning: Meaning, line: str) -> Driver:
        """One that was decided is not to be committed any more, or not now."""
        if meaning in (Meaning.GONE, Meaning.FENCED):
            lost = replace(self, lost=self.lost + 1, failure=self.failure or line)
            return lost if lost.due else lost._complete()
        return self._unsettled(line)

    def _complete(self) -> Driver:
        """Who reads the records of tasks next must find these: so they are complete before that is noted."""
        assert self.last is not None
        return replace(self, step=DriverStep.COMPLETE, due=tuple(Settle(each) for each in self.last.open))

    def _mark(self) -> Driver:
        assert self.last is not None
        finished = replace(self, last=self.last.finished(self.lost))
        assert self.transaction is not None
        if self.purpose is Purpose.UNDO:
            # The next driver finishes it again, and notes it.
            return finished._marked(self.transaction)
        return replace(finished, step=DriverStep.MARK, due=finished._held(self.transaction))

    def _marked(self, transaction: Transaction) -> Driver:
        marked = replace(self, transaction=transaction)
        if self.purpose is Purpose.OPEN:
            return replace(marked, step=DriverStep.READY, due=(), lost=0, failure="")
        return marked._outcome()

    def _outcome(self) -> Driver:
        if not self.lost:
            return replace(self, step=DriverStep.DONE, due=())
        return self._unsettled(
            f"{self.lost} transaction(s) could not be committed any more, while others were: {self.failure}"
        )

    def _unsettled(self, line: str) -> Driver:
        return replace(self, step=DriverStep.FAILED, due=(), failure=line)

    def _abort(self, line: str) -> Driver:
        assert self.write is not None
        ends = tuple(End(each, committed=False) for each in self.write.open)
        if self.step is DriverStep.DECIDE and self.transaction is not None:
            ends += (End(self.transaction, committed=False),)
        aborting = replace(self, step=DriverStep.ABORT, due=ends, failure=line)
        return aborting if ends else aborting._aborted()

    def _aborted(self) -> Driver:
        return replace(self, step=DriverStep.ABORTED, due=())


def _blamed(meaning: Meaning, line: str) -> str:
    """An error with who may be behind it."""
    if meaning is Meaning.FENCED:
        return f"{line}; another run with this kafka.transactional.id began, and this one gives way"
    return line
