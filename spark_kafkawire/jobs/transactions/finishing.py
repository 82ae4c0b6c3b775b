"""Finishes the transactions of an interrupted write, as the next run of its name would do before its rows."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from spark_kafkawire.clients.writing.modern.transactional.driver import WriteCommitter
from spark_kafkawire.errors import DeliveryError, OptionError, quoted
from spark_kafkawire.options import WriteOptions

from ..shell.progress import format_duration
from .survey import OpenTransaction, TransactionsSurvey

#: Ids that an error names.
_NAMED_MAX: Final = 3
#: Interval between looks at transactions that are ending, seconds: brokers take about 50 ms.
_ENDING_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class FinishPlan:
    """Actions for the write of a name. ``commit`` are the ids that its decision names and that are not known
    to be committed, ``abort`` those without a decision."""

    name: str
    commit: tuple[str, ...]
    abort: tuple[OpenTransaction, ...]

    @classmethod
    def of(cls, found: TransactionsSurvey) -> FinishPlan:
        """The plan that follows from the survey of a name."""
        assert found.name is not None
        decision = found.decisions.get(found.name)
        commit = tuple(each.id for each in decision.open) if decision else ()
        abort = (each for each in found.transactions if each.is_ongoing and not each.is_decided)
        return cls(found.name, commit, tuple(abort))

    def check(self) -> None:
        """Raise ``OptionError`` (fatal) if finishing may end a write that is running.

        While the last decision of the name is not done, finishing can end no running write: a new write
        finishes that decision before it begins.
        """
        if not self.abort or self.commit:
            return
        youngest_s = min(each.age_s for each in self.abort)
        raise OptionError(
            f"argument --finish: {len(self.abort)} transaction(s) of {quoted(self.name)} are open without a "
            f"decision, the youngest for {format_duration(youngest_s)}: aborting them makes a write that "
            "still runs fail, and brokers cannot say whether one runs; check that none does, and add --force"
        )


@dataclass(frozen=True, slots=True)
class Finished:
    """Transactional ids of the transactions that were ended."""

    committed: tuple[str, ...] = ()
    aborted: tuple[str, ...] = ()


def finish(options: WriteOptions, plan: FinishPlan) -> Finished:
    """Commit what was decided, and abort the rest; ``options`` are those of a write of the name.

    A driver may decide after the plan was made: then the transactions to abort are committed. If there is
    nothing to do, the name is not taken over. Returns when readers wait for none of these transactions.
    Raises ``DeliveryError`` (fatal) if a part can no longer be committed, or is still open after
    ``requestTimeout``, and as ``WriteCommitter.begin``.
    """
    finished = Finished()
    if plan.commit or plan.abort:
        committer = WriteCommitter.begin(options)
        committer.fence_old_attempts()
        committed = tuple(each.id for each in committer.earlier.open) if committer.earlier else ()
        finished = Finished(committed, tuple(each.id for each in plan.abort if each.id not in committed))
    found = _without_ending(options, plan.name)
    ended = {*finished.committed, *finished.aborted}
    if left := [each.id for each in found.transactions if each.id in ended]:
        named = ", ".join(map(quoted, left[:_NAMED_MAX]))
        raise DeliveryError(f"{len(left)} transaction(s) are still open, {named} first; run again")
    last = found.decisions.get(plan.name)
    if last is not None and last.lost:
        raise DeliveryError(
            f"batch {last.batch} of {quoted(plan.name)} {last.loss}; run that write again, with the same "
            "rows and name: what is there is not written twice"
        )
    return finished


def _without_ending(options: WriteOptions, name: str) -> TransactionsSurvey:
    """Survey a name once none of its transactions is ending, or after ``requestTimeout``: another write of
    the name may run, and end one after the other."""
    stop_s = time.monotonic() + options.net.request_timeout_s
    while True:
        found = TransactionsSurvey.of(options, name, needs_list=False)
        if all(each.is_ongoing for each in found.transactions) or time.monotonic() >= stop_s:
            return found
        time.sleep(_ENDING_POLL_S)
