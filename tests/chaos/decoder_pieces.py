"""Damage to pieces of record bytes, and the ways to compress them, drawn from a source of chance."""

from __future__ import annotations

import random
from functools import cache
from typing import Final

from tests.support.codecs import CODECS

#: Numbers that fields may hold instead of theirs.
_ODD: Final = (0, 1, -1, 2, -2, 3, 5, 7, 9, 49, 61, 127, 128, 255, 300, 65_535, 2**31 - 1, -(2**31))
ODD_LONG: Final = (*_ODD, 2**63 - 1, 2**63 - 2, -(2**63), 2**40, -(2**40), 2**62)


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


#: Every way to write what a codec's number means.
COMPRESSORS: Final = {codec.number: (*codec.forms.values(), *codec.odd_forms) for codec in CODECS}


def _packed_in(codec: int, style: int, content: bytes) -> bytes:
    return COMPRESSORS[codec][style](content)


_packed_once: Final = cache(_packed_in)


def packed(chance: random.Random, codec: int, content: bytes, is_common: bool) -> bytes:
    """The content compressed in one of the ways, perhaps damaged."""
    style = chance.randrange(len(COMPRESSORS[codec]))
    pack = _packed_once if is_common else _packed_in
    return damaged(chance, pack(codec, style, content), 0.08)
