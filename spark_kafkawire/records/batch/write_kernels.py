"""The loops that write records of magic 2; the rules are those of ``kernels``.

A span column is the arrays ``starts`` and ``sizes`` (int64) over its data; a null has the size -1,
and where all rows are null the arrays have no length.
"""

from __future__ import annotations

from typing import Any, Final

from ..compiler import copy, inlined, kernel

#: Why ``plan_batches`` came back.
PLANNED: Final = 0
RECORD_TOO_LARGE: Final = 1

#: Columns of the table of batches that ``plan_batches`` fills.
FIRST_ROW: Final = 0
STOP_ROW: Final = 1
BATCH_SIZE: Final = 2
BASE_TIMESTAMP: Final = 3
MAX_TIMESTAMP: Final = 4
PLAN_COLUMNS: Final = 5

#: Bytes of a batch before its records.
HEADER_BYTES: Final = 61
_BYTES: Final = "Array(uint8, 1, 'C', readonly=True)"


@inlined
def varint_size(value: int) -> int:
    """Bytes of the zigzag varint."""
    rest = (value ^ (value >> 63)) >> 6
    size = 1
    while rest:
        rest >>= 7
        size += 1
    return size


@inlined
def write_varint(out: Any, pos: int, value: int) -> int:
    """Write the zigzag varint; the position after it."""
    rest = value ^ (value >> 63)
    byte = (rest & 63) << 1 | (value >> 63 & 1)
    rest >>= 6
    while rest:
        out[pos] = byte | 128
        pos += 1
        byte = rest & 127
        rest >>= 7
    out[pos] = byte
    return pos + 1


@inlined
def size_at(sizes: Any, row: int) -> int:
    """The size of a span, -1 where the column has none."""
    return sizes[row] if len(sizes) else -1


@kernel(
    "UniTuple(int64, 4)(int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64, int64, int64, int64, int64[::1], int64[:, ::1])"
)
def plan_batches(
    key_sizes: Any,
    value_sizes: Any,
    header_sizes: Any,
    timestamps: Any,
    row: int,
    batch_bytes_max: int,
    record_bytes_max: int,
    total_max: int,
    body_sizes: Any,
    table: Any,
) -> tuple[int, int, int, int]:
    """Cut the rows from ``row`` on into batches of at most ``batch_bytes_max``, or one record.

    Fills ``body_sizes`` (of a record, without its size) and one row of ``table`` for each batch,
    until the table is full or another batch may have more than what is left of ``total_max`` bytes.
    Returns ``(code, batches, row, total)``: the row after the last batch, or the one that is larger
    than ``record_bytes_max`` and that size.
    """
    batch = 0
    total = 0
    while (
        batch < len(table) and row < len(timestamps) and (batch == 0 or total + batch_bytes_max <= total_max)
    ):
        first = row
        size = HEADER_BYTES
        base_timestamp = timestamps[row]
        max_timestamp = base_timestamp
        while row < len(timestamps):
            timestamp = timestamps[row]
            key_size = size_at(key_sizes, row)
            value_size = size_at(value_sizes, row)
            body = (
                1
                + varint_size(timestamp - base_timestamp)
                + varint_size(row - first)
                + varint_size(key_size)
                + max(key_size, 0)
                + varint_size(value_size)
                + max(value_size, 0)
                + (header_sizes[row] if len(header_sizes) else 1)
            )
            record_size = varint_size(body) + body
            if row > first and size + record_size > batch_bytes_max:
                break
            if HEADER_BYTES + record_size > record_bytes_max:
                return RECORD_TOO_LARGE, batch, row, HEADER_BYTES + record_size
            body_sizes[row] = body
            size += record_size
            max_timestamp = max(max_timestamp, timestamp)
            row += 1
        table[batch, FIRST_ROW] = first
        table[batch, STOP_ROW] = row
        table[batch, BATCH_SIZE] = size
        table[batch, BASE_TIMESTAMP] = base_timestamp
        table[batch, MAX_TIMESTAMP] = max_timestamp
        total += size
        batch += 1
    return PLANNED, batch, row, total


@kernel(
    f"void({_BYTES}, int64[::1], int64[::1], {_BYTES}, int64[::1], int64[::1],"
    f" {_BYTES}, int64[::1], int64[::1], int64[::1], int64[::1], int64[:, ::1], uint8[::1])"
)
def write_records(
    keys: Any,
    key_starts: Any,
    key_sizes: Any,
    values: Any,
    value_starts: Any,
    value_sizes: Any,
    headers: Any,
    header_starts: Any,
    header_sizes: Any,
    timestamps: Any,
    body_sizes: Any,
    table: Any,
    out: Any,
) -> None:
    """Write the records of all planned batches into ``out``, each after room for a batch header."""
    pos = 0
    for batch in range(len(table)):
        pos += HEADER_BYTES
        first = table[batch, FIRST_ROW]
        base_timestamp = table[batch, BASE_TIMESTAMP]
        for row in range(first, table[batch, STOP_ROW]):
            key_size = size_at(key_sizes, row)
            value_size = size_at(value_sizes, row)
            pos = write_varint(out, pos, body_sizes[row])
            out[pos] = 0
            pos = write_varint(out, pos + 1, timestamps[row] - base_timestamp)
            pos = write_varint(out, pos, row - first)
            pos = write_varint(out, pos, key_size)
            if key_size > 0:
                copy(out, pos, keys, key_starts[row], key_size)
                pos += key_size
            pos = write_varint(out, pos, value_size)
            if value_size > 0:
                copy(out, pos, values, value_starts[row], value_size)
                pos += value_size
            if len(header_sizes):
                copy(out, pos, headers, header_starts[row], header_sizes[row])
                pos += header_sizes[row]
            else:
                out[pos] = 0
                pos += 1


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


@kernel(f"void(int64[::1], {_BYTES}, int64[::1], int64[::1], {_BYTES}, int64[::1], int64[::1], uint8[::1])")
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


@inlined
def write_int32(out: Any, pos: int, value: int) -> int:
    """Write the big-endian integer; the position after it."""
    out[pos] = value >> 24 & 255
    out[pos + 1] = value >> 16 & 255
    out[pos + 2] = value >> 8 & 255
    out[pos + 3] = value & 255
    return pos + 4


@kernel(
    f"void({_BYTES}, int64[::1], int64[::1], {_BYTES}, int64[::1], int64[::1], int64[::1],"
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
    for row in range(first_row, stop_row):
        key_size = size_at(key_sizes, row)
        value_size = size_at(value_sizes, row)
        pos = write_int32(out, pos, 0)
        pos = write_int32(out, pos, row - first_row)
        pos = write_int32(out, pos, 14 + 8 * magic + max(key_size, 0) + max(value_size, 0))
        out[pos + 4] = magic
        out[pos + 5] = 0
        pos += 6
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
