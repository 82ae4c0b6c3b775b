"""Kafka's key hash, for a whole column of keys at once.

A key gets the same partition number as from later producers: this is the Java client's 32-bit murmur2
(seed 0x9747b28c) over the key's bytes, and ``(hash & 0x7fffffff) % count`` picks from a list.

Source: org.apache.kafka.common.utils.Utils.murmur2 and toPositive.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from . import compiler
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
