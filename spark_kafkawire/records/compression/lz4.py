"""lz4 frames, as Kafka 0.8.2 and later writes and reads them.

    04 22 4D 18 | flags | block size code | [content size int64] | checksum of these
    (block size uint32 | block | [checksum]) ... | 0 uint32 | [checksum]

Blocks are independent, because Java's reader supports no others. An empty block ends the frame, whether it is
compressed or not. Bytes after the frame are ignored.

A frame is damaged if Java's reader refuses it: reserved bits or another version, a wrong checksum of the
header or of a block, or a missing checksum of the content. As in Java, the value of the content's checksum is
not checked in a frame of independent blocks, because Kafka's checksum covers all bytes. With magic 0 the
header's checksum covers the four magic bytes too, a mistake that Kafka kept (KAFKA-3160): it is written like
that and not checked.

Source: the LZ4 frame format 1.6; Apache Kafka's Lz4BlockInputStream.java.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final

import cramjam

from spark_kafkawire.protocol.primitives import Buffer

from .codec import Codec, Format, TooLarge, check_parts, damaged, decompress_into, fitted, room

_MAGIC: Final = b"\x04\x22\x4d\x18"
_UINT32: Final = struct.Struct("<I")
#: Bits of the flags.
_DICTIONARY_ID: Final = 1
_CONTENT_CHECKSUM: Final = 4
_CONTENT_SIZE: Final = 8
_BLOCK_CHECKSUM: Final = 16
_INDEPENDENT_BLOCKS: Final = 32
#: Bits that are zero, of the flags and of the block size code. The version is in the upper two of the flags.
_RESERVED_FLAGS: Final = 2
_RESERVED_CODE: Final = 0x8F
_VERSION: Final = 1
#: Frame header for blocks of at most 64 KiB: independent ones, without checksums.
_FRAME_HEADER: Final = _MAGIC + b"\x60\x40\x82"
_BLOCK_SIZE: Final = 64 * 1024
#: A block's size with this bit is that of a plain block.
_PLAIN_BLOCK: Final = 1 << 31
#: Most that one byte of a block becomes.
_RATIO_MAX: Final = 255
#: Of XXH32.
_PRIME_1, _PRIME_2, _PRIME_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_PRIME_4, _PRIME_5 = 0x27D4EB2F, 0x165667B1


def _decompress(payload: memoryview, size_max: int) -> list[Buffer]:
    header_size, block_size_max = _header(payload)
    _check_header(payload[:header_size])
    frame_size, size, block_room = _measure(payload, header_size, block_size_max, size_max)
    if not payload[4] & _INDEPENDENT_BLOCKS or payload[4] & _BLOCK_CHECKSUM:
        # The library resolves references between blocks, and checks their checksums.
        return decompress_into(cramjam.lz4, "lz4", payload[:frame_size], size, size_max)
    target, written = room(min(size, size_max + block_room)), 0
    view = target.data
    for pos, block_size, is_plain in _blocks(payload, header_size):
        block, block_room = payload[pos : pos + block_size], _room(block_size, is_plain, block_size_max)
        written += _put(block, view[written : written + block_room], block_room, is_plain=is_plain)
        if written > size_max:
            raise TooLarge(written)
    return [fitted(target, written)]


def _put(block: memoryview, left: memoryview, block_room: int, *, is_plain: bool) -> int:
    """Write the content of a block to the rest of the target. Returns its size. Blocks on their own, without
    a library's context for the frame, are twice as fast."""
    try:
        if is_plain or not block:
            left[:] = block
            return len(block)
        # The library wants to know the room from four bytes before the block: it guesses whether they are
        # there, and would take a block's first bytes for them.
        return int(cramjam.lz4.decompress_block_into(_UINT32.pack(block_room) + block, left))
    except (cramjam.DecompressionError, ValueError) as error:
        raise damaged("its lz4 data are damaged") from error


def _room(size: int, is_plain: bool, block_size_max: int) -> int:
    """The largest content of a block of that many bytes."""
    return min(block_size_max, size if is_plain else size * _RATIO_MAX)


def _measure(payload: memoryview, start: int, block_size_max: int, size_max: int) -> tuple[int, int, int]:
    """Size of the frame, the most that it becomes, and the most that a block of it becomes."""
    count = content_size = largest = 0
    for pos, size, is_plain in _blocks(payload, start):
        if not size:
            stop = pos + (4 if payload[4] & _CONTENT_CHECKSUM else 0)
            if stop > len(payload):
                break
            return stop, content_size, largest
        check_parts(count := count + 1, size_max)
        block_room = _room(size, is_plain, block_size_max)
        content_size += block_room
        largest = max(largest, block_room)
    raise damaged("its lz4 frame ends too early")


