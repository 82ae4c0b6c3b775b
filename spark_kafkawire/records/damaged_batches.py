"""Walk over the batches of a modern log that is damaged: the sound ones, and the extent of the damage. Pure.

    walk = walk_batches(buf, start_offset, stop_offset)
    for part in walk.parts:
        rows = decode_batches(index_of(buf, part)) if isinstance(part, Whole) else ...

``damage`` says which places prove where a log continues. No checksum covers the base offset of a batch or the
offset of a message, so a sound one must also fit its neighbours: offsets rise, none is outside of the range,
and a batch that begins after a gap must end before the next one begins. A gap before and after it is legal in
a compacted log: there a changed offset that fits is not seen.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from crc32c import crc32c

from ..errors import CorruptDataError, LimitError
from ..protocol.primitives import Buffer
from . import log_index
from .arrays import Uint8s, byte_array
from .checksum import crc32
from .damage import SEARCH_BYTES, Entries, Undecodable, Walk, Whole
from .legacy import open_message
from .limits import DEFAULT_LIMITS, LEGACY_MESSAGE_BYTES_MIN, VALUE_BYTES_MAX, DecodeLimits
from .log_index import (
    BATCH_ATTRIBUTES_POS,
    BATCH_CRC_POS,
    BATCH_OVERHEAD,
    CODEC_MASK,
    LAST_DELTA_POS,
    LOG_OVERHEAD,
    MAGIC_POS,
    MESSAGE_ATTRIBUTES_POS,
    MESSAGE_CRC_POS,
    MESSAGE_OVERHEAD,
    SIZE_POS,
    TIMESTAMP_BYTES,
    BatchIndex,
    index_table,
)

OFFSET_MAX: Final = 2**63 - 1
_MAGIC_2: Final = 2
_OFFSET: Final = struct.Struct(">q")
_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")
#: Smallest size of each magic, all bytes counted.
_SIZES_MIN: Final = (MESSAGE_OVERHEAD, MESSAGE_OVERHEAD + TIMESTAMP_BYTES, BATCH_OVERHEAD)


class _Offsets(NamedTuple):
    """The offsets of a batch by its header: its first one, and the one after its last."""

    first: int
    next: int


def walk_batches(
    buf: Buffer,
    start_offset: int,
    stop_offset: int = OFFSET_MAX,
    *,
    size_max: int = VALUE_BYTES_MAX,
    is_end: bool = False,
    boundaries: Iterable[int] = (),
    limits: DecodeLimits = DEFAULT_LIMITS,
    undecodable: Undecodable | None = None,
    is_segment: bool = False,
) -> Walk:
    """The sound batches of ``buf`` and the damage between them.

    ``buf`` begins at a batch that holds ``start_offset``, or that is the next one after it. All its offsets
    are below ``stop_offset``: the high watermark of a response, or the begin of the next segment. With
    ``is_end`` the log, or its segment, ends where the buffer does: then a cut batch is damaged, and damage up
    to there ends at ``stop_offset``. ``boundaries`` are positions of the buffer where batches are known to
    begin. With ``is_segment``, the bytes of a file, no batch begins before ``start_offset``, not even the
    first one, and the last one is left out if the file goes on. A batch larger than ``size_max`` cannot be.
    ``undecodable`` are sound batches whose records ``decode_batches`` refused. Never raises.
    """
    array = byte_array(buf)
    entries = _Batches(
        limits, is_segment, array, start_offset, stop_offset, size_max, is_end, boundaries, undecodable
    )
    walk = entries.walk()
    return _without_last(array, walk) if is_segment and not is_end else walk


def index_of(buf: Buffer, part: Whole) -> BatchIndex:
    """The index of a part, for ``decode_batches``."""
    array = byte_array(buf)
    _, _, table = index_table(array[part.pos : part.stop], part.stop - part.pos)
    table[:, log_index.POS] += part.pos
    return BatchIndex(array, table, part.stop)


def _without_last(buf: Uint8s, walk: Walk) -> Walk:
    """The walk without its last batch, if that is sound and no damage follows: the next one, which is cut,
    may show that its offsets are wrong."""
    if walk.rest is not None or not walk.parts or not isinstance(last := walk.parts[-1], Whole):
        return walk
    index = index_of(buf.data, last)
    stop = int(index.table[-1, log_index.POS])
    kept = (Whole(last.pos, stop, last.start_offset),) if stop > last.pos else ()
    next_offset = int(index.table[-2, log_index.NEXT_OFFSET]) if kept else last.start_offset
    return Walk((*walk.parts[:-1], *kept), stop, next_offset)


class _Batches(Entries):
    """Batches of magic 2, and messages of magic 0 and 1."""

    def __init__(self, limits: DecodeLimits, is_segment: bool, *args: Any) -> None:
        super().__init__(*args)
        self._limits = limits
        #: Only the batch there may begin before ``start_offset``.
        self._straddling_pos = -1 if is_segment else 0
        self._offsets: dict[int, _Offsets] = {}
        self._reasons: dict[int, str] = {}

    def walk(self) -> Walk:
        builder, pos = self._builder, 0
        while pos < self.size:
            if self._is_cut(pos):
                break
            if not (reason := self._fault(pos)):
                end, offsets = self.sound_end(pos), self._offsets_of(pos)
                builder.add_whole(pos, end, offsets.first, offsets.next)
                pos = end
                continue
            if self._is_after_end(pos):
                break
            stop, claimed = self.resume(pos), self.claimed_next(pos)
            if stop < 0 and self._reaches_end(pos):
                stop = self.size
            builder.add_damage(pos, stop if stop > 0 else self.size, reason, claimed)
            if stop < 0:
                break
            if stop == self.size:  # a known end, or it would be no proof
                builder.close(self._stop_offset)
            pos = stop
        return builder.walk(pos)

    def _is_cut(self, pos: int) -> bool:
        """True if the end of the buffer, which is no known end, cuts the batch at ``pos``: its checksum is
        not right before that."""
        if self._is_end:
            return False
        if self.size - pos <= MAGIC_POS:
            return True
        return self.claimed_end(pos) > self.size and not self.is_completed(pos)

    def _fault(self, pos: int) -> str:
        """The reason why the batch at ``pos`` cannot become rows; "" if it can."""
        if self.size - pos <= MAGIC_POS:
            return "its header is cut"
        if (end := self.claimed_end(pos)) < 0:
            is_known = self._magic(pos) <= _MAGIC_2
            return "it has a size that cannot be" if is_known else "it has an unknown magic"
        if end > self.size:
            return "it is longer than the rest of the log"
        if self.sound_end(pos, is_free=True) < 0:
            return f"its CRC-32{'C' if self._magic(pos) == _MAGIC_2 else ''} is wrong"
        if reason := self._undecodable.get((self._base_offset(pos), self._crc(pos))):
            return reason
        offsets = self._offsets_of(pos)
        return self._reasons.get(pos) or self._misfit(pos, end, offsets)

    def _misfit(self, pos: int, end: int, offsets: _Offsets) -> str:
        """The reason why the offsets of a batch do not fit its neighbours; "" if they do."""
        floor = self._builder.next_offset
        if not offsets.first < offsets.next <= self._stop_offset:
            return f"its offsets {offsets.first} to {offsets.next - 1} are not in the log"
        if offsets.next <= floor or (pos != self._straddling_pos and offsets.first < floor):
            return f"its offsets begin at {offsets.first}, and those before it end at {floor - 1}"
        following = self._sound_offsets(end)
        if offsets.first <= floor or following is None or following.first >= offsets.next:
            return ""
        # A gap before it, and the next batch begins too early: one of both has a wrong offset. It is the next
        # one if its end does not fit, either.
        second = self._sound_offsets(self.sound_end(end))
        is_moved = following.first == floor + offsets.next - offsets.first
        if not is_moved and second is not None and second.first != following.next:
            return ""
        return f"its offsets begin at {offsets.first}, and those after it at {following.first}"

    def _sound_offsets(self, pos: int) -> _Offsets | None:
        """The offsets of the batch at ``pos``; None if no sound one is there."""
        is_sound = self.size - pos > MAGIC_POS and self.sound_end(pos) > 0
        return self._offsets_of(pos) if is_sound else None

    def _is_after_end(self, pos: int) -> bool:
        """True if the batch at ``pos`` is sound and was appended after the end of the log was known."""
        if self._is_end or self.sound_end(pos) < 0 or self._offsets_of(pos).next <= self._stop_offset:
            return False
        following = self._sound_offsets(self.sound_end(pos))
        return following is None or following.first >= self._stop_offset

    # The header of the entry at a position.

    def claimed_end(self, pos: int) -> int:
        if self.size - pos <= MAGIC_POS:
            return -1
        size = LOG_OVERHEAD + int(_INT32.unpack_from(self._view, pos + SIZE_POS)[0])
        # The magic may be what is damaged.
        size_min = (
            _SIZES_MIN[min(self._magic(pos), _MAGIC_2)] if self._magic(pos) <= _MAGIC_2 else min(_SIZES_MIN)
        )
        end = pos + size
        is_too_large = size > self._size_max and (end > self.size or self._magic(pos) > _MAGIC_2)
        return -1 if size < size_min or is_too_large else end

    def is_right(self, pos: int, end: int) -> bool:
        return self._magic(pos) <= _MAGIC_2 and self._checksum(pos, end) == self._crc(pos)

    def may_hold(self, damaged: int, pos: int) -> bool:
        if not self._is_compressed_message(damaged) or self._is_compressed_message(pos):
            return False
        # Inside of magic 1, offsets count from 0, and there is a limit to the number of messages.
        inner_max = self._limits.decompressed_bytes_max // LEGACY_MESSAGE_BYTES_MIN
        last, offset = self._base_offset(damaged), self._base_offset(pos)
        return offset <= inner_max if self._magic(pos) else not self._builder.next_offset <= last < offset

    def likely(self, start: int, stop: int) -> Iterator[int]:
        last = min(stop, self.size - min(_SIZES_MIN) + 1)
        for begin in range(start, last, SEARCH_BYTES):
            count = min(SEARCH_BYTES, last - begin)
            offsets = np.ndarray((count,), ">i8", self._view, begin, (1,))
            sizes = np.ndarray((count,), ">i4", self._view, begin + SIZE_POS, (1,))
            magics = np.ndarray((count,), np.uint8, self._view, begin + MAGIC_POS, (1,))
            result = (magics <= _MAGIC_2) & (offsets >= self._builder.next_offset)
            result &= offsets < self._stop_offset
            rows = np.flatnonzero(result)
            ends = begin + rows + LOG_OVERHEAD + sizes[rows].astype(np.int64)
            for row in rows[(ends <= self.size) & (sizes[rows] > 0)].tolist():
                if self.claimed_end(begin + row) > 0:
                    yield begin + row

    def completion(self, pos: int) -> Callable[[int], bool]:
        if self.size - pos < MESSAGE_OVERHEAD:
            return lambda _: False
        magic = self._magic(pos)
        checked = BATCH_ATTRIBUTES_POS if magic == _MAGIC_2 else MAGIC_POS
        function: Callable[..., int] = crc32c if magic == _MAGIC_2 else crc32
        claimed = self._crc(pos)
        state = [pos + checked, 0]

        def is_completed(end: int) -> bool:
            if end <= state[0]:
                return False
            state[:] = end, function(self._view[state[0] : end], state[1])
            return state[1] == claimed

        return is_completed

    # Offsets.

    def ends_log(self, pos: int) -> bool:
        return self.claimed_next(pos) == self._stop_offset

    def has_missing_offsets(self, damaged: int, pos: int, stop: int) -> bool:
        if self.sound_end(pos) < 0:
            return False
        begin, end = self._builder.next_offset, self._stop_offset
        if (following := self._sound_offsets(stop)) is not None:
            end = following.first
        claimed = self.claimed_next(damaged)
        if begin < claimed <= end:
            begin = claimed
        offsets = self._offsets_of(pos)
        return begin <= offsets.first < offsets.next <= end

    def _reaches_end(self, pos: int) -> bool:
        """True if the headers of the batches from ``pos`` on, damaged ones, continue each other up to the
        offset where the log ends."""
        next_offset: int | None = None
        while 0 <= pos < self.size and next_offset != -1:
            next_offset = self.claimed_next(pos, next_offset)
            if next_offset == self._stop_offset:
                return True
            pos = self.claimed_end(pos)
        return False

    def claimed_next(self, pos: int, floor: int | None = None) -> int:
        """The offset after those of the batch at ``pos`` by its header, if that continues the log, which ends
        at ``floor``, or by default where the last sound batch does; -1 otherwise."""
        if self.size - pos <= MAGIC_POS or self._magic(pos) > _MAGIC_2:
            return -1
        if self.size - pos < _SIZES_MIN[self._magic(pos)]:
            return -1
        floor = self._builder.next_offset if floor is None else floor
        offsets = self._read_claimed_offsets(pos)
        continues = (
            self._is_compressed_message(pos)
            or offsets.first == floor
            or (pos == self._straddling_pos and offsets.first < floor)
        )
        return offsets.next if continues and floor < offsets.next <= self._stop_offset else -1

    def _offsets_of(self, pos: int) -> _Offsets:
        """The offsets of a sound batch. A compressed message has its last offset; its content tells the
        first one."""
        if (known := self._offsets.get(pos)) is not None:
            return known
        offsets = self._read_claimed_offsets(pos)
        if self._is_compressed_message(pos):
            offsets = _Offsets(self._first_inside(pos, offsets.first), offsets.next)
        self._offsets[pos] = offsets
        return offsets

    def _first_inside(self, pos: int, last: int) -> int:
        index = index_of(self._view, Whole(pos, self.sound_end(pos), last))
        if not index.count:
            return last
        try:
            return int(open_message(index, 0, self._limits).table[0, log_index.BASE_OFFSET])
        except CorruptDataError as error:
            self._reasons[pos] = error.reason or str(error)
        except LimitError:
            pass  # The decoder raises it, with its place.
        return last

    def _read_claimed_offsets(self, pos: int) -> _Offsets:
        base_offset = self._base_offset(pos)
        delta = 0
        if self._magic(pos) == _MAGIC_2:
            delta = int(_INT32.unpack_from(self._view, pos + LAST_DELTA_POS)[0])
        return _Offsets(base_offset, base_offset + delta + 1)

    def _is_compressed_message(self, pos: int) -> bool:
        if self.size - pos <= MESSAGE_ATTRIBUTES_POS or self._magic(pos) >= _MAGIC_2:
            return False
        return bool(self._view[pos + MESSAGE_ATTRIBUTES_POS] & CODEC_MASK)

    def _base_offset(self, pos: int) -> int:
        return int(_OFFSET.unpack_from(self._view, pos)[0])

    def _magic(self, pos: int) -> int:
        return self._view[pos + MAGIC_POS]

    def _crc(self, pos: int) -> int:
        location = BATCH_CRC_POS if self._magic(pos) == _MAGIC_2 else MESSAGE_CRC_POS
        return int(_UINT32.unpack_from(self._view, pos + location)[0])

    def _checksum(self, pos: int, end: int) -> int:
        if self._magic(pos) == _MAGIC_2:
            return int(crc32c(self._view[pos + BATCH_ATTRIBUTES_POS : end]))
        return crc32(self._view[pos + MAGIC_POS : end])
