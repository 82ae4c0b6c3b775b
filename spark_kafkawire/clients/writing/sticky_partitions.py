"""Sticky partitions, for writes of both generations: the partitions of rows without a key or partition.

    sticky = StickyPartitions(partitions, run_bytes_max=1 << 20, draw=random.Random())
    sticky.runs(sizes)        # a run of rows for one partition, then for another one
    sticky.one_by_one(count)  # another partition for each row

As the Java producer does since KIP-794, a task begins with a random partition, stays with it for a number of
bytes, and continues with another one: small writes are spread, and all partitions get the same number of
bytes. Unlike the Java producer, a task then takes the partition with the fewest bytes of this task, in an
order that is drawn once: partitions that are drawn each time get more or fewer bytes by chance.

Partitions whose brokers do not keep up get fewer bytes (``update_load``). As in the Java producer, the weight
of a partition is the free capacity of its queue: bytes count twice for a partition with half the capacity of
another one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]

#: Bytes of the first runs, as Java's producer gives one partition (its ``batch.size``).
RUN_BYTES_MIN: Final = 16 << 10
#: Later runs have this fraction of the task's bytes so far: a task of some MB is spread as evenly as a small
#: one, and a task of some GB is not cut into small pieces.
_GROWTH: Final = 16
#: More bytes than any partition gets.
_NEVER: Final = (1 << 63) - 1


class StickyPartitions:
    """Sticky partitions of one topic in one task. ``partitions`` are their ids, one or more; rows come in
    order."""

    def __init__(self, partitions: Sequence[int], run_bytes_max: int, draw: random.Random) -> None:
        self._places = np.array(draw.sample(range(len(partitions)), len(partitions)), np.int64)
        self._order = np.array(partitions, np.int64)[self._places]
        self._given = np.zeros(len(partitions), np.int64)
        self._total = 0
        self._capacities: Ids | None = None
        self._share = 1.0
        self._run_bytes_max = run_bytes_max
        self._turn = 0
        self._run_given = 0
        self._run_bytes = RUN_BYTES_MIN

    def update_load(self, capacities: Sequence[int] | None) -> None:
        """Weight the partitions by the bytes that the broker of each of them accepts without a wait, in the
        order of ``partitions``: a partition gets bytes in proportion to its capacity. With None, and if no
        broker has capacity, all weights are equal."""
        self._capacities = (
            np.array(capacities, np.int64)[self._places]
            if capacities is not None and any(capacities)
            else None
        )
        if self._capacities is not None and not self._capacities[self._turn]:
            self._end_run()

    def fits(self, size: int) -> bool:
        """Return whether rows of ``size`` bytes in total fit the present run, whatever the size of each."""
        return self._run_given + size <= self._run_bytes

    def whole(self, size: int) -> int:
        """Assign rows that fit to the present partition, and return it."""
        partition = int(self._order[self._turn])
        self._give(size)
        self._end_batch()
        return partition

    def runs(self, sizes: Ids) -> list[tuple[int, int]]:
        """Split rows into runs: for each the partition, and the row before which it ends. ``sizes`` are the
        bytes of the rows. A row that does not fit a run belongs to the next one."""
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
        """Assign each row to the next partition."""
        places = (self._turn + np.arange(count)) % len(self._order)
        self._turn = (self._turn + count) % len(self._order)
        partitions: Ids = self._order[places]
        return partitions

    def _room(self, coming: int) -> int:
        """Compute the bytes that the run takes of the ``coming`` ones: equal shares for all runs that they
        fill."""
        left = self._run_bytes - self._run_given
        return coming // -(-coming // left) if not self._run_given else max(left, 0)

    def _give(self, size: int) -> None:
        self._given[self._turn] += round(size / self._share)
        self._total += size
        self._run_given += size

    def _end_batch(self) -> None:
        """End a run that is nearly full: its rows and those of the next batch would have to be copied
        together."""
        if 2 * self._run_given >= self._run_bytes:
            self._end_run()

    def _end_run(self) -> None:
        self._turn = self._next()
        self._run_given = 0
        most = min(self._total // _GROWTH, self._run_bytes_max)
        if self._capacities is not None:
            most = min(most, int(self._capacities[self._turn]))
        self._run_bytes = max(RUN_BYTES_MIN, most)

    def _next(self) -> int:
        """Index of the partition with the fewest bytes, among those with capacity. A partition that had no
        capacity does not catch up later: its broker would be slow again."""
        capacities = self._capacities
        if capacities is None:
            self._share = 1.0
            return int(self._given.argmin())
        found = int(np.where(capacities > 0, self._given, _NEVER).argmin())
        self._given[capacities == 0] = np.maximum(self._given[capacities == 0], self._given[found])
        self._share = int(capacities[found]) / int(capacities.max())
        return found
