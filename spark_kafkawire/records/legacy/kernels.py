"""The loops over messages of magic 0 and 1; the rules are those of ``compiler.Kernel``."""

from __future__ import annotations

from typing import Any

from ..compiler import BYTES, inlined, kernel
from ..log_kernels import CRC, MAGIC, POS, SIZE, int32
from ..log_layout import (
    LENGTH_BYTES,
    LOG_OVERHEAD,
    MAGIC_POS,
    MESSAGE_OVERHEAD,
    TIMESTAMP_BYTES,
    TIMESTAMP_POS,
)
from ..native import copy
from ..spans import size_at


@kernel(
    f"int64({BYTES}, int64[:, ::1], int64[::1], int64[::1], uint32[::1],"
    " int32[::1], int32[::1], int32[::1], int32[::1])"
)
def read_messages(
    buf: Any,
    table: Any,
    checked_starts: Any,
    checked_sizes: Any,
    crcs: Any,
    key_starts: Any,
    key_sizes: Any,
    value_starts: Any,
    value_sizes: Any,
) -> int:
    """Index messages of magic 0 and 1, one row each: the bytes that the CRC covers, key and value.

    A null has the size -1. ``table`` is one of ``index_batches``, whose messages lie in ``buf``.
    Returns the first row whose sizes do not add up, or -1.
    """
    for row in range(len(table)):
        pos = table[row, POS]
        stop = pos + table[row, SIZE]
        checked_starts[row] = pos + MAGIC_POS
        checked_sizes[row] = stop - pos - MAGIC_POS
        crcs[row] = table[row, CRC]
        pos += TIMESTAMP_POS + TIMESTAMP_BYTES * table[row, MAGIC]
        key_size = int32(buf, pos)
        if key_size < -1 or key_size > stop - pos - 2 * LENGTH_BYTES:
            return row
        key_starts[row] = pos + LENGTH_BYTES
        key_sizes[row] = key_size
        pos += LENGTH_BYTES + max(key_size, 0)
        value_size = int32(buf, pos)
        if value_size < -1 or pos + LENGTH_BYTES + max(value_size, 0) != stop:
            return row
        value_starts[row] = pos + LENGTH_BYTES
        value_sizes[row] = value_size
    return -1


@inlined
def write_int32(out: Any, pos: int, value: int) -> int:
    """Write the big-endian integer; the position after it."""
    out[pos] = value >> 24 & 255
    out[pos + 1] = value >> 16 & 255
    out[pos + 2] = value >> 8 & 255
    out[pos + 3] = value & 255
    return pos + 4


@kernel(
    f"void({BYTES}, int64[::1], int64[::1], {BYTES}, int64[::1], int64[::1], int64[::1],"
    " int64, int64, int64, uint8[::1])"
)
def write_messages(
    keys: Any,
    key_starts: Any,
    key_sizes: Any,
    values: Any,
    value_starts: Any,
    value_sizes: Any,
    timestamps: Any,
    first_row: int,
    stop_row: int,
    magic: int,
    out: Any,
) -> None:
    """Write the rows as messages of magic 0 or 1 into ``out``, which they fill, without their CRCs."""
    pos = 0
    overhead = MESSAGE_OVERHEAD - LOG_OVERHEAD + TIMESTAMP_BYTES * magic
    for row in range(first_row, stop_row):
        key_size = size_at(key_sizes, row)
        value_size = size_at(value_sizes, row)
        pos = write_int32(out, pos, 0)
        pos = write_int32(out, pos, row - first_row)
        pos = write_int32(out, pos, overhead + max(key_size, 0) + max(value_size, 0))
        pos = write_int32(out, pos, 0)
        out[pos] = magic
        out[pos + 1] = 0
        pos += 2
        if magic:
            pos = write_int32(out, pos, timestamps[row] >> 32)
            pos = write_int32(out, pos, timestamps[row])
        pos = write_int32(out, pos, key_size)
        if key_size > 0:
            copy(out, pos, keys, key_starts[row], key_size)
            pos += key_size
        pos = write_int32(out, pos, value_size)
        if value_size > 0:
            copy(out, pos, values, value_starts[row], value_size)
            pos += value_size
