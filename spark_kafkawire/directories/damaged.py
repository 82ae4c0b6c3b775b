"""Damage of a segment file: the bytes that are examined for it, and the places where the log may continue.

    segment |  sound  |  damaged  |  sound  | ...
                      ^ pos       ^ a boundary: an entry of the offset index, or the segment's end

``records.damage`` finds the extent of damage in a buffer. Here the buffer grows until that has a proven end.
Memory stays bounded: after ``bytes_max`` of damage in a row the log continues at the next known boundary.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..errors import CorruptDataError
from ..records.damage import Damage, Walk
from ..records.log_layout import MAGIC_POS
from .files import Files, reading
from .indexes import OffsetIndex

_OFFSET: Final = struct.Struct(">q")
_HEADER_BYTES: Final = MAGIC_POS + 1
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
            found = walk(data, stop == self.size, self._boundaries(data, pos))
            is_enough = found.first is not None if to_damage else not found.damages
            if stop == self.size or (found.parts and is_enough):
                return data, found
            if count >= bytes_max:
                found = found if to_damage else _certain(found, len(data) - (bytes_max - window_bytes) // 2)
                return data, found if found.parts else self._to_boundary(found, pos, stop)
            count = bytes_max if found.damages else min(2 * count, bytes_max)

    def _read(self, pos: int, stop: int) -> bytes:
        data = bytearray(stop - pos)
        file = self.files.open(self.path)
        try:
            with reading(self.files, self.path):
                size = file.read_into(memoryview(data), pos)
        finally:
            file.close()
        if size < stop - pos:
            raise ShorterFileError.of(pos + size, self.size)
        return bytes(data)

    def _boundaries(self, data: bytes, start: int) -> list[int]:
        """Places of the bytes where batches begin by the index, and by the headers there."""
        if self.index is None:
            return []
        found = []
        for row in range(*np.searchsorted(self.index.positions, (start + 1, start + len(data))).tolist()):
            place = int(self.index.positions[row]) - start
            if self._first_offset(row, data[place : place + _HEADER_BYTES]) is not None:
                found.append(place)
        return found

    def _first_offset(self, row: int, header: bytes) -> int | None:
        """An offset at which a batch begins, or before that, if it can be the one that an entry of the index
        names. An index has no checksum, so the header must agree with it."""
        assert self.index is not None
        if len(header) < _HEADER_BYTES or header[MAGIC_POS] > _MAGIC_2:
            return None
        before = int(self.index.offsets[row - 1]) if row else self.base_offset - 1
        offset = int(_OFFSET.unpack_from(header)[0])
        if not before < offset <= int(self.index.offsets[row]):
            return None
        # A compressed message of magic 0 or 1 has the offset of the last one in it.
        return offset if header[MAGIC_POS] == _MAGIC_2 else before + 1

    def _to_boundary(self, found: Walk, pos: int, stop: int) -> Walk:
        """The walk whose damage ends at the next known boundary after ``stop``."""
        next_pos, next_offset = self.size, self.stop_offset
        places = np.zeros(0, np.int64) if self.index is None else self.index.positions
        for row in range(*np.searchsorted(places, (stop, self.size - _HEADER_BYTES)).tolist()):
            place = int(places[row])
            first = self._first_offset(row, self._read(place, place + _HEADER_BYTES))
            if first is not None:
                next_pos, next_offset = place, first
                break
        reason = "it has no end" if found.rest is None else found.rest.reason
        damage = Damage(
            0,
            next_pos - pos,
            found.next_offset,
            max(next_offset, found.next_offset),
            reason,
        )
        return Walk((damage,), damage.stop, damage.stop_offset)


def _certain(found: Walk, stop: int) -> Walk:
    """The walk up to its first damage that ends after a position; all of it if that is its first part."""
    for at, part in enumerate(found.parts):
        if at and isinstance(part, Damage) and part.stop > stop:
            return Walk(found.parts[:at], part.pos, part.start_offset)
    return found
