"""Decoder of segments of 0.7: a log is one sequence of bytes, whatever its files are."""

from __future__ import annotations

from collections.abc import Container, Iterator

from spark_kafkawire.errors import CorruptDataError
from spark_kafkawire.model import OffsetRange
from spark_kafkawire.options import FetchOptions
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.limits import DecodeLimits

from ..task import MessageCrossesStop
from .stitcher import Stitcher


class MessageFeed:
    """``LogFeed`` for offsets that count bytes."""

    is_indexed = False

    def __init__(self, offset_range: OffsetRange, options: FetchOptions, wanted: Container[str]) -> None:
        self._range = offset_range
        self._options = options
        self._values = "value" in wanted
        self._stitcher = self._stitcher_from(offset_range.start_offset)
        self._received = offset_range.start_offset
        self._cut: MessageCrossesStop | None = None

    @property
    def offset(self) -> int:
        return self._stitcher.offset

    @property
    def done(self) -> bool:
        return self._received >= self._range.stop_offset

    def begin(self, base_offset: int, next_base: int | None) -> None:  # noqa: ARG002  # one sequence of bytes
        if base_offset > self._received:
            raise CorruptDataError(
                f"the segment before offset {base_offset} ends at {self._received}: a segment is missing, or "
                "was cut",
                self._received,
            )

    def may_begin_with(self, header: memoryview) -> bool:  # noqa: ARG002  # there is no index
        return False

    def feed(self, frame: memoryview, start: int) -> Iterator[Columns]:
        self._received += len(frame) - start
        try:
            yield from self._stitcher.feed(frame, start)
        except MessageCrossesStop as error:
            # At the end of a log that is written, or was not closed, it is no damage: ``finish`` knows.
            self._cut = error

    def finish(self, is_log_end: bool) -> None:
        if not self.done or is_log_end:
            return
        if self._cut is not None:
            raise self._cut
        self._stitcher.finish()

    def skip(self, offset: int) -> None:
        self._received = offset
        self._stitcher = self._stitcher_from(offset)

    def report(self, place: str) -> None:
        """Do nothing: a log of 0.7 has no gaps."""

    def _stitcher_from(self, start_offset: int) -> Stitcher:
        limits = DecodeLimits(decompressed_bytes_max=self._options.decompressed_bytes_max)
        rest = OffsetRange(self._range.topic_partition, start_offset, self._range.stop_offset)
        return Stitcher(rest, self._options.message_bytes_max, limits, values=self._values)
