"""Reader of a range of a 0.7 log: it fetches windows of raw bytes, several at once, and joins the messages.

Offsets of 0.7 count bytes, so a window may begin or end inside a message. ``windows`` orders the responses,
``stitcher`` decodes whole messages.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

from spark_kafkawire.errors import Action, BrokerError, CorruptDataError, LimitError
from spark_kafkawire.model import Leader, OffsetRange
from spark_kafkawire.options import FetchOptions
from spark_kafkawire.protocol.connection import Response
from spark_kafkawire.protocol.v07 import FetchRequest
from spark_kafkawire.protocol.v07.error_codes import ErrorCode, broker_error
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.damage import Damage, Whole
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.message_set.damaged import walk_messages
from spark_kafkawire.records.message_set.decoding import decode
from spark_kafkawire.records.message_set.index import message_size

from ..damaged_records import DamagedBytes, DamagedRecords, SuspectedDamage, unproven
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
        self._damaged = DamagedRecords(offset_range, options)
        self._undecodable: dict[tuple[int, int], str] = {}
        #: After damage, the bytes from ``offset`` on, until all of it has a proven end; None otherwise.
        self._held: bytearray | None = None
        self._walked_size = 0
        self._cause: CorruptDataError | LimitError | None = None

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
            if self._held is None:
                yield from self._stitched(chunk)
            else:
                self._held += chunk.frame[chunk.start :]
                yield from self._examine(self._held)
            del chunk  # its frame is reused for a later response

    def _stitched(self, chunk: Chunk) -> Iterator[Columns]:
        try:
            yield from self._stitcher.feed(chunk.frame, chunk.start)
            if self.done:
                self._stitcher.finish()
        except (CorruptDataError, LimitError) as error:
            if self._damaged.is_error:
                raise
            raise self._suspected(error) from error

    def report(self) -> None:
        self._damaged.report()

    def restart(self, offset: int | None = None) -> None:
        self._windows.restart(offset)
        if offset is not None:
            self._stitcher = self._stitcher_from(offset)
            self._held, self._walked_size = bytearray() if self._damaged.is_expected else None, 0

    # The damaged path.

    def _suspected(self, error: CorruptDataError | LimitError) -> SuspectedDamage:
        """The error by which all bytes that are not decoded are fetched again."""
        self._damaged.is_expected, self._cause = True, error
        self.restart(self.offset)
        return SuspectedDamage(str(error), self.offset, error)

    def _examine(self, held: bytearray) -> Iterator[Columns]:
        """The rows of sound messages, and those of confirmed damage, as far as its end is proven.

        Raises ``SuspectedDamage`` for damage that the last fetch did not show, ``CorruptDataError`` for
        damage without a proven end."""
        if len(held) < 2 * self._walked_size and not self.done:
            return  # the walks over growing bytes take linear time
        data, offset = bytes(held), self.offset
        walk = walk_messages(
            data,
            offset,
            self._range.stop_offset,
            size_max=self._options.message_bytes_max,
            is_end=self.done,
            undecodable=self._undecodable,
        )
        try:
            self._damaged.confirm(DamagedBytes.of(each, data) for each in walk.damages)
        except SuspectedDamage:
            self.restart(offset)
            raise
        for part in walk.parts:
            if isinstance(part, Whole):
                yield from self._whole(data, part, offset)
            else:
                yield from self._damaged.columns(DamagedBytes.of(part, data))
            self._stitcher = self._stitcher_from(offset + part.stop)
        rest = data[walk.size :]
        if walk.rest is None and (walk.size or not rest):
            self._held, self._walked_size = None, 0
            self._stitcher.resume(rest)
            if walk.first is None:
                self._damaged.passed()
        elif len(rest) > self._held_bytes_max:
            damage = walk.rest or Damage(0, len(rest), self.offset, self.offset, "it has no end")
            raise self._cause if isinstance(self._cause, LimitError) else unproven(damage)
        else:
            held[:] = rest
            self._walked_size = len(rest)

    @property
    def _held_bytes_max(self) -> int:
        """Enough for a damaged message and the one after it, which proves its end."""
        return 2 * self._options.message_bytes_max + self._options.fetch_bytes

    def _whole(self, data: bytes, part: Whole, offset: int) -> Iterator[Columns]:
        """The rows of sound messages; one that cannot be decoded is fetched again."""
        limits, pos = self._limits, part.pos
        while pos < part.stop:
            try:
                decoded = decode(memoryview(data)[pos : part.stop], offset + pos, limits, values=self._values)
            except CorruptDataError as error:
                self.restart(offset + pos)
                at = offset + pos if error.offset is None else error.offset
                self._undecodable[(at, message_size(data[at - offset :]) or 0)] = error.reason
                raise SuspectedDamage(str(error), at) from error
            pos += decoded.size
            if decoded.columns.count:
                yield decoded.columns

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
        raise BrokerError(
            "FETCH: the log has no byte there; set failOnDataLoss=false, or start at another offset",
            action=Action.DATA_LOSS,
        )

    @property
    def _limits(self) -> DecodeLimits:
        return DecodeLimits(decompressed_bytes_max=self._options.decompressed_bytes_max)

    def _stitcher_from(self, start_offset: int) -> Stitcher:
        rest = OffsetRange(self._range.topic_partition, start_offset, self._range.stop_offset)
        return Stitcher(rest, self._options.message_bytes_max, self._limits, values=self._values)
