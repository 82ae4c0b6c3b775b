"""The end of what an interrupted write left: what the next run of its name would do, without its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...clients.writing.modern.transactional.conductor import Conductor
from ...errors import DeliveryError, OptionError, quoted
from ...options import WriteOptions
from ..shell.progress import shown_time
from .survey import OpenTransaction, TransactionsSurvey

#: Ids that an error names.
_NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done about the write of a name. ``commit`` are those ids that its decision names and that
    are not known to be committed, ``abort`` those that nothing was decided about."""

    name: str
    commit: tuple[str, ...]
    abort: tuple[OpenTransaction, ...]

    @classmethod
    def of(cls, found: TransactionsSurvey) -> Plan:
        """By what brokers know of a name."""
        assert found.name is not None
        decision = found.decisions.get(found.name)
        commit = tuple(each.id for each in decision.open) if decision else ()
        abort = (each for each in found.transactions if each.is_ongoing and not each.is_decided)
        return cls(found.name, commit, tuple(abort))

    def check(self) -> None:
        """Raise ``OptionError`` (fatal) where a write that runs now may be ended by it.

        Of the name whose last decision is not done none is to be seen: whoever begins finishes that first.
        """
        if not self.abort or self.commit:
            return
        youngest_s = min(each.age_s for each in self.abort)
        raise OptionError(
            f"argument --finish: {len(self.abort)} transaction(s) of {quoted(self.name)} are open of "
            f"which nothing was decided, the youngest for {shown_time(youngest_s)}: a write that still runs "
            "fails by that, and brokers cannot tell whether one does; see that none does, and add --force"
        )


def finish(options: WriteOptions, plan: Plan) -> None:
    """Commit what was decided, and abort the rest; ``options`` are those of a write of the name.

    Where nothing is to be done, the name is not taken over. Raises ``DeliveryError`` (fatal) where a part of
    it cannot be committed any more, or is open still, and as ``Conductor.begin``.
    """
    if plan.commit or plan.abort:
        conductor = Conductor.begin(options)
        if plan.abort:
            conductor.sweep([each.id for each in plan.abort])
    found = TransactionsSurvey.of(options, plan.name, needs_list=False)
    ended = {*plan.commit, *(each.id for each in plan.abort)}
    if left := [each.id for each in found.transactions if each.is_ongoing and each.id in ended]:
        named = ", ".join(map(quoted, left[:_NAMED_MAX]))
        raise DeliveryError(f"{len(left)} transaction(s) are open still, {named} first; run again")
    last = found.decisions.get(plan.name)
    if last is not None and last.lost:
        raise DeliveryError(
            f"batch {last.batch} of {quoted(plan.name)} is there in part: {last.lost} of its transactions "
            "had timed out before the rest was committed; run that write again, with the same rows and name: "
            "what is there is not written twice"
        )
