"""Messages of magic 0 and 1 with offsets, as Kafka 0.8 to 0.10 write them: decoded in bulk, and made of rows.

    offset int64 | size int32 | crc uint32 | magic int8 = 0 | attributes int8 | key | value
    offset int64 | size int32 | crc uint32 | magic int8 = 1 | attributes int8 | timestamp int64 | key | value

``crc`` is the CRC-32 of the bytes after it; keys and values begin with their size int32 (-1 for null).
The value of a compressed message is messages of the same magic. Its offset is that of the last message
inside. Offsets inside are absolute with magic 0, and with magic 1 they count from any number. If its
attributes say LogAppendTime, its timestamp applies to the messages inside.

    messages -> [replace compressed ones by their content] -> check CRCs -> columns

Rows to write are one message each, with offsets that count from 0; the broker makes them those of its log.
Compressed, these messages are the value of one message.

Source: Apache Kafka's AbstractLegacyRecordBatch.java, LegacyRecord.java and MemoryRecordsBuilder.java;
KIP-31, KIP-32. The rules of the kernels are those of ``compiler.Kernel``.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ..errors import CorruptDataError, RowError
from ..protocol.primitives import Buffer, Buffers, read_int32
from . import compiler, log_index
from .arrays import Int32s, Int64s, Uint8s, byte_array, join_arrays, room
from .checksum import crc32, crc32_each, first_mismatch
from .columns import Columns, header_counts
from .compiler import BYTES, inlined, kernel
from .compression import Codec, Format, TooLarge, decompress
from .encoded_batch import EncodedBatch, Packing, record_too_large
from .limits import LEGACY_MESSAGE_BYTES_MIN, MESSAGE_BYTES_MIN, DecodeLimits
from .log_index import (
    CODEC_MASK,
    CRC,
    LENGTH_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POS,
    MESSAGE_CRC_POS,
    MESSAGE_HEADER,
    MESSAGE_OVERHEAD,
    POS,
    SIZE,
    TIMESTAMP_BYTES,
    TIMESTAMP_POS,
    TIMESTAMP_TYPE_BIT,
    BatchIndex,
    index_table,
    int32,
)
from .native import copy
from .rows import Column, Records, cut_rows
from .spans import DecodeBuffers, Spans, gather_binary, room_for, size_at


@kernel(
    f"int64({BYTES}, int64[:, ::1], int64[::1], int64[::1], uint32[::1],"
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
    """Index messages of magic 0 and 1, one row each: the bytes that the CRC covers, key and value.

    A null has the size -1. ``table`` is one of ``index_batches``, whose messages lie in ``buf``.
    Returns the first row whose sizes do not add up, or -1.
    """
    for row in range(len(table)):
        pos = table[row, POS]
        stop = pos + table[row, SIZE]
        checked_starts[row] = pos + MAGIC_POS
        checked_sizes[row] = stop - pos - MAGIC_POS
        crcs[row] = table[row, CRC]
        pos += TIMESTAMP_POS + TIMESTAMP_BYTES * table[row, MAGIC]
        key_size = int32(buf, pos)
        if key_size < -1 or key_size > stop - pos - 2 * LENGTH_BYTES:
            return row
        key_starts[row] = pos + LENGTH_BYTES
        key_sizes[row] = key_size
        pos += LENGTH_BYTES + max(key_size, 0)
        value_size = int32(buf, pos)
        if value_size < -1 or pos + LENGTH_BYTES + max(value_size, 0) != stop:
            return row
        value_starts[row] = pos + LENGTH_BYTES
        value_sizes[row] = value_size
    return -1


@inlined
def write_int32(out: Any, pos: int, value: int) -> int:
    """Write the big-endian integer; the position after it."""
    out[pos] = value >> 24 & 255
    out[pos + 1] = value >> 16 & 255
    out[pos + 2] = value >> 8 & 255
    out[pos + 3] = value & 255
    return pos + 4


@kernel(
    f"void({BYTES}, int64[::1], int64[::1], {BYTES}, int64[::1], int64[::1], int64[::1],"
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
    overhead = MESSAGE_OVERHEAD - LOG_OVERHEAD + TIMESTAMP_BYTES * magic
    for row in range(first_row, stop_row):
        key_size = size_at(key_sizes, row)
        value_size = size_at(value_sizes, row)
        pos = write_int32(out, pos, 0)
        pos = write_int32(out, pos, row - first_row)
        pos = write_int32(out, pos, overhead + max(key_size, 0) + max(value_size, 0))
        pos = write_int32(out, pos, 0)
        out[pos] = magic
        out[pos + 1] = 0
        pos += 2
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


@dataclass(frozen=True, slots=True)
class Opened:
    """Content of the compressed message at ``row`` of the index, and the position of each message in it."""

    row: int
    content: Uint8s
    table: Int64s


def open_message(index: BatchIndex, row: int, limits: DecodeLimits) -> Opened:
    """Open the compressed message at that row.

    Raises ``CorruptDataError`` for damage at any place of it, ``LimitError`` for too much. Both are fatal.
    """
    content = join_arrays(_content(index, row, limits))
    return Opened(row, content, _inner_table(index, row, content, limits))


def _content(index: BatchIndex, row: int, limits: DecodeLimits) -> list[Buffer]:
    message, table = index.batch(row), index.table[row]
    if crc32(message[MAGIC_POS:]) != table[log_index.CRC]:
        raise index.damage(row, "its CRC-32 is wrong")
    magic, number = int(table[log_index.MAGIC]), int(table[log_index.ATTRIBUTES]) & CODEC_MASK
    value = _value(index, row, message)
    try:
        return decompress(number, Format(magic), value, limits.decompressed_bytes_max)
    except CorruptDataError as error:
        raise index.damage(row, error.reason) from error
    except TooLarge as error:
        raise index.too_large(row, error.reason, limits) from error


def _value(index: BatchIndex, row: int, message: memoryview) -> memoryview:
    pos = TIMESTAMP_POS + TIMESTAMP_BYTES * int(index.table[row, log_index.MAGIC])
    key_size = read_int32(message, pos)
    pos += LENGTH_BYTES + max(key_size, 0)
    if key_size >= -1 and len(message) - pos >= LENGTH_BYTES:
        size = read_int32(message, pos)
        if size == len(message) - pos - LENGTH_BYTES:
            return message[pos + LENGTH_BYTES :]
    raise index.damage(row, "the sizes of a message in it do not add up")


def _inner_table(index: BatchIndex, row: int, content: Uint8s, limits: DecodeLimits) -> Int64s:
    """The index of a compressed message's content, with the offsets and timestamps that count."""
    table = _check_table(index, row, content, limits)
    outer = index.table[row]
    offsets = table[:, log_index.BASE_OFFSET]
    if outer[log_index.MAGIC]:
        offsets += outer[log_index.BASE_OFFSET] - offsets[-1]
    # Offsets ascend, so only these two can be outside.
    first_offset = index.table[row - 1, log_index.NEXT_OFFSET] if row > 0 else 0
    if offsets[0] < first_offset or offsets[-1] != outer[log_index.BASE_OFFSET]:
        raise index.damage(row, "the offset of a message is not one of those it holds")
    table[:, log_index.ATTRIBUTES] = outer[log_index.ATTRIBUTES]
    if outer[log_index.ATTRIBUTES] & TIMESTAMP_TYPE_BIT:
        table[:, log_index.BASE_TIMESTAMP] = outer[log_index.BASE_TIMESTAMP]
    return table


