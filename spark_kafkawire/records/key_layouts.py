"""The layout (list of partitions) by which a producer placed each record: by its offset, and by its key.
Pure.

A boundary limits the layout of the records before it: no producer knew the new count yet. Records after it
may have any layout up to the new one, because producers learn of new partitions one by one, up to
``metadata.max.age.ms`` late. But a key shows the counts that may have put it there: those for which the
remainder of its hash is the partition. So ``by_key`` takes the newest such layout that the offset allows.

- The result is right if the producer was late by one expansion at most. With a longer delay it is wrong only
  for a key that had come back to the partition by then.
- If the key fits several layouts in a row, it has not moved between them, so the choice does not affect its
  order.
- If it fits only newer layouts, a producer knew them before the boundary was taken: the oldest of them
  counts.
- If it fits no layout, only the offset counts: another partitioner, or a partition that the user chose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .arrays import Int32s, Int64s, Uint8s

#: Result of comparing the layout of a key with the layout of its offset.
EXPECTED: Final = 0
LATE: Final = 1
EARLY: Final = 2
UNEXPLAINED: Final = 3
#: No layout.
_NONE: Final = -1


def by_offset(offsets: Int64s, first: int, boundaries: Sequence[int]) -> Int32s:
    """The layout of each offset of a log that has begun with layout ``first``."""
    passed = np.searchsorted(np.asarray(boundaries, np.int64), offsets, side="right")
    return (passed + first).astype(np.int32)


def by_key(
    hashes: Int64s, keyed: npt.NDArray[np.bool_], layouts: Int32s, partition: int, counts: Sequence[int]
) -> tuple[Int32s, Uint8s]:
    """The layout in which each record was put into ``partition``, and its comparison with ``layouts``, those
    of the offsets. Records that are not ``keyed`` keep theirs, as expected."""
    expected = hashes % np.asarray(counts, np.int64)[layouts] == partition
    if (expected | ~keyed).all():  # nearly always: a check of each count takes several times as long
        return layouts, np.zeros(len(hashes), np.uint8)
    known = np.full(len(hashes), _NONE, np.int32)
    newer = known.copy()
    for layout, count in enumerate(counts):
        fits: Any = hashes % count == partition
        known[fits & (layouts >= layout)] = layout
        newer[fits & (layouts < layout) & (newer == _NONE)] = layout
    kinds = np.where(known == layouts, EXPECTED, LATE).astype(np.uint8)
    kinds[known == _NONE] = EARLY
    kinds[(known == _NONE) & (newer == _NONE)] = UNEXPLAINED
    kinds[~keyed] = EXPECTED
    found = np.where(kinds == EARLY, newer, np.where(kinds == LATE, known, layouts))
    return found.astype(np.int32), kinds
