"""Walk over the messages of a 0.7 log that is damaged: the sound ones, and the extent of the damage. Pure.

``records.damage`` says which places prove where a log continues. An offset is the position of a byte, so the
offsets of sound messages are right once their begin is proven. No checksum covers length, magic and
attributes of a message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from spark_kafkawire.protocol.primitives import Buffer, read_int32

from ..arrays import Uint8s, byte_array
from ..checksum import crc32
from ..damage import SEARCH_BYTES, Entries, Walk, WalkBuilder
from ..limits import VALUE_BYTES_MAX
from .index import MAGIC_MAX, MESSAGE_SIZE_MIN
from .kernels import ATTRIBUTES_POS, CODEC_MASK, CRC_BYTES, LENGTH_BYTES, LENGTH_MIN

OFFSET_MAX: Final = 2**63 - 1

#: Reasons of messages whose checksum is right and whose content cannot be decoded, by offset and size.
Undecodable = Mapping[tuple[int, int], str]


def walk_messages(
    buf: Buffer,
    base_offset: int,
    stop_offset: int = OFFSET_MAX,
    *,
    size_max: int = VALUE_BYTES_MAX,
    is_end: bool = False,
    boundaries: Iterable[int] = (),
    undecodable: Undecodable | None = None,
) -> Walk:
    """The sound messages of ``buf``, which begins with one at ``base_offset``, and the damage between them.

    No message crosses ``stop_offset``. With ``is_end`` a message ends where the buffer does, so a cut one is
    damaged. ``boundaries`` are positions of the buffer where messages are known to begin. A message larger
    than ``size_max`` cannot be. ``undecodable`` are sound messages that ``decode`` refused. Never raises.
    """
    messages = _Messages(byte_array(buf), base_offset, stop_offset, size_max, is_end, boundaries, undecodable)
    return messages.walk()


class _Messages(Entries):
    """Outermost messages of magic 0 and 1."""

    def __init__(
        self,
        buf: Uint8s,
        base_offset: int,
        stop_offset: int,
        size_max: int,
        is_end: bool,
        boundaries: Iterable[int],
        undecodable: Undecodable | None,
    ) -> None:
        super().__init__(buf, is_end, boundaries)
        self._view = buf.data
        self._base_offset, self._size_max = base_offset, size_max
        self._stop = stop_offset - base_offset
        self._undecodable = undecodable or {}

    def walk(self) -> Walk:
        """The parts of the buffer."""
        builder, pos = WalkBuilder(self._base_offset), 0
        while pos < self.size:
            if not self._is_end and (self.size - pos < MESSAGE_SIZE_MIN or self.claimed_end(pos) > self.size):
                break
            if not (reason := self._fault(pos)):
                end = self.sound_end(pos)
                builder.add_whole(pos, end, self._base_offset + pos, self._base_offset + end)
                pos = end
                continue
            stop = self.resume(pos)
            builder.add_damage(pos, stop if stop > 0 else self.size, reason)
            if stop < 0:
                break
            if stop == self.size:
                builder.close(self._base_offset + stop)
            pos = stop
        return builder.walk(pos)

    def _fault(self, pos: int) -> str:
        if self.size - pos < MESSAGE_SIZE_MIN:
            return "it is cut"
        if (end := self.claimed_end(pos)) < 0:
            return "it has a length or a magic that cannot be"
        if end > self.size:
            return "it is longer than the rest of the log"
        if self.sound_end(pos, is_free=True) < 0:
            return "the CRC-32 of its payload is wrong"
        return self._undecodable.get((self._base_offset + pos, end - pos), "")

    def claimed_end(self, pos: int) -> int:
        if self.size - pos < MESSAGE_SIZE_MIN:
            return -1
        length, magic = read_int32(self._view, pos), self._view[pos + LENGTH_BYTES]
        # The magic may be what is damaged.
        size_min = LENGTH_MIN + (magic if magic <= MAGIC_MAX else 0)
        end = pos + LENGTH_BYTES + length
        is_too_large = length > self._size_max and end > self.size
        return -1 if length < size_min or end > self._stop or is_too_large else end

    def is_right(self, pos: int, end: int) -> bool:
        if self._view[pos + LENGTH_BYTES] > MAGIC_MAX:
            return False
        crc = self._crc_pos(pos)
        return crc32(self._view[crc + CRC_BYTES : end]) == read_int32(self._view, crc) & 0xFFFFFFFF

    def likely(self, start: int, stop: int) -> Iterator[int]:
        last = min(stop, self.size - MESSAGE_SIZE_MIN + 1)
        for begin in range(start, last, SEARCH_BYTES):
            count = min(SEARCH_BYTES, last - begin)
            lengths = np.ndarray((count,), ">i4", self._view, begin, (1,))
            magics = np.ndarray((count,), np.uint8, self._view, begin + LENGTH_BYTES, (1,))
            rows = np.flatnonzero((magics <= MAGIC_MAX) & (lengths >= LENGTH_MIN))
            ends = begin + rows + LENGTH_BYTES + lengths[rows].astype(np.int64)
            for row in rows[ends <= self.size].tolist():
                if self.claimed_end(begin + row) > 0:
                    yield begin + row

    def completion(self, pos: int) -> Callable[[int], bool]:
        if self.size - pos < MESSAGE_SIZE_MIN + MAGIC_MAX:
            return lambda _: False
        start = self._crc_pos(pos) + CRC_BYTES
        claimed = read_int32(self._view, start - CRC_BYTES) & 0xFFFFFFFF
        state = [start, 0]

        def is_completed(end: int) -> bool:
            if end < state[0]:
                return False
            state[:] = end, crc32(self._view[state[0] : end], state[1])
            return state[1] == claimed

        return is_completed

    def may_hold(self, damaged: int, pos: int) -> bool:
        return self._is_compressed(damaged) and not self._is_compressed(pos)

    def _is_compressed(self, pos: int) -> bool:
        is_cut = self.size - pos <= ATTRIBUTES_POS
        return not is_cut and bool(
            self._view[pos + LENGTH_BYTES] and self._view[pos + ATTRIBUTES_POS] & CODEC_MASK
        )

    def _crc_pos(self, pos: int) -> int:
        return pos + ATTRIBUTES_POS + min(self._view[pos + LENGTH_BYTES], MAGIC_MAX)
