"""Kafka's key hash, for a whole column of keys at once, and the layout (list of partitions) by which a
producer placed each record: by its offset, and by its key.

A key gets the same partition number as from later producers: this is the Java client's 32-bit murmur2
(seed 0x9747b28c) over the key's bytes, and ``(hash & 0x7fffffff) % count`` picks from a list.

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

Source: org.apache.kafka.common.utils.Utils.murmur2 and toPositive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from . import compiler
from .arrays import Int32s, Int64s, Uint8s
from .compiler import kernel

_SEED: Final = 0x9747B28C
_FACTOR: Final = 0x5BD1E995
_UINT32: Final = 0xFFFFFFFF
#: Java's ``toPositive`` clears the sign bit; it does not take the absolute value.
_POSITIVE: Final = 0x7FFFFFFF


def positive_hashes(keys: pa.Array) -> npt.NDArray[np.int64]:
    """Hash of each key of a binary column, in [0, 2**31); any number for a null key."""
    hashes = np.empty(len(keys), np.int64)
    if len(keys):
        compiler.expect(len(keys))
        _, offsets, data = keys.buffers()
        ends = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1]
        murmur2(np.frombuffer(data or b"", np.uint8), ends, hashes)
    return hashes & _POSITIVE


@kernel("void(Array(uint8, 1, 'C', readonly=True), Array(int32, 1, 'C', readonly=True), int64[::1])")
def murmur2(data: Any, offsets: Any, hashes: Any) -> None:
    """Write the unsigned hash of ``data[offsets[row]:offsets[row + 1]]`` to ``hashes[row]``.

    The product of two 32-bit numbers, one of them ``_FACTOR`` < 2**31, fits in 64 bits; masking
    keeps its low half, as Java's int does.
    """
    for row in range(len(hashes)):
        pos = offsets[row]
        stop = offsets[row + 1]
        mixed = _SEED ^ (stop - pos)
        while stop - pos >= 4:
            word = data[pos] | data[pos + 1] << 8 | data[pos + 2] << 16 | data[pos + 3] << 24
            word = word * _FACTOR & _UINT32
            word = (word ^ word >> 24) * _FACTOR & _UINT32
            mixed = mixed * _FACTOR & _UINT32 ^ word
            pos += 4
        if stop - pos == 3:
            mixed ^= data[pos + 2] << 16
        if stop - pos >= 2:
            mixed ^= data[pos + 1] << 8
        if stop - pos >= 1:
            mixed = (mixed ^ data[pos]) * _FACTOR & _UINT32
        mixed = (mixed ^ mixed >> 13) * _FACTOR & _UINT32
        hashes[row] = mixed ^ mixed >> 15


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
    result = np.where(kinds == EARLY, newer, np.where(kinds == LATE, known, layouts))
    return result.astype(np.int32), kinds
