"""The loops over the batches and messages of a log of Kafka 0.8 to 4.x; the rules are those of
``compiler.Kernel``.

Tables are int64 with one row for each batch or message; their columns are named here.
"""

from __future__ import annotations

from typing import Any, Final

from .compiler import BYTES, PLACE, inlined, kernel
from .log_layout import (
    BASE_TIMESTAMP_POS,
    BATCH_ATTRIBUTES_POS,
    BATCH_CRC_POS,
    BATCH_OVERHEAD,
    CONTROL_BIT,
    COUNT_POS,
    LAST_DELTA_POS,
    LOG_OVERHEAD,
    MAGIC_POS,
    MAX_TIMESTAMP_POS,
    MESSAGE_ATTRIBUTES_POS,
    MESSAGE_CRC_POS,
    MESSAGE_OVERHEAD,
    PRODUCER_ID_POS,
    SIZE_POS,
    TIMESTAMP_BYTES,
    TIMESTAMP_POS,
)
from .native import library_crc32c

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

#: Smallest sizes that the formats can have, as their ``size`` counts.
_BATCH_SIZE_MIN: Final = BATCH_OVERHEAD - LOG_OVERHEAD
_MESSAGE_SIZE_MIN: Final = MESSAGE_OVERHEAD - LOG_OVERHEAD
_INT64_MAX: Final = 2**63 - 1


@inlined
def int32(buf: Any, pos: int) -> int:
    """The signed big-endian integer at ``pos``."""
    value: int = (buf[pos] << 24) | (buf[pos + 1] << 16) | (buf[pos + 2] << 8) | (buf[pos + 3] & 255)
    return (value ^ 0x80000000) - 0x80000000


@inlined
def int64(buf: Any, pos: int) -> int:
    """The signed big-endian integer at ``pos``."""
    return int32(buf, pos) << 32 | int32(buf, pos + 4) & 0xFFFFFFFF


@kernel(f"UniTuple(int64, 3)({BYTES}, int64, int64, int64[:, ::1])")
def index_batches(buf: Any, pos: int, row: int, table: Any) -> tuple[int, int, int]:
    """Index the batches and messages from ``pos`` on; fill ``table`` from ``row`` on.

    Offsets rise from each to the next, over gaps perhaps; one that is not above the last is ``BAD_ORDER``.
    Returns ``(code, pos, row)`` where it stopped: ``pos`` is after the last whole batch.
    """
    stop = len(buf)
    while stop - pos > MAGIC_POS:
        pos &= PLACE
        base_offset = int64(buf, pos)
        size = int32(buf, pos + SIZE_POS)
        magic = buf[pos + MAGIC_POS] & 255
        if magic > 2:
            return BAD_MAGIC, pos, row
        if size < (_BATCH_SIZE_MIN if magic == 2 else _MESSAGE_SIZE_MIN + TIMESTAMP_BYTES * magic):
            return BAD_LENGTH, pos, row
        end = pos + LOG_OVERHEAD + size
        if end > stop:
            return CUT, pos, row
        if row == len(table):
            return ROWS_FULL, pos, row
        last_delta = int32(buf, pos + LAST_DELTA_POS) if magic == 2 else 0
        if base_offset < 0 or last_delta < 0 or base_offset >= _INT64_MAX - last_delta:
            return BAD_OFFSET, pos, row
        # A compressed message has its last offset here; its content is checked where it is opened.
        if row > 0 and base_offset < table[row - 1, NEXT_OFFSET]:
            return BAD_ORDER, pos, row
        table[row, POS] = pos
        table[row, SIZE] = end - pos
        table[row, BASE_OFFSET] = base_offset
        table[row, NEXT_OFFSET] = base_offset + last_delta + 1
        table[row, MAGIC] = magic
        if magic == 2:
            table[row, ATTRIBUTES] = (
                buf[pos + BATCH_ATTRIBUTES_POS] << 8 | buf[pos + BATCH_ATTRIBUTES_POS + 1]
            )
            table[row, BASE_TIMESTAMP] = int64(buf, pos + BASE_TIMESTAMP_POS)
            table[row, MAX_TIMESTAMP] = int64(buf, pos + MAX_TIMESTAMP_POS)
            table[row, PRODUCER_ID] = int64(buf, pos + PRODUCER_ID_POS)
            table[row, COUNT] = int32(buf, pos + COUNT_POS)
            table[row, CRC] = int32(buf, pos + BATCH_CRC_POS) & 0xFFFFFFFF
        else:
            table[row, ATTRIBUTES] = buf[pos + MESSAGE_ATTRIBUTES_POS]
            table[row, BASE_TIMESTAMP] = int64(buf, pos + TIMESTAMP_POS) if magic else -1
            table[row, MAX_TIMESTAMP] = table[row, BASE_TIMESTAMP]
            table[row, PRODUCER_ID] = -1
            table[row, COUNT] = 1
            table[row, CRC] = int32(buf, pos + MESSAGE_CRC_POS) & 0xFFFFFFFF
        row += 1
        pos = end
    return (CUT if pos < stop else END), pos, row


@kernel(f"int64({BYTES}, int64[:, ::1], int64[::1], int64)")
def first_wrong_crc(buf: Any, table: Any, rows: Any, library: int) -> int:
    """Return the first of these ``rows`` of the table whose CRC-32C is wrong, as its place in ``rows``; -1 if
    all are right. All are batches of magic 2. ``library`` is ``checksum.crc32c_address``, not 0."""
    for i in range(len(rows)):
        pos = table[rows[i], POS] + BATCH_ATTRIBUTES_POS
        size = table[rows[i], SIZE] - BATCH_ATTRIBUTES_POS
        if library_crc32c(library, buf, pos, size) != table[rows[i], CRC]:
            return i
    return -1


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
