"""Replaces compressed messages of Kafka 0.6 and 0.7 by their content, level by level, until all are plain.

    [plain][gzip of three][plain]  ->  [plain][plain plain plain][plain]

A level is one buffer with the index of its messages. The next level joins the bytes of the plain messages and
the content of the compressed ones, so that all sets of a level are indexed at once. ``origin`` is the
outermost message of each message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from spark_kafkawire.errors import CorruptDataError, LimitError
from spark_kafkawire.protocol.primitives import Buffer

from ..arrays import Int64s, Uint8s, byte_array
from ..checksum import crc32
from ..compression.codec import Format, TooLarge
from ..compression.table import decompress
from ..limits import COMPRESSED_BYTES_MIN, MESSAGE_BYTES_MIN, DecodeLimits
from .index import MessageIndex, Stop, damage, index_regions
from .kernels import CODEC_MASK

#: Compressed messages that one may hold whatever the limit.
_OPENED_ALWAYS: Final = 1024


@dataclass(frozen=True, slots=True)
class Level:
    """Messages of one nesting level in log order, in ``buf``, which they keep alive.

    ``origin`` is the outermost message of each, ascending. Of the outermost ones only the first
    ``kept`` are here: there the batch limit was reached.
    """

    buf: Uint8s
    index: MessageIndex
    origin: Int64s
    kept: int


def flatten(outer: Level, base_offset: int, limits: DecodeLimits) -> Level:
    """The plain messages of the outermost ones.

    Raises ``CorruptDataError`` and ``LimitError`` (fatal), as ``decoding.decode`` says.
    """
    return _Flattening(outer, base_offset, limits).run()


class _Flattening:
    """State that the levels of one call share: places, limits, and bytes taken by each outermost message."""

    def __init__(self, outer: Level, base_offset: int, limits: DecodeLimits) -> None:
        self._outer = outer
        self._base_offset = base_offset
        self._limits = limits
        self._taken: dict[int, int] = {}
        self._opened: dict[int, int] = {}
        self._depth = 0

    def run(self) -> Level:
        level = self._outer
        while len(compressed := np.flatnonzero(level.index.codec)):
            if self._depth == self._limits.depth_max:
                place = self._offset(level.origin[compressed[0]])
                raise LimitError(
                    f"message at offset {place} holds compressed messages nested deeper than"
                    f" {self._depth} levels, which no producer writes; to skip it, start after it"
                )
            level = self._next_level(level, compressed)
            self._depth += 1
        return level

    def _next_level(self, level: Level, compressed: Int64s) -> Level:
        builder, kept = _LevelBuilder(level), level.kept
        for row in compressed.tolist():
            origin = int(level.origin[row])
            if builder.size_at(row) >= self._limits.batch_bytes_max:
                # The limit ends a call between outermost messages, and never before the first one.
                first = int(np.searchsorted(level.origin, origin))
                if 0 < first >= builder.row:
                    builder.copy_until(first)
                    kept = origin
                    break
            builder.replace(row, self._content(level, row, origin))
        else:
            builder.copy_until(level.index.count)
        return self._indexed(builder, level.origin, kept)

    def _indexed(self, builder: _LevelBuilder, origin: Int64s, kept: int) -> Level:
        buf, starts, stops = builder.joined()
        index = index_regions(buf, starts, stops, self._limits.rows_max)
        origins = origin[index.region]
        if index.stop is not Stop.END:
            region = int(np.searchsorted(starts, index.size, "right")) - 1
            kept = int(origin[region])
            if index.stop is not Stop.ROWS_FULL:
                raise self._corrupt(kept, f"it holds {index.stop.meaning}")
            # Here, too, the call ends between outermost messages, and never before the first one.
            if kept == 0:
                raise self._too_large(
                    kept,
                    f"it holds more than {index.count} messages, and each counts as"
                    f" {MESSAGE_BYTES_MIN} bytes",
                )
            count = int(np.searchsorted(origins, kept))
            index, origins = index.head(count), origins[:count]
        return Level(buf, index, origins, kept)

    def _content(self, level: Level, row: int, origin: int) -> list[Buffer]:
        """Content of a compressed message, in parts."""
        if self._depth:
            self._count(origin)
        index = level.index
        start, size = int(index.payload_pos[row]), int(index.payload_size[row])
        payload = level.buf.data[start : start + size]
        if crc32(payload) != index.crc[row]:
            raise self._corrupt(origin, "the CRC-32 of its payload is wrong")
        # Not the property ``codec``, which computes the column of all codecs at each access.
        number = int(index.attributes[row]) & CODEC_MASK
        taken = self._taken.get(origin, 0)
        size_max = self._limits.decompressed_bytes_max - taken
        try:
            content = decompress(number, Format.MESSAGE_SET, payload, size_max)
        except CorruptDataError as error:
            raise self._corrupt(origin, error.reason) from error
        except TooLarge as error:
            reason = error.reason if not taken else f"it decompresses to {taken + error.size} bytes or more"
            raise self._too_large(origin, reason) from error
        self._taken[origin] = taken + sum(map(len, content))
        return content

    def _count(self, origin: int) -> None:
        """Count a compressed message inside of another one."""
        count = self._opened[origin] = self._opened.get(origin, 0) + 1
        if count > max(self._limits.decompressed_bytes_max // COMPRESSED_BYTES_MIN, _OPENED_ALWAYS):
            reason = f"it holds {count} compressed messages or more, and each counts as"
            raise self._too_large(origin, f"{reason} {COMPRESSED_BYTES_MIN} bytes")

    def _offset(self, origin: int) -> int:
        return self._base_offset + int(self._outer.index.pos[origin])

    def _corrupt(self, origin: int, reason: str) -> CorruptDataError:
        next_offset = self._base_offset + int(self._outer.index.next_pos[origin])
        return damage(self._offset(origin), next_offset, reason)

    def _too_large(self, origin: int, reason: str) -> LimitError:
        limit = self._limits.decompressed_bytes_max
        return LimitError(
            f"message at offset {self._offset(origin)}: {reason}; raise maxDecompressedBytes, which is "
            f"{limit}"
        )


class _LevelBuilder:
    """The next level's buffer in the making: copied and replaced messages, in parts.

    Each message of the level below is a region of it, ``row`` is the first that is not yet in.
    """

    def __init__(self, level: Level) -> None:
        self._view = level.buf.data
        self._pos = level.index.pos
        self._starts, self._stops = level.index.pos.copy(), level.index.next_pos
        self._parts: list[Buffer] = []
        self._size = 0
        self.row = 0

    def size_at(self, row: int) -> int:
        """Size of the buffer once all messages before ``row`` are in."""
        return self._size + int(self._pos[row] - self._pos[self.row])

    def copy_until(self, row: int) -> None:
        """Take over the plain messages before ``row``."""
        if row == self.row:
            return
        rows = slice(self.row, row)
        start, stop = int(self._starts[self.row]), int(self._stops[row - 1])
        self._starts[rows] += self._size - start
        self._stops[rows] += self._size - start
        self._append(self._view[start:stop])
        self.row = row

    def replace(self, row: int, content: list[Buffer]) -> None:
        """Take over the plain messages before ``row``, then the content of the one at ``row``."""
        self.copy_until(row)
        self._starts[row] = self._size
        for part in content:
            self._append(part)
        self._stops[row] = self._size
        self.row = row + 1

    def joined(self) -> tuple[Uint8s, Int64s, Int64s]:
        """The buffer, and where each message of the level below starts and stops in it."""
        buf = b"".join(self._parts)
        self._parts.clear()
        return byte_array(buf), self._starts[: self.row], self._stops[: self.row]

    def _append(self, part: Buffer) -> None:
        self._parts.append(part)
        self._size += len(part)
