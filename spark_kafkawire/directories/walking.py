"""The whole of a segment file in order: sound batches, and the damage between them, in bounded memory.

    for part in walked(files, segment_file):
        if isinstance(part, Damaged): ...
        else: part.index             # BatchIndex, or MessageIndex in 0.7

Checksums of all batches are compared. ``damaged`` examines what is not sound, and ``records.damage`` says
which places prove that a log continues.
Nothing is decompressed, but compressed messages of magic 0 and 1 beside damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from ..records.damaged_batches import OFFSET_MAX, walk_batches, without_last
from ..records.log_index import BatchIndex, index_table
from ..records.log_layout import LOG_OVERHEAD, MAGIC_POS, SIZE_POS
from ..records.message_set.damaged import walk_messages
from ..records.message_set.index import MessageIndex, Stop, index_messages
from .damaged import DamagedSegment
from .files import Files
from .indexes import OffsetIndex
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
    find_index: Callable[[], OffsetIndex | None] = lambda: None,
    *,
    pos: int = 0,
    window_bytes: int = WINDOW_BYTES,
) -> Iterator[Sound | Damaged]:
    """All bytes of a segment file from ``pos`` on, where a batch begins. A batch that the end of the file
    cuts is damage, too. A file that is shorter than ``segment.size`` ends where it does.

    ``find_index`` gives the offset index; it is called at each damage. Raises as ``windows`` does, and
    ``ShorterFileError`` (fatal) for a file that is cut while its damage is examined.
    """
    walker = _Walker(files, segment, find_index, pos, window_bytes)
    while walker.pos < walker.size:
        yield from walker.sound()
        if walker.pos < walker.size:
            yield from walker.damaged()


class _Walker:
    """A place in a segment: all before ``pos`` is given."""

    def __init__(
        self,
        files: Files,
        segment: SegmentFile,
        find_index: Callable[[], OffsetIndex | None],
        pos: int,
        window_bytes: int,
    ) -> None:
        self.pos, self.size = pos, segment.size
        self._files, self._segment, self._find_index = files, segment, find_index
        self._window_bytes = window_bytes
        self._format = _FORMATS[segment.generation]
        self._stop_offset = self._format.stop_offset(segment)
        self._offset = segment.base_offset

    def sound(self) -> Iterator[Sound]:
        """The sound batches up to the first one that is not, or to the end."""
        tail, read = b"", self.pos
        path, size = self._segment.path, self.size
        for frame, start in windows(self._files, path, self.pos, size, window_bytes=self._window_bytes):
            read += len(frame) - start
            is_end = read == size or len(frame) - start < self._window_bytes
            if len(tail) <= start:
                frame[start - len(tail) : start] = tail
                chunk: Buffer = frame[start - len(tail) :]
            else:
                chunk = tail + bytes(frame[start:])
            buf = byte_array(chunk)
            found = self._format.sound(buf, self._offset, self._stop_offset, is_end)
            if found is None:
                return
            index, self._offset = found
            if index.count:
                yield Sound(self.pos, buf, index)
            self.pos += index.size
            rest = buf[index.size :]
            if is_end:
                break
            if not self._is_cut(rest):
                return
            tail = rest.tobytes()
        self.size = read

    def _is_cut(self, rest: Uint8s) -> bool:
        """True if the rest of a chunk is the begin of a batch that can be complete later in the file."""
        size = self._format.claimed_size(rest)
        return size is None or size <= min(self.size - self.pos, BATCH_BYTES_MAX)

    def damaged(self) -> Iterator[Sound | Damaged]:
        """The next parts, of which the first one is damaged or begins at a batch that is."""
        segment = DamagedSegment(
            self._files,
            self._segment.path,
            self._segment.base_offset,
            self.size,
            self._stop_offset,
            self._find_index(),
        )
        bytes_max = 2 * BATCH_BYTES_MAX + self._window_bytes
        data, walk = segment.walk_at(
            self.pos, self._walk, window_bytes=self._window_bytes, bytes_max=bytes_max
        )
        buf = byte_array(data)
        for part in walk.parts:
            if isinstance(part, Damage):
                yield self._damage(part, buf)
            else:
                own = buf[part.pos : part.stop]
                yield Sound(self.pos + part.pos, own, self._format.index(own))
        self.pos, self._offset = self.pos + walk.size, walk.next_offset

    def _walk(self, data: bytes, is_end: bool, boundaries: Sequence[int]) -> Walk:
        is_counted = self._format.counts_records
        offset = self._offset if is_counted else self._segment.base_offset + self.pos
        return self._format.walk(data, offset, self._stop_offset, is_end, boundaries)

    def _damage(self, damage: Damage, buf: Uint8s) -> Damaged:
        is_empty = damage.stop <= len(buf) and not buf[damage.pos : damage.stop].any()
        is_ended = self._segment.next_base is not None or damage.stop_offset < self._stop_offset
        is_known = self._format.counts_records and is_ended and damage.start_offset < damage.stop_offset
        return Damaged(
            self.pos + damage.pos,
            self.pos + damage.stop,
            damage.start_offset,
            damage.stop_offset if is_known else None,
            "there are only zeros" if is_empty else damage.reason,
        )


class _Format(Protocol):
    """Batches of a log of one generation."""

    #: True if offsets count records, False if they are positions.
    counts_records: bool

    def stop_offset(self, segment: SegmentFile) -> int:
        """An offset that no batch of a segment reaches."""

    def sound(
        self, buf: Uint8s, offset: int, stop_offset: int, is_end: bool
    ) -> tuple[BatchIndex | MessageIndex, int] | None:
        """The whole batches at the begin of a buffer, and the offset after them; None if there is damage.
        The last one may be left out if the file goes on."""

    def index(self, buf: Uint8s) -> BatchIndex | MessageIndex:
        """The index of sound batches."""

    def claimed_size(self, rest: Uint8s) -> int | None:
        """The size of the batch at the begin of a buffer by its header; None if that is not there."""

    def walk(
        self,
        data: bytes,
        offset: int,
        stop_offset: int,
        is_end: bool,
        boundaries: Sequence[int],
    ) -> Walk:
        """The sound batches of a buffer and the damage between them, without a last one as in ``sound``."""


class _Batches:
    """``_Format`` of Kafka 0.8 to 4.x."""

    counts_records = True

    def stop_offset(self, segment: SegmentFile) -> int:
        # A broker begins the next segment before an index entry, of four bytes, cannot hold the offset.
        return segment.base_offset + (1 << 31) if segment.next_base is None else segment.next_base

    def sound(
        self, buf: Uint8s, offset: int, stop_offset: int, is_end: bool
    ) -> tuple[BatchIndex, int] | None:
        code, pos, table = index_table(buf, len(buf))
        if code not in (log_kernels.END, log_kernels.CUT):
            return None
        if len(table) and not is_end:  # the next batch may show that its offsets are wrong
            pos, table = int(table[-1, log_kernels.POS]), table[:-1]
        index = BatchIndex(buf, table, pos)
        if not index.count:
            return index, offset
        first, last = (
            int(table[0, log_kernels.BASE_OFFSET]),
            int(table[-1, log_kernels.NEXT_OFFSET]),
        )
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
        data: bytes,
        offset: int,
        stop_offset: int,
        is_end: bool,
        boundaries: Sequence[int],
    ) -> Walk:
        found = walk_batches(
            data,
            offset,
            stop_offset,
            size_max=BATCH_BYTES_MAX,
            is_end=is_end,
            boundaries=boundaries,
            is_start=True,
        )
        return found if is_end else without_last(data, found)


def _is_right(index: BatchIndex) -> bool:
    """True if the checksums of all batches are right."""
    is_modern = index.column(log_kernels.MAGIC) == 2
    try:
        check_crcs(index, np.flatnonzero(is_modern))
    except CorruptDataError:
        return False
    old = index.table[~is_modern]
    starts, sizes = (
        old[:, log_kernels.POS] + MAGIC_POS,
        old[:, log_kernels.SIZE] - MAGIC_POS,
    )
    claimed = old[:, log_kernels.CRC].astype(np.uint32)
    return not len(old) or first_mismatch(index.buf, starts, sizes, claimed) is None


class _Messages:
    """``_Format`` of Kafka 0.7."""

    counts_records = False

    def stop_offset(self, segment: SegmentFile) -> int:
        return OFFSET_MAX if segment.next_base is None else segment.next_base

    def sound(
        self,
        buf: Uint8s,
        offset: int,
        stop_offset: int,  # noqa: ARG002
        is_end: bool,  # noqa: ARG002
    ) -> tuple[MessageIndex, int] | None:
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
        data: bytes,
        offset: int,
        stop_offset: int,
        is_end: bool,
        boundaries: Sequence[int],
    ) -> Walk:
        return walk_messages(
            data,
            offset,
            stop_offset,
            size_max=BATCH_BYTES_MAX,
            is_end=is_end,
            boundaries=boundaries,
        )


_FORMATS: Final[Mapping[Generation, _Format]] = MappingProxyType(
    {Generation.MODERN: _Batches(), Generation.V07: _Messages()}
)
