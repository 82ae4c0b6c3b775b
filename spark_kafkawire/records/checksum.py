"""CRC-32: of one buffer, of many values at once, and what ties the two together.

The CRC-32 of values in a row is the XOR of each value's CRC-32 shifted by the bytes that follow
it, shifting being a linear map over GF(2). So one library call over all gathered values checks
all claimed checksums; one wrong value is always seen, several cancel once in 2**32 times.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Final, cast

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from ..protocol.primitives import Buffer
from . import compiler, kernels

Uint32s = npt.NDArray[np.uint32]

_POLYNOMIAL: Final = 0xEDB88320
_NO_TABLES: Final = np.empty(0, np.uint32)
#: Mean size from which a library call per value beats the compiled tables, bytes.
_LIBRARY_SIZE_MIN: Final = 512


#: The CRC-32 of a buffer, as in zlib.
crc32: Final = cast(Callable[[Buffer], int], isal_zlib.crc32)


def first_mismatch(
    values: memoryview, offsets: npt.NDArray[np.int32], claimed: Uint32s, combined: int | None
) -> int | None:
    """The first row whose value has not the CRC-32 it claims, or None.

    Row ``i`` is ``values[offsets[i]:offsets[i + 1]]``, and the rows lie one after the other.
    ``combined`` is what ``kernels.gather`` made of the claimed checksums: where it is right, no row
    is looked at on its own. None where it was not made.
    """
    if combined is not None and combined == crc32(values):
        return None
    bounds = offsets.tolist()
    for row, crc in enumerate(claimed.tolist()):
        if crc32(values[bounds[row] : bounds[row + 1]]) != crc:
            return row
    return None


def crc32_each(values: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Uint32s:
    """The CRC-32 of each value ``values[offsets[i]:offsets[i + 1]]``."""
    count = len(offsets) - 1
    crcs = np.empty(count, np.uint32)
    if compiler.loaded() and offsets[-1] - offsets[0] < _LIBRARY_SIZE_MIN * count:
        kernels.crc_each(values, offsets, slice_tables(), crcs)
        return crcs
    view = values.data
    crcs[:] = [crc32(view[start:stop]) for start, stop in pairwise(offsets.tolist())]
    return crcs


@cache
def slice_tables() -> Uint32s:
    """16 tables of 256: what a byte becomes when ``i`` zero bytes follow it. Shape (4096,)."""
    tables = np.empty((16, 256), np.uint32)
    tables[0] = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        tables[0] = (tables[0] >> 1) ^ (tables[0] & 1) * np.uint32(_POLYNOMIAL)
    for i in range(1, 16):
        tables[i] = _shift_byte(tables[0], tables[i - 1])
    return tables.reshape(-1)


def combining_tables() -> Uint32s:
    """What ``kernels.gather`` combines checksums with.

    Empty where kernels run interpreted: a library call for each value takes less time there.
    """
    return shift_tables() if compiler.loaded() else _NO_TABLES


@cache
def shift_tables() -> Uint32s:
    """Tables that shift a CRC by any size: 4 base-256 digits of the size, 256 values of the digit,
    8 nibbles of the CRC, 16 values of the nibble. Shape (131072,), 512 KiB.
    """
    tables = np.empty((4, 256, 8, 16), np.uint32)
    nibbles = np.arange(16, dtype=np.uint32) << np.arange(0, 32, 4, dtype=np.uint32)[:, None]
    step = _shift_byte(slice_tables()[:256], nibbles)
    for digit in range(4):
        tables[digit, 0] = nibbles
        for value in range(1, 256):
            tables[digit, value] = _apply(step, tables[digit, value - 1])
        step = _apply(step, tables[digit, 255])
    return tables.reshape(-1)


def _shift_byte(table: Uint32s, crcs: Uint32s) -> Uint32s:
    """Each CRC with one zero byte appended to what it is the CRC of."""
    shifted: Uint32s = (crcs >> 8) ^ table[crcs & 255]
    return shifted


def _apply(step: Uint32s, crcs: Uint32s) -> Uint32s:
    """Each CRC shifted by the linear map whose images of the eight nibbles are ``step``."""
    shifted = np.zeros_like(crcs)
    for nibble in range(8):
        shifted ^= step[nibble, crcs >> np.uint32(4 * nibble) & np.uint32(15)]
    return shifted
