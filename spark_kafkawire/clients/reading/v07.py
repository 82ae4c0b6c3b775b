"""Reader of a range of a 0.7 log: it fetches windows of raw bytes, several at once, and joins the messages.

Offsets of 0.7 count bytes, and a broker serves raw bytes from any position. So a range is cut into windows,
and a window may begin or end inside a message. ``Windows`` orders the responses. A response may be short,
because a broker stops at the end of a segment file. Then the rest is fetched, and responses to later windows
are held until it arrives. No byte is fetched twice.

``Stitcher`` decodes whole messages of chunks that are cut anywhere. Messages inside one chunk are decoded in
place. Only a message that the end of a chunk cuts is copied. It is copied in front of the next chunk if it
fits there, so that both are decoded at once; otherwise it is assembled from several chunks.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Generic, TypeVar

from spark_kafkawire.errors import Action, BrokerError, CorruptDataError, LimitError
from spark_kafkawire.model import Leader, OffsetRange
from spark_kafkawire.options import FetchOptions
from spark_kafkawire.protocol.connection import Response
from spark_kafkawire.protocol.primitives import Buffer, Buffers, join_tail
from spark_kafkawire.protocol.v07 import ErrorCode, FetchRequest, MultiFetchRequest, broker_error
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.damage import Damage, Walk, Whole
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.message_set.decoding import decode
from spark_kafkawire.records.message_set.index import OFFSET_MAX, message_size, walk_messages

from .damaged_records import DamagedBytes, DamagedRecords, SuspectedDamage, unproven
from .task import Gaps, MessageCrossesStop, UndecodablePart


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

    def receive(self, response: Response) -> None:
        chunk = self._chunk(response)
        self.bytes_received += chunk.size
        self._windows.answer(chunk.offset, chunk, chunk.size)

    def columns(self) -> Iterator[Columns]:
        while (chunk := self._windows.take()) is not None:
            self._check(chunk)
            if self._held is None:
                yield from self._stitch(chunk)
            else:
                self._held += chunk.frame[chunk.start :]
                yield from self._examine(self._held)
            del chunk  # its frame is reused for a later response

    def _stitch(self, chunk: Chunk) -> Iterator[Columns]:
        try:
            yield from self._stitcher.feed(chunk.frame, chunk.start)
            if self.done:
                self._stitcher.finish()
        except (CorruptDataError, LimitError) as error:
            if self._damaged.is_error:
                raise
            raise self._suspect(error) from error

    def report(self) -> None:
        self._damaged.report()

    def restart(self, offset: int | None = None) -> None:
        self._windows.restart(offset)
        if offset is not None:
            self._stitcher = self._stitcher_from(offset)
            self._held, self._walked_size = bytearray() if self._damaged.is_expected else None, 0

    # The damaged path.

    def _suspect(self, error: CorruptDataError | LimitError) -> SuspectedDamage:
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
            self._damaged.confirm(DamagedBytes.of(item, data) for item in walk.damages)
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
        # Enough for a damaged message and the one after it, which proves its end.
        elif len(rest) > 2 * self._options.message_bytes_max + self._options.fetch_bytes:
            damage = walk.rest or Damage(0, len(rest), self.offset, self.offset, "it has no end")
            raise self._cause if isinstance(self._cause, LimitError) else unproven(damage)
        else:
            held[:] = rest
            self._walked_size = len(rest)

    def _whole(self, data: bytes, part: Whole, offset: int) -> Iterator[Columns]:
        """The rows of sound messages; one that cannot be decoded is fetched again."""
        limits, pos = self._stitcher.limits, part.pos
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
        start, stop = offset_range.start_offset, offset_range.stop_offset
        return Windows(start, stop, options.fetch_bytes, options.fetches_in_flight)

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

    def _stitcher_from(self, start_offset: int) -> Stitcher:
        return Stitcher(start_offset, self._range.stop_offset, self._options, values=self._values)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Window:
    """Bytes ``[offset, offset + size)`` of the log."""

    offset: int
    size: int


class Windows(Generic[T]):
    """The windows of one range. ``T`` is the type of a response.

    ``next_offset`` is the first byte that ``take`` has not returned.
    """

    def __init__(self, start_offset: int, stop_offset: int, window_bytes: int, in_flight_max: int) -> None:
        self.next_offset = start_offset
        self._stop_offset = stop_offset
        self._window_bytes = window_bytes
        self._in_flight_max = in_flight_max
        self._frontier = start_offset
        self._gaps: list[Window] = []
        self._asked: dict[int, Window] = {}
        self._held: dict[int, tuple[T, int]] = {}

    @property
    def done(self) -> bool:
        """True after all bytes of the range were taken."""
        return self.next_offset >= self._stop_offset

    def ask(self) -> Window | None:
        """The next window to fetch; None if enough are in flight or held."""
        if self._gaps:
            window = self._gaps.pop(0)
        elif self._frontier < self._stop_offset and len(self._asked) + len(self._held) < self._in_flight_max:
            window = Window(self._frontier, min(self._window_bytes, self._stop_offset - self._frontier))
            self._frontier += window.size
        else:
            return None
        self._asked[window.offset] = window
        return window

    def answer(self, offset: int, answer: T, size: int) -> None:
        """Hold the response to the window at ``offset``, which has ``size`` bytes."""
        window = self._asked.pop(offset)
        self._held[offset] = (answer, size)
        if 0 < size < window.size:
            self._gaps.append(Window(offset + size, window.size - size))
            self._gaps.sort(key=attrgetter("offset"))

    def take(self) -> T | None:
        """The response with the next byte of the stream; None until it arrives."""
        if self.next_offset not in self._held:
            return None
        answer, size = self._held.pop(self.next_offset)
        self.next_offset += size
        return answer

    def restart(self, offset: int | None = None) -> None:
        """Fetch all missing windows again, after the connection was lost. With ``offset``, continue there and
        discard all held responses: the bytes before it are gone."""
        if offset is not None:
            self.next_offset = self._frontier = min(offset, self._stop_offset)
            self._gaps, self._held = [], {}
        else:
            self._gaps = sorted([*self._gaps, *self._asked.values()], key=attrgetter("offset"))
        self._asked = {}


_LENGTH_BYTES: Final = 4


class Stitcher:
    """Decoder of one range. ``offset`` is the log offset of the first byte that is not decoded."""

    def __init__(
        self, start_offset: int, stop_offset: int, options: FetchOptions, *, values: bool = True
    ) -> None:
        self.offset = start_offset
        self._stop_offset = stop_offset
        self._message_bytes_max = options.message_bytes_max
        self.limits = DecodeLimits(decompressed_bytes_max=options.decompressed_bytes_max)
        self._values = values
        self._tail = bytearray()
        self._buffers = Buffers()

    def resume(self, tail: bytes) -> None:
        """Continue with the begin of a message, which the next chunk completes."""
        self._tail[:] = tail

    def feed(self, frame: memoryview, start: int = 0) -> Iterator[Columns]:
        """Columns of the messages that the chunk ``frame[start:]`` completes.

        Bytes before ``start`` are overwritten. The frame may be reused after the iterator has ended. Raises
        ``CorruptDataError`` with its ``offset``, and ``LimitError`` for a message above ``maxMessageBytes``.
        """
        chunk = frame[start:]
        if 0 < len(self._tail) <= start:
            chunk = join_tail(self._tail, frame, start)
            self._tail.clear()
        elif self._tail:
            chunk = self._complete_tail(chunk)
            if len(self._tail) < self._tail_size():
                return
            tail, self._tail = self._tail, bytearray()
            yield from self._decode(tail)
        rest = yield from self._decode(chunk)
        self._tail += chunk[rest:]
        self._tail_size()

    def finish(self) -> None:
        """Check the end of the range. Raises ``CorruptDataError`` if it is inside a message."""
        if self._tail:
            raise self._crosses_stop()

    def _decode(self, chunk: Buffer) -> Generator[Columns, None, int]:
        """Yield the columns of all whole messages. Returns their size, bytes."""
        view, pos = memoryview(chunk), 0
        while pos < len(view):
            decoded = decode(view[pos:], self.offset, self.limits, values=self._values, buffers=self._buffers)
            pos += decoded.size
            self.offset += decoded.size
            if decoded.columns.count:
                yield decoded.columns
            if decoded.cut:
                break
        return pos

    def _complete_tail(self, chunk: memoryview) -> memoryview:
        """Move the bytes that complete the cut message from ``chunk`` to the tail."""
        for _ in range(2):  # the length first, then the message it announces
            taken = max(0, self._tail_size() - len(self._tail))
            self._tail += chunk[:taken]
            chunk = chunk[taken:]
        return chunk

    def _tail_size(self) -> int:
        """Size of the cut message, bytes, as far as it is known."""
        size = message_size(self._tail)
        if size is None:
            return _LENGTH_BYTES
        if size - _LENGTH_BYTES > self._message_bytes_max:
            raise LimitError(
                f"the message at offset {self.offset} has {size - _LENGTH_BYTES} bytes, "
                f"more than maxMessageBytes={self._message_bytes_max}; raise it"
            )
        if self.offset + size > self._stop_offset:
            raise self._crosses_stop()
        return size

    def _crosses_stop(self) -> MessageCrossesStop:
        return MessageCrossesStop(
            f"the message at offset {self.offset} extends beyond {self._stop_offset}, the end of the range; "
            "end it at an offset of a message",
            self.offset,
        )


class MultiFetches:
    """``Packing`` of FETCH: a response to MULTIFETCH has a part for each request, in order, with its own
    error code."""

    def __init__(self, options: FetchOptions) -> None:
        self.bytes_max = options.fetch_bytes

    def bytes_of(self, request: FetchRequest) -> int:
        return request.max_bytes

    def pack(self, requests: Sequence[FetchRequest]) -> MultiFetchRequest:
        return MultiFetchRequest(tuple(requests))

    def parts(self, response: Response, requests: Sequence[FetchRequest]) -> list[Response | None]:
        # The bytes before a part are those of its neighbour, which the reader of one must not overwrite.
        return [
            Response(request, part, memoryview(part.message_set))
            for request, part in zip(requests, response.body.responses, strict=True)
        ]


class MessageFeed:
    """``LogFeed`` for offsets that count bytes."""

    is_indexed = False
    #: A log of 0.7 has none: ``begin`` raises an error.
    gaps: Sequence[tuple[int, int]] = ()

    def __init__(
        self, offset_range: OffsetRange, options: FetchOptions, wanted: Container[str], *_of_batches: object
    ) -> None:
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

    def may_begin_with(self, header: bytes) -> bool:  # noqa: ARG002  # there is no index
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
        # Damage that was skipped may end after the range: nothing of it is left then.
        view = memoryview(data)[part.pos : part.stop][: max(self._range.stop_offset - start_offset, 0)]
        while pos < len(view):
            try:
                decoded = decode(view[pos:], start_offset + pos, self._stitcher.limits, values=self._values)
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
        return Stitcher(start_offset, self._range.stop_offset, self._options, values=self._values)
