"""Damage to message sets, drawn from a seed: on the outside, inside compressed payloads, or both.

Checksums are repaired at random, so that what lies behind them is reached.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable

from tests.records.message_set.trees import COMPRESSORS, Compressed, Message, Plain, message

LENGTHS = (-(2**31), -1, 0, 1, 4, 5, 6, 2**16, 2**31 - 1)

VALUES = (b"", b"v", b"value", bytes(30), b"long value " * 30)


def damaged_set(seed: int) -> bytes:
    """A message set with damage somewhere, or none."""
    chance = random.Random(seed)
    messages = [_message(chance, depth=3) for _ in range(chance.randrange(1, 6))]
    data = b"".join(_encoded(chance, each) for each in messages)
    return _damaged(chance, data, 0.5)


def _message(chance: random.Random, depth: int) -> Message:
    if depth == 0 or chance.random() < 0.5:
        return Plain(chance.choice(VALUES), chance.choice((0, 1, 1)))
    children = tuple(_message(chance, depth - 1) for _ in range(chance.randrange(4)))
    return Compressed(children, chance.choice((1, 2)), chance.randrange(4))


def _encoded(chance: random.Random, each: Message) -> bytes:
    if isinstance(each, Plain):
        return each.encoded()
    content = _damaged(chance, b"".join(_encoded(chance, child) for child in each.children), 0.2)
    styles = COMPRESSORS[each.codec]
    payload = _damaged(chance, styles[each.style % len(styles)](content), 0.1)
    return message(payload, each.codec)


def _damaged(chance: random.Random, data: bytes, probability: float) -> bytes:
    if chance.random() >= probability or not data:
        return data
    buf = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        chance.choice(_DAMAGES)(chance, buf)
    return _repaired(buf) if chance.random() < 0.6 else bytes(buf)


def _flip_bit(chance: random.Random, buf: bytearray) -> None:
    if buf:
        buf[chance.randrange(len(buf))] ^= 1 << chance.randrange(8)


def _set_byte(chance: random.Random, buf: bytearray) -> None:
    if buf:
        buf[chance.randrange(len(buf))] = chance.choice((0, 1, 2, 3, 0x7F, 0x80, 0xFF))


def _set_length(chance: random.Random, buf: bytearray) -> None:
    """Another length at the start of a message, or anywhere."""
    pos = chance.choice([*_starts(buf), chance.randrange(len(buf) + 1)])
    buf[pos : pos + 4] = struct.pack(">i", chance.choice(LENGTHS))


def _nudge_length(chance: random.Random, buf: bytearray) -> None:
    if starts := _starts(buf):
        pos = chance.choice(starts)
        (length,) = struct.unpack_from(">i", buf, pos)
        struct.pack_into(">i", buf, pos, max(-1, length + chance.randrange(-12, 13)))


def _splice(chance: random.Random, buf: bytearray) -> None:
    """A piece of the set in another place of it."""
    start = chance.randrange(len(buf) + 1)
    piece = buf[start : start + chance.randrange(40)]
    pos = chance.randrange(len(buf) + 1)
    buf[pos : pos + chance.choice((0, len(piece)))] = piece


def _remove(chance: random.Random, buf: bytearray) -> None:
    pos = chance.randrange(len(buf) + 1)
    del buf[pos : pos + chance.randrange(1, 20)]


def _insert(chance: random.Random, buf: bytearray) -> None:
    pos = chance.randrange(len(buf) + 1)
    buf[pos:pos] = chance.randbytes(chance.randrange(1, 20))


def _cut(chance: random.Random, buf: bytearray) -> None:
    del buf[chance.randrange(len(buf) + 1) :]


_DAMAGES: tuple[Callable[[random.Random, bytearray], None], ...] = (
    _flip_bit, _set_byte, _set_length, _nudge_length, _splice, _remove, _insert, _cut,
)  # fmt: skip


def _repaired(buf: bytearray) -> bytes:
    """The same with the right CRC in every message that its length still leads to."""
    starts = _starts(buf)
    for pos in starts:
        (length,) = struct.unpack_from(">i", buf, pos)
        crc = pos + 5 + (buf[pos + 4] != 0)
        if crc + 4 <= pos + 4 + length:
            struct.pack_into(">I", buf, crc, zlib.crc32(buf[crc + 4 : pos + 4 + length]))
    return bytes(buf)


def _starts(buf: bytearray) -> list[int]:
    """Positions at which messages begin, as far as lengths lead."""
    starts, pos = [], 0
    while pos + 10 <= len(buf):
        (length,) = struct.unpack_from(">i", buf, pos)
        if length < 5 or pos + 4 + length > len(buf):
            break
        starts.append(pos)
        pos += 4 + length
    return starts
