"""Damage to message sets and logs, drawn from a seed: outside, inside compressed payloads, or both.

Checksums are repaired at random, so that what lies behind them is reached.
"""

from __future__ import annotations

import random
import resource
import struct
import zlib
from collections.abc import Callable
from functools import cache

from tests.records.batches import (
    APPEND_TIME,
    TRANSACTIONAL,
    batch,
    marker,
    record,
    repaired,
)
from tests.records.batches import message as log_message
from tests.records.message_set.trees import (
    COMPRESSORS,
    Compressed,
    Message,
    Plain,
    message,
)
from tests.support.codecs import CODEC_NUMBERS, FORMS, compressed

LENGTHS = (-(2**31), -1, 0, 1, 4, 5, 6, 2**16, 2**31 - 1)

VALUES = (b"", b"v", b"value", bytes(30), b"long value " * 30)


def peak_rss_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def damaged_set(seed: int) -> bytes:
    """A message set with damage somewhere, or none."""
    chance = random.Random(seed)
    messages = [_message(chance, depth=3) for _ in range(chance.randrange(1, 6))]
    data = b"".join(_encoded(chance, item) for item in messages)
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


RECORDS = (
    record(0, b"value", b"key"),
    record(1, None, b"k", ((b"h", b"v"), (b"\xc3\xa4", None)), timestamp_delta=-7),
    record(2, b"long value " * 8),
    record(4, b"", None, ((b"h", b""),) * 3, timestamp_delta=2**33),
)
_packed = cache(compressed)


def damaged_log(seed: int) -> bytes:
    """A few batches and messages with damage somewhere, or none."""
    chance = random.Random(seed)
    parts = [_entry(chance, 5 * i) for i in range(chance.choice((1, 1, 2, 3)))]
    return _repaired_log(chance, _harmed(chance, b"".join(parts), 0.5))


def _entry(chance: random.Random, offset: int) -> bytes:
    compression = chance.choice(("none", *FORMS))
    kind = chance.randrange(8)
    if kind == 0:
        return marker(offset, 1, chance.randrange(3))
    if kind < 3:
        return _messages(chance, offset, compression)
    content = _harmed(chance, b"".join(RECORDS[: chance.randrange(1, 5)]), 0.4)
    attributes = chance.choice((0, 0, APPEND_TIME, TRANSACTIONAL))
    return batch(
        [],
        offset,
        compression=compression,
        attributes=attributes,
        count=chance.choice((1, 2, 3, 4)),
        last_delta=chance.choice((4, 4, 4, 1)),
        producer=(1, 0, 0) if attributes & TRANSACTIONAL else (-1, -1, -1),
        payload=_packed(compression, content),
    )


def _messages(chance: random.Random, offset: int, compression: str) -> bytes:
    magic = chance.randrange(2)
    inner = [log_message(offset + i, b"value" * i, b"k", magic=magic) for i in range(chance.randrange(1, 4))]
    if compression == "none":
        return b"".join(inner)
    content = _repaired_log(chance, _harmed(chance, b"".join(inner), 0.4))
    attributes = CODEC_NUMBERS[compression.split()[0]] | chance.choice((0, APPEND_TIME))
    return log_message(offset + 2, _packed(compression, content), magic=magic, attributes=attributes)


def _repaired_log(chance: random.Random, data: bytes) -> bytes:
    return repaired(data) if chance.random() < 0.8 else data


def _damaged(chance: random.Random, data: bytes, probability: float) -> bytes:
    harmed = _harmed(chance, data, probability)
    return _repaired(bytearray(harmed)) if harmed != data and chance.random() < 0.6 else harmed


def _harmed(chance: random.Random, data: bytes, probability: float) -> bytes:
    if chance.random() >= probability or not data:
        return data
    buf = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        chance.choice(_DAMAGES)(chance, buf)
    return bytes(buf)


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
    # A varint without an end, too.
    buf[pos:pos] = chance.choice((chance.randbytes(chance.randrange(1, 20)), b"\xff" * 9))


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
