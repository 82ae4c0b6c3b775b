"""Spans of a buffer copied together into an Arrow array."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ..protocol.buffers import Buffers
from .arrays import Int32s, Uint8s, room
from .columns import binary_array
from .span_kernels import gather_spans

Spans = tuple[Int32s, Int32s]


@dataclass(frozen=True, slots=True)
class DecodeBuffers:
    """Memory that calls of ``decode_batches`` use again: for values, and for what is decompressed."""

    values: Buffers = field(default_factory=Buffers)
    stage: Buffers = field(default_factory=Buffers)


def room_for(count: int) -> Spans:
    """Starts and sizes of so many spans, to be filled."""
    return room(count, np.int32), room(count, np.int32)


def gathered(
    buf: Uint8s, spans: Spans, size: int, nulls: int, buffers: Buffers | None = None
) -> pa.BinaryArray:
    """The spans as a binary array; ``nulls`` of them are null, which have the size -1.

    The sizes of the others sum up to ``size`` bytes. The caller has checked that all lie in ``buf``.
    The memory is one of ``buffers``, used again once nobody looks at the array.
    """
    starts, sizes = spans
    data = room(size, np.uint8) if buffers is None else np.frombuffer(buffers.take(size), np.uint8)
    offsets = room(len(sizes) + 1, np.int32)
    gather_spans(buf, starts, sizes, data, offsets)
    return binary_array(data, offsets, sizes >= 0 if nulls else None)


def head(spans: Spans, count: int) -> Spans:
    """The first ``count`` spans."""
    return spans[0][:count], spans[1][:count]
