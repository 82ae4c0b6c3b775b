"""Unsigned varints: integers of variable length in the flexible versions of modern Kafka.

Source: KIP-482.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..errors import ProtocolError
from .primitives import CHECK_PEER, Buffer

#: Bytes of the longest unsigned varint: 32 bits, seven a byte.
VARINT_BYTES_MAX: Final = 5
_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))


@dataclass(frozen=True, slots=True)
class UnsignedVarint:
    """Up to 32 bits, seven per byte, the lowest first; a set high bit means that more follow.

    Source: KIP-482.
    """

    def read(self, buf: memoryview, pos: int) -> tuple[int, int]:
        if pos < len(buf) and buf[pos] < 0x80:  # most are
            return buf[pos], pos + 1
        value = 0
        for index, byte in enumerate(buf[pos : pos + VARINT_BYTES_MAX]):
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                break
        else:
            raise ProtocolError(
                f"varint at {pos} has no end within {VARINT_BYTES_MAX} bytes and the frame; {CHECK_PEER}"
            )
        if value >> 32:
            raise ProtocolError(f"varint at {pos} has more than 32 bits; {CHECK_PEER}")
        return value, pos + index + 1

    def write(self, value: int, out: list[Buffer]) -> None:
        if value < 0x80:  # most are
            out.append(_ONE_BYTE[value])
            return
        data = bytearray()
        while value >= 0x80:
            data.append(value & 0x7F | 0x80)
            value >>= 7
        data.append(value)
        out.append(data)


UNSIGNED_VARINT: Final = UnsignedVarint()


@dataclass(frozen=True, slots=True)
class CompactLength:
    """Length plus one as an unsigned varint, so that null takes one byte, too."""

    def read(self, buf: memoryview, pos: int) -> tuple[int, int]:
        value, pos = UNSIGNED_VARINT.read(buf, pos)
        return value - 1, pos

    def write(self, value: int, out: list[Buffer]) -> None:
        UNSIGNED_VARINT.write(value + 1, out)


COMPACT_LENGTH: Final = CompactLength()
