"""Zigzag varints, as parts of kernels; the rules are those of ``compiler.Kernel``."""

from __future__ import annotations

from typing import Any, Final

from ..compiler import PLACE, inlined

#: A position beyond every buffer: where a damaged varint leads.
_NOWHERE: Final = 2**62
_INT64_MAX: Final = 2**63 - 1


@inlined
def varint(buf: Any, pos: int, stop: int) -> tuple[int, int]:
    """The zigzag number of up to 32 bits at ``pos``, and the position after it.

    The position is beyond every buffer if the number does not end before ``stop``. The CPU predicts the
    branches well, so the code after it does not wait for the number.
    """
    if stop - pos > 1:
        pos &= PLACE
        value = buf[pos] & 255
        if value < 128:
            return value >> 1 ^ -(value & 1), pos + 1
        second = buf[pos + 1] & 255
        if second < 128:
            value = value & 127 | second << 7
            return value >> 1 ^ -(value & 1), pos + 2
    return long_varint(buf, pos, stop, 32)


@inlined
def varlong(buf: Any, pos: int, stop: int) -> tuple[int, int]:
    """Read a number as ``varint`` does, with up to 64 bits."""
    if pos < stop:
        pos &= PLACE
        value = buf[pos] & 255
        if value < 128:
            return value >> 1 ^ -(value & 1), pos + 1
    return long_varint(buf, pos, stop, 64)


@inlined
def long_varint(buf: Any, pos: int, stop: int, bits: int) -> tuple[int, int]:
    """The zigzag number of up to 32 or 64 ``bits`` at ``pos``, and the position after it."""
    value = 0
    shift = 0
    while pos < stop and shift < bits:
        pos &= PLACE
        byte = buf[pos] & 255
        pos += 1
        if shift + 7 > bits and byte >> (bits - shift) > 0:
            return 0, _NOWHERE
        value |= (byte & 127) << shift
        if byte < 128:
            # Compiled, the 64th bit is the sign.
            return value >> 1 & _INT64_MAX ^ -(value & 1), pos
        shift += 7
    return 0, _NOWHERE


@inlined
def varint_size(value: int) -> int:
    """Bytes of the zigzag varint."""
    rest = (value ^ (value >> 63)) >> 6
    size = 1
    while rest:
        rest >>= 7
        size += 1
    return size


@inlined
def write_varint(out: Any, pos: int, value: int) -> int:
    """Write the zigzag varint; the position after it."""
    rest = value ^ (value >> 63)
    byte = (rest & 63) << 1 | (value >> 63 & 1)
    rest >>= 6
    while rest:
        out[pos] = byte | 128
        pos += 1
        byte = rest & 127
        rest >>= 7
    out[pos] = byte
    return pos + 1
