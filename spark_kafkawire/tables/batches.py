"""The table ``batches``: the headers of all batches of log directories, and damage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..directories.files import Files
from ..directories.walking import Damaged, Sound, walked
from ..records import log_kernels
from ..records.arrays import Int64s
from ..records.compression.table import names_by_number
from ..records.log_index import BatchIndex
from ..records.log_layout import (
    CODEC_MASK,
    CONTROL_BIT,
    COUNT_POS,
    LOG_OVERHEAD,
    PRODUCER_ID_POS,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from ..records.message_set.index import MessageIndex
from .log_segments import LOGS, PLACE, LogSegment, index_of
from .table import FLAG, INT, LONG, TEXT, TIME, Column, Table

_EPOCH_POS: Final = LOG_OVERHEAD
_PRODUCER_EPOCH_POS: Final = PRODUCER_ID_POS + 8
_SEQUENCE_POS: Final = COUNT_POS - 4
_TYPES: Final = ("CreateTime", "LogAppendTime")
_MICROSECONDS: Final = 1000
_Flags = npt.NDArray[np.bool_]


def batches(files: Files, segment: LogSegment, wanted: Collection[str]) -> Iterator[Mapping[str, pa.Array]]:
    """The rows of a segment."""
    for part in walked(files, segment.file, lambda: index_of(files, segment)):
        if isinstance(part, Damaged):
            yield _of_damage(part, wanted)
        else:
            rows = _rows_of(part, segment)
            yield {name: _COLUMNS[name](rows) for name in {"position", *wanted}}


def _of_damage(damage: Damaged, wanted: Collection[str]) -> Mapping[str, pa.Array]:
    """One row: a damaged header says nothing that can be trusted."""
    last = damage.stop_offset - 1 if damage.stop_offset is not None else None
    values: Mapping[str, Any] = {
        "position": damage.pos,
        "bytes": damage.stop - damage.pos,
        "baseOffset": damage.start_offset,
        "lastOffset": last,
        "isValid": False,
        "reason": damage.reason,
    }
    types = {column.name: column.type for column in BATCHES.columns}
    return {name: pa.array([values.get(name)], types[name]) for name in {"position", *wanted}}


@dataclass
class _Rows:
    """The batches of a chunk as columns; ``index`` is None in 0.7, whose messages have nothing more."""

    position: Int64s
    size: Int64s
    base_offset: Int64s
    last_offset: Int64s
    magic: Int64s
    attributes: Int64s
    crc: Int64s
    codec: Int64s
    index: BatchIndex | None

    @property
    def count(self) -> int:
        return len(self.position)

    @cached_property
    def is_modern(self) -> _Flags:
        """True for batches of magic 2."""
        return self.magic == 2 if self.index is not None else np.zeros(self.count, np.bool_)

    @cached_property
    def has_timestamp(self) -> _Flags:
        return self.magic > 0 if self.index is not None else np.zeros(self.count, np.bool_)

    @cached_property
    def is_compressed_message(self) -> _Flags:
        """True for messages that hold others: their headers do not tell how many."""
        return ~self.is_modern & (self.codec > 0)

    def of_table(self, column: int) -> Int64s:
        """A column of the index; zeros in 0.7."""
        return np.zeros(self.count, np.int64) if self.index is None else self.index.column(column)

    def field(self, pos: int, size: int) -> Int64s:
        """A number in the header of batches of magic 2; -1 in the other rows."""
        found: Int64s = np.full(self.count, -1, np.int64)
        if self.index is not None:
            starts = self.index.column(log_kernels.POS)[self.is_modern] + pos
            raw = self.index.buf[starts[:, None] + np.arange(size)]
            found[self.is_modern] = np.ascontiguousarray(raw).view(f">i{size}").reshape(-1)
        return found


def _rows_of(sound: Sound, segment: LogSegment) -> _Rows:
    index = sound.index
    if isinstance(index, MessageIndex):
        offsets = segment.segment.base_offset + sound.pos + index.pos
        sizes = index.payload_pos + index.payload_size - index.pos
        magic, attributes = _int64s(index.magic), _int64s(index.attributes)
        crc, codec = _int64s(index.crc), _int64s(index.codec)
        return _Rows(sound.pos + index.pos, sizes, offsets, offsets, magic, attributes, crc, codec, None)
    attributes = index.column(log_kernels.ATTRIBUTES)
    return _Rows(
        sound.pos + index.column(log_kernels.POS),
        index.column(log_kernels.SIZE),
        index.column(log_kernels.BASE_OFFSET),
        index.column(log_kernels.NEXT_OFFSET) - 1,
        index.column(log_kernels.MAGIC),
        attributes,
        index.column(log_kernels.CRC),
        attributes & CODEC_MASK,
        index,
    )


def _int64s(values: npt.NDArray[Any]) -> Int64s:
    return values.astype(np.int64)


def _array(values: npt.NDArray[Any], type: pa.DataType, is_null: _Flags | None = None) -> pa.Array:
    return pa.array(values, mask=is_null).cast(type)


def _words(numbers: Int64s, words: Mapping[int, str], is_null: _Flags | None = None) -> pa.Array:
    """Words by their numbers; null for other numbers."""
    places = np.full(max(words) + 2, -1, np.int64)
    places[list(words)] = np.arange(len(words))
    found = places[np.minimum(numbers, max(words) + 1)]
    is_null = found < 0 if is_null is None else is_null | (found < 0)
    return pa.array(list(words.values()), TEXT).take(pa.array(found, mask=is_null))


def _base_offsets(rows: _Rows) -> pa.Array:
    is_null = rows.is_compressed_message if rows.index is not None else None
    return _array(rows.base_offset, LONG, is_null)


def _records(rows: _Rows) -> pa.Array:
    counts = np.where(rows.is_modern, rows.of_table(log_kernels.COUNT), 1)
    return _array(counts, INT, rows.is_compressed_message)


def _timestamp_types(rows: _Rows) -> pa.Array:
    types = (rows.attributes & TIMESTAMP_TYPE_BIT) // TIMESTAMP_TYPE_BIT
    return _words(types, dict(enumerate(_TYPES)), ~rows.has_timestamp)


def _max_timestamps(rows: _Rows) -> pa.Array:
    times = rows.of_table(log_kernels.MAX_TIMESTAMP)
    limit = (2**63 - 1) // _MICROSECONDS
    is_null = ~rows.has_timestamp | (times < 0) | (times > limit)
    return _array(np.where(is_null, 0, times) * _MICROSECONDS, TIME, is_null)


def _number(pos: int, size: int, type: pa.DataType) -> Callable[[_Rows], pa.Array]:
    def column(rows: _Rows) -> pa.Array:
        found = rows.field(pos, size)
        return _array(found, type, found < 0)

    return column


def _flag(bit: int) -> Callable[[_Rows], pa.Array]:
    return lambda rows: pa.array(rows.is_modern & (rows.attributes & bit != 0))


_COLUMNS: Final[Mapping[str, Callable[[_Rows], pa.Array]]] = {
    "position": lambda rows: _array(rows.position, LONG),
    "bytes": lambda rows: _array(rows.size, LONG),
    "baseOffset": _base_offsets,
    "lastOffset": lambda rows: _array(rows.last_offset, LONG),
    "records": _records,
    "magic": lambda rows: _array(rows.magic, INT),
    "codec": lambda rows: _words(rows.codec, names_by_number()),
    "timestampType": _timestamp_types,
    "maxTimestamp": _max_timestamps,
    "producerId": _number(PRODUCER_ID_POS, 8, LONG),
    "producerEpoch": _number(_PRODUCER_EPOCH_POS, 2, INT),
    "baseSequence": _number(_SEQUENCE_POS, 4, INT),
    "leaderEpoch": _number(_EPOCH_POS, 4, INT),
    "isTransactional": _flag(TRANSACTIONAL_BIT),
    "isControl": _flag(CONTROL_BIT),
    "crc": lambda rows: _array(rows.crc, LONG),
    "isValid": lambda rows: pa.array(np.ones(rows.count, np.bool_)),
    "reason": lambda rows: pa.nulls(rows.count, TEXT),
}

BATCHES: Final = Table(
    "batches",
    "Batches of log directories, and damage between them.",
    (
        *PLACE,
        Column("position", LONG, "place in the file"),
        Column("bytes", LONG, "size with header"),
        Column("baseOffset", LONG, "first offset; null for a compressed message of magic 0 or 1"),
        Column("lastOffset", LONG, "last offset; of damage null if it is not known"),
        Column("records", INT, "number of records; null for a compressed message of magic 0 or 1"),
        Column("magic", INT, "record format: 0, 1 or 2"),
        Column("codec", TEXT, "`none`, `gzip`, `snappy`, `lz4` or `zstd`; null for an unknown one"),
        Column("timestampType", TEXT, "`CreateTime` or `LogAppendTime`; null before magic 1"),
        Column("maxTimestamp", TIME, "largest timestamp; null without timestamps"),
        Column("producerId", LONG, "id of the idempotent or transactional producer; null without"),
        Column("producerEpoch", INT, "epoch of that producer"),
        Column("baseSequence", INT, "sequence number of its first record"),
        Column("leaderEpoch", INT, "epoch of the leader that appended the batch; null before magic 2"),
        Column("isTransactional", FLAG, "true for records and markers of transactions"),
        Column("isControl", FLAG, "true for markers, which are no records"),
        Column("crc", LONG, "checksum that the header claims"),
        Column("isValid", FLAG, "true if the checksum is right, false for damage"),
        Column("reason", TEXT, "reason of the damage; null for a valid batch"),
    ),
    {},
    LOGS,
)
