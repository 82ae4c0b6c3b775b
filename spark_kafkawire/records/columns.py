"""Rows of a log as columns over buffers: no Python object per message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Columns:
    """Messages in log order, one row each. All columns own their memory.

    ``offset`` (int64) is the log offset of the outermost message, ``index`` (int32) the place
    inside a compressed one, ``next_offset`` (int64) the offset after the outermost message.
    ``values`` is None where they were not asked for.
    """

    offset: Int64s
    index: Int32s
    next_offset: Int64s
    values: pa.BinaryArray | None

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.offset)


def check_spans(offsets: npt.NDArray[Any], size: int) -> None:
    """Refuse value offsets that run backwards or leave a buffer of ``size`` bytes."""
    if offsets[0] < 0 or offsets[-1] > size or (offsets[1:] < offsets[:-1]).any():
        raise AssertionError(f"value offsets leave their buffer of {size} bytes")


def binary_array(data: npt.NDArray[np.uint8], offsets: Int32s) -> pa.BinaryArray:
    """An Arrow array over ``data`` without a copy; row ``i`` is ``[offsets[i], offsets[i + 1])``.

    Arrow trusts what it is given, so the spans are checked here.
    """
    check_spans(offsets, len(data))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)
