"""The loops over headers of records (Kafka 0.11 and later); the rules are those of ``compiler.Kernel``."""

from __future__ import annotations

from typing import Any

from ..compiler import BYTES, kernel
from ..log_kernels import BAD_RECORD, END
from ..native import copy
from ..spans import size_at
from .varints import varint, varint_size, write_varint


@kernel(
    f"UniTuple(int64, 5)({BYTES}, int32[::1], int32[::1], int32[::1],"
    " int32[::1], int32[::1], int32[::1], int32[::1], int32[::1])"
)
def read_headers(
    buf: Any,
    starts: Any,
    stops: Any,
    counts: Any,
    key_starts: Any,
    key_sizes: Any,
    value_starts: Any,
    value_sizes: Any,
    offsets: Any,
) -> tuple[int, int, int, int, int]:
    """Index the headers of all rows, which lie in ``[starts[i], stops[i])``; check all of them.

    Fills one key and one value for each header, null values with the size -1, and ``offsets``:
    the first header of each row, one more for the end.
    Returns ``(code, row, key_bytes, value_bytes, null_values)``: the row where it stopped, and sums.
    """
    header = key_bytes = value_bytes = null_values = 0
    offsets[0] = 0
    for row in range(len(starts)):
        pos = int(starts[row])
        stop = stops[row]
        for _ in range(counts[row]):
            key_size, pos = varint(buf, pos, stop)
            key_start = pos
            pos += max(key_size, 0)
            value_size, pos = varint(buf, pos, stop)
            if pos > stop or key_size < 0 or value_size < -1:
                return BAD_RECORD, row, key_bytes, value_bytes, null_values
            key_starts[header] = key_start
            key_sizes[header] = key_size
            value_starts[header] = pos
            value_sizes[header] = value_size
            pos += max(value_size, 0)
            key_bytes += key_size
            value_bytes += max(value_size, 0)
            null_values += value_size < 0
            header += 1
        if pos != stop:
            return BAD_RECORD, row, key_bytes, value_bytes, null_values
        offsets[row + 1] = header
    return END, 0, key_bytes, value_bytes, null_values


@kernel("void(int64[::1], int64[::1], int64[::1], int64[::1])")
def size_headers(offsets: Any, key_sizes: Any, value_sizes: Any, sizes: Any) -> None:
    """The bytes of each row's headers, their count included; ``offsets`` are where its headers begin."""
    for row in range(len(sizes)):
        first = offsets[row]
        stop = offsets[row + 1]
        size = varint_size(stop - first)
        for header in range(first, stop):
            key_size = size_at(key_sizes, header)
            value_size = size_at(value_sizes, header)
            size += varint_size(key_size) + key_size + varint_size(value_size) + max(value_size, 0)
        sizes[row] = size


@kernel(f"void(int64[::1], {BYTES}, int64[::1], int64[::1], {BYTES}, int64[::1], int64[::1], uint8[::1])")
def write_headers(
    offsets: Any,
    keys: Any,
    key_starts: Any,
    key_sizes: Any,
    values: Any,
    value_starts: Any,
    value_sizes: Any,
    out: Any,
) -> None:
    """Write the headers of all rows one after the other into ``out``, each row's count before them."""
    pos = 0
    for row in range(len(offsets) - 1):
        first = offsets[row]
        stop = offsets[row + 1]
        pos = write_varint(out, pos, stop - first)
        for header in range(first, stop):
            key_size = size_at(key_sizes, header)
            pos = write_varint(out, pos, key_size)
            if key_size > 0:
                copy(out, pos, keys, key_starts[header], key_size)
                pos += key_size
            value_size = size_at(value_sizes, header)
            pos = write_varint(out, pos, value_size)
            if value_size > 0:
                copy(out, pos, values, value_starts[header], value_size)
                pos += value_size
