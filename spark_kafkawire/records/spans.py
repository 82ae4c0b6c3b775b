"""Spans of a buffer copied together into an Arrow array."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from . import record_kernels
from .columns import Int32s, Uint8s, binary_array

Spans = tuple[Int32s, Int32s]


def room_for(count: int) -> Spans:
    """Starts and sizes of so many spans, to be filled."""
    return np.empty(count, np.int32), np.empty(count, np.int32)


def gathered(buf: Uint8s, spans: Spans, count: int, size: int, nulls: int) -> pa.BinaryArray:
    """The first ``count`` spans as a binary array; their sizes sum up to ``size`` bytes.

    ``nulls`` of them are null, which have the size -1. The caller has checked that all lie in ``buf``.
    """
    data, offsets = np.empty(size, np.uint8), np.empty(count + 1, np.int32)
    starts, sizes = (span[:count] for span in spans)
    record_kernels.gather_spans(buf, starts, sizes, data, offsets)
    return binary_array(data, offsets, sizes >= 0 if nulls else None)
