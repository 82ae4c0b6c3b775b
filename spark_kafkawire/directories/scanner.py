"""The whole of a segment file in order: sound batches, and the damage between them, in bounded memory.

    for part in scan_segment(files, segment_file):
        if isinstance(part, Damaged): ...
        else: part.index             # BatchIndex, or MessageIndex in 0.7

Checksums of all batches are compared. Nothing is decompressed, but compressed messages of magic 0 and 1
beside damage. A file may end in a part of a batch, or in zeros where a machine lost its power: what is
before them counts, and the reader decides if the rest is damage.

    segment |  sound  |  damaged  |  sound  | ...
                      ^ pos       ^ a boundary: an entry of the offset index, or the segment's end

``records.damage`` says which places prove that a log continues, and finds the extent of damage in a
buffer. Here the buffer grows until that has a proven end. Memory stays bounded: after ``bytes_max`` of
damage in a row the log continues at the next known boundary.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final

import numpy as np

from ..errors import CorruptDataError
from ..model import Generation
from ..protocol.primitives import join_tail
from ..records import log_index
from ..records.arrays import Uint8s, byte_array
from ..records.batch.decoding import check_crcs
from ..records.checksum import first_mismatch
from ..records.damage import Damage, Walk
from ..records.damaged_batches import walk_batches
from ..records.log_index import CUT, END, MAGIC_POS, SIZE_POS, BatchIndex, index_table, whole_batches
from ..records.message_set.index import MessageIndex, Stop, index_messages, walk_messages
from .files import WINDOW_BYTES, Files, windows
from .side_files import OffsetIndex

_OFFSET: Final = struct.Struct(">q")
#: Bytes that tell whether a batch begins at a place.
HEADER_BYTES: Final = MAGIC_POS + 1
_MAGIC_2: Final = 2
OFFSET_MAX: Final = 2**63 - 1

#: A walk over bytes: they end where the segment does if the second argument is True; the third one has
#: positions where batches are known to begin.
WalkOver = Callable[[bytes, bool, Sequence[int]], Walk]


class ShorterFileError(CorruptDataError):
    """A file has fewer bytes than when the read was planned. Fatal."""

    @classmethod
    def of(cls, size: int, planned_size: int, offset: int | None = None) -> ShorterFileError:
        """The error for a file of these sizes, now and when the read was planned."""
        return cls(
            f"the file has {size} bytes now, and had {planned_size} when the read was planned; a broker cut "
            "it, or another process replaced it: read again, or read a copy that nothing changes",
            offset,
        )


@dataclass(frozen=True, slots=True)
class DamagedSegment:
    """A segment file of ``size`` bytes whose offsets are below ``stop_offset``. ``index`` is its offset index
    as far as there is one."""

    files: Files
    path: str
    base_offset: int
    size: int
    stop_offset: int = OFFSET_MAX
    index: OffsetIndex | None = None

    def walk_at(
        self, pos: int, walk: WalkOver, *, window_bytes: int, bytes_max: int, to_damage: bool = False
    ) -> tuple[bytes, Walk]:
        """Bytes from ``pos`` on, and the walk over them.

        The walk has parts, unless no byte is left; the last part may be damage that goes on behind the bytes.
        With ``to_damage`` it goes to the first damage, if that begins in the first ``bytes_max``. Otherwise
        damage is reported only if the bytes of a largest batch follow it: the content of a batch that the
        buffer cuts must not be taken for batches.

        Raises ``FileNotFoundError``, ``FileAccessError``, ``ShorterFileError`` (fatal)."""
        count = window_bytes
        while True:
            stop = min(pos + count, self.size)
            data = self._read(pos, stop)
            result = walk(data, stop == self.size, self._boundaries(data, pos))
            is_enough = result.first is not None if to_damage else not result.damages
            if stop == self.size or (result.parts and is_enough):
                return data, result
            if count >= bytes_max:
                result = (
                    result if to_damage else _certain(result, len(data) - (bytes_max - window_bytes) // 2)
                )
                return data, result if result.parts else self._to_boundary(result, pos, stop)
            count = bytes_max if result.damages else min(2 * count, bytes_max)

    def _read(self, pos: int, stop: int) -> bytes:
        data = self.files.read_at(self.path, pos, stop - pos)
        if len(data) < stop - pos:
            raise ShorterFileError.of(pos + len(data), self.size)
        return data

    def _boundaries(self, data: bytes, start: int) -> list[int]:
        """Places of the bytes where batches begin by the index, and by the headers there."""
        if self.index is None:
            return []
        result = []
        for row in range(*np.searchsorted(self.index.positions, (start + 1, start + len(data))).tolist()):
            location = int(self.index.positions[row]) - start
            if self._first_offset(row, data[location : location + HEADER_BYTES]) is not None:
                result.append(location)
        return result

    def _first_offset(self, row: int, header: bytes) -> int | None:
        """An offset at which a batch begins, or before that, if it can be the one that an entry of the index
        names. An index has no checksum, so the header must agree with it."""
        assert self.index is not None
        if len(header) < HEADER_BYTES or header[MAGIC_POS] > _MAGIC_2:
            return None
        before = int(self.index.offsets[row - 1]) if row else self.base_offset - 1
        offset = int(_OFFSET.unpack_from(header)[0])
        if not before < offset <= int(self.index.offsets[row]):
            return None
        # A compressed message of magic 0 or 1 has the offset of the last one in it.
        return offset if header[MAGIC_POS] == _MAGIC_2 else before + 1

    def _to_boundary(self, result: Walk, pos: int, stop: int) -> Walk:
        """The walk whose damage ends at the next known boundary after ``stop``."""
        next_pos, next_offset = self.size, self.stop_offset
        places = np.zeros(0, np.int64) if self.index is None else self.index.positions
        for row in range(*np.searchsorted(places, (stop, self.size - HEADER_BYTES)).tolist()):
            location = int(places[row])
            first = self._first_offset(row, self._read(location, location + HEADER_BYTES))
            if first is not None:
                next_pos, next_offset = location, first
                break
        reason = "it has no end" if result.rest is None else result.rest.reason
        damage = Damage(0, next_pos - pos, result.next_offset, max(next_offset, result.next_offset), reason)
        return Walk((damage,), damage.stop, damage.stop_offset)


def _certain(result: Walk, stop: int) -> Walk:
    """The walk up to its first damage that ends after a position; all of it if that is its first part."""
    for at, part in enumerate(result.parts):
        if at and isinstance(part, Damage) and part.stop > stop:
            return Walk(result.parts[:at], part.pos, part.start_offset)
    return result


#: Largest batch, bytes: a damaged size must not take all memory.
BATCH_BYTES_MAX: Final = 64 << 20
_SIZE_BYTES: Final = 4


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


def scan_segment(
    files: Files,
    segment: SegmentFile,
    find_index: Callable[[], OffsetIndex | None] = lambda: None,
    *,
    pos: int = 0,
    floor: int = 0,
    window_bytes: int = WINDOW_BYTES,
) -> Iterator[Sound | Damaged]:
    """All bytes of a segment file from ``pos`` on, where a batch begins that has no offset below ``floor``. A
    batch that the end of the file cuts is damage, too. A file that is shorter than ``segment.size`` ends
    where it does.

    ``find_index`` gives the offset index; it is called at each damage. Raises as ``windows`` does, and
    ``ShorterFileError`` (fatal) for a file that is cut while its damage is examined.
    """
    scanner = _SCANNERS[segment.generation](files, segment, find_index, pos, floor, window_bytes)
    while scanner.pos < scanner.size:
        yield from scanner.sound()
        if scanner.pos < scanner.size:
            yield from scanner.damaged()


@dataclass
class _Scanner(ABC):
    """A place in a segment: all before ``pos`` is given."""

    #: Place of the size in the header of a batch, which counts the bytes after it.
    _size_pos: ClassVar[int]
    #: True if offsets count records, False if they are positions.
    _counts_records: ClassVar[bool]

    files: Files
    segment: SegmentFile
    find_index: Callable[[], OffsetIndex | None]
    pos: int
    floor: int
    window_bytes: int

    def __post_init__(self) -> None:
        self.size = self.segment.size
        self._offset = max(self.segment.base_offset, self.floor)
        self._stop_offset = self._end_of(self.segment)

    def sound(self) -> Iterator[Sound]:
        """The sound batches up to the first one that is not, or to the end."""
        tail, read = b"", self.pos
        path, size = self.segment.path, self.size
        for frame, start in windows(self.files, path, self.pos, size, window_bytes=self.window_bytes):
            read += len(frame) - start
            is_end = read == size or len(frame) - start < self.window_bytes
            buf = byte_array(join_tail(tail, frame, start))
            index = self._index(buf, is_end)
            if index is None:
                return
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
        stop = self._size_pos + _SIZE_BYTES
        if len(rest) < stop:
            return True
        size = stop + int.from_bytes(rest[self._size_pos : stop].tobytes(), "big", signed=True)
        return size <= min(self.size - self.pos, BATCH_BYTES_MAX)

    def damaged(self) -> Iterator[Sound | Damaged]:
        """The next parts, of which the first one is damaged or begins at a batch that is."""
        segment = DamagedSegment(
            self.files,
            self.segment.path,
            self.segment.base_offset,
            self.size,
            self._stop_offset,
            self.find_index(),
        )
        bytes_max = 2 * BATCH_BYTES_MAX + self.window_bytes
        data, walk = segment.walk_at(
            self.pos, self._walk, window_bytes=self.window_bytes, bytes_max=bytes_max
        )
        buf = byte_array(data)
        for part in walk.parts:
            if isinstance(part, Damage):
                yield self._damage(part, buf)
            else:
                own = buf[part.pos : part.stop]
                yield Sound(self.pos + part.pos, own, self._index_of(own))
        self.pos, self._offset = self.pos + walk.size, walk.next_offset

    def _damage(self, damage: Damage, buf: Uint8s) -> Damaged:
        is_empty = damage.stop <= len(buf) and not buf[damage.pos : damage.stop].any()
        is_ended = self.segment.next_base is not None or damage.stop_offset < self._stop_offset
        is_known = self._counts_records and is_ended and damage.start_offset < damage.stop_offset
        return Damaged(
            self.pos + damage.pos,
            self.pos + damage.stop,
            damage.start_offset,
            damage.stop_offset if is_known else None,
            "there are only zeros" if is_empty else damage.reason,
        )

    @abstractmethod
    def _end_of(self, segment: SegmentFile) -> int:
        """An offset that no batch of a segment reaches."""

    @abstractmethod
    def _index(self, buf: Uint8s, is_end: bool) -> BatchIndex | MessageIndex | None:
        """The whole batches at the begin of a buffer; None if there is damage. The last one may be left out
        if the file goes on."""

    @abstractmethod
    def _index_of(self, buf: Uint8s) -> BatchIndex | MessageIndex:
        """The index of sound batches."""

    @abstractmethod
    def _walk(self, data: bytes, is_end: bool, boundaries: Sequence[int]) -> Walk:
        """The walk over bytes from ``pos`` on."""


class _BatchScanner(_Scanner):
    """Scanner for Kafka 0.8 to 4.x."""

    _size_pos, _counts_records = SIZE_POS, True

    def _end_of(self, segment: SegmentFile) -> int:
        # A broker begins the next segment before an index entry, of four bytes, cannot hold the offset.
        return segment.base_offset + (1 << 31) if segment.next_base is None else segment.next_base

    def _index(self, buf: Uint8s, is_end: bool) -> BatchIndex | None:
        code, pos, table = index_table(buf, len(buf))
        if code not in (CUT, END):
            return None
        if len(table) and not is_end:  # the next batch may show that its offsets are wrong
            pos, table = int(table[-1, log_index.POS]), table[:-1]
        index = BatchIndex(buf, table, pos)
        if index.count:
            first, last = int(table[0, log_index.BASE_OFFSET]), int(table[-1, log_index.NEXT_OFFSET])
            if not (self._offset <= first and last <= self._stop_offset and _is_right(index)):
                return None
            self._offset = last
        return index

    def _index_of(self, buf: Uint8s) -> BatchIndex:
        return whole_batches(buf.data)[0]

    def _walk(self, data: bytes, is_end: bool, boundaries: Sequence[int]) -> Walk:
        return walk_batches(
            data,
            self._offset,
            self._stop_offset,
            size_max=BATCH_BYTES_MAX,
            is_end=is_end,
            boundaries=boundaries,
            is_segment=True,
        )


def _is_right(index: BatchIndex) -> bool:
    """True if the checksums of all batches are right."""
    is_modern = index.column(log_index.MAGIC) == 2
    try:
        check_crcs(index, np.flatnonzero(is_modern))
    except CorruptDataError:
        return False
    old = index.table[~is_modern]
    starts, sizes = old[:, log_index.POS] + MAGIC_POS, old[:, log_index.SIZE] - MAGIC_POS
    claimed = old[:, log_index.CRC].astype(np.uint32)
    return not len(old) or first_mismatch(index.buf, starts, sizes, claimed) is None


class _MessageScanner(_Scanner):
    """Scanner for Kafka 0.7."""

    _size_pos, _counts_records = 0, False

    def _end_of(self, segment: SegmentFile) -> int:
        return OFFSET_MAX if segment.next_base is None else segment.next_base

    def _index(self, buf: Uint8s, is_end: bool) -> MessageIndex | None:  # noqa: ARG002
        index = index_messages(buf.data)
        if index.stop not in (Stop.END, Stop.CUT):
            return None
        wrong = first_mismatch(buf, index.payload_pos, index.payload_size, index.crc) if index.count else None
        return index if wrong is None else None

    def _index_of(self, buf: Uint8s) -> MessageIndex:
        return index_messages(buf.data)

    def _walk(self, data: bytes, is_end: bool, boundaries: Sequence[int]) -> Walk:
        return walk_messages(
            data,
            self.segment.base_offset + self.pos,
            self._stop_offset,
            size_max=BATCH_BYTES_MAX,
            is_end=is_end,
            boundaries=boundaries,
        )


_SCANNERS: Final[Mapping[Generation, type[_Scanner]]] = MappingProxyType(
    {Generation.MODERN: _BatchScanner, Generation.V07: _MessageScanner}
)
