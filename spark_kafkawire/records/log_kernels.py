"""The loops over batches and messages of Kafka 0.8 and later.

As in ``kernels``, which tells the rules: none allocates, none raises, and each does the same
interpreted. Tables are int64 with one row for each batch or message; their columns are named here.
"""

from __future__ import annotations

from typing import Any, Final

from .compiler import inlined, kernel

#: Why a kernel came back.
END: Final = 0
CUT: Final = 1
ROWS_FULL: Final = 2
BAD_LENGTH: Final = 3
BAD_MAGIC: Final = 4
BAD_OFFSET: Final = 5
BAD_RECORD: Final = 6
BAD_TIMESTAMP: Final = 7
BAD_COUNT: Final = 8
BAD_ORDER: Final = 9

#: Columns of the table that ``index_batches`` fills: ``size`` counts all bytes of the batch.
POS: Final = 0
SIZE: Final = 1
BASE_OFFSET: Final = 2
NEXT_OFFSET: Final = 3
MAGIC: Final = 4
ATTRIBUTES: Final = 5
BASE_TIMESTAMP: Final = 6
MAX_TIMESTAMP: Final = 7
PRODUCER_ID: Final = 8
COUNT: Final = 9
CRC: Final = 10
#: Only ``read_records`` fills it: the batch's records that are in the range of offsets.
KEPT: Final = 11
BATCH_COLUMNS: Final = 12

#: Bytes of a batch of magic 2 before its records.
HEADER_BYTES: Final = 61
#: The bit of a batch's attributes that makes its largest timestamp that of all records.
TIMESTAMP_TYPE_BIT: Final = 8
#: The bit of a batch that belongs to a transaction.
TRANSACTIONAL_BIT: Final = 16
#: The bit of a batch that holds a marker of the broker and no records.
CONTROL_BIT: Final = 32
#: Bytes before the magic, which all formats have at the same place.
_MAGIC_POS: Final = 16
#: ``offset int64 | size int32``, which ``size`` does not count.
_OVERHEAD: Final = 12
#: Smallest record: seven numbers of one byte.
RECORD_BYTES_MIN: Final = 7
#: Smallest sizes that the formats can have.
_BATCH_SIZE_MIN: Final = 49
_MESSAGE_SIZE_MIN: Final = 14
_INT64_MAX: Final = 2**63 - 1
#: Bits of a position, as in ``kernels``.
_PLACE: Final = 2**62 - 1
_BYTES: Final = "Array(uint8, 1, 'C', readonly=True)"


@inlined
def int32(buf: Any, pos: int) -> int:
    """The signed big-endian integer at ``pos``."""
    value: int = (buf[pos] << 24) | (buf[pos + 1] << 16) | (buf[pos + 2] << 8) | (buf[pos + 3] & 255)
    return (value ^ 0x80000000) - 0x80000000


@inlined
def int64(buf: Any, pos: int) -> int:
    """The signed big-endian integer at ``pos``."""
    return int32(buf, pos) << 32 | int32(buf, pos + 4) & 0xFFFFFFFF


@kernel(f"UniTuple(int64, 3)({_BYTES}, int64, int64, int64[:, ::1])")
def index_batches(buf: Any, pos: int, row: int, table: Any) -> tuple[int, int, int]:
    """Index the batches and messages from ``pos`` on; fill ``table`` from ``row`` on.

    Offsets rise from each to the next, over gaps perhaps; one that is not above the last is ``BAD_ORDER``.
    Returns ``(code, pos, row)`` where it stopped: ``pos`` is after the last whole batch.
    """
    stop = len(buf)
    while stop - pos > _MAGIC_POS:
        pos &= _PLACE
        base_offset = int64(buf, pos)
        size = int32(buf, pos + 8)
        magic = buf[pos + _MAGIC_POS] & 255
        if magic > 2:
            return BAD_MAGIC, pos, row
        if size < (_BATCH_SIZE_MIN if magic == 2 else _MESSAGE_SIZE_MIN + 8 * magic):
            return BAD_LENGTH, pos, row
        end = pos + _OVERHEAD + size
        if end > stop:
            return CUT, pos, row
        if row == len(table):
            return ROWS_FULL, pos, row
        last_delta = int32(buf, pos + 23) if magic == 2 else 0
        if base_offset < 0 or last_delta < 0 or base_offset >= _INT64_MAX - last_delta:
            return BAD_OFFSET, pos, row
        # A compressed message has its last offset here: what it holds is checked where it is opened.
        if row > 0 and base_offset < table[row - 1, NEXT_OFFSET]:
            return BAD_ORDER, pos, row
        table[row, POS] = pos
        table[row, SIZE] = end - pos
        table[row, BASE_OFFSET] = base_offset
        table[row, NEXT_OFFSET] = base_offset + last_delta + 1
        table[row, MAGIC] = magic
        if magic == 2:
            table[row, ATTRIBUTES] = buf[pos + 21] << 8 | buf[pos + 22]
            table[row, BASE_TIMESTAMP] = int64(buf, pos + 27)
            table[row, MAX_TIMESTAMP] = int64(buf, pos + 35)
            table[row, PRODUCER_ID] = int64(buf, pos + 43)
            table[row, COUNT] = int32(buf, pos + 57)
            table[row, CRC] = int32(buf, pos + 17) & 0xFFFFFFFF
        else:
            table[row, ATTRIBUTES] = buf[pos + 17]
            table[row, BASE_TIMESTAMP] = int64(buf, pos + 18) if magic else -1
            table[row, MAX_TIMESTAMP] = table[row, BASE_TIMESTAMP]
            table[row, PRODUCER_ID] = -1
            table[row, COUNT] = 1
            table[row, CRC] = int32(buf, pos + 12) & 0xFFFFFFFF
        row += 1
        pos = end
    return (CUT if pos < stop else END), pos, row


