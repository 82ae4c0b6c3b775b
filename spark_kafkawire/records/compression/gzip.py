"""gzip and snappy payloads, as the JVM of Kafka 0.7 writes and reads them.

gzip is RFC 1952, several members in a row, junk after the last one ignored. snappy is the framing
of xerial's SnappyOutputStream, or one bare block:

    82 'SNAPPY' 00 | version int32 | compatible int32 | (size int32 | raw snappy block) ...

Sizes are checked before memory is taken, and what costs time without becoming anything counts as
bytes, too: see ``PART_BYTES_MIN``. Damage raises ``CorruptDataError``, too large a result ``TooLarge``, a
``LimitError``; both are fatal. Their places are the caller's to tell.

Source: recordings of a 0.7.2 broker, and snappy-java 1.0.4.1 that it carries.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

import snappy
from isal import igzip_lib, isal_zlib

from ...errors import CorruptDataError, LimitError, OptionError, quoted
from ...protocol.primitives import Buffer

#: Uncompressed bytes in one block of SnappyOutputStream.
SNAPPY_BLOCK_BYTES: Final = 32_768
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = struct.Struct(">8sii")
_INT32: Final = struct.Struct(">i")

_IsalError: Final = cast(type[Exception], igzip_lib.IsalError)
_GZIP_MAGIC: Final = b"\x1f\x8b\x08"
#: No time, no extra flags, unknown system: as the JVM (16 and later) writes it.
_GZIP_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
#: Header and trailer of a member. The JVM looks for another one only in more bytes than this.
_GZIP_MEMBER_BYTES_MIN: Final = 18
#: First input of a member after the first. What a member leaves is copied, so that many tiny
#: members fed with all the rest would take quadratic time.
_GZIP_FEED_BYTES: Final = 4096
#: Levels of igzip; the higher ones are zlib's.
_IGZIP_LEVEL_MAX: Final = 3
_IGZIP_LEVEL_DEFAULT: Final = 2


#: What a block, member or frame of a payload counts as at least, in bytes of content: each takes about a
#: microsecond, also an empty one. Writers make blocks of 32 KiB and more.
PART_BYTES_MIN: Final = 64
#: Parts that a payload may have whatever the limit.
_PARTS_ALWAYS: Final = 4096
#: Most that one byte of a raw snappy block becomes: a copy of 64 bytes takes three.
_SNAPPY_RATIO_MAX: Final = 22


class TooLarge(LimitError):
    """A payload's content has ``size`` bytes or more, or counts as so many: above what was allowed."""

    def __init__(self, size: int, reason: str = "") -> None:
        super().__init__(reason or f"it decompresses to {size} bytes or more")
        self.size = size


