"""Spans of a buffer: copied together into an Arrow array, checked as UTF-8, and the kernels that do it.

A span column is the arrays ``starts`` and ``sizes`` over its data. A null has the size -1; if all rows are
null, the arrays may be empty. The rules of the kernels are those of ``compiler.Kernel``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ..protocol.primitives import Buffers
from .arrays import Int32s, Uint8s, room
from .columns import binary_array
from .compiler import BYTES, PLACE, inlined, kernel
from .native import copy

Spans = tuple[Int32s, Int32s]


@dataclass(frozen=True, slots=True)
class DecodeBuffers:
    """Memory that calls of ``decode_batches`` reuse: for values, and for decompressed bytes."""

    values: Buffers = field(default_factory=Buffers)
    stage: Buffers = field(default_factory=Buffers)


@inlined
def size_at(sizes: Any, row: int) -> int:
    """The size of a span, -1 if the column has no span in that row."""
    return sizes[row] if len(sizes) else -1


@kernel(f"void({BYTES}, int32[::1], int32[::1], uint8[::1], int32[::1])")
def gather_spans(buf: Any, starts: Any, sizes: Any, data: Any, offsets: Any) -> None:
    """Copy the spans of ``buf`` one after the other into ``data``; fill their ``offsets``.

    A negative size copies nothing. The caller has checked that spans lie in ``buf`` and that their
    sum fits ``data`` and int32.
    """
    pos = 0
    offsets[0] = 0
    for row in range(len(starts)):
        size = sizes[row]
        if size > 0:
            copy(data, pos, buf, starts[row], size)
            pos += size
        offsets[row + 1] = pos


def room_for(count: int) -> Spans:
    """Empty starts and sizes of that many spans."""
    return room(count, np.int32), room(count, np.int32)


def gather_binary(
    buf: Uint8s, spans: Spans, size: int, nulls: int, buffers: Buffers | None = None
) -> pa.BinaryArray:
    """The spans as a binary array; ``nulls`` of them are null, which have the size -1.

    The sizes of the others sum up to ``size`` bytes. The caller has checked that all lie in ``buf``.
    The memory is one of ``buffers``, and is reused when nothing refers to the array.
    """
    starts, sizes = spans
    data = room(size, np.uint8) if buffers is None else np.frombuffer(buffers.take(size), np.uint8)
    offsets = room(len(sizes) + 1, np.int32)
    gather_spans(buf, starts, sizes, data, offsets)
    return binary_array(data, offsets, sizes >= 0 if nulls else None)


def head(spans: Spans, count: int) -> Spans:
    return spans[0][:count], spans[1][:count]


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
