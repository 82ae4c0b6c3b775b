"""What ``ingest`` remembers: one file for each batch, whose name tells how far the batch is.

    7.planned.json    it may be written already, wholly, or not at all
    7.done.json       it is written, and the group knows

Renaming the one to the other is what ends a run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .hadoop_files import Files
from .ingest_plan import Plan


@dataclass(frozen=True, slots=True)
class Remembered:
    """The newest plan, and whether it is done."""

    plan: Plan
    done: bool


class IngestState:
    """The folder of plans. Raises ``FileError``, and ``PlanError`` for what is no plan (both fatal)."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._folder = folder

    def newest(self) -> Remembered | None:
        """What the last run left; None before the first one."""
        matches = [
            re.fullmatch(r"(\d+)\.(planned|done)\.json", name) for name in self._files.names(self._folder)
        ]
        newest = max(((int(match[1]), match[2] == "done") for match in matches if match), default=None)
        if newest is None:
            return None
        batch, done = newest
        path = self._path(batch, done=done)
        return Remembered(Plan.from_json(self._files.read(path), path), done)

    def record(self, plan: Plan) -> None:
        """Remember what is about to be read."""
        self._files.make_folder(self._folder)
        self._files.write(self._path(plan.batch, done=False), plan.to_json())

    def finish(self, plan: Plan) -> None:
        """Remember that it is done."""
        self._files.rename(self._path(plan.batch, done=False), self._path(plan.batch, done=True))

    def _path(self, batch: int, *, done: bool) -> str:
        return f"{self._folder}/{batch}.{'done' if done else 'planned'}.json"
