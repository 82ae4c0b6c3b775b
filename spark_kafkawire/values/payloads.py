"""Messages of a binary column as places in one buffer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..records.arrays import Int64s, Uint8s, byte_array


@dataclass(frozen=True, slots=True)
class Payloads:
    """Places of messages in one buffer.

    ``data`` is the buffer, read-only and not copied. ``starts`` and ``stops`` are half-open ranges in it, one
    for each row; both are -1 for a null, which is a tombstone.
    """

    data: Uint8s
    starts: Int64s
    stops: Int64s

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def is_null(self) -> npt.NDArray[np.bool_]:
        """True for each row that has no message."""
        is_null: npt.NDArray[np.bool_] = self.starts < 0
        return is_null

    def taken(self, rows: Int64s) -> Payloads:
        """The messages of these rows, in this order, in the same buffer."""
        return Payloads(self.data, self.starts[rows], self.stops[rows])


def payloads_of(column: pa.BinaryArray | pa.LargeBinaryArray) -> Payloads:
    """The messages of a binary column, without a copy of their bytes. Slices and nulls are allowed."""
    _, offsets, data = column.buffers()
    dtype = np.int64 if pa.types.is_large_binary(column.type) else np.int32
    count = len(column)
    if offsets is None or not count:  # Arrow leaves out the buffers of an array without rows
        bounds = np.zeros(count + 1, np.int64)
    else:
        first = column.offset * np.dtype(dtype).itemsize
        bounds = np.frombuffer(offsets, dtype, count + 1, first).astype(np.int64)
    starts, stops = bounds[:-1], bounds[1:]
    if column.null_count:
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        starts, stops = np.where(is_null, -1, starts), np.where(is_null, -1, stops)
    return Payloads(byte_array(data if data is not None else b""), starts, stops)
