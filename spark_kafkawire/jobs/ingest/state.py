"""What ``ingest`` remembers: one file for each batch, whose name tells how far the batch is.

    7.planned.json    it may be written already, wholly, or not at all
    7.done.json       it is written, and the group knows

Renaming the one to the other is what ends a run. The files of batches that are done stay: by them the newest
batch of an output is known to be this state's own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..state.file_system import FileSystem, shown_path
from ..state.sealed import StateError
from .plan import Plan


@dataclass(frozen=True, slots=True)
class Remembered:
    """The newest plan, and whether it is done."""

    plan: Plan
    done: bool


class IngestState:
    """The folder of plans. Raises ``FileError``, and ``StateError`` for what is no plan, or that of
    another batch (both fatal)."""

    def __init__(self, files: FileSystem, folder: str) -> None:
        self._files = files
        self._folder = folder

    def newest(self) -> Remembered | None:
        """What the last run left; None before the first one."""
        matches = [
            re.fullmatch(r"([0-9]+)\.(planned|done)\.json", name) for name in self._files.names(self._folder)
        ]
        found = sorted((int(match[1]), match[2] == "done") for match in matches if match)
        if not found:
            return None
        batch, done = found[-1]
        for other, is_done in found:
            if other < batch and not is_done and (other, True) not in found:
                raise StateError(
                    f"{shown_path(self._path(other, done=False))} was never finished, and batch {batch} is "
                    "recorded after it: files of two states are mixed here; put back those of one"
                )
        return Remembered(self._plan(batch, done=done), done)

    def done(self, batch: int) -> Plan | None:
        """The plan of a batch that is done; None where it is not recorded."""
        return self._plan(batch, done=True) if self._files.exists(self._path(batch, done=True)) else None

    def _plan(self, batch: int, *, done: bool) -> Plan:
        path = self._path(batch, done=done)
        plan = Plan.from_json(self._files.read(path), path)
        if plan.batch != batch:
            raise StateError(
                f"{shown_path(path)} is that of batch {plan.batch}: put back the file that was there"
            )
        return plan

    def record(self, plan: Plan) -> None:
        """Remember what is about to be read."""
        self._files.make_folder(self._folder)
        self._files.create(self._path(plan.batch, done=False), plan.to_json())

    def finish(self, plan: Plan) -> None:
        """Remember that it is done."""
        self._files.rename(self._path(plan.batch, done=False), self._path(plan.batch, done=True))

    def _path(self, batch: int, *, done: bool) -> str:
        return f"{self._folder}/{batch}.{'done' if done else 'planned'}.json"
