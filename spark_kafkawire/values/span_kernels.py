"""Loops over spans of bytes that formats share; the rules are those of ``compiler.Kernel``."""

from __future__ import annotations

from typing import Any

from ..records.compiler import BYTES, PLACE, inlined, kernel
from ..records.native import copy


@inlined
def utf8_size(data: Any, pos: int, stop: int) -> int:
    """Bytes of the character at ``pos``, which is not ASCII; 0 if it is not UTF-8."""
    first = data[pos & PLACE]
    low, high, more = 0x80, 0xBF, 0
    if 0xC2 <= first <= 0xDF:
        more = 1
    elif 0xE0 <= first <= 0xEF:
        more = 2
        if first == 0xE0:
            low = 0xA0
        elif first == 0xED:
            high = 0x9F
    elif 0xF0 <= first <= 0xF4:
        more = 3
        if first == 0xF0:
            low = 0x90
        elif first == 0xF4:
            high = 0x8F
    if more == 0 or stop - pos <= more:
        return 0
    for k in range(1, more + 1):
        byte = data[(pos + k) & PLACE]
        if byte < low or byte > high:
            return 0
        low, high = 0x80, 0xBF
    return more + 1


@inlined
def is_utf8(data: Any, pos: int, stop: int) -> bool:
    """True if ``data[pos:stop]`` is UTF-8: no surrogates, no longer forms, nothing above U+10FFFF."""
    bits = 0
    for k in range(pos, stop):  # compiled, it takes many bytes at a time: most texts are ASCII
        bits |= data[k & PLACE]
    if bits < 0x80:
        return True
    while pos < stop:
        size = 1 if data[pos & PLACE] < 0x80 else utf8_size(data, pos, stop)
        if size == 0:
            return False
        pos += size
    return True


@kernel(f"void({BYTES}, {BYTES}, int64[::1], int64[::1], int64[::1], uint8[::1])")
def gather(data: Any, constants: Any, starts: Any, sizes: Any, offsets: Any, out: Any) -> None:
    """Copy spans into ``out``; a start of -1 and less is a place in ``constants``, counted from -1 down."""
    for row in range(len(starts)):
        start = starts[row]
        size = sizes[row]
        if size <= 0:
            continue
        if start < 0:
            copy(out, offsets[row], constants, -1 - start, size)
        else:
            copy(out, offsets[row], data, start, size)
