"""Batches and messages of modern logs built byte by byte, also those that no program writes."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import crc32c

from tests.support.codecs import CODEC_NUMBERS, compressed

NO_PRODUCER = (-1, -1, -1)
APPEND_TIME, TRANSACTIONAL, CONTROL = 8, 16, 32


@dataclass(frozen=True, slots=True)
class Aborted:
    """A transaction that a response calls aborted."""

    producer_id: int
    first_offset: int


def varint(value: int) -> bytes:
    """The zigzag varint."""
    rest, out = value * 2 if value >= 0 else -value * 2 - 1, bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes(out) + bytes((rest,))


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    delta: int,
    value: bytes | None,
    key: bytes | None = None,
    headers: tuple[tuple[bytes | None, bytes | None], ...] = (),
    timestamp_delta: int = 0,
) -> bytes:
    body = b"\0" + varint(timestamp_delta) + varint(delta) + sized(key) + sized(value) + varint(len(headers))
    body += b"".join(sized(key) + sized(value) for key, value in headers)
    return varint(len(body)) + body


def batch(
    records: list[bytes],
    base_offset: int = 0,
    *,
    compression: str = "none",
    attributes: int = 0,
    count: int | None = None,
    last_delta: int | None = None,
    timestamps: tuple[int, int] = (1000, 2000),
    producer: tuple[int, int, int] = NO_PRODUCER,
    payload: bytes | None = None,
) -> bytes:
    """A batch of magic 2. ``payload`` takes the place of the compressed records."""
    count = len(records) if count is None else count
    last_delta = count - 1 if last_delta is None else last_delta
    number = CODEC_NUMBERS[compression.split()[0]]
    body = struct.pack(">hiqqqhii", attributes | number, last_delta, *timestamps, *producer, count)
    body += compressed(compression, b"".join(records)) if payload is None else payload
    head = struct.pack(">qiibI", base_offset, len(body) + 9, 7, 2, crc32c.crc32c(body))
    return head + body


def marker(base_offset: int, producer_id: int, kind: int) -> bytes:
    """The control batch that ends a transaction: 0 aborts it, 1 commits it."""
    records = [record(0, struct.pack(">hi", 0, 0), struct.pack(">hh", 0, kind))]
    attributes = CONTROL | TRANSACTIONAL
    return batch(records, base_offset, attributes=attributes, producer=(producer_id, 0, -1))


def message(
    offset: int,
    value: bytes | None,
    key: bytes | None = None,
    *,
    magic: int = 1,
    attributes: int = 0,
    timestamp_ms: int = 1000,
) -> bytes:
    """A message of magic 0 or 1."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp_ms) if magic else b"")
    for data in (key, value):
        body += struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def repaired(data: bytes) -> bytes:
    """The same with the right checksum in every batch and message that sizes still lead to."""
    buf, pos = bytearray(data), 0
    while pos + 21 <= len(buf):
        (size,) = struct.unpack_from(">i", buf, pos + 8)
        stop = pos + 12 + size
        if size < 14 or stop > len(buf):
            break
        if buf[pos + 16] == 2:
            struct.pack_into(">I", buf, pos + 17, crc32c.crc32c(bytes(buf[pos + 21 : stop])))
        else:
            struct.pack_into(">I", buf, pos + 12, zlib.crc32(buf[pos + 16 : stop]))
        pos = stop
    return bytes(buf)
