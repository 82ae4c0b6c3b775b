"""The table ``segments``: the segment files of log directories."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from ..directories.file_systems import FileInfo
from ..directories.files import Files
from ..directories.indexes import time_index
from ..directories.walking import Damaged, SegmentFile, Sound, walked
from ..model import Generation
from ..records.log_index import BatchIndex
from ..records.log_kernels import ATTRIBUTES, BASE_OFFSET, MAGIC, MAX_TIMESTAMP, NEXT_OFFSET
from ..records.log_layout import CODEC_MASK
from .log_segments import LOGS, PLACE, LogSegment, index_of
from .table import LONG, TIME, Column, Row, Table, us_of

_OF_THE_BEGIN: Final = "firstOffset"
_OF_THE_END: Final = frozenset(("nextOffset", "maxTimestamp"))
#: Bytes of a window: most walks are over one batch, or the few kilobytes after the last entry of an index.
_WINDOW_BYTES: Final = 1 << 20


def segments(files: Files, segment: LogSegment, wanted: Collection[str]) -> Iterator[Mapping[str, pa.Array]]:
    """The row of a segment. Its content is read only for the columns that need it: the begin, or what follows
    the last entry of its index."""
    beside = segment.segment
    find_first, find_end = _FIRST_OFFSETS[segment.generation], _ENDS[segment.generation]
    end = find_end(files, segment) if not _OF_THE_END.isdisjoint(wanted) else _UNKNOWN
    values: Row = {
        "baseOffset": beside.base_offset,
        "bytes": beside.size,
        "firstOffset": find_first(files, segment) if _OF_THE_BEGIN in wanted else None,
        "nextOffset": end.next_offset,
        "maxTimestamp": None if end.time_ms is None else us_of(end.time_ms),
        "modifiedTime": us_of(beside.file.modified_ms or -1),
        "offsetIndexBytes": _size_of(beside.offset_index),
        "timeIndexBytes": _size_of(beside.time_index),
        "txnIndexBytes": _size_of(beside.txn_index),
        "snapshotBytes": segment.snapshot_bytes,
    }
    types = {column.name: column.type for column in SEGMENTS.columns}
    yield {name: pa.array([values[name]], types[name]) for name in {"bytes", *wanted}}


def _size_of(file: FileInfo | None) -> int | None:
    return None if file is None else file.size


@dataclass(frozen=True, slots=True)
class _End:
    next_offset: int | None
    time_ms: int | None


_UNKNOWN: Final = _End(None, None)


def _first_offset_07(_: Files, segment: LogSegment) -> int | None:
    return segment.segment.base_offset if segment.segment.size else None


def _first_offset(files: Files, segment: LogSegment) -> int | None:
    """The offset of the first batch, if its header has it and nothing is damaged."""
    for part in walked(files, segment.file, window_bytes=_WINDOW_BYTES):
        if isinstance(part, Damaged) or not isinstance(part.index, BatchIndex):
            return None
        first = part.index.table[0]
        is_nested = first[MAGIC] < 2 and first[ATTRIBUTES] & CODEC_MASK
        return None if is_nested else int(first[BASE_OFFSET])
    return None


def _end_of_07(_: Files, segment: LogSegment) -> _End:
    return _End(segment.segment.base_offset + segment.segment.size, None)


def _end_of(files: Files, segment: LogSegment) -> _End:
    """The end of a segment: what follows the last entry of the offset index is read, and the whole segment if
    no batch begins there."""
    index = index_of(files, segment)
    pos = index.last_position(segment.segment.size)
    times = b"" if segment.segment.time_index is None else _content(files, segment.segment.time_index)
    indexed = time_index(times, segment.segment.base_offset).times_ms
    latest = int(indexed[-1]) if len(indexed) else -1
    found = _walked_end(files, segment.file, pos)
    if found is None and pos:
        found = _walked_end(files, segment.file, 0)
    if found is None:
        return _UNKNOWN
    time_ms = max(latest, found.time_ms or -1)
    return replace(found, time_ms=None if time_ms < 0 else time_ms)


def _content(files: Files, file: FileInfo) -> bytes:
    try:
        return files.read_entries(file.path)
    except FileNotFoundError:  # it went with its segment
        return b""


def _walked_end(files: Files, file: SegmentFile, pos: int) -> _End | None:
    """The end after the batches from ``pos`` on; None without any, or if damage comes first."""
    found: _End | None = None
    for part in walked(files, file, pos=pos, window_bytes=_WINDOW_BYTES):
        if isinstance(part, Sound) and isinstance(part.index, BatchIndex):
            time_ms = int(np.max(part.index.column(MAX_TIMESTAMP)))
            before = -1 if found is None or found.time_ms is None else found.time_ms
            found = _End(int(part.index.table[-1, NEXT_OFFSET]), max(before, time_ms))
        elif found is None:
            return None
    return found


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
