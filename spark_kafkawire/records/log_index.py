"""The shallow index of a log of Kafka 0.8 to 4.x: the place of each batch, before decoding.

    offset int64 | size int32 | crc uint32  | magic int8 = 0, 1 | attributes int8 | ...
    offset int64 | size int32 | epoch int32 | magic int8 = 2 | crc uint32 | attributes int16 | ...

The three formats have offset, size and magic at the same places, so that they may alternate. A
row of the index is a batch of magic 2 or an outermost message of magic 0 or 1. Indexing reads
headers only. A log's offsets rise, so a batch that repeats or overlaps another one is refused here.
Source: Apache Kafka's DefaultRecordBatch.java, LegacyRecord.java; KIP-32, KIP-98.
"""

from __future__ import annotations

import struct
import sys
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ..errors import CorruptDataError, LimitError
from ..protocol.primitives import Buffer
from . import compiler, log_kernels
from .arrays import Int64s, Uint8s, byte_array, room
from .limits import VALUE_BYTES_MAX, DecodeLimits

#: ``offset int64 | size int32``.
LOG_OVERHEAD: Final = 12
_SIZE: Final = struct.Struct(">i")
#: Rows that are indexed before the number of the others is guessed from them.
_FIRST_ROWS: Final = 256
_MEANINGS: Final = {
    log_kernels.BAD_LENGTH: "a size that is shorter than its header",
    log_kernels.BAD_MAGIC: "an unknown magic",
    log_kernels.BAD_OFFSET: "offsets that are below 0 or leave int64",
    log_kernels.BAD_ORDER: "offsets that the batch before it has, or has passed",
}


class MarkersDisagree(CorruptDataError):
    """A response and the log disagree about an aborted transaction. No batch is damaged. Fatal."""


@dataclass(frozen=True, slots=True)
class BatchIndex:
    """Batches of ``buf`` in order, which keeps its memory alive and unchanged.

    ``table`` (int64) has one row for each batch and the columns of ``log_kernels``. ``size`` bytes are whole
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
        return int(self.table[-1, log_kernels.NEXT_OFFSET]) if self.count else None

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
        """A column of the table."""
        column: Int64s = self.table[:, name]
        return column

    def batch(self, row: int) -> memoryview:
        """The bytes of a batch."""
        pos = int(self.table[row, log_kernels.POS])
        return self.buf.data[pos : pos + int(self.table[row, log_kernels.SIZE])]

    def too_large(self, row: int, reason: str, limits: DecodeLimits) -> LimitError:
        """The error for a batch that would take too much memory."""
        offset, size_max = self.table[row, log_kernels.BASE_OFFSET], limits.decompressed_bytes_max
        return LimitError(
            f"batch at offset {offset}: {reason}; raise maxDecompressedBytes, which is {size_max}"
        )

    def disagreement(self, row: int, reason: str) -> MarkersDisagree:
        """The error for a batch that contradicts what a response calls aborted."""
        error = self.damage(row, reason)
        return MarkersDisagree(str(error), error.offset, reason=reason, pos=error.pos)

    def damage(self, row: int, reason: str) -> CorruptDataError:
        """The error for a damaged batch."""
        offset, next_offset = (
            int(self.table[row, name]) for name in (log_kernels.BASE_OFFSET, log_kernels.NEXT_OFFSET)
        )
        return CorruptDataError(
            f"batch at offset {offset} is damaged: {reason}; to read on after it, start at offset "
            f"{next_offset}",
            offset,
            reason=reason,
            pos=int(self.table[row, log_kernels.POS]),
        )


def index_batches(buf: Buffer) -> BatchIndex:
    """Index the whole batches and messages at the start of ``buf``, such as a Fetch response's records.

    Of a buffer above 2 GiB only the part before that is indexed. Raises ``CorruptDataError`` (fatal)
    with the offset that a batch claims where it cannot be one.
    """
    found, code = _indexed(buf)
    if code in _MEANINGS:
        raise _damage(found, code)
    return found


def whole_batches(buf: Buffer) -> tuple[BatchIndex, CorruptDataError | None]:
    """``index_batches`` of what is before the first damage, and the error; None without damage."""
    found, code = _indexed(buf)
    if code not in _MEANINGS:
        return found, None
    # The offset of a batch that alone would be one repeats what is before it.
    alone, _, _ = index_table(found.buf[found.size :], 1)
    return found, _damage(found, alone if alone in _MEANINGS else code)


def _indexed(buf: Buffer) -> tuple[BatchIndex, int]:
    # Kernels hold places in a buffer as int32.
    array = byte_array(buf)[:VALUE_BYTES_MAX]
    code, pos, table = index_table(array, sys.maxsize)
    return BatchIndex(array, table, pos), code


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
        code, pos, row = log_kernels.index_batches(buf, pos, row, table)
        if code != log_kernels.ROWS_FULL or row == rows_max:
            # Without the memory of unused rows, because many tables may exist.
            return code, pos, table[:row] if 2 * row > len(table) else table[:row].copy()
        guess = row * (len(buf) - pos) // pos
        compiler.expect(guess)
        table = _grown(table, min(row + guess + guess // 8 + 64, rows_max))


def _grown(table: Int64s, count: int) -> Int64s:
    grown = table_room(count)
    grown[: len(table)] = table
    return grown


def table_room(count: int) -> Int64s:
    """An empty table for that many batches."""
    table: Int64s = room(count * log_kernels.BATCH_COLUMNS, np.int64).reshape(-1, log_kernels.BATCH_COLUMNS)
    return table
