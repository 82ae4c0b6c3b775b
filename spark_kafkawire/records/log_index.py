"""The shallow index of a log of Kafka 0.8 to 4.x: the place of each batch, before decoding.

    offset int64 | size int32 | crc uint32 | magic int8 = 0, 1 | attributes int8 | [timestamp int64] | ...
    offset int64 | size int32 | epoch int32 | magic int8 = 2 | crc uint32 | attributes int16
        | last offset delta int32 | base timestamp int64 | max timestamp int64
        | producer id int64 | producer epoch int16 | base sequence int32 | count int32 | records

The three formats have offset, size and magic at the same places, so that they may alternate. ``size`` counts
the bytes after it. Magic 0 has no timestamp. A row of the index is a batch of magic 2 or an outermost message
of magic 0 or 1: a table is int64 with one row for each, and its columns are named here. Indexing reads
headers only. A log's offsets rise, so a batch that repeats or overlaps another one is refused here. The rules
of the kernels are those of ``compiler.Kernel``.

Source: Apache Kafka's DefaultRecordBatch.java, LegacyRecord.java; KIP-32, KIP-98.
"""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..errors import CorruptDataError, LimitError
from ..protocol.primitives import Buffer
from . import compiler
from .arrays import Int64s, Uint8s, byte_array, room
from .compiler import BYTES, PLACE, inlined, kernel
from .limits import VALUE_BYTES_MAX, DecodeLimits
from .native import library_crc32c

MESSAGE_HEADER: Final = struct.Struct(">qiIbb")
BATCH_HEADER: Final = struct.Struct(">qiibIhiqqqhii")


def _positions(header: struct.Struct) -> tuple[int, ...]:
    fields = header.format[1:]
    return tuple(struct.calcsize(f">{fields[:i]}") for i in range(len(fields)))


_, SIZE_POS, MESSAGE_CRC_POS, MAGIC_POS, MESSAGE_ATTRIBUTES_POS = _positions(MESSAGE_HEADER)
TIMESTAMP_POS: Final = MESSAGE_HEADER.size
TIMESTAMP_BYTES: Final = 8
(
    *(_, _, _, _),
    BATCH_CRC_POS,
    BATCH_ATTRIBUTES_POS,
    LAST_DELTA_POS,
    BASE_TIMESTAMP_POS,
    MAX_TIMESTAMP_POS,
    PRODUCER_ID_POS,
    _,
    _,
    COUNT_POS,
) = _positions(BATCH_HEADER)

#: ``offset | size``, which ``size`` does not count.
LOG_OVERHEAD: Final = MESSAGE_CRC_POS
#: The size before a key or a value of a message.
LENGTH_BYTES: Final = 4
#: A message of magic 0 without key and value; with magic 1 it has a timestamp more.
MESSAGE_OVERHEAD: Final = MESSAGE_HEADER.size + 2 * LENGTH_BYTES
#: A batch before its records.
BATCH_OVERHEAD: Final = BATCH_HEADER.size
#: Smallest record of a batch: seven numbers of one byte.
RECORD_BYTES_MIN: Final = 7

#: Bits of the attributes: the codec's number, ...
CODEC_MASK: Final = 7
#: ... that the timestamp is the broker's, and in a batch its largest one that of all records, ...
TIMESTAMP_TYPE_BIT: Final = 8
#: ... that a batch belongs to a transaction, and that it holds a marker of the broker and no records.
TRANSACTIONAL_BIT: Final = 16
CONTROL_BIT: Final = 32


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
def list_batches(buf: Any, pos: int, row: int, table: Any) -> tuple[int, int, int]:
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
    table: Any, first: int, start_offset: int, stop_offset: int, is_aborted: Any, chosen: Any, left_out: Any
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


_SIZE: Final = struct.Struct(">i")
#: Rows that are indexed before the number of the others is guessed from them.
_FIRST_ROWS: Final = 256
_MEANINGS: Final = {
    BAD_LENGTH: "a size that is shorter than its header",
    BAD_MAGIC: "an unknown magic",
    BAD_OFFSET: "offsets that are below 0 or leave int64",
    BAD_ORDER: "offsets that the batch before it has, or has passed",
}


class MarkersDisagree(CorruptDataError):
    """A response and the log disagree about an aborted transaction. No batch is damaged. Fatal."""


