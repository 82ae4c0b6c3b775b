"""Decoder of segments of Kafka 0.8 to 4.x: the batches of a file, as the records of a Fetch response.

No checksum covers the offset of a batch. So offsets must rise over the whole range, and lie between the bases
of the segment and of the next one.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

import numpy as np

from spark_kafkawire.directories.scanner import OFFSET_MAX
from spark_kafkawire.directories.side_files import AbortedTransaction
from spark_kafkawire.errors import CorruptDataError, LimitError
from spark_kafkawire.model import OffsetRange
from spark_kafkawire.options import BadRecords, FetchOptions
from spark_kafkawire.protocol.modern.limits import READ_COMMITTED
from spark_kafkawire.protocol.primitives import join_tail
from spark_kafkawire.records.arrays import Int64s
from spark_kafkawire.records.batch.decoding import AbortedTransactions, check_crcs
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.damage import Damage, Walk, Whole
from spark_kafkawire.records.damaged_batches import index_of, walk_batches
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.log_index import (
    ATTRIBUTES,
    BASE_OFFSET,
    CODEC_MASK,
    CRC,
    MAGIC,
    MAGIC_POS,
    NEXT_OFFSET,
    POS,
    SIZE_POS,
    BatchIndex,
    MarkersDisagree,
    whole_batches,
)
from spark_kafkawire.records.record_log import decode_batches
from spark_kafkawire.records.spans import DecodeBuffers

from ..task import UndecodablePart


class BatchFeed:
    """``LogFeed`` for offsets that count records."""

    is_indexed = True

    def __init__(
        self,
        offset_range: OffsetRange,
        options: FetchOptions,
        wanted: Container[str],
        aborted: Sequence[AbortedTransaction],
        is_compacted: bool,
    ) -> None:
        self.offset = offset_range.start_offset
        self._range = offset_range
        self._options = options
        self._limits = DecodeLimits(decompressed_bytes_max=options.decompressed_bytes_max)
        self._wanted = wanted
        self._buffers = DecodeBuffers()
        self._transactions = AbortedTransactions() if options.isolation_level == READ_COMMITTED else None
        self._aborted = aborted
        self._first_offsets: Int64s = np.array([item.first_offset for item in aborted], np.int64)
        self._last_offsets: Int64s = np.array([item.last_offset for item in aborted], np.int64)
        self._is_compacted = is_compacted
        self._tail = b""
        self._holds_back = options.bad_records is not BadRecords.FAIL
        self._undecodable: dict[tuple[int, int], str] = {}
        self.pos = 0
        #: No batch from ``pos`` on has an offset below it.
        self._floor = 0
        self._base_offset = self._next_base = self._log_end = 0
        #: The offset after the last batch, None before the first one of the range.
        self._after: int | None = None
        #: Batches, gaps and damage account for all offsets of the range before it.
        self._covered = offset_range.start_offset
        #: True after damage: the next batch may begin behind the place where the damage is known to end.
        self._is_after_damage = False
        self.gaps: list[tuple[int, int]] = []

    @property
    def done(self) -> bool:
        return self.offset >= self._range.stop_offset

    def begin(self, base_offset: int, next_base: int | None, is_last: bool) -> None:
        self._base_offset = base_offset
        self._next_base = OFFSET_MAX if next_base is None else next_base
        self._log_end = self._range.stop_offset if is_last else self._next_base
        self.pos, self._floor = 0, base_offset

    def seek(self, pos: int, floor: int) -> None:
        self._tail = b""
        self.pos, self._floor = pos, floor

    def may_begin_with(self, header: bytes) -> bool:
        if len(header) <= MAGIC_POS:
            return False
        base_offset = int.from_bytes(header[:SIZE_POS], "big", signed=True)
        magic = header[MAGIC_POS]
        # An old message that is compressed has the offset of the last one in it.
        is_before = base_offset <= self.offset if magic == 2 else magic < 2
        return is_before and self._base_offset <= base_offset < self._next_base

    def feed(self, frame: memoryview, start: int, is_last: bool) -> Iterator[Columns]:
        chunk, self._tail = join_tail(self._tail, frame, start), b""
        index, damage = whole_batches(chunk)
        if damage is not None and self._is_before_end(chunk, index, is_last):
            # What is before it is not used: a wrong offset there may be the damage.
            raise damage
        if self._holds_back and not is_last and index.count:
            # The next batch shows if the offset of the last one is wrong.
            index = replace(index, table=index.table[:-1], size=int(index.table[-1, POS]))
        yield from self._checked(index)
        if self.done:
            return
        if damage is not None:
            raise damage
        self._tail = bytes(chunk[index.size :])
        size = index.cut_size
        if size is not None and size > self._options.message_bytes_max:
            raise LimitError(
                f"a batch at offset {self.offset} or soon after it has {size} bytes, more than "
                f"maxMessageBytes={self._options.message_bytes_max}; raise it"
            )

    def _is_before_end(self, chunk: memoryview, index: BatchIndex, is_last: bool) -> bool:
        """True if damage after whole batches is in the range: they do not reach its end, or one of them has a
        wrong offset."""
        if self._holds_back or (index.next_offset or 0) < self._range.stop_offset:
            return True
        walk = walk_batches(chunk, self._floor, self._log_end, is_end=is_last, is_segment=True)
        return walk.first is not None and walk.first.pos < index.size

    def _checked(self, index: BatchIndex) -> Iterator[Columns]:
        """The rows of batches; ``pos`` is after them in the end."""
        if index.count:
            self._check(index)
            yield from self._decode(index)
            self._add_gaps(index)
            self._after = self._floor = int(index.table[-1, NEXT_OFFSET])
            self._covered = max(self._covered, self._after)
            self._is_after_damage = False
        self.pos += index.size

    def finish(self) -> None:
        tail, self._tail = self._tail, b""
        if tail and not self.done:
            raise CorruptDataError(
                f"the segment ends in the middle of a batch, {len(tail)} bytes after the last whole one; "
                "copy it again from the broker",
                self.offset,
            )
        if not self.done and self._next_base < OFFSET_MAX:
            # What no batch of the segment held is a gap, as between two batches.
            stop_offset = min(self._next_base, self._range.stop_offset)
            if stop_offset > self._covered and not self._is_compacted:
                self.gaps.append((self._covered, stop_offset))
            self.offset = self._covered = max(self._covered, stop_offset)

    def walk(self, data: bytes, is_end: bool, boundaries: Sequence[int]) -> Walk:
        self._tail = b""
        return walk_batches(
            data,
            self._floor,
            self._log_end,
            size_max=self._options.message_bytes_max,
            is_end=is_end,
            boundaries=boundaries,
            limits=self._limits,
            undecodable=self._undecodable,
            is_segment=True,
        )

    def whole(self, data: bytes, part: Whole) -> Iterator[Columns]:
        if self._transactions is not None:
            self._transactions = AbortedTransactions()  # the damage may have their markers
        index = index_of(data, part)
        try:
            yield from self._checked(replace(index, size=part.stop - part.pos))
        except MarkersDisagree:
            raise
        except CorruptDataError as error:
            rows = [] if error.pos is None else np.flatnonzero(index.column(POS) == error.pos).tolist()
            if not rows:
                raise
            kind = int(index.table[rows[0], BASE_OFFSET]), int(index.table[rows[0], CRC])
            if kind in self._undecodable:
                raise
            self._undecodable[kind] = error.reason
            raise UndecodablePart(str(error)) from error

    def skip_damage(self, damage: Damage) -> None:
        self.pos += damage.stop - damage.pos
        self.offset = max(self.offset, damage.stop_offset)
        self._floor, self._after = damage.stop_offset, None
        self._covered = max(self._covered, damage.stop_offset)
        self._is_after_damage = True

    def skip(self, offset: int) -> None:
        self._tail = b""
        self._after = None
        self.offset = self._covered = offset

    def _decode(self, index: BatchIndex) -> Iterator[Columns]:
        next_offset = int(index.table[-1, NEXT_OFFSET])
        # Without batches outside of the range, whose transactions are not known.
        is_after = (index.column(MAGIC) == 2) & (index.column(BASE_OFFSET) >= self._range.stop_offset)
        is_before = index.column(NEXT_OFFSET) <= self.offset
        index = replace(index, table=index.table[~(is_before | is_after)])
        for columns in decode_batches(
            index,
            self.offset,
            self._range.stop_offset,
            wanted=self._wanted,
            aborted=self._find_aborted_in(index),
            transactions=self._transactions,
            limits=self._limits,
            buffers=self._buffers,
        ):
            given = int(columns.offset[-1]) + 1
            yield columns
            del columns  # its memory is reused for the next ones
            self.offset = given
        self.offset = max(self.offset, next_offset)

    def _find_aborted_in(self, index: BatchIndex) -> Sequence[AbortedTransaction]:
        """The aborted transactions that a Fetch response with these batches would name."""
        if not self._aborted or not index.count:
            return ()
        first, stop = int(index.table[0, BASE_OFFSET]), int(index.table[-1, NEXT_OFFSET])
        rows = np.flatnonzero((self._last_offsets >= first) & (self._first_offsets < stop))
        return [self._aborted[row] for row in rows.tolist()]

    def _check(self, index: BatchIndex) -> None:
        """Check what no checksum covers: the offsets of the batches."""
        bases, nexts = index.column(BASE_OFFSET), index.column(NEXT_OFFSET)
        is_outside = (bases < self._base_offset) | (nexts > self._next_base)
        if is_outside.any():
            row = int(is_outside.argmax())
            raise index.damage(
                row,
                f"its offset is outside its segment, which has [{self._base_offset}, {self._next_base})"
                if self._next_base < OFFSET_MAX
                else f"its offset is before its segment, which begins at {self._base_offset}",
            )
        if self._after is not None and bases[0] < self._after:
            raise index.damage(0, f"the batch before it ends at offset {self._after - 1}")
        # A batch after the range is not decoded. Behind a gap it may be one of the range with a wrong offset.
        row = int(np.searchsorted(bases, self._range.stop_offset))
        if row < index.count and index.table[row, MAGIC] == 2:
            before = self.offset if row == 0 else int(nexts[row - 1])
            if before < min(int(bases[row]), self._range.stop_offset):
                check_crcs(index, np.array([row]))

    def _add_gaps(self, index: BatchIndex) -> None:
        """Collect the gaps before batches."""
        if self._is_compacted:
            return
        bases, nexts = index.column(BASE_OFFSET), index.column(NEXT_OFFSET)
        # A compressed message of magic 0 or 1 has the offset of its last inner message.
        is_opaque = (index.column(MAGIC) < 2) & (index.column(ATTRIBUTES) & CODEC_MASK != 0)
        first = max(self._covered, int(bases[0])) if self._is_after_damage else self._covered
        starts = np.maximum(np.concatenate((np.array([first]), nexts[:-1])), self._range.start_offset)
        stops = np.minimum(bases, self._range.stop_offset)
        rows = np.flatnonzero((stops > starts) & ~is_opaque)
        self.gaps += zip(starts[rows].tolist(), stops[rows].tolist(), strict=True)
