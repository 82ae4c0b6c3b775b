"""The tables ``segments`` and ``batches`` of log directories: segment files, and the headers of all
their batches, with damage; and the segments as tasks get them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..directories import LogName
from ..directories.file_systems import FileInfo
from ..directories.files import Files, FileSystemOptions, open_files
from ..directories.scanner import Damaged, SegmentFile, Sound, scan_segment
from ..directories.scanning import Segment
from ..directories.side_files import OffsetIndex, offset_index, time_index
from ..errors import LOG
from ..model import Generation
from ..options import Selection
from ..records import log_index
from ..records.arrays import Int64s
from ..records.compression import names_by_number
from ..records.log_index import BatchIndex
from ..records.message_set.kernels import CODEC_MASK as CODEC_MASK_07
from . import FLAG, INT, LONG, TEXT, TIME, TOPICS, Column, Row, Table, us_of

#: Options that choose logs.
LOGS: Final = (*TOPICS, Selection.partitions.name)
#: Columns of both tables.
PLACE: Final = (
    Column("topic", TEXT, "topic"),
    Column("partition", INT, "partition"),
    Column("broker", INT, "id in `meta.properties`, in Kafka 0.7 that of the option `brokers`; null without"),
    Column("directory", TEXT, "path of the log directory"),
    Column("file", TEXT, "name of the segment file"),
)


@dataclass(frozen=True, slots=True)
class LogSegment:
    """A segment of a log when it was listed: its ``file`` for a walk over the batches, and the snapshot of
    producers at its begin."""

    name: LogName
    broker: int | None
    segment: Segment
    file: SegmentFile
    snapshot: FileInfo | None


@dataclass(frozen=True, slots=True)
class Share:
    """Segments of one log directory that a task reads."""

    uri: str
    settings: FileSystemOptions
    segments: tuple[LogSegment, ...]


#: The rows of a segment, as arrays of the wanted columns without those of ``PLACE``.
_RowsOf = Callable[[Files, LogSegment, Collection[str]], Iterator[Mapping[str, pa.Array]]]


def read_share(share: Share, schema: pa.Schema, rows: _RowsOf) -> Iterator[pa.RecordBatch]:
    """The rows of all segments of a share. A file that is gone is left out with a warning: a live broker
    deletes segments.

    Raises ``FileAccessError`` (fatal), also if the directory is not on this machine.
    """
    files = open_files(share.uri, share.settings)
    places = {column.name for column in PLACE}
    wanted = frozenset(schema.names) - places
    for segment in share.segments:
        location = {
            "topic": segment.name.topic,
            "partition": segment.name.partition,
            "broker": segment.broker,
            "directory": files.shown(files.root),
            "file": segment.segment.file.name,
        }
        try:
            for columns in rows(files, segment, wanted):
                count = len(next(iter(columns.values())))
                arrays = [
                    pa.repeat(pa.scalar(location[field.name], field.type), count)
                    if field.name in places
                    else columns[field.name]
                    for field in schema
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        except FileNotFoundError:
            files.check_is_here()
            shown = files.shown(segment.segment.file.path)
            LOG.warning("%s was deleted while it was read: its rows are missing", shown)


def index_of(files: Files, segment: LogSegment) -> OffsetIndex:
    """The offset index of a segment; empty without one."""
    file = segment.segment.offset_index
    return offset_index(files.read_entries(file.path if file else None), segment.segment.base_offset)


_OF_THE_BEGIN: Final = "firstOffset"
_OF_THE_END: Final = frozenset(("nextOffset", "maxTimestamp"))
#: Bytes of a window: most walks are over one batch, or the few kilobytes after the last entry of an index.
_WINDOW_BYTES: Final = 1 << 20


def segments(files: Files, segment: LogSegment, wanted: Collection[str]) -> Iterator[Mapping[str, pa.Array]]:
    """The row of a segment. Its content is read only for the columns that need it: the begin, or what follows
    the last entry of its index."""
    beside = segment.segment
    find_first, find_end = _FIRST_OFFSETS[segment.file.generation], _ENDS[segment.file.generation]
    next_offset, time_ms = find_end(files, segment) if not _OF_THE_END.isdisjoint(wanted) else _UNKNOWN
    values: Row = {
        "baseOffset": beside.base_offset,
        "bytes": beside.size,
        "firstOffset": find_first(files, segment) if _OF_THE_BEGIN in wanted else None,
        "nextOffset": next_offset,
        "maxTimestamp": None if time_ms is None else us_of(time_ms),
        "modifiedTime": us_of(beside.file.modified_ms or -1),
        "offsetIndexBytes": _size_of(beside.offset_index),
        "timeIndexBytes": _size_of(beside.time_index),
        "txnIndexBytes": _size_of(beside.txn_index),
        "snapshotBytes": _size_of(segment.snapshot),
    }
    types = {column.name: column.type for column in SEGMENTS.columns}
    yield {name: pa.array([values[name]], types[name]) for name in {"bytes", *wanted}}


def _size_of(file: FileInfo | None) -> int | None:
    return None if file is None else file.size


#: The offset after a segment, and its largest timestamp in ms.
_End = tuple[int | None, int | None]
_UNKNOWN: Final = None, None


def _first_offset_07(_: Files, segment: LogSegment) -> int | None:
    return segment.segment.base_offset if segment.segment.size else None


def _first_offset(files: Files, segment: LogSegment) -> int | None:
    """The offset of the first batch, if its header has it and nothing is damaged."""
    for part in scan_segment(files, segment.file, window_bytes=_WINDOW_BYTES):
        if isinstance(part, Damaged) or not isinstance(part.index, BatchIndex):
            return None
        first = part.index.table[0]
        is_nested = first[log_index.MAGIC] < 2 and first[log_index.ATTRIBUTES] & log_index.CODEC_MASK
        return None if is_nested else int(first[log_index.BASE_OFFSET])
    return None


def _end_of_07(_: Files, segment: LogSegment) -> _End:
    return segment.segment.base_offset + segment.segment.size, None


def _end_of(files: Files, segment: LogSegment) -> _End:
    """The end of a segment: what follows the last entry of the offset index is read, and the whole segment if
    no batch begins there."""
    index = index_of(files, segment)
    pos = index.last_position(segment.segment.size)
    file = segment.segment.time_index
    times = files.read_entries(file.path if file else None)
    indexed = time_index(times, segment.segment.base_offset).times_ms
    latest = int(indexed[-1]) if len(indexed) else -1
    result = _walk_to_end(files, segment.file, pos)
    if result is None and pos:
        result = _walk_to_end(files, segment.file, 0)
    if result is None:
        return _UNKNOWN
    next_offset, time_ms = result[0], max(latest, result[1])
    return next_offset, None if time_ms < 0 else time_ms


def _walk_to_end(files: Files, file: SegmentFile, pos: int) -> tuple[int, int] | None:
    """The end after the batches from ``pos`` on, with a time of -1 or less for none; None without any batch,
    or if damage comes first."""
    result: tuple[int, int] | None = None
    for part in scan_segment(files, file, pos=pos, window_bytes=_WINDOW_BYTES):
        if isinstance(part, Sound) and isinstance(part.index, BatchIndex):
            time_ms = int(np.max(part.index.column(log_index.MAX_TIMESTAMP)))
            next_offset = int(part.index.table[-1, log_index.NEXT_OFFSET])
            result = next_offset, max(result[1] if result else -1, time_ms)
        elif result is None:
            return None
    return result


_FIRST_OFFSETS: Final = {Generation.MODERN: _first_offset, Generation.V07: _first_offset_07}
_ENDS: Final = {Generation.MODERN: _end_of, Generation.V07: _end_of_07}

SEGMENTS: Final = Table(
    "segments",
    "Segment files of log directories, with those that a broker was renaming.",
    (
        *PLACE,
        Column("baseOffset", LONG, "offset in the name of the file; in Kafka 0.7 offsets count bytes"),
        Column("bytes", LONG, "size of the file"),
        Column(
            "firstOffset",
            LONG,
            "first offset; null without any, if it is damaged, or of a compressed message of magic 0 or 1",
        ),
        Column("nextOffset", LONG, "offset after the last sound batch; null without any"),
        Column("maxTimestamp", TIME, "largest timestamp of a record; null without any, and in Kafka 0.7"),
        Column("modifiedTime", TIME, "time of the last change of the file"),
        Column("offsetIndexBytes", LONG, "size of the file `.index`; null without one"),
        Column("timeIndexBytes", LONG, "size of the file `.timeindex`; null without one"),
        Column("txnIndexBytes", LONG, "size of the file `.txnindex`; null without one"),
        Column("snapshotBytes", LONG, "size of the file `.snapshot` with producers; null without one"),
    ),
    {},
    LOGS,
)


_EPOCH_POS: Final = log_index.LOG_OVERHEAD
_PRODUCER_EPOCH_POS: Final = log_index.PRODUCER_ID_POS + 8
_SEQUENCE_POS: Final = log_index.COUNT_POS - 4
_TYPES: Final = ("CreateTime", "LogAppendTime")
_MICROSECONDS: Final = 1000
_Flags = npt.NDArray[np.bool_]


def batches(files: Files, segment: LogSegment, wanted: Collection[str]) -> Iterator[Mapping[str, pa.Array]]:
    for part in scan_segment(files, segment.file, lambda: index_of(files, segment)):
        if isinstance(part, Damaged):
            yield _make_damage_row(part, wanted)
        else:
            rows = _rows_of(part, segment)
            yield {name: _COLUMNS[name](rows) for name in {"position", *wanted}}


def _make_damage_row(damage: Damaged, wanted: Collection[str]) -> Mapping[str, pa.Array]:
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
    """The batches of a chunk, which begins at ``start`` of the file: a table as that of ``BatchIndex``, with
    zeros for what messages of 0.7 do not have; ``index`` is None there."""

    start: int
    table: Int64s
    codec_mask: int
    index: BatchIndex | None

    @property
    def count(self) -> int:
        return len(self.table)

    def column(self, name: int) -> Int64s:
        column: Int64s = self.table[:, name]
        return column

    @cached_property
    def codec(self) -> Int64s:
        return self.column(log_index.ATTRIBUTES) & self.codec_mask

    @cached_property
    def is_modern(self) -> _Flags:
        """True for batches of magic 2."""
        is_modern: _Flags = self.column(log_index.MAGIC) == 2
        return is_modern

    @cached_property
    def has_timestamp(self) -> _Flags:
        return self.column(log_index.MAGIC) > 0 if self.index is not None else np.zeros(self.count, np.bool_)

    @cached_property
    def is_compressed_message(self) -> _Flags:
        """True for messages that hold others: their headers do not tell how many."""
        return ~self.is_modern & (self.codec > 0)

    def field(self, pos: int, size: int) -> Int64s:
        """A number in the header of batches of magic 2; -1 in the other rows."""
        result: Int64s = np.full(self.count, -1, np.int64)
        if self.index is not None:
            starts = self.column(log_index.POS)[self.is_modern] + pos
            raw = self.index.buf[starts[:, None] + np.arange(size)]
            result[self.is_modern] = np.ascontiguousarray(raw).view(f">i{size}").reshape(-1)
        return result


def _rows_of(valid: Sound, segment: LogSegment) -> _Rows:
    index = valid.index
    if isinstance(index, BatchIndex):
        return _Rows(valid.pos, index.table, log_index.CODEC_MASK, index)
    table = np.zeros((index.count, log_index.BATCH_COLUMNS), np.int64)
    table[:, log_index.POS], table[:, log_index.SIZE] = index.pos, index.next_pos - index.pos
    table[:, log_index.BASE_OFFSET] = segment.segment.base_offset + valid.pos + index.pos
    table[:, log_index.NEXT_OFFSET] = table[:, log_index.BASE_OFFSET] + 1
    table[:, log_index.MAGIC], table[:, log_index.CRC] = index.magic, index.crc
    table[:, log_index.ATTRIBUTES] = index.attributes
    return _Rows(valid.pos, table, CODEC_MASK_07, None)


def _array(values: npt.NDArray[Any], type: pa.DataType, is_null: _Flags | None = None) -> pa.Array:
    return pa.array(values, mask=is_null).cast(type)


def _words(numbers: Int64s, words: Mapping[int, str], is_null: _Flags | None = None) -> pa.Array:
    """Words by their numbers; null for other numbers."""
    places = np.full(max(words) + 2, -1, np.int64)
    places[list(words)] = np.arange(len(words))
    result = places[np.minimum(numbers, max(words) + 1)]
    is_null = result < 0 if is_null is None else is_null | (result < 0)
    return pa.array(list(words.values()), TEXT).take(pa.array(result, mask=is_null))


def _base_offsets(rows: _Rows) -> pa.Array:
    is_null = rows.is_compressed_message if rows.index is not None else None
    return _array(rows.column(log_index.BASE_OFFSET), LONG, is_null)


def _records(rows: _Rows) -> pa.Array:
    counts = np.where(rows.is_modern, rows.column(log_index.COUNT), 1)
    return _array(counts, INT, rows.is_compressed_message)


def _timestamp_types(rows: _Rows) -> pa.Array:
    types = (rows.column(log_index.ATTRIBUTES) & log_index.TIMESTAMP_TYPE_BIT) // log_index.TIMESTAMP_TYPE_BIT
    return _words(types, dict(enumerate(_TYPES)), ~rows.has_timestamp)


def _max_timestamps(rows: _Rows) -> pa.Array:
    times = rows.column(log_index.MAX_TIMESTAMP)
    limit = (2**63 - 1) // _MICROSECONDS
    is_null = ~rows.has_timestamp | (times < 0) | (times > limit)
    return _array(np.where(is_null, 0, times) * _MICROSECONDS, TIME, is_null)


def _number(pos: int, size: int, type: pa.DataType) -> Callable[[_Rows], pa.Array]:
    def column(rows: _Rows) -> pa.Array:
        result = rows.field(pos, size)
        return _array(result, type, result < 0)

    return column


def _flag(bit: int) -> Callable[[_Rows], pa.Array]:
    return lambda rows: pa.array(rows.is_modern & (rows.column(log_index.ATTRIBUTES) & bit != 0))


_COLUMNS: Final[Mapping[str, Callable[[_Rows], pa.Array]]] = {
    "position": lambda rows: _array(rows.start + rows.column(log_index.POS), LONG),
    "bytes": lambda rows: _array(rows.column(log_index.SIZE), LONG),
    "baseOffset": _base_offsets,
    "lastOffset": lambda rows: _array(rows.column(log_index.NEXT_OFFSET) - 1, LONG),
    "records": _records,
    "magic": lambda rows: _array(rows.column(log_index.MAGIC), INT),
    "codec": lambda rows: _words(rows.codec, names_by_number()),
    "timestampType": _timestamp_types,
    "maxTimestamp": _max_timestamps,
    "producerId": _number(log_index.PRODUCER_ID_POS, 8, LONG),
    "producerEpoch": _number(_PRODUCER_EPOCH_POS, 2, INT),
    "baseSequence": _number(_SEQUENCE_POS, 4, INT),
    "leaderEpoch": _number(_EPOCH_POS, 4, INT),
    "isTransactional": _flag(log_index.TRANSACTIONAL_BIT),
    "isControl": _flag(log_index.CONTROL_BIT),
    "crc": lambda rows: _array(rows.column(log_index.CRC), LONG),
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