def _check_table(index: BatchIndex, row: int, content: Uint8s, limits: DecodeLimits) -> Int64s:
    """The index of a compressed message's content: whole, plain messages of the same magic, in order."""
    rows_max = limits.decompressed_bytes_max // LEGACY_MESSAGE_BYTES_MIN + 1
    code, pos, table = index_table(content, rows_max)
    if code == log_index.ROWS_FULL:
        raise index.too_large(
            row,
            f"it holds more than {len(table)} messages, and each counts as {LEGACY_MESSAGE_BYTES_MIN} bytes",
            limits,
        )
    if code == log_index.BAD_ORDER:
        raise index.damage(row, "the offset of a message is not above that of the one before it")
    if code != log_index.END or not len(table):
        raise index.damage(
            row, f"it does not hold whole messages: no message begins at {pos} of {len(content)} bytes"
        )
    if (table[:, log_index.MAGIC] != index.table[row, log_index.MAGIC]).any():
        raise index.damage(row, "it holds messages of another magic")
    if (table[:, log_index.ATTRIBUTES] & CODEC_MASK).any():
        raise index.damage(row, "it holds compressed messages")
    return table


def cost_of(table: Int64s) -> int:
    """The bytes that these messages count as."""
    return int(np.maximum(table[:, log_index.SIZE], MESSAGE_BYTES_MIN).sum())


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
        offsets = messages.table[:, log_index.BASE_OFFSET]
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
        has_timestamps = (table[:, log_index.MAGIC] > 0).any()
        has_keys = "key" in wanted and (keys[1] >= 0).any()
        return Columns(
            table[:, log_index.BASE_OFFSET].copy(),
            keys=self._gather(keys) if has_keys else None,
            values=self._gather(values, buffers) if "value" in wanted else None,
            timestamps_ms=table[:, log_index.BASE_TIMESTAMP].copy()
            if has_timestamps and "timestamp" in wanted
            else None,
            timestamp_types=_timestamp_types(table) if has_timestamps and "timestampType" in wanted else None,
        )

    def _gather(self, spans: Spans, buffers: Buffers | None = None) -> pa.BinaryArray:
        sizes = np.maximum(spans[1], 0)
        return gather_binary(self.buf, spans, int(sizes.sum()), int((spans[1] < 0).sum()), buffers)


def _timestamp_types(table: Int64s) -> Int32s:
    is_append_time = table[:, log_index.ATTRIBUTES] & TIMESTAMP_TYPE_BIT != 0
    types = np.where(table[:, log_index.MAGIC] > 0, is_append_time, _NO_TIMESTAMP_TYPE)
    return types.astype(np.int32)


