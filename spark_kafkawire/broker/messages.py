"""What a 0.7.2 broker checks about message bytes: when they are produced, and when it recovers."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from ..errors import CorruptDataError
from ..protocol.primitives import Buffer


@dataclass(frozen=True, slots=True)
class CheckedSet:
    """``size`` bytes of whole messages at the start of a set, holding ``count`` messages."""

    size: int
    count: int


class OversizeMessage(Exception):
    """A message above ``max.message.size``: its set is dropped in silence."""


def check_produced(message_set: Buffer, message_size_max: int) -> CheckedSet:
    """Check a produced set."""
    view = memoryview(message_set)
    pos = count = 0
    while len(view) - pos >= 4:
        size, magic = struct.unpack_from(">iB", view, pos) if len(view) - pos >= 5 else (-1, 0)
        header = 5 + magic
        if size < header or magic > 1 or size > len(view) - pos - 4:
            if pos and size >= 0:
                break
            raise CorruptDataError(f"impossible message size {size} at {pos}")
        crc = int.from_bytes(view[pos + 4 + header - 4 : pos + 4 + header], "big")
        payload = view[pos + 4 + header : pos + 4 + size]
        if zlib.crc32(payload) != crc:
            raise CorruptDataError(f"CRC mismatch at {pos}")
        if len(payload) > message_size_max:
            raise OversizeMessage
        pos += 4 + size
        count += 1
    return CheckedSet(pos, count)


def valid_size(data: Buffer) -> int:
    """How many bytes at the start of a segment are whole messages with a right CRC."""
    view = memoryview(data)
    pos = 0
    while len(view) - pos >= 5:
        size, magic = struct.unpack_from(">iB", view, pos)
        header = 5 + magic
        if size < header or magic > 1 or size > len(view) - pos - 4:
            break
        crc = int.from_bytes(view[pos + header : pos + 4 + header], "big")
        if zlib.crc32(view[pos + 4 + header : pos + 4 + size]) != crc:
            break
        pos += 4 + size
    return pos
