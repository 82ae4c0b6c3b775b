"""The state of ``ingest``: one file for each batch, whose name gives the state of the batch.

    7.planned.json    the batch may be complete, partly written, or absent
    7.done.json       the batch is written, and its offsets are committed to the group
    lock              says that one of these files exists (``milestones``)

A run ends when it renames the first to the second. The files of finished batches stay: they prove that the
newest batch of an output belongs to this state.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from ..state.file_system import FileSystem, printable_path
from ..state.milestones import Milestone, has_reached, reach
from ..state.sealed import StateError
from .plan import FORMAT, Plan

#: Number of older records that a run reads besides the newest one. They reveal a damaged disk, and a fixed
#: number keeps the start of a run fast.
RECORDS_CHECKED_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Remembered:
    """The newest plan, and whether it is done."""

    plan: Plan
    done: bool


class IngestState:
    """The folder of plans. Raises ``FileError``, and ``StateError`` for a file that is no plan or the plan of
    another batch (both fatal)."""

    def __init__(self, files: FileSystem, folder: str) -> None:
        self._files = files
        self._folder = folder

    def newest(self) -> Remembered | None:
        """The record of the last run; None before the first one."""
        matches = [
            re.fullmatch(r"([0-9]+)\.(planned|done)\.json", name) for name in self._files.names(self._folder)
        ]
        found = sorted((int(match[1]), match[2] == "done") for match in matches if match)
        if not found:
            if has_reached(self._files, self._folder, Milestone.BEGUN):
                path = printable_path(self._path(0, done=True))
                raise FORMAT.error(
                    f"{path} or a later one is missing, and the folder records that it existed"
                )
            return None
        reach(self._files, self._folder, Milestone.BEGUN)
        batch, done = found[-1]
        self._check_older([other for other, is_done in found if is_done and other < batch], batch)
        for other, is_done in found:
            if other < batch and not is_done and (other, True) not in found:
                raise StateError(
                    f"{printable_path(self._path(other, done=False))} was never finished, and batch "
                    f"{batch} is recorded after it: files of two states are mixed here; put back those of one"
                )
        return Remembered(self._plan(batch, done=done), done)

    def _check_older(self, batches: Sequence[int], newest: int) -> None:
        """Raise ``StateError`` where one of the records before the newest is missing, or damaged."""
        for batch, after in pairwise([*batches, newest]):
            if after > batch + 1:
                raise StateError(
                    f"{printable_path(self._path(batch + 1, done=True))} is missing, and batches {batch} and "
                    f"{after} are recorded: put the file back, of which the file _plan of the output's "
                    f"batch={batch + 1} is a copy"
                )
        for batch in batches[-RECORDS_CHECKED_MAX:]:
            self._plan(batch, done=True)

    def done(self, batch: int) -> Plan | None:
        """The plan of a finished batch; None if it is not recorded."""
        return self._plan(batch, done=True) if self._files.exists(self._path(batch, done=True)) else None

    def _plan(self, batch: int, *, done: bool) -> Plan:
        path = self._path(batch, done=done)
        plan = Plan.from_json(self._files.read(path), path)
        if plan.batch != batch:
            raise StateError(
                f"{printable_path(path)} is that of batch {plan.batch}: put back the file that was there"
            )
        return plan

    def record(self, plan: Plan) -> None:
        """Record the plan of the batch that is about to be read."""
        self._files.make_folder(self._folder)
        self._files.create(self._path(plan.batch, done=False), plan.to_json())
        reach(self._files, self._folder, Milestone.BEGUN)

    def finish(self, plan: Plan) -> None:
        """Record that the batch is done."""
        self._files.rename(self._path(plan.batch, done=False), self._path(plan.batch, done=True))

    def _path(self, batch: int, *, done: bool) -> str:
        return f"{self._folder}/{batch}.{'done' if done else 'planned'}.json"
