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

#: Bytes that tell whether a batch begins at a place.
HEADER_BYTES: Final = 17


class LogFeed(Protocol):
    """The rows of one range. No file, no waiting. ``offset`` is the first one that is not decoded."""

    #: True if records are found by an offset index; otherwise an offset is a place in the file.
    is_indexed: bool

    @property
    def offset(self) -> int: ...

    @property
    def done(self) -> bool:
        """True after all rows of the range were given."""

    def begin(self, base_offset: int, next_base: int | None) -> None:
        """Begin a segment, with the offsets where it and the next one begin."""

    def may_begin_with(self, header: memoryview) -> bool:
        """True if ``HEADER_BYTES`` at a place that an index names can begin what is read next."""

    def feed(self, frame: memoryview, start: int) -> Iterator[Columns]:
        """The rows that the chunk ``frame[start:]`` completes. Bytes before ``start`` are overwritten.

        Raises ``CorruptDataError`` with its offset, ``LimitError`` (fatal)."""

    def finish(self, is_log_end: bool) -> None:
        """End a segment; ``is_log_end`` is True for one that may end in a part of a message. Raises
        ``CorruptDataError`` (fatal) if bytes are left over that are no whole message."""

    def skip(self, offset: int) -> None:
        """Continue at an offset: the bytes before it are gone."""

    def report(self, place: str) -> None:
        """Warn about offsets that are missing without an explanation."""


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
