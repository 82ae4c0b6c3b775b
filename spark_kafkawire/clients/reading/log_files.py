"""Read loop of a task over segment files, for both generations: one range of one partition.

    for columns in LogFiles(task, options).columns():
        ...

A file that is gone is a loss of data, which ``failOnDataLoss`` decides about: a live broker deletes segments.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol

from spark_kafkawire.directories.files import WINDOW_BYTES, LogSlice, SegmentSlice, open_files, windows
from spark_kafkawire.directories.scanner import HEADER_BYTES, OFFSET_MAX, DamagedSegment, ShorterFileError
from spark_kafkawire.directories.side_files import (
    AbortedTransaction,
    OffsetIndex,
    aborted_transactions,
    offset_index,
)
from spark_kafkawire.errors import (
    LOG,
    CorruptDataError,
    DataLossError,
    KafkaWireError,
    LimitError,
    OptionError,
    list_some,
)
from spark_kafkawire.model import Generation
from spark_kafkawire.options import FetchOptions
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.damage import Damage, Walk, Whole
from spark_kafkawire.records.log_index import MarkersDisagree
from spark_kafkawire.records.record_log import COLUMNS

from .damaged_records import DamagedBytes, DamagedRecords, advise_bad_records, first_place
from .data_loss import GAPS_LISTED_MAX, warn_of_gaps
from .task import FetchTask, UndecodablePart

#: Why the gaps of a log are no work of the log cleaner.
_NOT_COMPACTED: Final = "by cleaner-offset-checkpoint the log cleaner has not gone over the log"


class LogFiles:
    """Read of one range from the files of its slice."""

    def __init__(
        self,
        task: FetchTask,
        options: FetchOptions,
        *,
        wanted: Container[str] = COLUMNS,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        assert task.files is not None
        self._task = task
        self._slice: LogSlice = task.files
        self._options = options
        self._window_bytes = window_bytes
        self._files = open_files(self._slice.uri, self._slice.settings)
        self._damaged = DamagedRecords(task.range, options)
        feed = _FEEDS[self._slice.generation]
        self._feed = feed(task.range, options, wanted, self._aborted(), self._slice.is_compacted)

    def columns(self) -> Iterator[Columns]:
        """All records of the range, in order. Raises ``CorruptDataError``, ``LimitError``,
        ``DataLossError``, ``FileAccessError`` (fatal)."""
        for segment in self._slice.segments:
            if self._feed.done:
                break
            path = self._slice.path(segment.name)
            try:
                # The log ended in its last segment when the read was planned.
                is_last = self._slice.is_log_end and segment is self._slice.segments[-1]
                self._feed.begin(segment.base_offset, segment.next_base, is_last)
                yield from self._read_segment(segment, path)
                self._check_gaps(segment, path)
            except (CorruptDataError, LimitError) as error:
                raise self._explain(error, path) from error
            except FileNotFoundError:
                self._lose(segment, path)
        self._check_end()
        self._damaged.report()
        if gaps := self._feed.gaps:
            count = sum(stop - start for start, stop in gaps)
            listed = list_some(gaps, GAPS_LISTED_MAX, lambda gap: f"[{gap[0]}, {gap[1]})")
            place = f"{self._task.range} in {self._files.shown(self._slice.folder)}"
            warn_of_gaps(place, count, listed, _NOT_COMPACTED)

    def _read_segment(self, segment: SegmentSlice, path: str) -> Iterator[Columns]:
        """The rows of a segment. Where it is damaged, it is examined, and read as usual after that."""
        pos, stop_pos, index = self._span(segment, path)
        self._feed.seek(pos, max(segment.base_offset, index.floor_of(pos)))
        while True:
            try:
                yield from self._read_in_order(segment, path, stop_pos)
                yield from self._missing_end(segment)
                return
            except (MarkersDisagree, ShorterFileError):
                raise
            except (CorruptDataError, LimitError) as error:
                cause = error
            stop = OFFSET_MAX if segment.next_base is None else segment.next_base
            damaged = DamagedSegment(self._files, path, segment.base_offset, segment.size, stop, index)
            if self._damaged.is_error or self._is_unproven_start(segment):
                raise self._first_place(cause, damaged)
            yield from self._examine(damaged, cause)
            if self._feed.done:
                return

    def _missing_end(self, segment: SegmentSlice) -> Iterator[Columns]:
        """The row of the bytes that a cut segment of 0.7 lacks at its end."""
        if self._feed.is_indexed or self._damaged.is_error or segment.next_base is None:
            return
        # The range may begin or end in the missing part.
        start, stop = self._feed.offset, min(segment.next_base, self._task.range.stop_offset)
        if segment.base_offset + segment.size <= start < stop:
            damage = Damage(0, 0, start, stop, "the segment ends before the next one begins")
            yield from self._damaged.columns(DamagedBytes(damage, b""))
            self._feed.skip_damage(damage)

    def _read_in_order(self, segment: SegmentSlice, path: str, stop_pos: int) -> Iterator[Columns]:
        """The rows from the feed's position on. Raises as ``columns`` does."""
        pos = self._feed.pos
        # An index says where to stop; what it says is true only if the range is done there.
        for end_pos in (stop_pos, segment.size):
            for frame, start in windows(self._files, path, pos, end_pos, window_bytes=self._window_bytes):
                pos += len(frame) - start
                yield from self._feed.feed(frame, start, pos == segment.size)
                if self._feed.done and self._feed.is_indexed:
                    return
            if self._feed.done:
                break
            if pos < end_pos:
                raise ShorterFileError.of(pos, segment.size, self._feed.offset)
        self._feed.finish()

    # The damaged path.

    def _is_unproven_start(self, segment: SegmentSlice) -> bool:
        """True if the range begins where an option says, and maybe inside of a message (0.7)."""
        is_at_start = self._feed.offset == self._task.range.start_offset > segment.base_offset
        return not self._feed.is_indexed and is_at_start and self._task.start_option is not None

    def _walk(self, damaged: DamagedSegment, *, to_damage: bool = False) -> tuple[bytes, Walk]:
        return damaged.walk_at(
            self._feed.pos,
            self._feed.walk,
            window_bytes=self._window_bytes,
            bytes_max=2 * self._options.message_bytes_max + self._window_bytes,
            to_damage=to_damage,
        )

    def _examine(self, damaged: DamagedSegment, cause: KafkaWireError) -> Iterator[Columns]:
        """The rows of sound batches, and those of damage, from the feed's position on; at least one of both.

        Raises ``cause`` if it is a limit, and nothing is damaged."""
        while True:
            data, walk = self._walk(damaged)
            if isinstance(cause, LimitError) and walk.first is None:
                raise cause
            try:
                for part in walk.parts:
                    if isinstance(part, Whole):
                        yield from self._feed.whole(data, part)
                    else:
                        yield from self._damaged.columns(DamagedBytes.of(part, data))
                        self._feed.skip_damage(part)
                    if self._feed.done:
                        return
            except UndecodablePart:
                continue
            return

    def _first_place(
        self, error: CorruptDataError | LimitError, damaged: DamagedSegment
    ) -> CorruptDataError | LimitError:
        """The error with the first place of the damage."""
        pos = self._feed.pos
        # The chunk of the error can be larger than a window: the rest of the one before is its begin.
        _, walk = self._walk(damaged, to_damage=True)
        if isinstance(error, LimitError) or error.pos is None:
            if walk.first is None:
                return error
            return error.advise(f"it begins at byte {pos + walk.first.pos} of the file")
        return first_place(error, walk, "the file", pos)

    def _span(self, segment: SegmentSlice, path: str) -> tuple[int, int, OffsetIndex]:
        """The positions in a segment between which the rest of the range is, and the index that says so."""
        none = offset_index(b"", segment.base_offset)
        start_offset, stop_offset = self._feed.offset, self._task.range.stop_offset
        if not self._feed.is_indexed:
            pos = max(0, start_offset - segment.base_offset)
            return pos, min(segment.size, stop_offset - segment.base_offset), none
        if segment.offset_index is None:
            return 0, segment.size, none
        data = self._files.read_entries(self._slice.path(segment.offset_index))
        index = offset_index(data, segment.base_offset)
        pos = index.position_of(start_offset)
        # An index has no checksum: a batch with what is read next must be able to begin there.
        if pos and not self._feed.may_begin_with(self._files.read_at(path, pos, HEADER_BYTES)):
            return 0, segment.size, none
        return pos, index.stop_position(stop_offset, segment.size), index

    def _aborted(self) -> list[AbortedTransaction]:
        """The transactions whose records may be in the range and do not count."""
        result = []
        start_offset, stop_offset = self._task.range.start_offset, self._task.range.stop_offset
        for name in self._slice.txn_indexes:
            path = self._slice.path(name)
            try:
                entries = aborted_transactions(self._files.read_entries(path))
            except CorruptDataError as error:
                raise error.locate(self._files.shown(path)) from error
            result += [
                item
                for item in entries
                if item.last_offset >= start_offset and item.first_offset < stop_offset
            ]
            if entries and entries[-1].last_stable_offset >= stop_offset:
                break
        return result

    def _lose(self, segment: SegmentSlice, path: str) -> None:
        """Raise an error for a file that is gone, or continue after it, as ``failOnDataLoss`` says."""
        shown = self._files.shown(path)
        self._files.check_is_here()
        stop_offset = self._task.range.stop_offset
        next_offset = stop_offset if segment.next_base is None else min(segment.next_base, stop_offset)
        message = (
            f"{self._task.range.topic_partition}: offsets [{self._feed.offset}, {next_offset}) are gone: "
            f"{shown} was deleted while it was read"
        )
        if self._options.fail_on_data_loss:
            raise DataLossError(f"{message}; to read what is left, set failOnDataLoss=false") from None
        LOG.warning("%s; continuing because failOnDataLoss=false", message)
        self._feed.skip(next_offset)

    def _check_gaps(self, segment: SegmentSlice, path: str) -> None:
        """Raise ``DataLossError`` for offsets that a segment should hold and does not, unless
        ``failOnDataLoss`` is false."""
        if not self._feed.gaps or not self._options.fail_on_data_loss:
            return
        start, stop = self._feed.gaps[0]
        held = (
            f"begins at offset {segment.base_offset}"
            if segment.next_base is None
            else f"has the offsets [{segment.base_offset}, {segment.next_base}) by its name and the next"
        )
        raise DataLossError(
            f"{self._task.range.topic_partition}: offsets [{start}, {stop}) are gone: "
            f"{self._files.shown(path)} {held}, and has no batch of these; {_NOT_COMPACTED}. If the topic "
            "was compacted before, or to read what is left, set failOnDataLoss=false"
        )

    def _check_end(self) -> None:
        """Raise ``CorruptDataError`` (fatal) if the files end before the range does."""
        last = self._slice.segments[-1]
        if not self._feed.done:
            raise CorruptDataError(
                f"{self._files.shown(self._slice.path(last.name))} ends at offset {self._feed.offset}, "
                f"before {self._task.range.stop_offset}, the end of the log when the read was planned: read "
                "a copy that no broker changes",
                self._feed.offset,
            )

    def _explain(self, error: CorruptDataError | LimitError, path: str) -> KafkaWireError:
        """The error with the place of the damage; an ``OptionError`` if an option gave the offset (0.7)."""
        shown = self._files.shown(path)
        if (wrong := self._task.wrong_option(error, self._feed.offset)) is not None:
            return OptionError(f"{wrong} in {shown}: {error}")
        located = error.locate(f"{self._task.range.topic_partition} in {shown}")
        if isinstance(error, ShorterFileError):
            return located  # badRecords does not help there
        return advise_bad_records(located, self._options, "the file is damaged there")


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

    def may_begin_with(self, header: bytes) -> bool:
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


def _messages(*args: Any) -> LogFeed:
    from .v07 import MessageFeed

    return MessageFeed(*args)


def _batches(*args: Any) -> LogFeed:
    from .modern.batch_feed import BatchFeed

    return BatchFeed(*args)


#: Decoders of the bytes of a log, by its generation.
_FEEDS: Final[Mapping[Generation, Callable[..., LogFeed]]] = MappingProxyType(
    {Generation.V07: _messages, Generation.MODERN: _batches}
)
