"""The loops that read the records of batches; the rules are those of ``compiler.Kernel``."""

from __future__ import annotations

from typing import Any, Final

from ..compiler import BYTES, inlined, kernel
from ..log_kernels import (
    ATTRIBUTES,
    BAD_COUNT,
    BAD_OFFSET,
    BAD_RECORD,
    BAD_TIMESTAMP,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    BATCH_COLUMNS,
    COUNT,
    END,
    KEPT,
    MAX_TIMESTAMP,
    NEXT_OFFSET,
    POS,
    SIZE,
)
from ..log_layout import BATCH_OVERHEAD, RECORD_BYTES_MIN, TIMESTAMP_TYPE_BIT
from ..native import copy
from .varints import varint, varlong

#: Sums of ``read_records`` over the rows that it keeps.
KEY_BYTES: Final = 0
NULL_KEYS: Final = 1
VALUE_BYTES: Final = 2
NULL_VALUES: Final = 3
HEADER_COUNT: Final = 4
SUMS: Final = 5

_INT64_MAX: Final = 2**63 - 1


@inlined
def overflows(base: int, delta: int) -> bool:
    """Return true if the sum of these overflows int64."""
    if base >= 0:
        return delta > _INT64_MAX - base
    return delta < -_INT64_MAX - 1 - base


@kernel(
    f"UniTuple(int64, 3)({BYTES}, int64[:, ::1], int64, int64, int64[::1], int64[::1], int32[::1],"
    " UniTuple(int32[::1], 2), Tuple((uint8[::1], int32[::1], int32[::1])), UniTuple(int32[::1], 3),"
    " int64[::1])"
)
def read_records(
    buf: Any,
    regions: Any,
    start_offset: int,
    stop_offset: int,
    offsets: Any,
    timestamps: Any,
    timestamp_types: Any,
    keys: Any,
    value_column: Any,
    headers: Any,
    sums: Any,
) -> tuple[int, int, int]:
    """Index the records of all regions that are in the range of offsets; check all of them.

    ``keys`` are starts and sizes, ``headers`` starts, stops and counts, ``value_column`` is the values'
    bytes, where each begins (one more for the end) and their sizes. Columns of no length are not filled. A
    null has the size -1. Values are copied one after the other, as soon as they are read: the copy brings the
    next record into the cache. The caller has checked that regions lie in ``buf``, that there are rows for
    all their records, and that there is room for the values of all of ``buf``.
    Returns ``(code, region, row)``: the place where it stopped; ``sums`` are filled at the ``END``.
    """
    key_starts, key_sizes = keys
    values, value_offsets, value_sizes = value_column
    header_starts, header_stops, header_counts = headers
    row = key_bytes = null_keys = value_bytes = null_values = header_total = 0
    for region in range(len(regions)):
        pos = regions[region, POS]
        stop = pos + regions[region, SIZE]
        base_offset = regions[region, BASE_OFFSET]
        last_delta = regions[region, NEXT_OFFSET] - base_offset - 1
        base_timestamp = regions[region, BASE_TIMESTAMP]
        timestamp_type = int(regions[region, ATTRIBUTES] & TIMESTAMP_TYPE_BIT != 0)
        first_row = row
        last_seen = -1
        for _ in range(regions[region, COUNT]):
            size, pos = varint(buf, pos, stop)
            end = pos + size
            if pos >= stop or size < 1 or end > stop:
                return BAD_RECORD, region, row
            timestamp_delta, pos = varlong(buf, pos + 1, end)
            delta, pos = varint(buf, pos, end)
            key_size, pos = varint(buf, pos, end)
            key_start = pos
            pos += max(key_size, 0)
            value_size, pos = varint(buf, pos, end)
            value_start = pos
            pos += max(value_size, 0)
            header_count, pos = varint(buf, pos, end)
            if (
                pos > end
                or key_size < -1
                or value_size < -1
                or header_count < 0
                or header_count * 2 > end - pos
                or (header_count == 0 and pos < end)
            ):
                return BAD_RECORD, region, row
            if delta <= last_seen or delta > last_delta:
                return BAD_OFFSET, region, row
            last_seen = delta
            offset = base_offset + delta
            if start_offset <= offset < stop_offset:
                offsets[row] = offset
                if len(timestamps):
                    timestamp = regions[region, MAX_TIMESTAMP]
                    if not timestamp_type:
                        if overflows(base_timestamp, timestamp_delta):
                            return BAD_TIMESTAMP, region, row
                        timestamp = base_timestamp + timestamp_delta
                    timestamps[row] = timestamp
                if len(timestamp_types):
                    timestamp_types[row] = timestamp_type
                if len(key_starts):
                    key_starts[row] = key_start
                    key_sizes[row] = key_size
                if len(value_offsets):
                    value_offsets[row] = value_bytes
                    value_sizes[row] = value_size
                    if value_size > 0:
                        copy(values, value_bytes, buf, value_start, value_size)
                if len(header_starts):
                    header_starts[row] = pos
                    header_stops[row] = end
                    header_counts[row] = header_count
                key_bytes += max(key_size, 0)
                null_keys += key_size < 0
                value_bytes += max(value_size, 0)
                null_values += value_size < 0
                header_total += header_count
                row += 1
            pos = end
        if pos != stop:
            return BAD_RECORD, region, row
        regions[region, KEPT] = row - first_row
    if len(value_offsets):
        value_offsets[row] = value_bytes
    sums[KEY_BYTES] = key_bytes
    sums[NULL_KEYS] = null_keys
    sums[VALUE_BYTES] = value_bytes
    sums[NULL_VALUES] = null_values
    sums[HEADER_COUNT] = header_total
    return END, 0, row


@kernel("UniTuple(int64, 5)(int64[:, ::1], int64[::1], int64[::1], int64, int64, int64, int64[:, ::1])")
def place_records(
    table: Any,
    rows: Any,
    sizes: Any,
    bytes_max: int,
    count_max: int,
    record_bytes_min: int,
    part: Any,
) -> tuple[int, int, int, int, int]:
    """Copy the first ``rows`` of the table, whose records make a part of ``bytes_max``, to ``part``.

    In ``part``, position and size are those of the records. For plain batches they are places in the buffer,
    from the part's begin on. With ``sizes`` they are those of decompressed records, one after the other. A
    record counts as ``record_bytes_min`` at least. The batch that reaches the limit is the last.
    Returns ``(code, stop, begin, end, count)``: how many of the rows, the part's place in the buffer,
    and the number of its records.
    """
    pos = count = taken = begin = 0
    if len(sizes) == 0:
        begin += table[rows[0], POS] + BATCH_OVERHEAD
    for i in range(len(rows)):
        row = rows[i]
        if len(sizes) > 0:
            size = sizes[i]
        else:
            size = table[row, SIZE] - BATCH_OVERHEAD
            pos = table[row, POS] + BATCH_OVERHEAD - begin
        claimed = table[row, COUNT]
        if claimed < 0 or claimed > size // RECORD_BYTES_MIN or claimed > count_max:
            return BAD_COUNT, i, begin, begin + pos, count
        for column in range(BATCH_COLUMNS):
            part[i, column] = table[row, column]
        part[i, POS] = pos
        part[i, SIZE] = size
        pos += size
        count += claimed
        taken += max(size, record_bytes_min * claimed)
        if taken >= bytes_max:
            return END, i + 1, begin, begin + pos, count
    return END, len(rows), begin, begin + pos, count
