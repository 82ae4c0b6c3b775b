"""A cluster without brokers: topics, bounds and files of partitions, from log directories.

``PartitionLog`` is the interface of the log of one partition, for both generations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from spark_kafkawire.directories.files import LogSlice
from spark_kafkawire.model import PartitionBounds


@dataclass(frozen=True, slots=True)
class SlicePart:
    """Offsets ``[start_offset, stop_offset)`` and the files that hold them. ``place`` is the number of the
    directory among the paths of the read."""

    start_offset: int
    stop_offset: int
    files: LogSlice
    place: int


class PartitionLog(Protocol):
    """The log of one partition when the read was planned. Files are read at the first call that needs them.

    All methods raise ``FileAccessError`` and ``CorruptDataError`` (fatal) that name the file."""

    @property
    def bounds(self) -> PartitionBounds:
        """Start and end, of committed records where the read wants only these."""

    @property
    def high_watermark(self) -> int:
        """The end with the records of open transactions."""

    def start_offset(self, time_ms: int) -> int | None:
        """An offset that misses no record at or after the timestamp; None if there is no such record."""

    def stop_offset(self, time_ms: int) -> int | None:
        """An offset that misses no record before the timestamp; None for the end."""

    def slices(self, start_offset: int, stop_offset: int) -> Sequence[SlicePart]:
        """The files of a range, a part for each directory that is read for it."""

    def cut_points(self, start_offset: int, stop_offset: int, bytes_max: int, /) -> Sequence[int]:
        """Offsets inside of a range, ascending, between which there are at most about ``bytes_max``."""
