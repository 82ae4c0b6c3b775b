"""Message sets of Kafka 0.6 and 0.7 (magic 0 and 1): decoding in bulk.

A message set is messages one after the other (layout: ``index``). A compressed message holds
a message set, again with compressed messages perhaps. Decoding is deep: rows are the innermost
messages, and offsets are byte positions of the outermost ones in the log.

    plain:       bytes -> columns
    compressed:  bytes -> index -> flatten compressed messages -> gather values -> check CRCs -> columns

Every step runs once for all messages of a buffer; only decompression runs once per message.

Compressed messages are replaced by their content level by level, until all are plain (``_Flattening``):

    [plain][gzip of three][plain]  ->  [plain][plain plain plain][plain]

A level is one buffer with the index of its messages. The next level joins the bytes of the plain messages and
the content of the compressed ones, so that all sets of a level are indexed at once. ``origin`` is the
outermost message of each message.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from spark_kafkawire.errors import CorruptDataError, LimitError
from spark_kafkawire.protocol.primitives import Buffer, Buffers

from .. import compiler
from ..arrays import Int32s, Int64s, Uint8s, byte_array, room
from ..checksum import crc32, first_mismatch, library_address
from ..columns import Columns, binary_array
from ..compression import Format, TooLarge, decompress
from ..limits import COMPRESSED_BYTES_MIN, DEFAULT_LIMITS, MESSAGE_BYTES_MIN, DecodeLimits
from . import kernels
from .index import (
    MESSAGE_SIZE_MIN,
    MessageIndex,
    Stop,
    damage,
    first_rows,
    grown,
    index_array,
    index_regions,
    more_rows,
    walk_messages,
)
from .kernels import ATTRIBUTES_POS, CODEC_MASK, LENGTH_BYTES

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


class _Flattening:
    """State that the levels of one call share: places, limits, and bytes taken by each outermost message.

    Raises ``CorruptDataError`` and ``LimitError`` (fatal), as ``decode`` says.
    """

    def __init__(self, outer: Level, base_offset: int, limits: DecodeLimits) -> None:
        self._outer = outer
        self._base_offset = base_offset
        self._limits = limits
        self._taken: dict[int, int] = {}
        self._opened: dict[int, int] = {}
        self._depth = 0

    def run(self) -> Level:
        """The plain messages of the outermost ones."""
        level = self._outer
        while len(compressed := np.flatnonzero(level.index.codec)):
            if self._depth == self._limits.depth_max:
                location = self._offset(level.origin[compressed[0]])
                raise LimitError(
                    f"message at offset {location} holds compressed messages nested deeper than"
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


@dataclass(frozen=True, slots=True)
class Decoded:
    """Rows of the first ``size`` bytes of a buffer, which are whole outermost messages.

    ``cut`` is true if no whole message follows; otherwise a limit ended the call, and the rest can be decoded
    next.
    """

    columns: Columns
    size: int
    cut: bool


#: Compressed bytes that are decompressed at once: more than fits the caches of a core costs up to twice as
#: much.
_COMPRESSED_BYTES: Final = 1 << 20
_NO_VALUES: Final = np.empty(0, np.uint8)
_WRONG_CRC: Final = "the CRC-32 of its payload is wrong"


def decode(
    buf: Buffer,
    base_offset: int,
    limits: DecodeLimits = DEFAULT_LIMITS,
    *,
    values: bool = True,
    buffers: Buffers | None = None,
) -> Decoded:
    """Decode the whole messages at the start of ``buf``, which lies at ``base_offset`` of its log.

    A message that the buffer's end cuts is left over, never an error. ``nextOffset`` of an inner
    message is the end of its outermost one. All checksums are checked, also without ``values``.
    The values' memory is one of ``buffers``, and is reused when no array refers to it.

    Raises ``CorruptDataError`` with the outermost message's offset for a wrong CRC, an unknown
    magic or codec, an impossible length or damaged compressed data at any level; ``LimitError``
    for a message that decompresses to too much or is nested too deep. All fatal.
    """
    whole, buffers = byte_array(buf), buffers or Buffers()
    window = _window(whole, limits)
    try:
        decoded = (
            None if _is_compressed(window) else _decode_plain(window, base_offset, limits, values, buffers)
        )
        if decoded is None:
            decoded = _decode_nested(window, base_offset, limits, values, buffers)
    except CorruptDataError as error:
        raise _first(error, window, base_offset) from error
    return replace(decoded, cut=decoded.cut and len(window) == len(whole))


def _first(error: CorruptDataError, window: Uint8s, base_offset: int) -> CorruptDataError:
    """The error of the first damaged message, which may be before that of ``error``."""
    first = walk_messages(window.data, base_offset).first
    if first is None or error.offset is None or first.start_offset >= error.offset:
        return error
    return damage(first.start_offset, first.stop_offset, first.reason)


def _window(buf: Uint8s, limits: DecodeLimits) -> Uint8s:
    """Part of the buffer that one call may take: the batch limit, or one larger message."""
    size_max = limits.batch_bytes_max
    if _is_compressed(buf):
        size_max = min(size_max, _COMPRESSED_BYTES)
    if len(buf) <= size_max:
        return buf
    first = LENGTH_BYTES + int.from_bytes(buf[:LENGTH_BYTES].tobytes(), "big")
    return buf[: max(size_max, first)]


def _is_compressed(window: Uint8s) -> bool:
    """Return true if the first message is compressed: most likely all are then."""
    has_header = len(window) > MESSAGE_SIZE_MIN
    return has_header and bool(window[LENGTH_BYTES] and window[ATTRIBUTES_POS] & CODEC_MASK)


def _decode_plain(
    window: Uint8s, base_offset: int, limits: DecodeLimits, values: bool, buffers: Buffers
) -> Decoded | None:
    """The messages if all are plain; None if one is not, or if CRCs cannot be checked in the same pass."""
    library = library_address()
    if not library:
        return None
    data = np.frombuffer(buffers.take(len(window)), np.uint8) if values else _NO_VALUES
    code, size, wrong_row, (offset, next_offset, value_offsets) = _read_plain(
        window, base_offset, limits.rows_max, library, data
    )
    if code == kernels.COMPRESSED:
        return None
    compiler.expect(len(offset))
    _check_stop(Stop(code), base_offset + size)
    if wrong_row >= 0:
        raise damage(int(offset[wrong_row]), int(next_offset[wrong_row]), _WRONG_CRC)
    array = binary_array(data[: value_offsets[-1]], value_offsets) if values else None
    columns = Columns(offset, np.zeros(len(offset), np.int32), next_offset, array)
    return Decoded(columns, size, cut=code != kernels.ROWS_FULL)


def _read_plain(
    window: Uint8s, base_offset: int, rows_max: int, library: int, data: Uint8s
) -> tuple[int, int, int, tuple[Int64s, Int64s, Int32s]]:
    """The code of ``kernels.read_plain``, the bytes read, the row with a wrong CRC, and the columns: offsets,
    next offsets, and where values begin. They grow with the number of messages found."""
    count = first_rows(window, rows_max)
    offset, next_offset = room(count, np.int64), room(count, np.int64)
    value_offsets = room(count + 1, np.int32)
    pos, row, value_pos, wrong_row = 0, 0, 0, -1
    while True:
        columns = (offset, next_offset, value_offsets)
        code, pos, row, value_pos, wrong_row = kernels.read_plain(
            window, pos, row, value_pos, wrong_row, base_offset, library, data, *columns
        )
        if code != kernels.ROWS_FULL or row == rows_max:
            break
        count = more_rows(window, pos, row, rows_max)
        offset, next_offset = grown(offset, row, count), grown(next_offset, row, count)
        value_offsets = grown(value_offsets, row, count + 1)
    value_offsets[row] = value_pos
    return code, pos, wrong_row, (offset[:row], next_offset[:row], value_offsets[: row + 1])


def _check_stop(stop: Stop, offset: int) -> None:
    if stop in (Stop.BAD_LENGTH, Stop.BAD_MAGIC):
        raise CorruptDataError(
            f"no message begins at offset {offset} ({stop.meaning}): an offset of Kafka 0.7 is "
            "a byte position; begin at earliest, latest, or an offset that a read returned; if this is one, "
            "the log is damaged there",
            offset,
        )


def _decode_nested(
    window: Uint8s, base_offset: int, limits: DecodeLimits, values: bool, buffers: Buffers
) -> Decoded:
    """The messages where some are compressed."""
    outer = index_array(window, limits.rows_max)
    _check_stop(outer.stop, base_offset + outer.size)
    whole = Level(window, outer, np.arange(outer.count), outer.count)
    level = _Flattening(whole, base_offset, limits).run()
    offset, next_offset = base_offset + outer.pos, base_offset + outer.next_pos
    compiler.expect(level.index.count)
    spans = (level.index.payload_pos, level.index.payload_size)
    array = None
    if values:
        data = np.frombuffer(buffers.take(int(spans[1].sum())), np.uint8)
        value_offsets = room(level.index.count + 1, np.int32)
        kernels.gather(level.buf, *spans, data, value_offsets)
        array = binary_array(data, value_offsets)
    wrong_row = first_mismatch(level.buf, *spans, level.index.crc)
    if wrong_row is not None:
        origin = int(level.origin[wrong_row])
        raise damage(int(offset[origin]), int(next_offset[origin]), _WRONG_CRC)
    columns = Columns(offset[level.origin], _places(level.origin), next_offset[level.origin], array)
    is_whole = level.kept == outer.count
    size = outer.size if is_whole else int(outer.pos[level.kept])
    return Decoded(columns, size, cut=is_whole and outer.stop is not Stop.ROWS_FULL)


def _places(origin: Int64s) -> Int32s:
    """The place of each row among those of the same origin."""
    rows = np.arange(len(origin))
    first = np.flatnonzero(np.diff(origin, prepend=-1))
    counts = np.diff(first, append=len(origin))
    return (rows - np.repeat(first, counts)).astype(np.int32)
