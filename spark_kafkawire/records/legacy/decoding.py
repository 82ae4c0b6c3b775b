"""Messages of magic 0 and 1 with offsets, as Kafka 0.8 to 0.10 write them: decoding in bulk.

    offset int64 | size int32 | crc uint32 | magic int8 = 0 | attributes int8 | key | value
    offset int64 | size int32 | crc uint32 | magic int8 = 1 | attributes int8 | timestamp int64 | key | value

``crc`` is the CRC-32 of the bytes after it; keys and values begin with their size int32 (-1 for null).
The value of a compressed message is messages of the same magic. Its offset is that of the last message
inside. Offsets inside are absolute with magic 0, and with magic 1 they count from any number. If its
attributes say LogAppendTime, its timestamp applies to the messages inside.

    messages -> [replace compressed ones by their content] -> check CRCs -> columns

Source: Apache Kafka's AbstractLegacyRecordBatch.java and LegacyRecord.java; KIP-31, KIP-32.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from spark_kafkawire.protocol.buffers import Buffers
from spark_kafkawire.protocol.primitives import Buffer

from .. import compiler, log_kernels
from ..arrays import Int32s, Int64s, Uint8s, byte_array, room
from ..checksum import first_mismatch
from ..columns import Columns
from ..limits import MESSAGE_BYTES_MIN, DecodeLimits
from ..log_index import BatchIndex
from ..log_layout import (
    CODEC_MASK,
    TIMESTAMP_TYPE_BIT,
)
from ..spans import DecodeBuffers, Spans, gathered, room_for
from .kernels import read_messages
from .opening import Opened, cost_of, open_message

_NO_TIMESTAMP_TYPE: Final = -1


def decode_messages(
    index: BatchIndex,
    rows: Int64s,
    start_offset: int,
    stop_offset: int,
    wanted: Container[str],
    limits: DecodeLimits,
    buffers: DecodeBuffers,
) -> Iterator[Columns]:
    """The messages of those rows of the index, all of magic 0 or 1, that are in the range of offsets.

    Raises ``CorruptDataError`` and ``LimitError`` (fatal), as ``record_log.decode_batches`` says.
    """
    for messages in _parts(index, rows, limits):
        spans = messages.spans()
        offsets = messages.table[:, log_kernels.BASE_OFFSET]
        kept = np.flatnonzero((offsets >= start_offset) & (offsets < stop_offset))
        yield messages.columns(spans, kept, wanted, buffers.values)


@dataclass(frozen=True, slots=True)
class _Messages:
    """Messages that hold no others: rows of ``table``, in ``buf``; they came from ``rows`` of the index."""

    index: BatchIndex
    rows: Int64s
    buf: Uint8s
    table: Int64s

    def spans(self) -> tuple[Spans, Spans]:
        """Spans of keys and values. Raises ``CorruptDataError``, also for a wrong CRC."""
        count = len(self.table)
        compiler.expect(count)
        keys, values, crcs = room_for(count), room_for(count), room(count, np.uint32)
        starts, sizes = room(count, np.int64), room(count, np.int64)
        row = read_messages(self.buf, self.table, starts, sizes, crcs, *keys, *values)
        if row >= 0:
            raise self.index.damage(int(self.rows[row]), "the sizes of a message in it do not add up")
        wrong = first_mismatch(self.buf, starts, sizes, crcs)
        if wrong is not None:
            raise self.index.damage(int(self.rows[wrong]), "the CRC-32 of a message in it is wrong")
        return keys, values

    def columns(
        self, spans: tuple[Spans, Spans], kept: Int64s, wanted: Container[str], buffers: Buffers
    ) -> Columns:
        """The messages of the rows ``kept``."""
        table = self.table[kept]
        keys, values = ((starts[kept], sizes[kept]) for starts, sizes in spans)
        has_timestamps = (table[:, log_kernels.MAGIC] > 0).any()
        has_keys = "key" in wanted and (keys[1] >= 0).any()
        return Columns(
            table[:, log_kernels.BASE_OFFSET].copy(),
            keys=self._gathered(keys) if has_keys else None,
            values=self._gathered(values, buffers) if "value" in wanted else None,
            timestamps_ms=table[:, log_kernels.BASE_TIMESTAMP].copy()
            if has_timestamps and "timestamp" in wanted
            else None,
            timestamp_types=_timestamp_types(table) if has_timestamps and "timestampType" in wanted else None,
        )

    def _gathered(self, spans: Spans, buffers: Buffers | None = None) -> pa.BinaryArray:
        sizes = np.maximum(spans[1], 0)
        return gathered(self.buf, spans, int(sizes.sum()), int((spans[1] < 0).sum()), buffers)


def _timestamp_types(table: Int64s) -> Int32s:
    is_append_time = table[:, log_kernels.ATTRIBUTES] & TIMESTAMP_TYPE_BIT != 0
    types = np.where(table[:, log_kernels.MAGIC] > 0, is_append_time, _NO_TIMESTAMP_TYPE)
    return types.astype(np.int32)


def _parts(index: BatchIndex, rows: Int64s, limits: DecodeLimits) -> Iterator[_Messages]:
    """The messages in parts of about ``batch_bytes_max``."""
    stage = _MessagesBuilder(index, limits)
    compressed = np.append(np.flatnonzero(index.table[rows, log_kernels.ATTRIBUTES] & CODEC_MASK), len(rows))
    # Bytes of all messages before each row, without compression.
    taken = np.cumsum(np.append(0, np.maximum(index.table[rows, log_kernels.SIZE], MESSAGE_BYTES_MIN)))
    first = 0
    while first < len(rows):
        stop = int(compressed[np.searchsorted(compressed, first)])
        if stop == first:
            opened = open_message(index, int(rows[first]), limits)
            if stage.cost and opened.cost >= limits.batch_bytes_max:
                # Too large to be joined with others.
                yield stage.messages()
                stage = _MessagesBuilder(index, limits)
            stage.take(opened)
            del opened
            first += 1
        else:
            # Plain messages up to the next compressed one, or until there are enough.
            enough = int(np.searchsorted(taken, taken[first] + limits.batch_bytes_max - stage.cost))
            stop = min(stop, max(enough, first + 1))
            stage.copy(rows[first:stop])
            first = stop
        if stage.cost >= limits.batch_bytes_max or first == len(rows):
            yield stage.messages()
            stage = _MessagesBuilder(index, limits)


class _MessagesBuilder:
    """Messages in the making: runs of plain ones and the contents of compressed ones, in parts.

    ``cost`` is their size, each message counted as 128 bytes at least.
    """

    def __init__(self, index: BatchIndex, limits: DecodeLimits) -> None:
        self._index = index
        self._limits = limits
        self._parts: list[Buffer] = []
        self._tables: list[Int64s] = []
        self._rows: list[Int64s] = []
        self._size = 0
        self.cost = 0

    def copy(self, rows: Int64s) -> None:
        """Add plain messages, and the bytes between them."""
        table = room(len(rows) * log_kernels.BATCH_COLUMNS, np.int64).reshape(-1, log_kernels.BATCH_COLUMNS)
        # All rows are there; "raise" would copy twice.
        np.take(self._index.table, rows, axis=0, out=table, mode="clip")
        start, stop = (
            int(table[0, log_kernels.POS]),
            int(table[-1, log_kernels.POS] + table[-1, log_kernels.SIZE]),
        )
        table[:, log_kernels.POS] -= start
        self._append(self._index.buf.data[start:stop], table, rows)

    def take(self, opened: Opened) -> None:
        """Take over the content of a compressed message."""
        table = opened.table
        self._append(opened.content.data, table, np.full(len(table), opened.row))

    def _append(self, part: Buffer, table: Int64s, rows: Int64s) -> None:
        table[:, log_kernels.POS] += self._size
        self._tables.append(table)
        self._rows.append(rows)
        self._parts.append(part)
        self._size += len(part)
        self.cost += cost_of(table)

    def messages(self) -> _Messages:
        """The messages in one buffer, which is copied only if it has several parts."""
        if len(self._parts) == 1:
            return _Messages(self._index, self._rows[0], byte_array(self._parts[0]), self._tables[0])
        buf, rows = byte_array(b"".join(self._parts)), np.concatenate(self._rows)
        return _Messages(self._index, rows, buf, np.concatenate(self._tables))
