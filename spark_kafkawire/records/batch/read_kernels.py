"""The loops over the records of batches of magic 2, whose numbers are zigzag varints.

As in ``kernels``, which tells the rules: none allocates, none raises, and each does the same
interpreted.
"""

from __future__ import annotations

from typing import Any, Final

from ..compiler import copy, inlined, kernel
from ..log_kernels import (
    ATTRIBUTES,
    BAD_OFFSET,
    BAD_RECORD,
    BAD_TIMESTAMP,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    COUNT,
    END,
    KEPT,
    MAX_TIMESTAMP,
    NEXT_OFFSET,
    POS,
    SIZE,
    TIMESTAMP_TYPE_BIT,
)

_INT64_MAX: Final = 2**63 - 1
#: A position beyond every buffer: where a damaged varint leads.
_NOWHERE: Final = 2**62
#: Bits of a position, as in ``kernels``.
_PLACE: Final = 2**62 - 1
_BYTES: Final = "Array(uint8, 1, 'C', readonly=True)"


@inlined
def long_varint(buf: Any, pos: int, stop: int, bits: int) -> tuple[int, int]:
    """The zigzag number of up to 32 or 64 ``bits`` at ``pos``, and the position after it."""
    value = 0
    shift = 0
    while pos < stop and shift < bits:
        pos &= _PLACE
        byte = buf[pos] & 255
        pos += 1
        if shift + 7 > bits and byte >> (bits - shift) > 0:
            return 0, _NOWHERE
        value |= (byte & 127) << shift
        if byte < 128:
            # Compiled, the 64th bit is the sign.
            return value >> 1 & _INT64_MAX ^ -(value & 1), pos
        shift += 7
    return 0, _NOWHERE


@inlined
def varint(buf: Any, pos: int, stop: int) -> tuple[int, int]:
    """The zigzag number of up to 32 bits at ``pos``, and the position after it.

    That position is beyond every buffer where the number does not end before ``stop``. The jumps
    are easy to predict, so that what follows need not wait for the number.
    """
    if stop - pos > 1:
        pos &= _PLACE
        value = buf[pos] & 255
        if value < 128:
            return value >> 1 ^ -(value & 1), pos + 1
        second = buf[pos + 1] & 255
        if second < 128:
            value = value & 127 | second << 7
            return value >> 1 ^ -(value & 1), pos + 2
    return long_varint(buf, pos, stop, 32)


@inlined
def varlong(buf: Any, pos: int, stop: int) -> tuple[int, int]:
    """As ``varint``, with up to 64 bits."""
    if pos < stop:
        pos &= _PLACE
        value = buf[pos] & 255
        if value < 128:
            return value >> 1 ^ -(value & 1), pos + 1
    return long_varint(buf, pos, stop, 64)


@kernel(
    f"UniTuple(int64, 8)({_BYTES}, int64[:, ::1], int64, int64, int64[::1], int64[::1], int32[::1],"
    " int32[::1], int32[::1], uint8[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1])"
)
def read_records(
    buf: Any,
    regions: Any,
    start_offset: int,
    stop_offset: int,
    offsets: Any,
    timestamps: Any,
    timestamp_types: Any,
    key_starts: Any,
    key_sizes: Any,
    values: Any,
    value_offsets: Any,
    value_sizes: Any,
    header_starts: Any,
    header_stops: Any,
    header_counts: Any,
) -> tuple[int, int, int, int, int, int, int, int]:
    """Index the records of all regions that are in the range of offsets; check all of them.

    Columns of no length are not filled. A null has the size -1. Values are copied one after the
    other to ``values``, right where they are met: the copy brings the next record into the cache.
    ``value_offsets`` has one more for their end. The caller has checked that regions lie in ``buf``,
    that there are rows for all their records, and that ``values`` has room for all of ``buf``.
    Returns ``(code, region, row, key_bytes, null_keys, value_bytes, null_values, headers)``: where
    it stopped, and sums over the rows.
    """
    row = key_bytes = null_keys = value_bytes = null_values = headers = 0
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
                return BAD_RECORD, region, row, key_bytes, null_keys, value_bytes, null_values, headers
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
                return BAD_RECORD, region, row, key_bytes, null_keys, value_bytes, null_values, headers
            if delta <= last_seen or delta > last_delta:
                return BAD_OFFSET, region, row, key_bytes, null_keys, value_bytes, null_values, headers
            last_seen = delta
            offset = base_offset + delta
            if start_offset <= offset < stop_offset:
                offsets[row] = offset
                if len(timestamps):
                    if timestamp_type:
                        timestamp = regions[region, MAX_TIMESTAMP]
                    else:
                        if base_timestamp >= 0:
                            overflows = timestamp_delta > _INT64_MAX - base_timestamp
                        else:
                            overflows = timestamp_delta < -_INT64_MAX - 1 - base_timestamp
                        if overflows:
                            return (
                                BAD_TIMESTAMP,
                                region,
                                row,
                                key_bytes,
                                null_keys,
                                value_bytes,
                                null_values,
                                headers,
                            )
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
                headers += header_count
                row += 1
            pos = end
        if pos != stop:
            return BAD_RECORD, region, row, key_bytes, null_keys, value_bytes, null_values, headers
        regions[region, KEPT] = row - first_row
    if len(value_offsets):
        value_offsets[row] = value_bytes
    return END, 0, row, key_bytes, null_keys, value_bytes, null_values, headers


@kernel(
    f"UniTuple(int64, 5)({_BYTES}, int32[::1], int32[::1], int32[::1],"
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
    Returns ``(code, row, key_bytes, value_bytes, null_values)``: where it stopped, and sums.
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


@kernel(f"void({_BYTES}, int32[::1], int32[::1], uint8[::1], int32[::1])")
def gather_spans(buf: Any, starts: Any, sizes: Any, data: Any, offsets: Any) -> None:
    """Copy the spans of ``buf`` one after the other into ``data``; fill their ``offsets``.

    A negative size copies nothing. The caller has checked that spans lie in ``buf`` and that their
    sum fits ``data`` and int32.
    """
    pos = 0
    offsets[0] = 0
    for row in range(len(starts)):
        size = sizes[row]
        if size > 0:
            copy(data, pos, buf, starts[row], size)
            pos += size
        offsets[row + 1] = pos
