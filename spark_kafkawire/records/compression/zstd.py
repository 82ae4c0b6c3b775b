"""zstd frames: one or several in a row, with the size of their content or without.

    28 B5 2F FD | descriptor | [window] | [dictionary id] | [content size] |
    (last : 1, type : 2, size : 21 bits | block) ... | [checksum]

Java's producer leaves the content size out, so that the room for a result is found by going over
its blocks. Source: RFC 8878.
"""

from __future__ import annotations

import struct
from typing import Final

import cramjam

from spark_kafkawire.errors import CorruptDataError
from spark_kafkawire.protocol.primitives import Buffer

from .codec import Codec, Format, TooLarge, check_parts, damaged, decompress_into

_MAGIC: Final = 0xFD2FB528
#: Magic number of a frame that readers skip; its lowest four bits are free.
_SKIPPABLE_MAGIC: Final = 0x184D2A50
_UINT32: Final = struct.Struct("<I")
_BLOCK_SIZE_MAX: Final = 128 * 1024
#: Windows of up to this size are taken whatever the limit: 8 MiB, as RFC 8878 recommends. Beyond it only
#: the highest levels go; a writer that does not know the size asks for the level's window always.
_WINDOW_ALWAYS: Final = 8 << 20
_RAW, _RLE, _COMPRESSED = range(3)
#: Bytes of the dictionary id and the content size, by their bits of the descriptor.
_DICTIONARY_ID_SIZES: Final = (0, 1, 2, 4)
_CONTENT_SIZES: Final = (0, 2, 4, 8)
_CHECKSUM_BIT: Final = 4
_SINGLE_SEGMENT_BIT: Final = 32
_LEVEL_DEFAULT: Final = 3


def _decompress(payload: memoryview, size_max: int) -> list[Buffer]:
    size, pos, frames = 0, 0, 0
    while pos < len(payload):
        check_parts(frames := frames + 1, size_max)
        frame_size, pos = _measure_frame(payload, pos, size_max)
        size += frame_size
    return decompress_into(cramjam.zstd, "zstd", payload, size, size_max)


def _measure_frame(payload: memoryview, pos: int, size_max: int) -> tuple[int, int]:
    """The most that the frame's content can be, and the position after it."""
    if len(payload) - pos < 6:
        raise _cut()
    (magic,) = _UINT32.unpack_from(payload, pos)
    if magic & ~15 == _SKIPPABLE_MAGIC:
        if len(payload) - pos < 8:
            raise _cut()
        return 0, pos + 8 + int(_UINT32.unpack_from(payload, pos + 4)[0])
    if magic != _MAGIC:
        raise damaged("its zstd data do not begin with a frame")
    descriptor = payload[pos + 4]
    is_single = bool(descriptor & _SINGLE_SEGMENT_BIT)
    if not is_single:
        _check_window(payload[pos + 5], size_max)
    content_size = _CONTENT_SIZES[descriptor >> 6] or int(is_single)
    pos += 5 + (not is_single) + _DICTIONARY_ID_SIZES[descriptor & 3] + content_size
    size, pos = _measure_blocks(payload, pos, size_max)
    return size, pos + (4 if descriptor & _CHECKSUM_BIT else 0)


def _check_window(descriptor: int, size_max: int) -> None:
    """Refuse a window for which the library takes more memory than the content may have."""
    size = 1 << 10 + (descriptor >> 3)
    size += (size >> 3) * (descriptor & 7)
    if size > max(size_max, _WINDOW_ALWAYS):
        raise TooLarge(size, f"its zstd window has {size} bytes")


def _measure_blocks(payload: memoryview, pos: int, size_max: int) -> tuple[int, int]:
    size, known, is_last = 0, 0, False
    while not is_last:
        if len(payload) - pos < 3:
            raise _cut()
        header = payload[pos] | payload[pos + 1] << 8 | payload[pos + 2] << 16
        is_last, kind, block_size = bool(header & 1), header >> 1 & 3, header >> 3
        if kind == _COMPRESSED:
            size += _BLOCK_SIZE_MAX
        else:
            size += block_size
            known += block_size
            if known > size_max:
                raise TooLarge(known)
        pos += 3 + (1 if kind == _RLE else block_size)
    return size, pos


def _cut() -> CorruptDataError:
    return damaged("its zstd frame ends too early")


def _encode(data: Buffer, level: int | None) -> Buffer:
    return memoryview(cramjam.zstd.compress(data, _LEVEL_DEFAULT if level is None else level))


#: KIP-110 brought it, with version 7 of Produce.
ZSTD: Final = Codec(
    "zstd",
    4,
    frozenset((Format.MAGIC_2,)),
    "2.1",
    _decompress,
    _encode,
    levels=(-131_072, 22),
    produce_version=7,
)
