"""The whole of a segment file in order: sound batches, and the damage between them, in bounded memory.

    for part in walked(files, segment_file):
        if isinstance(part, Damaged): ...
        else: part.index             # BatchIndex, or MessageIndex in 0.7

Checksums of all batches are compared. ``records.damage`` says which places prove that a log continues.
Nothing is decompressed, but compressed messages of magic 0 and 1 beside damage.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

import numpy as np

from ..errors import CorruptDataError
from ..model import Generation
from ..protocol.primitives import Buffer
from ..records import log_kernels
from ..records.arrays import Uint8s, byte_array
from ..records.batch.decoding import check_crcs
from ..records.checksum import first_mismatch
from ..records.damage import Damage, Walk
from ..records.damaged_batches import OFFSET_MAX, walk_batches
from ..records.log_index import BatchIndex, index_table
from ..records.log_layout import LOG_OVERHEAD, MAGIC_POS, SIZE_POS
from ..records.message_set.damaged import walk_messages
from ..records.message_set.index import MessageIndex, Stop, index_messages
from .files import Files
from .windows import WINDOW_BYTES, windows

#: Largest batch, bytes: a damaged size must not take all memory.
BATCH_BYTES_MAX: Final = 64 << 20
_LENGTH_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment of ``size`` bytes whose offsets are in ``[base_offset, next_base)``; ``next_base`` is None
    for the last segment of a log."""

    path: str
    size: int
    base_offset: int
    next_base: int | None
    generation: Generation


@dataclass(frozen=True, slots=True)
class Sound:
    """Sound batches of a chunk of the file, which begins at ``pos``. ``buf`` is overwritten when the next
    part is requested."""

    pos: int
    buf: Uint8s
    index: BatchIndex | MessageIndex


@dataclass(frozen=True, slots=True)
class Damaged:
    """Bytes ``[pos, stop)`` of the file that hold no sound batch, and the offsets that may have been there:
    ``stop_offset`` is None if it is not known, and where offsets are positions."""

    pos: int
    stop: int
    start_offset: int
    stop_offset: int | None
    reason: str


def walked(
    files: Files,
    segment: SegmentFile,
    boundaries: Callable[[], Sequence[int]] = tuple,
    *,
    pos: int = 0,
    window_bytes: int = WINDOW_BYTES,
) -> Iterator[Sound | Damaged]:
    """All bytes of a segment file from ``pos`` on, where a batch begins. A batch that the end of the file
    cuts is damage, too.

    ``boundaries`` gives positions at which batches are known to begin, such as those of an offset index; it
    is called at the first damage. Raises as ``windows`` does.
    """
    walker, held = _Walker(segment, boundaries, pos), None
    for frame, start in windows(files, segment.path, pos, segment.size, window_bytes=window_bytes):
        is_end = walker.read + len(frame) - start == segment.size or len(frame) - start < window_bytes
        for part in walker.feed(frame, start, is_end):
            if held is not None and isinstance(part, Damaged):
                held = Damaged(held.pos, part.stop, held.start_offset, part.stop_offset, held.reason)
                continue
            if held is not None:
                yield held
            held = part if isinstance(part, Damaged) else None
            if isinstance(part, Sound):
                yield part
        if is_end:
            break
    if held is not None:
        yield held


class _Walker:
    """A segment in chunks; the rest of one that the next one completes is kept."""

    def __init__(self, segment: SegmentFile, boundaries: Callable[[], Sequence[int]], pos: int) -> None:
        self._segment = segment
        self._format = _FORMATS[segment.generation]
        self._find_boundaries = boundaries
        self._boundaries: Sequence[int] | None = None
        self._stop_offset = OFFSET_MAX if segment.next_base is None else segment.next_base
        self._offset = segment.base_offset
        self._tail = b""
        self.read = pos

    def feed(self, frame: memoryview, start: int, is_end: bool) -> Iterator[Sound | Damaged]:
        """The parts of the next bytes, ``frame[start:]``; what is before them is overwritten."""
        pos, tail = self.read - len(self._tail), self._tail
        self.read += len(frame) - start
        if len(tail) <= start:
            frame[start - len(tail) : start] = tail
            chunk: Buffer = frame[start - len(tail) :]
        else:
            chunk = tail + bytes(frame[start:])
        buf = byte_array(chunk)
        size = yield from self._sound(buf, pos)
        if size < len(buf) and (is_end or not self._is_cut(buf[size:], pos + size)):
            size += yield from self._walked(buf[size:], pos + size, is_end)
        self._tail = buf[size:].tobytes()

    def _sound(self, buf: Uint8s, pos: int) -> Generator[Sound, None, int]:
        """The batches up to the first one that is not sound or that is cut; their size."""
        found = self._format.sound(buf, self._offset, self._stop_offset)
        if found is None:
            return 0
        index, self._offset = found
        if index.count:
            yield Sound(pos, buf, index)
        return index.size

    def _is_cut(self, rest: Uint8s, pos: int) -> bool:
        """True if the rest of a chunk is the begin of a batch that can be complete later in the file."""
        size = self._format.claimed_size(rest)
        return size is None or len(rest) < size <= min(self._segment.size - pos, BATCH_BYTES_MAX)

    def _walked(self, buf: Uint8s, pos: int, is_end: bool) -> Generator[Sound | Damaged, None, int]:
        """The parts of a chunk with damage; the size of those that are complete."""
        if self._boundaries is None:
            self._boundaries = self._find_boundaries()
        walk = self._format.walk(
            buf,
            self._offset if self._format.counts_records else self._segment.base_offset + pos,
            self._stop_offset,
            BATCH_BYTES_MAX if is_end else min(self._segment.size - pos, BATCH_BYTES_MAX),
            is_end,
            [each - pos for each in self._boundaries],
        )
        for part in walk.parts:
            if isinstance(part, Damage):
                yield self._damaged(part, buf, pos)
            else:
                own = buf[part.pos : part.stop]
                yield Sound(pos + part.pos, own, self._format.index(own))
        self._offset, left = walk.next_offset, len(buf) - walk.size
        if left and (is_end or left > BATCH_BYTES_MAX):
            # No place after it is proven: what comes next is one damage with it, until a place is.
            reason = walk.rest.reason if walk.rest is not None else "it is cut"
            yield self._damaged(Damage(walk.size, len(buf), walk.next_offset, OFFSET_MAX, reason), buf, pos)
            return len(buf)
        return walk.size

    def _damaged(self, damage: Damage, buf: Uint8s, pos: int) -> Damaged:
        is_empty = not buf[damage.pos : damage.stop].any()
        is_known = self._format.counts_records and damage.start_offset < damage.stop_offset < OFFSET_MAX
        return Damaged(
            pos + damage.pos,
            pos + damage.stop,
            damage.start_offset,
            damage.stop_offset if is_known else None,
            "there are only zeros" if is_empty else damage.reason,
        )


