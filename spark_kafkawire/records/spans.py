"""Spans of a buffer copied together into an Arrow array."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from .columns import Int32s, Uint8s, binary_array, room
from .record_kernels import gather_spans

Spans = tuple[Int32s, Int32s]


def room_for(count: int) -> Spans:
    """Starts and sizes of so many spans, to be filled."""
    return room(count, np.int32), room(count, np.int32)


def gathered(buf: Uint8s, spans: Spans, size: int, nulls: int) -> pa.BinaryArray:
    """The spans as a binary array; ``nulls`` of them are null, which have the size -1.

    The sizes of the others sum up to ``size`` bytes. The caller has checked that all lie in ``buf``.
    """
    starts, sizes = spans
    data, offsets = room(size, np.uint8), room(len(sizes) + 1, np.int32)
    gather_spans(buf, starts, sizes, data, offsets)
    return binary_array(data, offsets, sizes >= 0 if nulls else None)


def head(spans: Spans, count: int) -> Spans:
    """The first ``count`` spans."""
    return spans[0][:count], spans[1][:count]
