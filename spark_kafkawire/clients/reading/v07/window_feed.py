"""A range of a 0.7 log: windows of raw bytes, several in flight, stitched to whole messages."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

from ....errors import Action, BrokerError
from ....model import Leader, OffsetRange
from ....options import FetchOptions
from ....protocol.connection import Reply
from ....protocol.v07 import FetchRequest
from ....protocol.v07.error_codes import ErrorCode, broker_error
from ....records.columns import Columns
from ....records.limits import DecodeLimits
from .stitcher import Stitcher
from .windows import Window, Windows


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a reply brings of the log: the bytes ``frame[start:]`` from ``offset`` on, or an error."""

    offset: int
    error_code: int
    frame: memoryview
    start: int

    @property
    def size(self) -> int:
        """Bytes of the log: what comes with an error is none of it."""
        return 0 if self.error_code else len(self.frame) - self.start


class WindowFeed:
    """Implements the protocol ``Feed`` for offsets of bytes."""

    def __init__(self, log_range: OffsetRange, options: FetchOptions, wanted: Container[str]) -> None:
        self._range = log_range
        self._options = options
        self._values = "value" in wanted
        self._windows = self._cut(log_range, options)
        self._stitcher = self._stitcher_from(log_range.start_offset)
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

    def received(self, reply: Reply) -> None:
        chunk = self._chunk(reply)
        self.bytes_received += chunk.size
        self._windows.answer(chunk.offset, chunk, chunk.size)

    def columns(self) -> Iterator[Columns]:
        while (chunk := self._windows.take()) is not None:
            self._check(chunk)
            yield from self._stitcher.feed(chunk.frame, chunk.start)
            del chunk  # its frame is received into again
        if self.done:
            self._stitcher.finish()

    def restart(self, offset: int | None = None) -> None:
        self._windows.restart(offset)
        if offset is not None:
            self._stitcher = self._stitcher_from(offset)

    def _cut(self, log_range: OffsetRange, options: FetchOptions) -> Windows[Chunk]:
        """The windows to ask for, and how many at once."""
        return Windows(
            log_range.start_offset, log_range.stop_offset, options.fetch_bytes, options.fetches_in_flight
        )

    def _request(self, window: Window) -> object:
        log = self._range.log
        return FetchRequest(log.topic, log.partition, window.offset, window.size)

    def _chunk(self, reply: Reply) -> Chunk:
        start = len(reply.frame) - len(reply.body.message_set)
        return Chunk(reply.request.offset, reply.body.error_code, reply.frame, start)

    def _error(self, code: int) -> BrokerError:
        return broker_error(code, "FETCH")

    def _check(self, chunk: Chunk) -> None:
        if chunk.size:
            return
        self._windows.restart(self.next_offset)  # the windows behind it are as wrong
        if chunk.error_code != ErrorCode.NONE:
            raise self._error(chunk.error_code)
        raise BrokerError("FETCH: the log has no byte there", action=Action.DATA_LOSS)

    def _stitcher_from(self, start_offset: int) -> Stitcher:
        limits = DecodeLimits(decompressed_bytes_max=self._options.decompressed_bytes_max)
        rest = OffsetRange(self._range.log, start_offset, self._range.stop_offset)
        return Stitcher(rest, self._options.message_bytes_max, limits, values=self._values)
