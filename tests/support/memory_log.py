"""A partition's log of record batches (magic 2) in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, Protocol

from spark_kafkawire.protocol.primitives import Buffer

#: Bytes before what a batch's length counts: its base offset and the length itself.
_LENGTH_POS: Final = 8
_LENGTH_END: Final = 12
_LAST_OFFSET_DELTA_POS: Final = 23


class Log(Protocol):
    """One partition's log."""

    stop_offset: int

    def read(self, offset: int, size_max: int, /) -> Buffer:
        """Whole batches from the one that holds ``offset`` on: one, or more in about ``size_max`` bytes."""

    def append(self, batches: Buffer, /) -> int:
        """Add what a Produce request has; the offset of its first record."""


class MemoryLog:
    """A log of record batches in memory; appending gives each batch its offset."""

    def __init__(self, *batches: Buffer) -> None:
        self.stop_offset = 0
        self._data = bytearray()
        self._offsets: list[int] = []
        self._positions: list[int] = []
        for batch in batches:
            self.append(batch)

    def read(self, offset: int, size_max: int) -> Buffer:
        index = bisect_right(self._offsets, offset) - 1
        if index < 0 or offset >= self.stop_offset:
            return b""
        start = self._positions[index]
        ends = [*self._positions[index + 1 :], len(self._data)]
        stop = max([ends[0], *(end for end in ends if end - start <= size_max)])
        return bytes(self._data[start:stop])

    def append(self, batches: Buffer) -> int:
        first = self.stop_offset
        for batch in split(batches):
            self._offsets.append(self.stop_offset)
            self._positions.append(len(self._data))
            self._data += self.stop_offset.to_bytes(_LENGTH_POS, "big") + batch[_LENGTH_POS:]
            self.stop_offset += offset_count(batch)
        return first


def split(batches: Buffer) -> Iterator[memoryview]:
    """Batches, one by one."""
    view, pos = memoryview(batches), 0
    while pos < len(view):
        size = _LENGTH_END + int.from_bytes(view[pos + _LENGTH_POS : pos + _LENGTH_END], "big")
        yield view[pos : pos + size]
        pos += size


def offset_count(batch: Buffer) -> int:
    """Count of offsets that one batch takes."""
    view = memoryview(batch)[_LAST_OFFSET_DELTA_POS:]
    return int.from_bytes(view[:4], "big") + 1
