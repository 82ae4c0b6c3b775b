"""Setting of glibc that keeps the memory which a process takes and frees again for each batch."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from functools import cache
from typing import Final

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
