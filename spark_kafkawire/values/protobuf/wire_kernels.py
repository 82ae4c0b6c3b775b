"""Values of Protobuf's wire format that are not delimited; the rules are those of ``compiler.Kernel``."""

from __future__ import annotations

from typing import Any, Final

from spark_kafkawire.records.compiler import PLACE, inlined

from ..faults import Fault
from .layout import BOOLEAN, CLOSED_ENUM, INT32, SINT32, SINT64
from .types import FIXED32, VARINT

_TRUNCATED: Final = int(Fault.TRUNCATED)
_BAD_VARINT: Final = int(Fault.BAD_VARINT)
_LOW_32: Final = 2**32 - 1
_HIGH_OF_32: Final = 2**31
_NO_SIGN: Final = 2**63 - 1
_SIGN: Final = -(2**63)


@inlined
def varint(data: Any, pos: int, stop: int) -> tuple[int, int, int]:
    """An integer of 64 bits, the position after it, and a fault."""
    if pos >= stop:
        return 0, pos, _TRUNCATED
    byte = int(data[pos & PLACE])
    pos += 1
    value = byte & 0x7F
    shift = 7
    while byte >= 0x80:
        if pos >= stop:
            return 0, pos, _TRUNCATED
        byte = int(data[pos & PLACE])
        pos += 1
        if shift == 63:
            if byte >= 0x80:
                return 0, pos, _BAD_VARINT
            if byte & 1:  # other bits are left out, as in the official runtimes
                value += _SIGN
        else:
            value |= (byte & 0x7F) << shift
        shift += 7
    return value, pos, 0


@inlined
def scalar(data: Any, pos: int, stop: int, wire: int, op: int) -> tuple[int, int, int]:
    """A value that is not delimited, the position after it, and a fault."""
    value = 0
    if wire == VARINT:
        value, pos, fault = varint(data, pos, stop)
        if fault:
            return 0, pos, fault
        if op in (INT32, SINT32, CLOSED_ENUM):
            value &= _LOW_32
            if op == SINT32:
                value = (value >> 1) ^ -(value & 1)
            elif value >= _HIGH_OF_32:
                value -= _LOW_32 + 1
        elif op == SINT64:
            value = ((value >> 1) & _NO_SIGN) ^ -(value & 1)
        elif op == BOOLEAN:
            value = 1 if value != 0 else 0
        return value, pos, 0
    size = 4 if wire == FIXED32 else 8
    if size > stop - pos:
        return 0, pos, _TRUNCATED
    for k in range(4):
        value |= int(data[(pos + k) & PLACE]) << (8 * k)
    if size == 8:
        for k in range(4, 7):
            value |= int(data[(pos + k) & PLACE]) << (8 * k)
        top = int(data[(pos + 7) & PLACE])
        value |= (top - 256 if top > 127 else top) << 56
    return value, pos + size, 0
