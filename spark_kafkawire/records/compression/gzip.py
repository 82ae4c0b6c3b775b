"""gzip as Java reads and writes it: RFC 1952, several members in a row, junk after the last one ignored.

A member with a reserved flag is damaged, as RFC 1952 requires, and as in gzip, zlib (librdkafka) and Arrow:
the flag may mean that other fields follow the header. Java and the library ignore these flags.

Source: recordings of a 0.7.2 broker.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final, cast

from isal import igzip_lib, isal_zlib

from spark_kafkawire.protocol.primitives import Buffer

from .codec import Codec, Format, TooLarge, check_parts, damaged

_IsalError: Final = cast(type[Exception], igzip_lib.IsalError)
_MAGIC: Final = b"\x1f\x8b\x08"
#: The byte of the flags in a member's header, and the flags that are reserved.
_FLAGS_POS: Final = 3
_RESERVED_FLAGS: Final = 0xE0
#: No time, no extra flags, unknown system: as the JVM (16 and later) writes it.
_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
#: Header and trailer of a member. The JVM looks for another one only in more bytes than this.
_MEMBER_BYTES_MIN: Final = 18
#: First input of a member after the first. zlib copies the input that a member leaves over, so with all of
#: the rest as input many tiny members would take quadratic time.
_FEED_BYTES: Final = 4096
#: Levels of igzip; the higher ones are zlib's.
_IGZIP_LEVEL_MAX: Final = 3
_IGZIP_LEVEL_DEFAULT: Final = 2


def _decompress(payload: memoryview, size_max: int) -> list[Buffer]:
    parts: list[Buffer] = []
    left, pos, feed, count = size_max, 0, len(payload), 0
    while True:
        check_parts(count := count + 1, size_max)
        member, pos = _decompress_member(payload, pos, feed, left)
        parts += member
        left -= sum(map(len, member))
        if left < 0:
            raise TooLarge(size_max + 1)
        more = len(payload) - pos >= _MEMBER_BYTES_MIN and bytes(payload[pos : pos + 3]) == _MAGIC
        if not more:
            return parts
        feed = _FEED_BYTES


def _decompress_member(payload: memoryview, pos: int, feed: int, left: int) -> tuple[list[Buffer], int]:
    """The parts of one member and the position after it; up to one byte more than ``left``."""
    header = bytes(payload[pos : pos + _FLAGS_POS + 1])
    if header.startswith(_MAGIC) and header[-1] & _RESERVED_FLAGS and len(header) > _FLAGS_POS:
        raise damaged(f"its gzip header has reserved flags ({header[-1]:#04x}, allowed are 0x1f)")
    inflater = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
    parts: list[Buffer] = []
    while not inflater.eof and left >= 0:
        chunk = payload[pos : pos + feed] if inflater.needs_input else b""
        if inflater.needs_input and not chunk:
            raise damaged("its gzip data end too early")
        try:
            parts.append(inflater.decompress(chunk, max_length=left + 1))
        except _IsalError as error:
            raise damaged(f"its gzip data are damaged ({error})") from error
        pos += len(chunk)
        feed *= 2
        left -= len(parts[-1])
    return parts, pos - len(inflater.unused_data)


def _encode(data: Buffer, level: int | None) -> Buffer:
    if level is None or level <= _IGZIP_LEVEL_MAX:
        deflater: Any = isal_zlib.compressobj(level or _IGZIP_LEVEL_DEFAULT, wbits=-15)
    else:
        deflater = zlib.compressobj(level, wbits=-15)
    trailer = struct.pack("<II", isal_zlib.crc32(data), len(data) & 0xFFFFFFFF)
    return b"".join((_HEADER, deflater.compress(data), deflater.flush(), trailer))


GZIP: Final = Codec("gzip", 1, frozenset(Format), "0.7", _decompress, _encode, levels=(1, 9))
