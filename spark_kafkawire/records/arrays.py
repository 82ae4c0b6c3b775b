"""Bytes as arrays, room for arrays, and the setting of glibc that keeps the memory of batches."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from functools import cache
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


#: Parameters of glibc's mallopt(3), and the value to which glibc's own rule raises both after a process has
#: freed a block of 32 MiB.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_MMAP_BYTES: Final = 32 << 20
_TRIM_BYTES: Final = 2 * _MMAP_BYTES
#: Environment variables with which the user decides how glibc returns memory.
_USERS_OWN: Final = ("GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")


@cache
def keep_memory() -> None:
    """Let glibc keep the memory that this process frees, up to 64 MiB, for later use; done once.

    A task takes and frees some MiB for each batch that it decompresses or sends. By default glibc may return
    them to the system each time, depending on their place, and new pages take a third of the time of
    decompressing a batch.
    """
    if not any(os.environ.get(name) for name in _USERS_OWN):
        with suppress(AttributeError):  # another C library, which has no such function
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
            mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)
