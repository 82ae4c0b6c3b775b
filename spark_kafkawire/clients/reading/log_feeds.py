"""Interface of the decoders of segment files, for both generations, and the decoder of each.

A feed gets the bytes of segments in order, in chunks cut anywhere. ``log_files`` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol

from spark_kafkawire.directories.indexes import AbortedTransaction
from spark_kafkawire.model import Generation, OffsetRange
from spark_kafkawire.options import FetchOptions
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.damage import Damage, Walk, Whole

#: Bytes that tell whether a batch begins at a place.
HEADER_BYTES: Final = 17


class LogFeed(Protocol):
    """The rows of one range. No file, no waiting. ``offset`` is the first one that is not decoded."""

    #: True if records are found by an offset index; otherwise an offset is a place in the file.
    is_indexed: bool

    @property
    def offset(self) -> int: ...

    @property
    def gaps(self) -> Sequence[tuple[int, int]]:
        """The offsets of the range up to ``offset`` that are missing without an explanation, ascending, each
        gap with the offset after it."""

    @property
    def pos(self) -> int:
        """The position in the segment of the first batch or message that is not decoded."""

    @property
    def done(self) -> bool:
        """True after all rows of the range were given."""

    def begin(self, base_offset: int, next_base: int | None, is_last: bool) -> None:
        """Begin a segment, with the offsets where it and the next one begin. ``is_last`` is True if the log
        ended in it, where the range does, when the read was planned."""

    def may_begin_with(self, header: memoryview) -> bool:
        """True if ``HEADER_BYTES`` at a place that an index names can begin what is read next."""

    def seek(self, pos: int, floor: int) -> None:
        """Continue at a position of the segment, after which no offset is below ``floor``."""

    def feed(self, frame: memoryview, start: int, is_last: bool) -> Iterator[Columns]:
        """The rows that the chunk ``frame[start:]`` completes. Bytes before ``start`` are overwritten.
        ``is_last`` is True for the last chunk of a segment.

        Raises ``CorruptDataError`` with its offset, ``LimitError`` (fatal)."""

    def finish(self) -> None:
        """End a segment: the range goes on where the next one begins.

        Raises ``CorruptDataError`` (fatal) if bytes of the range are left over that are no whole message."""

    def walk(self, data: bytes, is_end: bool, boundaries: Sequence[int]) -> Walk:
        """The walk over the bytes of the segment from ``pos`` on, which has the parts that are certain."""

    def whole(self, data: bytes, part: Whole) -> Iterator[Columns]:
        """The rows of a part of a walk. Raises ``UndecodablePart`` where another walk is needed, and as
        ``feed`` does."""

    def skip_damage(self, damage: Damage) -> None:
        """Continue after a part of a walk."""

    def skip(self, offset: int) -> None:
        """Continue at an offset: the bytes before it are gone."""


#: Arguments: the range, options, wanted columns, aborted transactions, and whether the log is compacted.
_Make = Callable[[OffsetRange, FetchOptions, Container[str], Sequence[AbortedTransaction], bool], LogFeed]


def _of_07(
    range: OffsetRange,
    options: FetchOptions,
    wanted: Container[str],
    _aborted: Sequence[AbortedTransaction],
    _is_compacted: bool,
) -> LogFeed:
    from .v07.message_feed import MessageFeed

    return MessageFeed(range, options, wanted)


def _of_modern(
    range: OffsetRange,
    options: FetchOptions,
    wanted: Container[str],
    aborted: Sequence[AbortedTransaction],
    is_compacted: bool,
) -> LogFeed:
    from .modern.batch_feed import BatchFeed

    return BatchFeed(range, options, wanted, aborted, is_compacted)


FEEDS: Final[Mapping[Generation, _Make]] = MappingProxyType(
    {Generation.V07: _of_07, Generation.MODERN: _of_modern}
)
