"""A run of transactions: shows open ones, or finishes those of an interrupted write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TextIO

from spark_kafkawire.errors import OptionError, one_line
from spark_kafkawire.options import WriteOptions

from ..shell.progress import Progress
from .finishing import Finished, FinishPlan, finish
from .report import json_of, table_of
from .survey import TransactionsSurvey

#: Options that the job sets itself.
_OWN: Final = ("delivery", "kafka.transactional.id", "batch")


@dataclass(frozen=True, slots=True)
class TransactionsOptions:
    """Options of a report or of ``--finish``. Raises ``OptionError`` (fatal) for arguments that contradict
    each other."""

    connection: Mapping[str, str] = field(repr=False)
    name: str | None = None
    finish: bool = False
    force: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        for argument, is_given in (("--force", self.force), ("--dry-run", self.dry_run)):
            if is_given and not self.finish:
                raise OptionError(f"argument {argument} needs --finish; add that, or leave it out")
        if self.finish and self.name is None:
            raise OptionError("argument --finish needs --transactional-id, the name of the write; add it")
        for name in self.connection:
            if name.lower() in _OWN:
                raise OptionError(f"argument --option: {name} is set by --transactional-id; leave it out")

    def write(self) -> WriteOptions:
        """The options of a write of that name. Raises ``OptionError`` (fatal)."""
        named = {} if self.name is None else {"kafka.transactional.id": self.name}
        return WriteOptions.parse({**self.connection, "delivery": "exactly-once", **named})


def run_transactions(
    options: TransactionsOptions, progress: Progress, out: TextIO, *, json: bool
) -> dict[str, Any]:
    """The summary that is still to be printed: without ``json`` a report is printed here.

    Raises ``OptionError`` (fatal), and as ``finish``.
    """
    write = options.write()
    progress.step("asking the brokers")
    found = TransactionsSurvey.of(write, options.name, needs_list=not options.finish)
    if options.finish:
        return _finished(options, write, found, progress)
    if json:
        return json_of(found)
    for line in table_of(found):
        print(one_line(line), file=out)
    return {}


def _finished(
    options: TransactionsOptions, write: WriteOptions, found: TransactionsSurvey, progress: Progress
) -> dict[str, Any]:
    plan = FinishPlan.of(found)
    if not (options.force or options.dry_run):
        plan.check()
    finished = Finished(plan.commit, tuple(each.id for each in plan.abort))
    if not options.dry_run:
        progress.step(f"committing {len(plan.commit)} transaction(s), aborting {len(plan.abort)}")
        finished = finish(write, plan)
    return {
        **({"dry_run": True} if options.dry_run else {}),
        "committed": [*finished.committed],
        "aborted": [*finished.aborted],
        **(
            {}
            if found.is_listed
            else {"not_listed": "brokers before 3.0: transactions without a decision time out"}
        ),
    }
