"""The loops that write the records of batches; the rules are those of ``compiler.Kernel``.

Columns of spans are those of ``spans``, int64.
"""

from __future__ import annotations

from typing import Any, Final

from ..compiler import BYTES, kernel
from ..log_layout import BATCH_OVERHEAD
from ..native import copy
from ..spans import size_at
from .varints import varint_size, write_varint

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
    until the table is full or another batch may exceed the rest of ``total_max`` bytes.
    Returns ``(code, batches, row, total)``: the row after the last batch, or the one that is larger
    than ``record_bytes_max`` and that size.
    """
    batch = 0
    total = 0
    while (
        batch < len(table) and row < len(timestamps) and (batch == 0 or total + batch_bytes_max <= total_max)
    ):
        first = row
        size = BATCH_OVERHEAD
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
            if BATCH_OVERHEAD + record_size > record_bytes_max:
                return RECORD_TOO_LARGE, batch, row, BATCH_OVERHEAD + record_size
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
    f"int64({BYTES}, int64[::1], int64[::1], {BYTES}, int64[::1], int64[::1],"
    f" {BYTES}, int64[::1], int64[::1], int64[::1], int64[::1], int64[:, ::1],"
    " int64, int64, uint8[::1])"
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
    start: int,
    pos: int,
    out: Any,
) -> int:
    """Write those records of the planned batches that are of these columns, from ``pos`` of ``out`` on;
    where a batch begins, after room for its header. Returns the position after them.

    The first row of the columns is the row ``start`` of the table.
    """
    count = len(timestamps)
    for batch in range(len(table)):
        first = table[batch, FIRST_ROW] - start
        base_timestamp = table[batch, BASE_TIMESTAMP]
        if 0 <= first < count:
            pos += BATCH_OVERHEAD
        for row in range(max(first, 0), min(table[batch, STOP_ROW] - start, count)):
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
    return pos
