"""snappy as Java writes it: the framing of xerial's SnappyOutputStream; a bare block is read, too.

    82 'SNAPPY' 00 | version int32 | compatible int32 | (size int32 | raw snappy block) ...

Source: recordings of a 0.7.2 broker, and snappy-java 1.0.4.1 that it carries.
"""

from __future__ import annotations

import struct
from typing import Any, Final, cast

import snappy

from spark_kafkawire.protocol.primitives import Buffer

from .codec import Codec, Format, TooLarge, check_parts, damaged

#: Uncompressed bytes in one block of SnappyOutputStream.
_BLOCK_BYTES: Final = 32_768
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = struct.Struct(">8sii")
_INT32: Final = struct.Struct(">i")
#: Most that one byte of a raw block becomes: a copy of 64 bytes takes three.
_RATIO_MAX: Final = 22


def _decompress(payload: memoryview, size_max: int) -> list[Buffer]:
    if len(payload) < _XERIAL_HEADER.size or bytes(payload[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return [_decompress_block(payload, 0, size_max)]
    _, version, _ = _XERIAL_HEADER.unpack_from(payload)
    if version < 1:
        raise damaged(f"its snappy stream has the unknown version {version}")
    parts: list[Buffer] = []
    taken, pos = 0, _XERIAL_HEADER.size
    while len(payload) - pos >= _INT32.size:
        check_parts(len(parts) + 1, size_max)
        (size,) = _INT32.unpack_from(payload, pos)
        pos += _INT32.size
        if not 0 <= size <= len(payload) - pos:
            raise damaged(f"its snappy block of {size} bytes has {len(payload) - pos} bytes left")
        parts.append(_decompress_block(payload[pos : pos + size], taken, size_max))
        taken += len(parts[-1])
        pos += size
    return parts


def _decompress_block(block: memoryview, taken: int, size_max: int) -> Buffer:
    size = _block_size(block)
    if taken + size > size_max:
        raise TooLarge(taken + size)
    if size > _RATIO_MAX * len(block):
        raise damaged(f"its snappy block of {len(block)} bytes claims to become {size} bytes")
    try:
        data: Any = snappy.decompress(block)
    except snappy.UncompressError as error:
        raise damaged(f"its snappy block is damaged ({error})") from error
    return cast(Buffer, data)


def _block_size(block: memoryview) -> int:
    """The decompressed size that a raw block begins with: 7 bits a byte, lowest first."""
    size = 0
    for i, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return size
    raise damaged("its snappy block does not begin with a size")


def _encode(data: Buffer, level: int | None) -> Buffer:
    del level  # there are none
    view = memoryview(data)
    parts: list[Any] = [_XERIAL_HEADER.pack(_XERIAL_MAGIC, 1, 1)]
    for pos in range(0, len(view), _BLOCK_BYTES):
        block = snappy.compress(view[pos : pos + _BLOCK_BYTES])
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


SNAPPY: Final = Codec("snappy", 2, frozenset(Format), "0.7", _decompress, _encode)
