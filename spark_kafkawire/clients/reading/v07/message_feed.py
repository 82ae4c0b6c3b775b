"""Decoder of segments of 0.7: a log is one sequence of bytes, whatever its files are."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from spark_kafkawire.errors import CorruptDataError
from spark_kafkawire.model import OffsetRange
from spark_kafkawire.options import FetchOptions
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.damage import Damage, Walk, Whole
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.message_set.damaged import OFFSET_MAX, walk_messages
from spark_kafkawire.records.message_set.decoding import decode
from spark_kafkawire.records.message_set.index import message_size

from ..task import MessageCrossesStop, UndecodablePart
from .stitcher import Stitcher


class MessageFeed:
    """``LogFeed`` for offsets that count bytes."""

    is_indexed = False
    #: A log of 0.7 has none: ``begin`` raises an error.
    gaps: Sequence[tuple[int, int]] = ()

    def __init__(self, offset_range: OffsetRange, options: FetchOptions, wanted: Container[str]) -> None:
        self._range = offset_range
        self._options = options
        self._values = "value" in wanted
        self._stitcher = self._stitcher_from(offset_range.start_offset)
        self._received = offset_range.start_offset
        self._base_offset, self._next_base = 0, OFFSET_MAX
        self._undecodable: dict[tuple[int, int], str] = {}

    @property
    def offset(self) -> int:
        return self._stitcher.offset

    @property
    def done(self) -> bool:
        return self._received >= self._range.stop_offset

    @property
    def pos(self) -> int:
        return self.offset - self._base_offset

    def begin(self, base_offset: int, next_base: int | None, is_last: bool) -> None:  # noqa: ARG002
        self._base_offset = base_offset
        self._next_base = OFFSET_MAX if next_base is None else next_base
        if base_offset > self._received:
            raise CorruptDataError(
                f"the segment before offset {base_offset} ends at {self._received}: a segment is missing or "
                "was cut; copy it again from the broker",
                self._received,
            )

    def may_begin_with(self, header: memoryview) -> bool:  # noqa: ARG002  # there is no index
        return False

    def seek(self, pos: int, floor: int) -> None:  # noqa: ARG002  # an offset is a place
        if self._base_offset + pos != self._received:
            self.skip(self._base_offset + pos)

    def feed(self, frame: memoryview, start: int, is_last: bool) -> Iterator[Columns]:  # noqa: ARG002
        self._received += len(frame) - start
        yield from self._stitcher.feed(frame, start)

    def finish(self) -> None:
        if self.done:
            self._stitcher.finish()
        elif self.offset < self._received:
            raise CorruptDataError(
                f"the segment ends in the middle of the message at offset {self.offset}; copy it again from "
                "the broker",
                self.offset,
            )

    def walk(self, data: bytes, is_end: bool, boundaries: Sequence[int]) -> Walk:
        return walk_messages(
            data,
            self.offset,
            self._next_base,
            size_max=self._options.message_bytes_max,
            is_end=is_end,
            boundaries=boundaries,
            undecodable=self._undecodable,
        )

    def whole(self, data: bytes, part: Whole) -> Iterator[Columns]:
        start_offset, pos = self.offset, 0
        view = memoryview(data)[part.pos : part.stop][: self._range.stop_offset - start_offset]
        while pos < len(view):
            try:
                decoded = decode(view[pos:], start_offset + pos, self._limits, values=self._values)
            except CorruptDataError as error:
                at = start_offset + pos if error.offset is None else error.offset
                self.skip(start_offset + pos)
                kind = at, message_size(view[at - start_offset :]) or 0
                if kind in self._undecodable:
                    raise
                self._undecodable[kind] = error.reason
                raise UndecodablePart(str(error), at) from error
            pos += decoded.size
            if decoded.columns.count:
                yield decoded.columns
            self.skip(start_offset + pos)
            if decoded.cut and pos < len(view):
                raise MessageCrossesStop(
                    f"the message at offset {self.offset} extends beyond {self._range.stop_offset}, the end "
                    "of the range; end it at an offset of a message",
                    self.offset,
                )

    def skip_damage(self, damage: Damage) -> None:
        self.skip(max(self.offset, damage.stop_offset))

    def skip(self, offset: int) -> None:
        self._received = offset
        self._stitcher = self._stitcher_from(offset)

    def _stitcher_from(self, start_offset: int) -> Stitcher:
        rest = OffsetRange(self._range.topic_partition, start_offset, self._range.stop_offset)
        return Stitcher(rest, self._options.message_bytes_max, self._limits, values=self._values)

    @property
    def _limits(self) -> DecodeLimits:
        return DecodeLimits(decompressed_bytes_max=self._options.decompressed_bytes_max)
