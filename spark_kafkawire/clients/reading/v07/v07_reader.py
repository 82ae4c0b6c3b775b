"""Reader of a range of a 0.7 log: it fetches windows of raw bytes, several at once, and joins the messages.

Offsets of 0.7 count bytes, so a window may begin or end inside a message. ``windows`` orders the responses,
``stitcher`` decodes whole messages.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

from spark_kafkawire.errors import Action, BrokerError
from spark_kafkawire.model import Leader, OffsetRange
from spark_kafkawire.options import FetchOptions
from spark_kafkawire.protocol.connection import Response
from spark_kafkawire.protocol.v07 import FetchRequest
from spark_kafkawire.protocol.v07.error_codes import ErrorCode, broker_error
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.limits import DecodeLimits

from ..task import Gaps
from .stitcher import Stitcher
from .windows import Window, Windows


@dataclass(frozen=True, slots=True)
class Chunk:
    """The bytes of one response: ``frame[start:]`` from ``offset`` on, or an error."""

    offset: int
    error_code: int
    frame: memoryview
    start: int

    @property
    def size(self) -> int:
        """Bytes of the log; 0 with an error."""
        return 0 if self.error_code else len(self.frame) - self.start


class V07Reader:
    """``PartitionReader`` for offsets that count bytes."""

    #: A partition of 0.7 is a sequence of bytes without gaps.
    gaps: Gaps | None = None

    def __init__(self, offset_range: OffsetRange, options: FetchOptions, wanted: Container[str]) -> None:
        self._range = offset_range
        self._options = options
        self._values = "value" in wanted
        self._windows = self._cut(offset_range, options)
        self._stitcher = self._stitcher_from(offset_range.start_offset)
        self.bytes_received = 0

    @property
    def next_offset(self) -> int:
        return self._windows.next_offset

    @property
    def offset(self) -> int:
        return self._stitcher.offset

    @property
    def done(self) -> bool:
        return self._windows.done

    def requests(self, leader: Leader) -> Iterator[object]:  # noqa: ARG002  # any broker is its own leader
        while (window := self._windows.ask()) is not None:
            yield self._request(window)

    def received(self, response: Response) -> None:
        chunk = self._chunk(response)
        self.bytes_received += chunk.size
        self._windows.answer(chunk.offset, chunk, chunk.size)

    def columns(self) -> Iterator[Columns]:
        while (chunk := self._windows.take()) is not None:
            self._check(chunk)
            yield from self._stitcher.feed(chunk.frame, chunk.start)
            del chunk  # its frame is reused for a later response
        if self.done:
            self._stitcher.finish()

    def restart(self, offset: int | None = None) -> None:
        self._windows.restart(offset)
        if offset is not None:
            self._stitcher = self._stitcher_from(offset)

    def _cut(self, offset_range: OffsetRange, options: FetchOptions) -> Windows[Chunk]:
        """The windows to fetch, and how many at once."""
        return Windows(
            offset_range.start_offset,
            offset_range.stop_offset,
            options.fetch_bytes,
            options.fetches_in_flight,
        )

    def _request(self, window: Window) -> object:
        tp = self._range.topic_partition
        return FetchRequest(tp.topic, tp.partition, window.offset, window.size)

    def _chunk(self, response: Response) -> Chunk:
        start = len(response.frame) - len(response.body.message_set)
        return Chunk(response.request.offset, response.body.error_code, response.frame, start)

    def _error(self, code: int) -> BrokerError:
        return broker_error(code, "FETCH")

    def _check(self, chunk: Chunk) -> None:
        if chunk.size:
            return
        self._windows.restart(self.next_offset)  # the windows after it are invalid too
        if chunk.error_code != ErrorCode.NONE:
            raise self._error(chunk.error_code)
        raise BrokerError("FETCH: the log has no byte there", action=Action.DATA_LOSS)

    def _stitcher_from(self, start_offset: int) -> Stitcher:
        limits = DecodeLimits(decompressed_bytes_max=self._options.decompressed_bytes_max)
        rest = OffsetRange(self._range.topic_partition, start_offset, self._range.stop_offset)
        return Stitcher(rest, self._options.message_bytes_max, limits, values=self._values)
