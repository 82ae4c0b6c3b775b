"""How a process keeps the memory that it takes and frees again for each batch."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from functools import cache
from typing import Final

#: Parameters of glibc's mallopt(3), and what its own rule raises both to in a process that has once freed
#: memory of 32 MiB.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_MMAP_BYTES: Final = 32 << 20
_TRIM_BYTES: Final = 2 * _MMAP_BYTES
#: With one of these set it is the user who says how glibc gives memory back.
_USERS_OWN: Final = ("GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")


@cache
def keep_memory() -> None:
    """Have glibc keep what this process frees, up to 64 MiB, for what it takes next; once.

    A task takes and frees some MiB for each batch: what is decompressed, what is sent. By the rule that glibc
    begins with that memory goes back to the system each time or stays, as it happens to lie, and fresh pages
    take a third of the time in which a batch is decompressed.
    """
    if not any(os.environ.get(name) for name in _USERS_OWN):
        with suppress(AttributeError):  # another C library, which has no such function
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
            mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)
