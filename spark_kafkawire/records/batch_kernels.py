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

#: The bit of a batch's attributes that makes its largest timestamp that of all records.
TIMESTAMP_TYPE_BIT: Final = 8
#: Bytes before the magic, which all formats have at the same place.
_MAGIC_POS: Final = 16
#: ``offset int64 | size int32``, which ``size`` does not count.
_OVERHEAD: Final = 12
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
