"""Spans of a buffer: copied together into an Arrow array, and the kernels that do it.

A span column is the arrays ``starts`` and ``sizes`` over its data. A null has the size -1; if all rows are
null, the arrays may be empty. The rules of the kernels are those of ``compiler.Kernel``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ..protocol.buffers import Buffers
from .arrays import Int32s, Uint8s, room
from .columns import binary_array
from .compiler import BYTES, inlined, kernel
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
