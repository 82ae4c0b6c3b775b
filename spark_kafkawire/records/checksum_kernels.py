"""The loops that check CRC-32s; the rules are those of ``compiler.Kernel``."""

from __future__ import annotations

from typing import Any

import numpy as np

from .compiler import BYTES, PLACE, inlined, kernel
from .native import library_crc32


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
