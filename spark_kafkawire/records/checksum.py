"""CRC-32: of one buffer, and of many values at once.

Each value's checksum is compared with its own. One call over all values would do for the right ones,
since the CRC-32 of values in a row is a sum of theirs; but there the errors of two values can cancel out,
and a malicious writer can make them do so. The rules of the kernels are those of ``compiler.Kernel``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from . import compiler
from .arrays import Int64s
from .compiler import BYTES, PLACE, inlined, kernel
from .native import CHECKED, address_of, library_crc32


@inlined
def crc32_of(values: Any, pos: int, stop: int, tables: Any, library: int) -> int:
    """The CRC-32 of ``values[pos:stop]``: by the library at this address, or 16 bytes a step."""
    if library:
        return library_crc32(library, values, pos, stop - pos)
    crc: Any = 0xFFFFFFFF
    while stop - pos >= 16:
        pos &= PLACE
        crc = np.int64(
            tables[15 << 8 | (crc & 255 ^ values[pos])]
            ^ tables[14 << 8 | (crc >> 8 & 255 ^ values[pos + 1])]
            ^ tables[13 << 8 | (crc >> 16 & 255 ^ values[pos + 2])]
            ^ tables[12 << 8 | (crc >> 24 & 255 ^ values[pos + 3])]
            ^ tables[11 << 8 | values[pos + 4]]
            ^ tables[10 << 8 | values[pos + 5]]
            ^ tables[9 << 8 | values[pos + 6]]
            ^ tables[8 << 8 | values[pos + 7]]
            ^ tables[7 << 8 | values[pos + 8]]
            ^ tables[6 << 8 | values[pos + 9]]
            ^ tables[5 << 8 | values[pos + 10]]
            ^ tables[4 << 8 | values[pos + 11]]
            ^ tables[3 << 8 | values[pos + 12]]
            ^ tables[2 << 8 | values[pos + 13]]
            ^ tables[1 << 8 | values[pos + 14]]
            ^ tables[values[pos + 15]]
        )
        pos += 16
    while stop - pos >= 4:
        pos &= PLACE
        crc = np.int64(
            tables[3 << 8 | (crc & 255 ^ values[pos])]
            ^ tables[2 << 8 | (crc >> 8 & 255 ^ values[pos + 1])]
            ^ tables[1 << 8 | (crc >> 16 & 255 ^ values[pos + 2])]
            ^ tables[crc >> 24 & 255 ^ values[pos + 3]]
        )
        pos += 4
    while pos < stop:
        crc = np.int64(crc >> 8 ^ tables[crc & 255 ^ values[pos]])
        pos += 1
    return int(crc ^ 0xFFFFFFFF)


@kernel(f"void({BYTES}, int64[::1], uint32[::1], int64, uint32[::1])")
def crc_each(values: Any, offsets: Any, tables: Any, library: int, crcs: Any) -> None:
    """The CRC-32 of each value ``values[offsets[i]:offsets[i + 1]]``.

    ``tables`` are ``checksum.slice_tables``, ``library`` is ``checksum.library_address``.
    """
    for row in range(len(crcs)):
        crcs[row] = crc32_of(values, offsets[row], offsets[row + 1], tables, library)


@kernel(f"int64({BYTES}, int64[::1], int64[::1], uint32[::1], uint32[::1], int64)")
def check_each(buf: Any, starts: Any, sizes: Any, claimed: Any, tables: Any, library: int) -> int:
    """The first span of ``buf`` whose CRC-32 is not the one it claims, or -1; tables and library as above."""
    for row in range(len(starts)):
        if crc32_of(buf, starts[row], starts[row] + sizes[row], tables, library) != claimed[row]:
            return row
    return -1


Uint32s = npt.NDArray[np.uint32]

_POLYNOMIAL: Final = 0xEDB88320
#: Mean size from which a library call per value through Python beats the compiled tables, bytes.
_LIBRARY_SIZE_MIN: Final = 512


#: The CRC-32 of a buffer, as in zlib: of bytes that follow others, with the CRC-32 of those.
crc32: Final = cast(Callable[..., int], isal_zlib.crc32)


def first_mismatch(buf: npt.NDArray[np.uint8], starts: Int64s, sizes: Int64s, claimed: Uint32s) -> int | None:
    """The first row whose value does not match the CRC-32 it claims, or None.

    Row ``i`` is ``buf[starts[i]:starts[i] + sizes[i]]``, which the caller has checked to lie in ``buf``.
    """
    if _use_kernels(len(starts), int(sizes.sum())):
        row = check_each(buf, starts, sizes, claimed, slice_tables(), library_address())
        return None if row < 0 else row
    view = buf.data
    spans = zip(starts.tolist(), sizes.tolist(), claimed.tolist(), strict=True)
    return next((i for i, (pos, size, crc) in enumerate(spans) if crc32(view[pos : pos + size]) != crc), None)


def crc32_each(values: npt.NDArray[np.uint8], offsets: Int64s) -> Uint32s:
    """The CRC-32 of each value ``values[offsets[i]:offsets[i + 1]]``."""
    count = len(offsets) - 1
    crcs = np.empty(count, np.uint32)
    if _use_kernels(count, int(offsets[-1] - offsets[0])):
        crc_each(values, offsets, slice_tables(), library_address(), crcs)
        return crcs
    view = values.data
    crcs[:] = [crc32(view[start:stop]) for start, stop in pairwise(offsets.tolist())]
    return crcs


def _use_kernels(count: int, size: int) -> bool:
    """Return true if kernels are the fastest way for ``count`` values of ``size`` bytes in total."""
    return compiler.loaded() and (library_address() != 0 or size < _LIBRARY_SIZE_MIN * count)


@cache
def library_address() -> int:
    """Address of ISA-L's CRC-32, for compiled kernels, which cannot call Python; 0 if it is hidden.

    It takes 8 ns for 100 bytes where the tables take 26, and a call through Python 100.
    """
    types = ctypes.c_uint32, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint64
    return address_of("crc32_gzip_refl", types, (0, CHECKED, len(CHECKED)), 0xCBF43926)


@cache
def crc32c_address() -> int:
    """Address of ISA-L's CRC-32C, for compiled kernels; 0 if it is hidden.

    For large batches it takes half of the time of the package crc32c, and small ones spare the call through
    Python: a third of the time of 16 KiB.
    """
    types = ctypes.c_uint32, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32
    arguments = CHECKED, len(CHECKED), 0xFFFFFFFF
    return address_of("crc32_iscsi", types, arguments, 0xE3069283 ^ 0xFFFFFFFF)


@cache
def slice_tables() -> Uint32s:
    """16 tables of 256: the CRC of each byte with ``i`` zero bytes after it. Shape (4096,)."""
    tables = np.empty((16, 256), np.uint32)
    tables[0] = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        tables[0] = (tables[0] >> 1) ^ (tables[0] & 1) * np.uint32(_POLYNOMIAL)
    for i in range(1, 16):
        tables[i] = (tables[i - 1] >> 8) ^ tables[0][tables[i - 1] & 255]
    return tables.reshape(-1)