def _blocks(payload: memoryview, pos: int) -> Iterator[tuple[int, int, bool]]:
    """Position and size of each block, and true if it is plain, up to an empty block.

    They are found again at each call, because a table of them might take more memory than their content.
    """
    between = 4 if payload[4] & _BLOCK_CHECKSUM else 0
    while len(payload) - pos >= _UINT32.size:
        (word,) = _UINT32.unpack_from(payload, pos)
        pos += _UINT32.size
        size = word & ~_PLAIN_BLOCK
        yield pos, size, word >= _PLAIN_BLOCK
        if not size:
            return
        pos += size + between


def _header(payload: memoryview) -> tuple[int, int]:
    """Size of the frame's header, and of its largest block."""
    if len(payload) < 7 or bytes(payload[:4]) != _MAGIC:
        raise damaged("its lz4 data do not begin with a frame")
    flags, code = payload[4], payload[5] >> 4 & 7
    size = 7 + (8 if flags & _CONTENT_SIZE else 0)
    is_known = flags >> 6 == _VERSION and not flags & (_DICTIONARY_ID | _RESERVED_FLAGS)
    if not is_known or code < 4 or payload[5] & _RESERVED_CODE or len(payload) < size:
        raise damaged("its lz4 frame has a damaged header")
    return size, 1 << (8 + 2 * code)


def _check_header(header: memoryview) -> None:
    found, expected = header[-1:], header_checksum(bytes(header[4:-1]))
    if found != expected:
        raise damaged(
            f"its lz4 frame has a damaged header: the checksum is {found.hex()}, computed is {expected.hex()}"
        )


def _encode(data: Buffer, level: int | None) -> Buffer:
    if level is not None:
        # The library has levels for frames only, and takes only bytes.
        compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        compressor.compress(bytes(data))
        return memoryview(compressor.finish())
    view, parts = memoryview(data), list[Buffer]([_FRAME_HEADER])
    for pos in range(0, len(view), _BLOCK_SIZE):
        block = view[pos : pos + _BLOCK_SIZE]
        packed = memoryview(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            parts += (_UINT32.pack(len(packed)), packed)
        else:
            parts += (_UINT32.pack(len(block) | _PLAIN_BLOCK), block)
    return b"".join((*parts, _UINT32.pack(0)))


def _decompress_magic_0(payload: memoryview, size_max: int) -> list[Buffer]:
    size, _ = _header(payload)
    checksum = header_checksum(bytes(payload[4 : size - 1]))
    return _decompress(memoryview(b"".join((payload[: size - 1], checksum, payload[size:]))), size_max)


def _encode_magic_0(data: Buffer, level: int | None) -> Buffer:
    frame = memoryview(_encode(data, level))
    size, _ = _header(frame)
    return b"".join((frame[: size - 1], header_checksum(bytes(frame[: size - 1])), frame[size:]))


@lru_cache(maxsize=256)
def header_checksum(data: bytes) -> bytes:
    """The second lowest byte of the XXH32 of fewer than 16 bytes. Nearly all headers are the same few."""
    hashed, pos = _PRIME_5 + len(data), 0
    while len(data) - pos >= _UINT32.size:
        hashed = _rotated(hashed + _UINT32.unpack_from(data, pos)[0] * _PRIME_3, 17) * _PRIME_4
        pos += _UINT32.size
    for byte in data[pos:]:
        hashed = _rotated(hashed + byte * _PRIME_5, 11) * _PRIME_1
    for shift, prime in ((15, _PRIME_2), (13, _PRIME_3), (16, 1)):
        hashed &= 0xFFFFFFFF
        hashed = (hashed ^ hashed >> shift) * prime
    return bytes((hashed >> 8 & 0xFF,))


def _rotated(value: int, bits: int) -> int:
    value &= 0xFFFFFFFF
    return (value << bits | value >> (32 - bits)) & 0xFFFFFFFF


LZ4: Final = Codec(
    "lz4",
    3,
    frozenset((Format.MAGIC_1, Format.MAGIC_2)),
    "0.8.2",
    _decompress,
    _encode,
    levels=(1, 17),
)
#: The same with the checksum of magic 0.
LZ4_MAGIC_0: Final = replace(
    LZ4, formats=frozenset((Format.MAGIC_0,)), decompress=_decompress_magic_0, encode=_encode_magic_0
)