def _parts(index: BatchIndex, rows: Int64s, limits: DecodeLimits) -> Iterator[_Messages]:
    """The messages in parts of about ``batch_bytes_max``."""
    stage = _MessagesBuilder(index, limits)
    compressed = np.append(np.flatnonzero(index.table[rows, log_index.ATTRIBUTES] & CODEC_MASK), len(rows))
    # Bytes of all messages before each row, without compression.
    taken = np.cumsum(np.append(0, np.maximum(index.table[rows, log_index.SIZE], MESSAGE_BYTES_MIN)))
    first = 0
    while first < len(rows):
        stop = int(compressed[np.searchsorted(compressed, first)])
        if stop == first:
            opened = open_message(index, int(rows[first]), limits)
            if stage.cost and cost_of(opened.table) >= limits.batch_bytes_max:
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
        table = room(len(rows) * log_index.BATCH_COLUMNS, np.int64).reshape(-1, log_index.BATCH_COLUMNS)
        # All rows are there; "raise" would copy twice.
        np.take(self._index.table, rows, axis=0, out=table, mode="clip")
        start, stop = (
            int(table[0, log_index.POS]),
            int(table[-1, log_index.POS] + table[-1, log_index.SIZE]),
        )
        table[:, log_index.POS] -= start
        self._append(self._index.buf.data[start:stop], table, rows)

    def take(self, opened: Opened) -> None:
        """Take over the content of a compressed message."""
        table = opened.table
        self._append(opened.content.data, table, np.full(len(table), opened.row))

    def _append(self, part: Buffer, table: Int64s, rows: Int64s) -> None:
        table[:, log_index.POS] += self._size
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


#: A message without key and value, by magic.
_OVERHEAD: Final = (MESSAGE_OVERHEAD, MESSAGE_OVERHEAD + TIMESTAMP_BYTES)
#: Fields before a compressed message's value, by magic: ``[timestamp |] key size = -1 | value size``.
_WRAPPERS: Final = (struct.Struct(f"{MESSAGE_HEADER.format}ii"), struct.Struct(f"{MESSAGE_HEADER.format}qii"))


def encode_messages(parts: Sequence[Records], packing: Packing, now_ms: int) -> Iterator[EncodedBatch]:
    """Message sets of the records of all parts, in order; raises as ``record_log.encode_batches`` says."""
    records = Records.concat(parts)
    if (counts := header_counts(records.headers)).any():
        row = int(np.argmax(counts > 0))
        raise RowError(f"row {row}: headers need Kafka 0.11 or later, and this broker is older; drop them")
    keys, values = Column.of(records.keys, "key"), Column.of(records.values, "value")
    sizes = keys.sizes_of(records.count) + values.sizes_of(records.count) + _OVERHEAD[packing.magic]
    if records.count and sizes.max() > packing.request_bytes_max:
        row = int(np.argmax(sizes > packing.request_bytes_max))
        raise record_too_large(row, int(sizes[row]), packing.request_bytes_max)
    return _MessageEncoder(keys, values, records.timestamps(now_ms), sizes, packing).sets()


@dataclass(frozen=True, slots=True)
class _MessageEncoder:
    """Columns of the rows, and how they become message sets. ``sizes`` are those of the messages."""

    keys: Column
    values: Column
    timestamps: Int64s
    sizes: Int64s
    packing: Packing

    def sets(self) -> Iterator[EncodedBatch]:
        compiler.expect(len(self.sizes))
        for start, stop in cut_rows(self.sizes, self.packing.batch_bytes_max):
            data = self._messages(start, stop)
            if self.packing.codec is not None:
                data = self._wrap(data, start, stop, self.packing.codec)
            yield EncodedBatch(data, stop - start, self.packing.magic)

    def _messages(self, start: int, stop: int) -> memoryview:
        sizes = self.sizes[start:stop]
        starts = np.cumsum(sizes) - sizes
        out = np.empty(int(sizes.sum()), np.uint8)
        write_messages(*self.keys, *self.values, self.timestamps, start, stop, self.packing.magic, out)
        # The bytes that a CRC covers, and those between, as one row of spans.
        bounds = np.column_stack((starts + MAGIC_POS, starts + sizes)).reshape(-1)
        crcs = crc32_each(byte_array(out.data), bounds)[::2]
        places = starts[:, None] + np.arange(MESSAGE_CRC_POS, MAGIC_POS)
        out[places] = crcs.astype(">u4").view(np.uint8).reshape(-1, 4)
        return out.data

    def _wrap(self, content: memoryview, start: int, stop: int, codec: Codec) -> memoryview:
        """The compressed message that holds these messages."""
        magic, payload = self.packing.magic, codec.compress(content, self.packing.level)
        timestamps = (int(self.timestamps[start:stop].max()),) if magic else ()
        header = (stop - start - 1, _OVERHEAD[magic] - LOG_OVERHEAD + len(payload), 0, magic, codec.number)
        before = _WRAPPERS[magic].pack(*header, *timestamps, -1, len(payload))
        data = bytearray().join((before, payload))
        data[MESSAGE_CRC_POS:MAGIC_POS] = crc32(memoryview(data)[MAGIC_POS:]).to_bytes(4, "big")
        return memoryview(data)
