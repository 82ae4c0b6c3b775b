"""Compact lengths and texts of requests and answers of the fake cluster."""

from __future__ import annotations

from typing import Final

#: No tagged fields.
NONE: Final = b"\0"


def varint(number: int) -> bytes:
    """A number in groups of seven bits."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """The number at a position, and the position after it."""
    number = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, pos
        shift += 7


def text(content: str) -> bytes:
    """A text after its length."""
    return varint(len(content) + 1) + content.encode()
