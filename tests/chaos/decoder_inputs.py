"""Record bytes that mean something and are damaged somewhere, each drawn from a seed.

An input is built as a writer builds it, from numbers and pieces, and at every level a number may be
another one, a piece damaged, and pieces missing, twice there or in another order: a field of a record,
the records of a batch, what is compressed, the fields of a batch, the batches of a log, its bytes. Sizes
and checksums are made afterwards, most of the time, so that what lies behind them is reached.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

import crc32c

from tests.records.batches import repaired as repaired_log
from tests.records.batches import varint
from tests.records.mutations import _repaired as repaired_set
from tests.support.codecs import CODECS

#: Numbers that fields may hold instead of theirs.
_ODD: Final = (0, 1, -1, 2, -2, 3, 5, 7, 9, 49, 61, 127, 128, 255, 300, 65_535, 2**31 - 1, -(2**31))
_ODD_LONG: Final = (*_ODD, 2**63 - 1, 2**63 - 2, -(2**63), 2**40, -(2**40), 2**62)
_BODY: Final = struct.Struct(">hiqqqhii")
_HEAD: Final = struct.Struct(">qiibI")
#: The codes of the fields of ``_BODY``.
_BODY_CODES: Final = "hiqqqhii"
_BITS: Final = {"h": 16, "i": 32, "q": 64}
#: Varints that no writer writes: too long, without an end, beyond their type.
_ODD_VARINTS: Final = (
    *(varint(value) for value in _ODD_LONG),
    *(
        b"\x80\x00",
        b"\x81\x80\x00",
        b"\xff" * 9 + b"\x01",
        b"\xff" * 10,
        b"\xff\xff\xff\xff\x1f",
        b"\x80" * 4,
    ),
    *(b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x0f", b"\xff" * 9 + b"\x02", b"\x80", b""),
)
#: Every way to write what a codec's number means.
_COMPRESSORS: Final = {codec.number: (*codec.forms.values(), *codec.odd_forms) for codec in CODECS}
_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 8, 16, 32
_KEYS: Final = (None, None, b"", b"k", b"key " * 6)
_VALUES: Final = (None, b"", b"v", b"value", b"long value " * 9, bytes(40))
_HEADERS: Final = ((), (), (), ((b"h", b"v"),), ((b"\xc3\xa4", None), (b"", b"")), ((b"\xff", b"x"),))


@dataclass(frozen=True, slots=True)
class Input:
    """Bytes to decode, and how. ``is_log`` tells a modern log from a message set of 0.7."""

    is_log: bool
    data: bytes
    start_offset: int
    stop_offset: int
    #: Columns that are asked for: all, or an index into smaller choices.
    choice: int
    #: Which limits decoding has.
    limits: int


def input_of(seed: int) -> Input:
    """The input of that seed, always the same."""
    chance = random.Random(seed)
    is_log = chance.random() < 0.6
    data = _log(chance) if is_log else _message_set(chance)
    return Input(
        is_log,
        data,
        chance.choice((0, 0, 0, 1, 2, 6)),
        chance.choice((2**63 - 1, 2**63 - 1, 2**63 - 1, 8)),
        chance.choice((0, 0, 0, 0, 1, 2)),
        chance.choice((0, 0, 0, 0, 1, 2)),
    )


# --- 0.7 ---


def _message_set(chance: random.Random) -> bytes:
    parts = [_set_message(chance, chance.choice((0, 1, 1, 2, 3))) for _ in range(chance.randrange(1, 5))]
    data = _damaged(chance, b"".join(_shuffled(chance, parts)), 0.3)
    data = repaired_set(bytearray(data)) if chance.random() < 0.7 else data
    return _cancelling(chance, data, 4, lambda buf, pos: pos + 5 + (buf[pos + 4] != 0))


def _set_message(chance: random.Random, depth: int) -> bytes:
    codec = chance.choice((0, 1, 2, 2)) if depth else 0
    if not codec:
        return _framed_07(
            chance, chance.choice(_VALUES) or b"", chance.choice((0, 0xF8)), chance.randrange(2)
        )
    inner = b"".join(_shuffled(chance, [_set_message(chance, depth - 1) for _ in range(chance.randrange(4))]))
    content = _damaged(chance, inner, 0.15)
    content = repaired_set(bytearray(content)) if chance.random() < 0.5 else content
    return _framed_07(chance, _packed(chance, codec, content, False), codec | chance.choice((0, 0, 0xF8)), 1)


def _framed_07(chance: random.Random, payload: bytes, attributes: int, magic: int) -> bytes:
    crc, size = zlib.crc32(payload), len(payload) + 5 + magic
    if chance.random() < 0.08:
        match chance.randrange(4):
            case 0:
                size = max(0, _other(chance, size, 32))
            case 1:
                magic = chance.choice((0, 1, 2, 255))
            case 2:
                attributes = chance.choice((0, 1, 2, 3, 4, 7, 255))
            case _:
                crc ^= 1 << chance.randrange(32)
    head = bytes((magic, attributes)) if magic else b"\0"
    return struct.pack(">I", size) + head + struct.pack(">I", crc) + payload


def _cancelling(
    chance: random.Random, data: bytes, overhead: int, crc_pos: Callable[[bytearray, int], int]
) -> bytes:
    """The same; or with the same bit flipped in the checksums of the first two messages."""
    if chance.random() >= 0.03:
        return data
    buf, pos, bit = bytearray(data), 0, chance.randrange(32)
    for _ in range(2):
        if pos + overhead + 17 > len(buf):
            break
        crc = crc_pos(buf, pos)
        buf[crc + 3 - bit // 8] ^= 1 << bit % 8
        pos += overhead + int.from_bytes(buf[pos + overhead - 4 : pos + overhead], "big")
    return bytes(buf)


# --- 0.8 and later ---


def _log(chance: random.Random) -> bytes:
    parts, offset = [], chance.choice((0, 0, 0, 5, 2**31, 2**63 - 6))
    for _ in range(chance.choice((1, 1, 2, 3))):
        parts.append(_batch(chance, offset) if chance.random() < 0.65 else _legacy(chance, offset))
        offset = min(offset + 4, 2**63 - 2)
    data = _damaged(chance, b"".join(_shuffled(chance, parts)), 0.2)
    data = repaired_log(data) if chance.random() < 0.7 else data
    return _cancelling(chance, data, 12, lambda buf, pos: pos + (17 if buf[pos + 16] == 2 else 12))


def _batch(chance: random.Random, offset: int) -> bytes:
    """A batch of magic 2."""
    kind = chance.choice((0, 0, 0, 0, _APPEND_TIME, _TRANSACTIONAL, _TRANSACTIONAL | _CONTROL))
    codec = chance.choice((0, 0, *_COMPRESSORS))
    count = chance.randrange(1, 5)
    is_common = chance.random() < 0.5
    if kind & _CONTROL:
        key = struct.pack(">hh", chance.choice((0, 0, 1)), chance.choice((0, 1, 2, -1)))
        content, count, codec = _record(chance, 0, key[: chance.choice((4, 4, 4, 3, 0))], b"\0" * 6), 1, 0
    elif is_common:
        content = b"".join(_COMMON[:count])
    else:
        records = [_drawn_record(chance, i) for i in range(count)]
        content = _damaged(chance, b"".join(_shuffled(chance, records)), 0.15)
    payload = _packed(chance, codec, content, is_common) if codec else content
    fields = [codec | kind, count - 1, 1000, 2000, 1 if kind & _TRANSACTIONAL else -1, 0, 0, count]
    if chance.random() < 0.25:
        place = chance.randrange(len(fields))
        fields[place] = _other(chance, fields[place], _BITS[_BODY_CODES[place]])
    body = _BODY.pack(*fields) + payload
    size, magic, crc = len(body) + 9, 2, crc32c.crc32c(body)
    if chance.random() < 0.08:
        size, magic = (
            (_other(chance, size, 32), 2) if chance.random() < 0.5 else (size, chance.choice((0, 1, 3, -1)))
        )
        crc ^= chance.choice((0, 1))
    return _HEAD.pack(offset, size, 0, magic, crc) + body


def _drawn_record(chance: random.Random, delta: int) -> bytes:
    return _record(
        chance,
        delta,
        chance.choice(_KEYS),
        chance.choice(_VALUES),
        chance.choice(_HEADERS),
        chance.choice((0, 7, -9)),
    )


def _record(
    chance: random.Random,
    delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[tuple[bytes, bytes | None], ...] = (),
    timestamp_delta: int = 0,
) -> bytes:
    """A record; sometimes with one of its numbers another one, or a size that it has not."""
    parts = [
        b"\0",
        varint(timestamp_delta),
        varint(delta),
        *_sized(key),
        *_sized(value),
        varint(len(headers)),
    ]
    for name, content in headers:
        parts += (*_sized(name), *_sized(content))
    if chance.random() < 0.12:
        parts[chance.randrange(len(parts))] = chance.choice(_ODD_VARINTS)
    body = b"".join(parts)
    size = varint(len(body)) if chance.random() < 0.95 else chance.choice(_ODD_VARINTS)
    return size + body


def _sized(data: bytes | None) -> tuple[bytes, bytes]:
    return (b"\x01", b"") if data is None else (varint(len(data)), data)


#: Records without damage, so that their compressed forms can be kept.
_COMMON: Final = tuple(
    _record(random.Random(0), i, _KEYS[i], _VALUES[i + 1], _HEADERS[i + 1], 3 * i) for i in range(4)
)


def _legacy(chance: random.Random, offset: int) -> bytes:
    """Messages of magic 0 or 1, or one that holds some."""
    magic, codec = chance.randrange(2), chance.choice((0, 1, 2, 3))
    count = chance.randrange(1, 4)
    # With magic 1 inner offsets count from anywhere, with magic 0 they are absolute.
    first = chance.choice((0, offset)) if magic and codec else offset
    inner = [_legacy_message(chance, first + i, magic, 0, chance.choice(_VALUES)) for i in range(count)]
    inner = _shuffled(chance, inner)
    if not codec:
        return b"".join(inner)
    content = _damaged(chance, b"".join(inner), 0.15)
    content = repaired_log(content) if chance.random() < 0.6 else content
    attributes = codec | chance.choice((0, 0, _APPEND_TIME))
    return _legacy_message(
        chance, offset + count - 1, magic, attributes, _packed(chance, codec, content, False)
    )


def _legacy_message(
    chance: random.Random, offset: int, magic: int, attributes: int, value: bytes | None
) -> bytes:
    key, timestamp_ms = chance.choice(_KEYS), 1000
    key_size, value_size = (-1 if data is None else len(data) for data in (key, value))
    if chance.random() < 0.1:
        match chance.randrange(6):
            case 0:
                key_size = _other(chance, key_size, 32)
            case 1:
                value_size = _other(chance, value_size, 32)
            case 2:
                timestamp_ms = _other(chance, timestamp_ms, 64)
            case 3:
                attributes = chance.choice((0, 1, 2, 3, 4, 7, 8, 255))
            case 4:
                offset = _other(chance, offset, 64)
            case _:
                magic = 1 - magic
    body = bytes((magic, attributes)) + (struct.pack(">q", timestamp_ms) if magic else b"")
    body += struct.pack(">i", key_size) + (key or b"") + struct.pack(">i", value_size) + (value or b"")
    offset = min(max(offset, -(2**63)), 2**63 - 1)
    size = len(body) + 4 if chance.random() < 0.96 else _other(chance, len(body) + 4, 32)
    return struct.pack(">qiI", offset, size, zlib.crc32(body)) + body


# --- pieces of any kind ---


def _shuffled(chance: random.Random, parts: list[bytes]) -> list[bytes]:
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


def _damaged(chance: random.Random, data: bytes, probability: float) -> bytes:
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


def _other(chance: random.Random, value: int, bits: int) -> int:
    """Another number of so many bits, signed."""
    found = value + chance.randrange(-2, 3) if chance.random() < 0.3 else chance.choice(_ODD_LONG)
    return (found + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def _packed_in(codec: int, style: int, content: bytes) -> bytes:
    return _COMPRESSORS[codec][style](content)


_packed_once: Final = cache(_packed_in)


def _packed(chance: random.Random, codec: int, content: bytes, is_common: bool) -> bytes:
    """The content compressed in one of the ways, perhaps damaged."""
    style = chance.randrange(len(_COMPRESSORS[codec]))
    pack = _packed_once if is_common else _packed_in
    return _damaged(chance, pack(codec, style, content), 0.08)