class _Format(Protocol):
    """Batches of a log of one generation."""

    #: True if offsets count records, False if they are positions.
    counts_records: bool

    def sound(
        self, buf: Uint8s, offset: int, stop_offset: int
    ) -> tuple[BatchIndex | MessageIndex, int] | None:
        """The whole batches at the begin of a buffer, and the offset after them; None if there is damage."""

    def index(self, buf: Uint8s) -> BatchIndex | MessageIndex:
        """The index of sound batches."""

    def claimed_size(self, rest: Uint8s) -> int | None:
        """The size of the batch at the begin of a buffer by its header; None if that is not there."""

    def walk(
        self,
        buf: Uint8s,
        offset: int,
        stop_offset: int,
        size_max: int,
        is_end: bool,
        boundaries: Sequence[int],
    ) -> Walk:
        """The sound batches of a buffer and the damage between them."""


class _Batches:
    """``_Format`` of Kafka 0.8 to 4.x."""

    counts_records = True

    def sound(self, buf: Uint8s, offset: int, stop_offset: int) -> tuple[BatchIndex, int] | None:
        code, pos, table = index_table(buf, len(buf))
        index = BatchIndex(buf, table, pos)
        if code not in (log_kernels.END, log_kernels.CUT):
            return None
        if not index.count:
            return index, offset
        first, last = int(table[0, log_kernels.BASE_OFFSET]), int(table[-1, log_kernels.NEXT_OFFSET])
        return (index, last) if offset <= first and last <= stop_offset and _is_right(index) else None

    def index(self, buf: Uint8s) -> BatchIndex:
        _, pos, table = index_table(buf, len(buf))
        return BatchIndex(buf, table, pos)

    def claimed_size(self, rest: Uint8s) -> int | None:
        if len(rest) <= MAGIC_POS:
            return None
        return LOG_OVERHEAD + int.from_bytes(rest[SIZE_POS:LOG_OVERHEAD].tobytes(), "big", signed=True)

    def walk(
        self,
        buf: Uint8s,
        offset: int,
        stop_offset: int,
        size_max: int,
        is_end: bool,
        boundaries: Sequence[int],
    ) -> Walk:
        return walk_batches(
            buf.data, offset, stop_offset, size_max=size_max, is_end=is_end, boundaries=boundaries
        )


def _is_right(index: BatchIndex) -> bool:
    """True if the checksums of all batches are right."""
    is_modern = index.column(log_kernels.MAGIC) == 2
    try:
        check_crcs(index, np.flatnonzero(is_modern))
    except CorruptDataError:
        return False
    old = index.table[~is_modern]
    starts, sizes = old[:, log_kernels.POS] + MAGIC_POS, old[:, log_kernels.SIZE] - MAGIC_POS
    claimed = old[:, log_kernels.CRC].astype(np.uint32)
    return not len(old) or first_mismatch(index.buf, starts, sizes, claimed) is None


class _Messages:
    """``_Format`` of Kafka 0.7."""

    counts_records = False

    def sound(self, buf: Uint8s, offset: int, stop_offset: int) -> tuple[MessageIndex, int] | None:  # noqa: ARG002
        index = index_messages(buf.data)
        if index.stop not in (Stop.END, Stop.CUT):
            return None
        wrong = first_mismatch(buf, index.payload_pos, index.payload_size, index.crc) if index.count else None
        return None if wrong is not None else (index, offset)

    def index(self, buf: Uint8s) -> MessageIndex:
        return index_messages(buf.data)

    def claimed_size(self, rest: Uint8s) -> int | None:
        if len(rest) < _LENGTH_BYTES:
            return None
        return _LENGTH_BYTES + int.from_bytes(rest[:_LENGTH_BYTES].tobytes(), "big", signed=True)

    def walk(
        self,
        buf: Uint8s,
        offset: int,
        stop_offset: int,
        size_max: int,
        is_end: bool,
        boundaries: Sequence[int],
    ) -> Walk:
        return walk_messages(
            buf.data, offset, stop_offset, size_max=size_max, is_end=is_end, boundaries=boundaries
        )


_FORMATS: Final[Mapping[Generation, _Format]] = MappingProxyType(
    {Generation.MODERN: _Batches(), Generation.V07: _Messages()}
)
