"""A range of a 0.7 log: windows of raw bytes, several in flight, stitched to whole messages."""

from __future__ import annotations

from collections.abc import Container, Iterator

from ....errors import Action, BrokerError
from ....model import Leader, OffsetRange
from ....options import FetchOptions
from ....protocol.connection import Reply
from ....protocol.v07 import FetchRequest
from ....protocol.v07.error_codes import ErrorCode, broker_error
from ....records.columns import Columns
from ....records.limits import DecodeLimits
from .stitcher import Stitcher
from .windows import Windows


class WindowFeed:
    """Implements the protocol ``Feed`` for offsets of bytes."""

    def __init__(self, log_range: OffsetRange, options: FetchOptions, wanted: Container[str]) -> None:
        self._range = log_range
        self._options = options
        self._values = "value" in wanted
        self._windows: Windows[Reply] = Windows(
            log_range.start_offset, log_range.stop_offset, options.fetch_bytes, options.fetches_in_flight
        )
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

    def requests(self, leader: Leader) -> Iterator[FetchRequest]:  # noqa: ARG002  # any broker is its own leader
        log = self._range.log
        while (window := self._windows.ask()) is not None:
            yield FetchRequest(log.topic, log.partition, window.offset, window.size)

    def received(self, reply: Reply) -> None:
        # What comes with an error is not of the log.
        size = 0 if reply.body.error_code else len(reply.body.message_set)
        self.bytes_received += size
        self._windows.answer(reply.request.offset, reply, size)

    def columns(self) -> Iterator[Columns]:
        while (reply := self._windows.take()) is not None:
            self._check(reply)
            start = len(reply.frame) - len(reply.body.message_set)
            yield from self._stitcher.feed(reply.frame, start)
            del reply  # its frame is received into again
        if self.done:
            self._stitcher.finish()

    def restart(self, offset: int | None = None) -> None:
        self._windows.restart(offset)
        if offset is not None:
            self._stitcher = self._stitcher_from(offset)

    def _check(self, reply: Reply) -> None:
        error_code = reply.body.error_code
        if error_code == ErrorCode.NONE and len(reply.body.message_set):
            return
        self._windows.restart(self.next_offset)  # the windows behind it are as wrong
        if error_code != ErrorCode.NONE:
            raise broker_error(error_code, "FETCH")
        raise BrokerError("FETCH: the log has no byte there", action=Action.DATA_LOSS)

    def _stitcher_from(self, start_offset: int) -> Stitcher:
        limits = DecodeLimits(decompressed_bytes_max=self._options.decompressed_bytes_max)
        rest = OffsetRange(self._range.log, start_offset, self._range.stop_offset)
        return Stitcher(rest, self._options.message_bytes_max, limits, values=self._values)
