"""A display of progress for work that waits until a part of it is shown.

halfway = Halfway(COUNT, release=file.touch)
publish(waiting(rows, file), options, Progress(halfway))
assert halfway.shown
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from spark_kafkawire.jobs.shell.progress import Work
from tests.support.polling import DEADLINE_S, INTERVAL_S


class Halfway:
    """Remembers each count of messages that is more than none and less than all, with the fraction that is
    shown beside it, and calls ``release``."""

    def __init__(self, total: int, release: Callable[[], object] = lambda: None) -> None:
        self.shown: list[tuple[int, float | None]] = []
        self._total, self._release = total, release

    def say(self, what: str) -> None:
        """Nothing: only counts are of interest."""

    def show(self, what: str, work: Work) -> None:  # noqa: ARG002
        if 0 < (count := work.messages) < self._total:
            self.shown.append((count, work.fraction))
            self._release()

    def close(self) -> None:
        """Nothing."""


def waiting(rows: DataFrame, until: Path) -> DataFrame:
    """The rows; after the first ones each task waits until a file is there, for a bounded time."""
    deadline_s, interval_s = DEADLINE_S, INTERVAL_S

    def wait(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        until_s = time.monotonic() + deadline_s
        for batch in batches:
            yield batch
            while not until.exists() and time.monotonic() < until_s:
                time.sleep(interval_s)

    return rows.mapInArrow(wait, rows.schema)
