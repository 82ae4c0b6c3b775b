"""In which order the logs of a topic get rows that choose none by a key or a column.

    turns = Turns(logs, run_bytes_max=1 << 20, draw=random.Random())
    turns.runs(sizes)       # one log gets a run of rows, then another one
    turns.one_by_one(count) # the log of each row: another one each

As the Java producer does since KIP-794, a task begins with a log that is drawn, stays with it until that
has got so many bytes, and goes on to another one: small writes are spread, and all logs get the same number
of bytes. Other than there, the next log is that with the fewest bytes of this task, in an order that is
drawn once: logs that are drawn each time get more or less by chance.

Logs whose brokers do not keep up get less (``adapt``). As there, the weight of a log is what more could wait
for it: bytes that go to one with half the room of another count twice.
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
#: A later run is one part in so many of what the task gave before: a task of some MB is spread as evenly as a
#: small one, and one of some GB is not cut into small pieces.
_GROWTH: Final = 16
#: More bytes than any log gets.
_NEVER: Final = (1 << 63) - 1


class Turns:
    """The turns of one topic's ``logs`` (ids, one or more) in one task; rows come in their order."""

    def __init__(self, logs: Sequence[int], run_bytes_max: int, draw: random.Random) -> None:
        self._places = np.array(draw.sample(range(len(logs)), len(logs)), np.int64)
        self._order = np.array(logs, np.int64)[self._places]
        self._given = np.zeros(len(logs), np.int64)
        self._total = 0
        self._rooms: Ids | None = None
        self._share = 1.0
        self._run_bytes_max = run_bytes_max
        self._turn = 0
        self._run_given = 0
        self._run_bytes = RUN_BYTES_MIN

    def adapt(self, rooms: Sequence[int] | None) -> None:
        """Go by the bytes that the broker of each of the logs, in the order of ``logs``, takes before it is
        waited for: a log gets as much as it has room for beside the one with the most. None, and no room
        anywhere: all are alike."""
        self._rooms = np.array(rooms, np.int64)[self._places] if rooms is not None and any(rooms) else None
        if self._rooms is not None and not self._rooms[self._turn]:
            self._end_run()

    def fits(self, size: int) -> bool:
        """Whether rows of so many bytes are of one run, whatever each of them has."""
        return self._run_given + size <= self._run_bytes

    def whole(self, size: int) -> int:
        """The log of rows that fit."""
        log = int(self._order[self._turn])
        self._give(size)
        self._end_batch()
        return log

    def runs(self, sizes: Ids) -> list[tuple[int, int]]:
        """The log of each run, and the row before which it ends; ``sizes`` are the rows' bytes. A row that a
        run has no room for is of the next one."""
        ends = np.cumsum(sizes)
        found = []
        row = before = 0
        while row < len(sizes):
            room = self._room(int(ends[-1]) - before)
            stop = max(int(np.searchsorted(ends, before + room, side="right")), row)
            if not self._run_given:
                stop = max(stop, row + 1)  # whatever its size
            if stop > row:
                found.append((int(self._order[self._turn]), stop))
                self._give(int(ends[stop - 1]) - before)
                row, before = stop, int(ends[stop - 1])
            if row < len(sizes):
                self._end_run()
        self._end_batch()
        return found

    def one_by_one(self, count: int) -> Ids:
        """The log of each row: the next one each."""
        turns = (self._turn + np.arange(count)) % len(self._order)
        self._turn = (self._turn + count) % len(self._order)
        logs: Ids = self._order[turns]
        return logs

    def _room(self, coming: int) -> int:
        """Bytes for the run to take of those that are coming: as much as for each of those that they fill."""
        left = self._run_bytes - self._run_given
        return coming // -(-coming // left) if not self._run_given else max(left, 0)

    def _give(self, size: int) -> None:
        self._given[self._turn] += round(size / self._share)
        self._total += size
        self._run_given += size

    def _end_batch(self) -> None:
        """A run that is about full ends with the batch that its rows came in: together with those of the next
        one they would have to be copied."""
        if 2 * self._run_given >= self._run_bytes:
            self._end_run()

    def _end_run(self) -> None:
        self._turn = self._next()
        self._run_given = 0
        most = min(self._total // _GROWTH, self._run_bytes_max)
        if self._rooms is not None:
            most = min(most, int(self._rooms[self._turn]))
        self._run_bytes = max(RUN_BYTES_MIN, most)

    def _next(self) -> int:
        """The place of the log that has the fewest bytes, of those that have room. One that had none makes up
        for nothing later: its broker would be slow again."""
        rooms = self._rooms
        if rooms is None:
            self._share = 1.0
            return int(self._given.argmin())
        found = int(np.where(rooms > 0, self._given, _NEVER).argmin())
        self._given[rooms == 0] = np.maximum(self._given[rooms == 0], self._given[found])
        self._share = int(rooms[found]) / int(rooms.max())
        return found