def check_parts(count: int, size_max: int) -> None:
    """Raise ``TooLarge`` for so many blocks, members or frames."""
    if count > max(size_max // PART_BYTES_MIN, _PARTS_ALWAYS):
        raise TooLarge(
            count * PART_BYTES_MIN,
            f"it has {count} blocks or more, and each counts as {PART_BYTES_MIN} bytes",
        )


@dataclass(frozen=True, slots=True)
class Codec:
    """A compression: its name in options, its number in a message's attributes, its two ways.

    ``decompress(payload, size_max)`` gives the parts of the result, ``compress(data, level)`` all.
    """

    name: str
    number: int
    decompress: Callable[[memoryview, int], list[Buffer]]
    compress: Callable[[Buffer, int | None], Buffer]


def _gunzip(payload: memoryview, size_max: int) -> list[Buffer]:
    parts: list[Buffer] = []
    left, pos, feed, count = size_max, 0, len(payload), 0
    while True:
        check_parts(count := count + 1, size_max)
        member, pos = _gunzip_member(payload, pos, feed, left)
        parts += member
        left -= sum(map(len, member))
        if left < 0:
            raise TooLarge(size_max + 1)
        more = len(payload) - pos >= _GZIP_MEMBER_BYTES_MIN and bytes(payload[pos : pos + 3]) == _GZIP_MAGIC
        if not more:
            return parts
        feed = _GZIP_FEED_BYTES


def _gunzip_member(payload: memoryview, pos: int, feed: int, left: int) -> tuple[list[Buffer], int]:
    """The parts of one member and the position after it; up to one byte more than ``left``."""
    inflater = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
    parts: list[Buffer] = []
    while not inflater.eof and left >= 0:
        chunk = payload[pos : pos + feed] if inflater.needs_input else b""
        if inflater.needs_input and not chunk:
            raise CorruptDataError("its gzip data end too early")
        try:
            parts.append(inflater.decompress(chunk, max_length=left + 1))
        except _IsalError as error:
            raise CorruptDataError(f"its gzip data are damaged ({error})") from error
        pos += len(chunk)
        feed *= 2
        left -= len(parts[-1])
    return parts, pos - len(inflater.unused_data)


def _gzip(data: Buffer, level: int | None) -> Buffer:
    if level is not None and not 1 <= level <= 9:
        raise OptionError(f"gzip has the compression levels 1 to 9, not {level}")
    if level is None or level <= _IGZIP_LEVEL_MAX:
        deflater: Any = isal_zlib.compressobj(level or _IGZIP_LEVEL_DEFAULT, wbits=-15)
    else:
        deflater = zlib.compressobj(level, wbits=-15)
    trailer = struct.pack("<II", isal_zlib.crc32(data), len(data) & 0xFFFFFFFF)
    return b"".join((_GZIP_HEADER, deflater.compress(data), deflater.flush(), trailer))


def _unsnap(payload: memoryview, size_max: int) -> list[Buffer]:
    if len(payload) < _XERIAL_HEADER.size or bytes(payload[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return [_unsnap_block(payload, 0, size_max)]
    _, version, _ = _XERIAL_HEADER.unpack_from(payload)
    if version < 1:
        raise CorruptDataError(f"its snappy stream has the unknown version {version}")
    parts: list[Buffer] = []
    taken, pos = 0, _XERIAL_HEADER.size
    while len(payload) - pos >= _INT32.size:
        check_parts(len(parts) + 1, size_max)
        (size,) = _INT32.unpack_from(payload, pos)
        pos += _INT32.size
        if not 0 <= size <= len(payload) - pos:
            raise CorruptDataError(f"its snappy block of {size} bytes has {len(payload) - pos} bytes left")
        parts.append(_unsnap_block(payload[pos : pos + size], taken, size_max))
        taken += len(parts[-1])
        pos += size
    return parts


def _unsnap_block(block: memoryview, taken: int, size_max: int) -> Buffer:
    size = _snappy_size(block)
    if taken + size > size_max:
        raise TooLarge(taken + size)
    if size > _SNAPPY_RATIO_MAX * len(block):
        raise CorruptDataError(f"its snappy block of {len(block)} bytes claims to become {size} bytes")
    try:
        data: Any = snappy.decompress(block)
    except snappy.UncompressError as error:
        raise CorruptDataError(f"its snappy block is damaged ({error})") from error
    return cast(Buffer, data)


def _snappy_size(block: memoryview) -> int:
    """The decompressed size that a raw block begins with: 7 bits a byte, lowest first."""
    size = 0
    for i, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return size
    raise CorruptDataError("its snappy block does not begin with a size")


def _snap(data: Buffer, level: int | None) -> Buffer:
    if level is not None:
        raise OptionError("snappy has no compression levels: remove the option compressionLevel")
    view = memoryview(data)
    parts: list[Any] = [_XERIAL_HEADER.pack(_XERIAL_MAGIC, 1, 1)]
    for pos in range(0, len(view), SNAPPY_BLOCK_BYTES):
        block = snappy.compress(view[pos : pos + SNAPPY_BLOCK_BYTES])
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


GZIP: Final = Codec("gzip", 1, _gunzip, _gzip)
SNAPPY: Final = Codec("snappy", 2, _unsnap, _snap)
#: The codecs by the number that a message's attributes hold; 0 is no compression.
CODECS: Final = {codec.number: codec for codec in (GZIP, SNAPPY)}
#: What the option ``compression`` may be.
NAMES: Final = ("none", *(codec.name for codec in CODECS.values()))


def codec_named(name: str) -> Codec | None:
    """The codec of that name; None for ``none``. Raises ``OptionError`` for an unknown name."""
    if name not in NAMES:
        raise OptionError(f"compression is one of {', '.join(NAMES)}, not {quoted(name)}")
    return next((codec for codec in CODECS.values() if codec.name == name), None)
