"""Segment files of log directories, as the tasks of the tables ``segments`` and ``batches`` get them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from ..directories.files import FileAccessError, Files, FileSystemOptions, opened
from ..directories.indexes import OffsetIndex, offset_index
from ..directories.scanning import Segment
from ..directories.walking import SegmentFile
from ..errors import LOG
from ..model import Generation
from ..options.selection import ASSIGN
from .table import INT, TEXT, TOPICS, Column

#: Options that choose logs.
LOGS: Final = (*TOPICS, ASSIGN.name)
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
    """A segment of a log when it was listed. ``next_base`` is the offset where the next one begins, None for
    the last one; ``snapshot_bytes`` is the size of the snapshot of producers at its begin."""

    topic: str
    partition: int
    broker: int | None
    segment: Segment
    next_base: int | None
    generation: Generation
    snapshot_bytes: int | None

    @property
    def file(self) -> SegmentFile:
        """The file, for a walk over its batches."""
        path, size = self.segment.file.path, self.segment.size
        return SegmentFile(path, size, self.segment.base_offset, self.next_base, self.generation)


@dataclass(frozen=True, slots=True)
class Share:
    """Segments of one log directory that a task reads."""

    uri: str
    settings: FileSystemOptions
    segments: tuple[LogSegment, ...]


#: The rows of a segment, as arrays of the wanted columns without those of ``PLACE``.
_Rows = Callable[[Files, LogSegment, Collection[str]], Iterator[Mapping[str, pa.Array]]]


def read_share(share: Share, schema: pa.Schema, rows: _Rows) -> Iterator[pa.RecordBatch]:
    """The rows of all segments of a share. A file that is gone is left out with a warning: a live broker
    deletes segments.

    Raises ``FileAccessError`` (fatal), also if the directory is not on this machine.
    """
    files = opened(share.uri, share.settings)
    places = {column.name for column in PLACE}
    wanted = frozenset(schema.names) - places
    for segment in share.segments:
        place = place_of(files, segment)
        try:
            for columns in rows(files, segment, wanted):
                count = len(next(iter(columns.values())))
                arrays = [
                    _repeated(place[field.name], count, field.type)
                    if field.name in places
                    else columns[field.name]
                    for field in schema
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        except FileNotFoundError:
            _check_is_here(files)
            shown = files.shown(segment.segment.file.path)
            LOG.warning("%s was deleted while it was read: its rows are missing", shown)


def place_of(files: Files, segment: LogSegment) -> Mapping[str, Any]:
    """The values of the columns ``PLACE``."""
    return {
        "topic": segment.topic,
        "partition": segment.partition,
        "broker": segment.broker,
        "directory": files.shown(files.root),
        "file": segment.segment.file.name,
    }


def index_of(files: Files, segment: LogSegment) -> OffsetIndex:
    """The offset index of a segment; empty without one."""
    file = segment.segment.offset_index
    try:
        data = b"" if file is None else files.read_entries(file.path)
    except FileNotFoundError:
        data = b""
    return offset_index(data, segment.segment.base_offset)


def _repeated(value: object, count: int, type: pa.DataType) -> pa.Array:
    return pa.nulls(count, type) if value is None else pa.repeat(pa.scalar(value, type), count)


def _check_is_here(files: Files) -> None:
    try:
        files.listed(files.root)
    except FileNotFoundError:
        raise FileAccessError(
            f"path {files.shown(files.root)} does not exist on this executor: it must be there for the "
            "driver and for all executors, such as on shared storage"
        ) from None
