"""Checksum over the content of rows in any order: the sum of a 64-bit hash of each row.

The hash of a row is a CRC-64 (as in XZ) over its columns, mixed so that sums of rows differ where columns are
exchanged between rows. It recognizes the same rows; it is no protection against a forger.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np
from isal import isal_zlib

from . import compiler
from .arrays import Int64s
from .compiler import BYTES, inlined, kernel
from .native import library_crc64
from .rows import Column

_POLYNOMIAL: Final = 0xC96C5795D7870F42
#: Test input of CRC functions, and its CRC-64.
_CHECKED: Final = b"123456789"
_CRC_OF_CHECKED: Final = 0x995DC9BBDF1939FA - (1 << 64)
_LOW_56: Final = (1 << 56) - 1
#: Odd numbers without a pattern: they tell columns apart, and mix.
_MARKS: Final = (0x1E3779B97F4A7C15, 0x3C6EF372FE94F82B, 0x5A5470E5C9B7A3D1, 0x78DDE6E4D2E1C66F)
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_PARTITION_FACTOR: Final = np.int64(0x2545F4914F6CDD1D)


def content_sum(
    topics: Column, columns: Sequence[Column], count: int, partitions: Int64s | None = None
) -> int:
    """Sum of the hashes of ``count`` rows, modulo 2**64. ``topics`` are those of the rows, or one of all.
    The place of a column (up to three) is a part of its hash; ``partitions`` are those that rows name, 0
    for none."""
    compiler.expect(count)
    crcs = np.zeros(len(topics.sizes), np.int64)
    _extend(crcs, topics, _MARKS[0])
    if len(crcs) == 1:
        crcs = np.full(count, crcs[0])
    if partitions is not None:
        crcs ^= partitions * _PARTITION_FACTOR
    for column, mark in zip(columns, _MARKS[1:], strict=False):
        if len(column.sizes):
            _extend(crcs, column, mark)
    hashes = crcs.view(np.uint64)
    hashes ^= hashes >> np.uint64(32)
    hashes *= _FACTOR
    hashes ^= hashes >> np.uint64(29)
    return int(hashes.sum())


def _extend(crcs: Int64s, column: Column, mark: int) -> None:
    spans = column.data.ctypes.data, column.starts, column.sizes
    extend_crcs(column.data, *spans, mark, _table(), _library(), crcs)


@inlined
def crc64_of(data: Any, pos: int, stop: int, crc: int, table: Any) -> int:
    """The CRC-64 of ``data[pos:stop]`` after bytes with the CRC-64 ``crc``, a signed number."""
    crc ^= -1
    while pos < stop:
        crc = crc >> 8 & _LOW_56 ^ table[(crc ^ data[pos]) & 255]
        pos += 1
    return crc ^ -1


@kernel(f"void({BYTES}, int64, int64[::1], int64[::1], int64, int64[::1], int64, int64[::1])")
def extend_crcs(
    data: Any, address: int, starts: Any, sizes: Any, mark: int, table: Any, library: int, crcs: Any
) -> None:
    """Extend the CRC-64 of each row by the size and the bytes of a column; a null changes nothing.

    ``address`` is that of ``data``, ``library`` that of the library's function, 0 without one. The caller has
    checked that spans lie in ``data``.
    """
    for row in range(len(crcs)):
        size = sizes[row]
        if size >= 0:
            crc = crcs[row] ^ mark ^ size
            if library:
                crcs[row] = library_crc64(library, crc, address + starts[row], size)
            else:
                crcs[row] = crc64_of(data, starts[row], starts[row] + size, crc, table)


@cache
def _library() -> int:
    """Address of ISA-L's CRC-64, for kernels; 0 if it is hidden, or missing as in isal before 1.9: then
    compiled kernels use the table, a byte at a time."""
    try:
        address = ctypes.cast(ctypes.CDLL(isal_zlib.__file__).crc64_ecma_refl, ctypes.c_void_p).value or 0
    except (AttributeError, OSError):  # another build of the library, which shows Python's names only
        address = 0
    if address:
        buffer = ctypes.create_string_buffer(_CHECKED)
        if library_crc64(address, 0, ctypes.addressof(buffer), len(_CHECKED)) == _CRC_OF_CHECKED:
            return address
    compiler.load()
    return 0


@cache
def _table() -> Int64s:
    """The CRC-64 of each byte, without inversions, as signed numbers."""
    table = np.arange(256, dtype=np.uint64)
    for _ in range(8):
        table = (table >> np.uint64(1)) ^ (table & np.uint64(1)) * np.uint64(_POLYNOMIAL)
    return table.view(np.int64)
