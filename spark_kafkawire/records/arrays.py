"""Bytes as arrays, and room for arrays."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..protocol.primitives import Buffer

Uint8s = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

#: Arrays below this size, bytes, are numpy's own: their memory is usually the process's already, which takes
#: a third of the time, 0.2 µs.
_POOL_BYTES_MIN: Final = 32 << 10


def byte_array(buf: Buffer) -> Uint8s:
    """The buffer's bytes as a read-only array, which owns no memory."""
    array = np.frombuffer(buf, np.uint8)
    # Kernels are compiled for read-only input, whatever the buffer is.
    array.flags.writeable = False
    return array


def join_arrays(parts: list[Buffer]) -> Uint8s:
    """All parts joined, without a copy if there is only one. The parts are removed from the list."""
    content = parts[0] if len(parts) == 1 else b"".join(parts)
    parts.clear()
    return byte_array(content)


def room(count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array to be filled, in memory of Arrow's pool where it is large.

    The pool gives the same pages again, where numpy's memory may come as fresh pages every time:
    filling those takes longer than all else that is done with a batch.
    """
    size = count * np.dtype(dtype).itemsize
    if size < _POOL_BYTES_MIN:
        return np.empty(count, dtype)
    return np.frombuffer(pa.allocate_buffer(size), dtype)
