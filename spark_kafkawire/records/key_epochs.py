"""The epochs of records: by their offsets, and by their keys. Pure, and all rows at once.

A boundary bounds the epoch of what is before it: no producer knew the new count yet. What is behind it may
be of any epoch until then, for producers learn of new partitions one by one, up to ``metadata.max.age.ms``
late. But a key tells by which counts it may have been put where it is: those by which its hash leaves the
partition as a remainder. So ``by_key`` takes the newest such epoch that the offset allows.

- It is the right one where its producer was late by one expansion at most. A later one would be mistaken
  only for a key that had come back to the partition by then.
- Where the key fits several epochs in a row, it has not moved between them: which one it is does not matter
  to its order.
- Where it fits newer epochs alone, the boundary was taken after a producer knew them: the oldest of those.
- Where it fits none, only the offset tells: another partitioner, or a partition that was chosen by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .arrays import Int32s, Int64s, Uint8s

#: What the epoch of a key says of the one of its offset.
EXPECTED: Final = 0
LATE: Final = 1
EARLY: Final = 2
UNEXPLAINED: Final = 3
#: No epoch.
_NONE: Final = -1


def by_offset(offsets: Int64s, first: int, boundaries: Sequence[int]) -> Int32s:
    """The epoch of each offset of a log that has begun with epoch ``first``."""
    passed = np.searchsorted(np.asarray(boundaries, np.int64), offsets, side="right")
    return (passed + first).astype(np.int32)


def by_key(
    hashes: Int64s, keyed: npt.NDArray[np.bool_], epochs: Int32s, partition: int, counts: Sequence[int]
) -> tuple[Int32s, Uint8s]:
    """The epoch in which each record was put into ``partition``, and what that says of ``epochs``, those of
    the offsets. Records that are not ``keyed`` keep theirs, as expected."""
    expected = hashes % np.asarray(counts, np.int64)[epochs] == partition
    if (expected | ~keyed).all():  # nearly always: a look at each count takes several times as long
        return epochs, np.zeros(len(hashes), np.uint8)
    known = np.full(len(hashes), _NONE, np.int32)
    newer = known.copy()
    for epoch, count in enumerate(counts):
        fits: Any = hashes % count == partition
        known[fits & (epochs >= epoch)] = epoch
        newer[fits & (epochs < epoch) & (newer == _NONE)] = epoch
    kinds = np.where(known == epochs, EXPECTED, LATE).astype(np.uint8)
    kinds[known == _NONE] = EARLY
    kinds[(known == _NONE) & (newer == _NONE)] = UNEXPLAINED
    kinds[~keyed] = EXPECTED
    found = np.where(kinds == EARLY, newer, np.where(kinds == LATE, known, epochs))
    return found.astype(np.int32), kinds