@dataclass(frozen=True, slots=True)
class BatchIndex:
    """Batches of ``buf`` in order, which keeps its memory alive and unchanged.

    ``table`` (int64) has one row for each batch and the columns named above. ``size`` bytes are whole
    batches; the batch after them is cut.
    """

    buf: Uint8s
    table: npt.NDArray[np.int64]
    size: int

    @property
    def count(self) -> int:
        """Number of whole batches."""
        return len(self.table)

    @property
    def next_offset(self) -> int | None:
        """The offset after the last whole batch, where the next fetch begins; None without any."""
        return int(self.table[-1, NEXT_OFFSET]) if self.count else None

    @property
    def cut_size(self) -> int | None:
        """Size of the batch that the buffer's end cuts; None without a cut batch, or if too little of it is
        there.

        A response with only such a batch requires a larger fetch.
        """
        rest = self.buf[self.size :]
        if len(rest) < LOG_OVERHEAD:
            return None
        return LOG_OVERHEAD + int(_SIZE.unpack_from(rest.data, 8)[0])

    def column(self, name: int) -> Int64s:
        column: Int64s = self.table[:, name]
        return column

    def batch(self, row: int) -> memoryview:
        pos = int(self.table[row, POS])
        return self.buf.data[pos : pos + int(self.table[row, SIZE])]

    def too_large(self, row: int, reason: str, limits: DecodeLimits) -> LimitError:
        """The error for a batch that would take too much memory."""
        offset, size_max = self.table[row, BASE_OFFSET], limits.decompressed_bytes_max
        return LimitError(
            f"batch at offset {offset}: {reason}; raise maxDecompressedBytes, which is {size_max}"
        )

    def disagreement(self, row: int, reason: str) -> MarkersDisagree:
        """The error for a batch that contradicts what a response calls aborted."""
        error = self.damage(row, reason)
        return MarkersDisagree(str(error), error.offset, reason=reason, pos=error.pos)

    def damage(self, row: int, reason: str) -> CorruptDataError:
        offset, next_offset = (int(self.table[row, name]) for name in (BASE_OFFSET, NEXT_OFFSET))
        return CorruptDataError(
            f"batch at offset {offset} is damaged: {reason}; to read on after it, start at offset "
            f"{next_offset}",
            offset,
            reason=reason,
            pos=int(self.table[row, POS]),
        )


def index_batches(buf: Buffer) -> BatchIndex:
    """Index the whole batches and messages at the start of ``buf``, such as a Fetch response's records.

    Of a buffer above 2 GiB only the part before that is indexed. Raises ``CorruptDataError`` (fatal)
    with the offset that a batch claims where it cannot be one.
    """
    result, error = whole_batches(buf)
    if error is not None:
        raise error
    return result


def whole_batches(buf: Buffer) -> tuple[BatchIndex, CorruptDataError | None]:
    """``index_batches`` of what is before the first damage, and the error; None without damage."""
    # Kernels hold places in a buffer as int32.
    array = byte_array(buf)[:VALUE_BYTES_MAX]
    code, pos, table = index_table(array, sys.maxsize)
    result = BatchIndex(array, table, pos)
    return result, _damage(result, code) if code in _MEANINGS else None


def _damage(before: BatchIndex, code: int) -> CorruptDataError:
    pos = before.size
    offset = int.from_bytes(before.buf[pos : pos + 8].tobytes(), "big", signed=True)
    return CorruptDataError(
        f"batch at offset {offset} is damaged: it has {_MEANINGS[code]}; the records before it are whole, "
        "read up to that offset",
        offset,
        reason=f"it has {_MEANINGS[code]}",
        pos=pos,
    )


def index_table(buf: Uint8s, rows_max: int) -> tuple[int, int, Int64s]:
    """Index a buffer: the code and the position at which the kernel stopped, and the table."""
    table, pos, row = table_room(min(_FIRST_ROWS, rows_max)), 0, 0
    while True:
        code, pos, row = list_batches(buf, pos, row, table)
        if code != ROWS_FULL or row == rows_max:
            # Without the memory of unused rows, because many tables may exist.
            return code, pos, table[:row] if 2 * row > len(table) else table[:row].copy()
        guess = row * (len(buf) - pos) // pos
        compiler.expect(guess)
        grown = table_room(min(row + guess + guess // 8 + 64, rows_max))
        grown[:row] = table
        table = grown


def table_room(count: int) -> Int64s:
    """An empty table for that many batches."""
    table: Int64s = room(count * BATCH_COLUMNS, np.int64).reshape(-1, BATCH_COLUMNS)
    return table
