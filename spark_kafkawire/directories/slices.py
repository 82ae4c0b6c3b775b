"""The files of a range of one partition: what planning gives to a task. Plain data, which is pickled."""

from __future__ import annotations

from dataclasses import dataclass

from ..model import Generation
from .files import FileSystemOptions


@dataclass(frozen=True, slots=True)
class SegmentSlice:
    """A segment file with its size when the read was planned, bytes; a live broker may append to it.

    ``next_base`` is where the next segment begins, None for the last one. ``offset_index`` is the name of its
    index, None without one."""

    name: str
    base_offset: int
    size: int
    next_base: int | None = None
    offset_index: str | None = None


@dataclass(frozen=True, slots=True)
class LogSlice:
    """The segments of a range, ascending. All files are in ``folder``, a path of the file system of ``uri``.

    ``is_log_end`` is True if the range ends where the log did: the last message may be cut there (0.7).
    ``txn_indexes`` are the indexes of aborted transactions from the first segment to the end of the log, for
    reads of committed records. ``is_compacted`` is True if the log cleaner went over the partition, so that
    gaps between offsets are legal.
    """

    uri: str
    settings: FileSystemOptions
    generation: Generation
    folder: str
    segments: tuple[SegmentSlice, ...]
    is_log_end: bool = False
    txn_indexes: tuple[str, ...] = ()
    is_compacted: bool = False

    def path(self, name: str) -> str:
        """The path of a file in the folder."""
        return f"{self.folder}/{name}"
