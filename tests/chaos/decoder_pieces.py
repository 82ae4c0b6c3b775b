"""Damage to pieces of record bytes, and the ways to compress them, drawn from a source of chance."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable
from functools import cache
from typing import Final

import cramjam
import snappy

#: Numbers that fields may hold instead of theirs.
_ODD: Final = (0, 1, -1, 2, -2, 3, 5, 7, 9, 49, 61, 127, 128, 255, 300, 65_535, 2**31 - 1, -(2**31))
ODD_LONG: Final = (*_ODD, 2**63 - 1, 2**63 - 2, -(2**63), 2**40, -(2**40), 2**62)
_XERIAL: Final = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


# --- pieces of any kind ---


def shuffled(chance: random.Random, parts: list[bytes]) -> list[bytes]:
    """The same parts; or one of them missing, twice there, or at another place."""
    if not parts or chance.random() < 0.8:
        return parts
    place = chance.randrange(len(parts))
    match chance.randrange(3):
        case 0:
            return parts[:place] + parts[place + 1 :]
        case 1:
            return [*parts[: place + 1], *parts[chance.randrange(len(parts)) :]]
    return [*parts[place:], *parts[:place]]


def damaged(chance: random.Random, data: bytes, probability: float) -> bytes:
    """The same bytes; or some flipped, set, removed, added, cut off or copied from elsewhere."""
    if chance.random() >= probability or not data:
        return data
    buf = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        pos = chance.randrange(len(buf) + 1)
        match chance.randrange(8):
            case 0 | 1 if pos < len(buf):
                buf[pos] ^= 1 << chance.randrange(8)
            case 2 | 3 if pos < len(buf):
                buf[pos] = chance.choice((0, 1, 2, 3, 0x7F, 0x80, 0xFF))
            case 4:
                del buf[pos : pos + chance.randrange(1, 20)]
            case 5:
                start = chance.randrange(len(buf) + 1)
                buf[pos:pos] = buf[start : start + chance.randrange(30)]
            case 6:
                buf[pos : pos + 4] = (chance.choice(_ODD) & 0xFFFFFFFF).to_bytes(4, "big")
            case _:
                del buf[pos if chance.random() < 0.5 else len(buf) :]
    return bytes(buf)


def other(chance: random.Random, value: int, bits: int) -> int:
    """Another number of so many bits, signed."""
    found = value + chance.randrange(-2, 3) if chance.random() < 0.3 else chance.choice(ODD_LONG)
    return (found + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


# --- compression ---


def _xerial(data: bytes) -> bytes:
    blocks = [snappy.compress(data[pos : pos + 50]) for pos in range(0, len(data), 50)]
    return _XERIAL + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def _gzip(data: bytes) -> bytes:
    deflater = zlib.compressobj(1, wbits=31)
    return deflater.compress(data) + deflater.flush()


def _gzip_members(data: bytes) -> bytes:
    return _gzip(data[: len(data) // 2]) + _gzip(data[len(data) // 2 :]) + b"junk"


def _lz4(data: bytes, flags: int = 0x60) -> bytes:
    """A frame of small blocks, every second one plain, with the wrong header checksum that is never looked at
    where each block is on its own."""
    out = bytearray(b"\x04\x22\x4d\x18") + bytes((flags, 0x40, 0x82))
    for pos in range(0, len(data), 64):
        block = data[pos : pos + 64]
        if pos % 128:
            out += struct.pack("<I", len(block) | 1 << 31) + block
        else:
            packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
            out += struct.pack("<I", len(packed)) + packed
    return bytes(out + bytes(4))


def _lz4_linked(data: bytes) -> bytes:
    return bytes(cramjam.lz4.compress(data))


def _zstd(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data, 1))


def _zstd_frames(data: bytes) -> bytes:
    skipped = struct.pack("<II", 0x184D2A53, 3) + b"abc"
    return _zstd(data[: len(data) // 3]) + skipped + _zstd(data[len(data) // 3 :])


#: Every way to write what a codec's number stands for.
COMPRESSORS: Final[dict[int, tuple[Callable[[bytes], bytes], ...]]] = {
    1: (_gzip, _gzip, _gzip_members),
    2: (_xerial, lambda data: bytes(snappy.compress(data))),
    3: (_lz4, _lz4, _lz4_linked),
    4: (_zstd, _zstd, _zstd_frames),
}


def _packed_in(codec: int, style: int, content: bytes) -> bytes:
    return COMPRESSORS[codec][style](content)


_packed_once: Final = cache(_packed_in)


def packed(chance: random.Random, codec: int, content: bytes, is_common: bool) -> bytes:
    """The content compressed in one of the ways, perhaps damaged."""
    style = chance.randrange(len(COMPRESSORS[codec]))
    pack = _packed_once if is_common else _packed_in
    return damaged(chance, pack(codec, style, content), 0.08)