@kernel("UniTuple(int64, 3)(int64[:, ::1], int64, int64, int64, uint8[::1], int64[::1], int64[::1])")
def select_batches(
    table: Any,
    first: int,
    start_offset: int,
    stop_offset: int,
    is_aborted: Any,
    chosen: Any,
    left_out: Any,
) -> tuple[int, int, int]:
    """Choose the rows, from ``first`` on, of batches that may hold records of the range of offsets.

    Control batches go to ``left_out``, and so do those of ``is_aborted``, which may have no length.
    Returns ``(chosen, left_out, row)``: the numbers of rows, and the row at which it stopped
    because a batch of the other format would be the next one chosen.
    """
    chosen_count = left_out_count = 0
    last_is_modern = False
    for row in range(first, len(table)):
        if table[row, NEXT_OFFSET] <= start_offset:
            continue
        is_modern = table[row, MAGIC] == 2
        first_offset = table[row, BASE_OFFSET]
        if not is_modern:
            # A compressed message has the offset of the last one it holds, and begins after the one
            # before it.
            first_offset = table[row - 1, NEXT_OFFSET] if row > 0 else 0
        if first_offset >= stop_offset:
            continue
        if (is_modern and table[row, ATTRIBUTES] & CONTROL_BIT) or (len(is_aborted) and is_aborted[row]):
            left_out[left_out_count] = row
            left_out_count += 1
            continue
        if chosen_count > 0 and is_modern != last_is_modern:
            return chosen_count, left_out_count, row
        last_is_modern = is_modern
        chosen[chosen_count] = row
        chosen_count += 1
    return chosen_count, left_out_count, len(table)


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

    There position and size are those of the records: of plain batches in the buffer, from the
    part's begin on; with ``sizes`` those of decompressed records that lie one after the other.
    A record counts as ``record_bytes_min`` at least. The batch that reaches the limit is the last.
    Returns ``(code, stop, begin, end, count)``: how many of the rows, the part's place in the buffer,
    and the number of its records.
    """
    pos = count = taken = begin = 0
    if len(sizes) == 0:
        begin += table[rows[0], POS] + HEADER_BYTES
    for i in range(len(rows)):
        row = rows[i]
        if len(sizes) > 0:
            size = sizes[i]
        else:
            size = table[row, SIZE] - HEADER_BYTES
            pos = table[row, POS] + HEADER_BYTES - begin
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


@kernel(
    f"int64({_BYTES}, int64[:, ::1], int64[::1], int64[::1], uint32[::1],"
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
    """Index what messages of magic 0 and 1 hold, one row each: what the CRC covers, key and value.

    A null has the size -1. ``table`` is one of ``index_batches``, whose messages lie in ``buf``.
    Returns the first row whose sizes do not add up, or -1.
    """
    for row in range(len(table)):
        pos = table[row, POS]
        stop = pos + table[row, SIZE]
        checked_starts[row] = pos + _MAGIC_POS
        checked_sizes[row] = stop - pos - _MAGIC_POS
        crcs[row] = table[row, CRC]
        pos += _OVERHEAD + 6 + 8 * table[row, MAGIC]
        key_size = int32(buf, pos)
        if key_size < -1 or key_size > stop - pos - 8:
            return row
        key_starts[row] = pos + 4
        key_sizes[row] = key_size
        pos += 4 + max(key_size, 0)
        value_size = int32(buf, pos)
        if value_size < -1 or pos + 4 + max(value_size, 0) != stop:
            return row
        value_starts[row] = pos + 4
        value_sizes[row] = value_size
    return -1
