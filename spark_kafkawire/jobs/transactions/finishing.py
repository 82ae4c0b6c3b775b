"""Finishes the transactions of an interrupted write, as the next run of its name would do before its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spark_kafkawire.clients.writing.modern.transactional.committer import WriteCommitter
from spark_kafkawire.errors import DeliveryError, OptionError, quoted
from spark_kafkawire.options import WriteOptions

from ..shell.progress import format_duration
from .survey import OpenTransaction, TransactionsSurvey

#: Ids that an error names.
_NAMED_MAX: Final = 3


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


def finish(options: WriteOptions, plan: FinishPlan) -> None:
    """Commit what was decided, and abort the rest; ``options`` are those of a write of the name.

    If there is nothing to do, the name is not taken over. Raises ``DeliveryError`` (fatal) if a part can no
    longer be committed, or is still open, and as ``WriteCommitter.begin``.
    """
    if plan.commit or plan.abort:
        committer = WriteCommitter.begin(options)
        committer.fence_old_attempts()
    found = TransactionsSurvey.of(options, plan.name, needs_list=False)
    ended = {*plan.commit, *(each.id for each in plan.abort)}
    if left := [each.id for each in found.transactions if each.is_ongoing and each.id in ended]:
        named = ", ".join(map(quoted, left[:_NAMED_MAX]))
        raise DeliveryError(f"{len(left)} transaction(s) are still open, {named} first; run again")
    last = found.decisions.get(plan.name)
    if last is not None and last.lost:
        raise DeliveryError(
            f"batch {last.batch} of {quoted(plan.name)} {last.loss}; run that write again, with the same "
            "rows and name: what is there is not written twice"
        )
