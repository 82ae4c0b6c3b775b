"""In which order the logs of a topic get rows that choose none by a key or a column.

    turns = Turns(logs, run_bytes_max=1 << 20, draw=random.Random())
    turns.by_size(sizes)    # the log of each row: one log gets a run of rows, then the next log
    turns.one_by_one(count) # the log of each row: another one each

As the Java producer does since KIP-794, a task begins with a log that is drawn, stays with it until that
has got so many bytes, and goes on to another one: small writes are spread, and all logs get the same number
of bytes. Other than there, the order of all logs is drawn once and gone round: a task that writes much gives
each log as much, where logs that are drawn one by one get more or less by chance. A broker that is slower
than others gets no less here.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]

#: Bytes of the first runs: what Java's producer gives one partition (its ``batch.size``).
RUN_BYTES_MIN: Final = 16 << 10
#: A later run is one part in so many of what the task gave before, until it fills a batch: a task of some MB
#: is spread as evenly as a small one, and one of some GB is not cut into small pieces.
_GROWTH: Final = 16


class Turns:
    """The turns of one topic's ``logs`` (ids, one or more) in one task; rows come in their order."""

    def __init__(self, logs: Sequence[int], run_bytes_max: int, draw: random.Random) -> None:
        self._order = np.array(draw.sample(logs, len(logs)), np.int64)
        self._run_bytes_max = run_bytes_max
        self._turn = 0
        self._given = 0
        self._run_given = 0
        self._run_bytes = RUN_BYTES_MIN

    def by_size(self, sizes: Ids) -> Ids:
        """The log of each row, by the bytes of each. A row that a run has no room for is of the next one."""
        ends = np.cumsum(sizes)
        logs = np.empty(len(sizes), np.int64)
        row = before = 0
        while row < len(sizes):
            left = max(self._run_bytes - self._run_given, 0)
            stop = int(np.searchsorted(ends, before + left, side="right"))
            if not self._run_given:
                stop = max(stop, row + 1)  # whatever its size
            logs[row:stop] = self._order[self._turn]
            if stop > row:
                self._run_given += int(ends[stop - 1]) - before
                before = int(ends[stop - 1])
            row = stop
            if row < len(sizes):
                self._end_run()
        return logs

    def one_by_one(self, count: int) -> Ids:
        """The log of each row: the next one each."""
        turns = (self._turn + np.arange(count)) % len(self._order)
        self._turn = (self._turn + count) % len(self._order)
        return self._order[turns]

    def _end_run(self) -> None:
        self._turn = (self._turn + 1) % len(self._order)
        self._given += self._run_given
        self._run_given = 0
        self._run_bytes = max(RUN_BYTES_MIN, min(self._given // _GROWTH, self._run_bytes_max))
