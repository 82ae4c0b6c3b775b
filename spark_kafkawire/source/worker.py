"""What a process of Spark's, of tasks or of planning, does for what it is asked next."""

from __future__ import annotations

import ctypes
import gc
import os
from contextlib import suppress
from functools import cache
from typing import Final

from pyspark import TaskContext

#: Parameters of glibc's mallopt(3), and what its own rule raises both to in a process that has once freed
#: memory of 32 MiB.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_MMAP_BYTES: Final = 32 << 20
_TRIM_BYTES: Final = 2 * _MMAP_BYTES
#: With one of these set it is the user who says how glibc gives memory back.
_USERS_OWN: Final = ("GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")


@cache
def begin() -> None:
    """Take what Spark has imported out of garbage collection, once, before anything of ours is imported.

    What imports make stays, and each few thousand objects have the collector look at all there are: a sixth
    of the time that a process imports, while a first query waits for it.
    """
    gc.freeze()


@cache
def freeze_heap(_kernels_loaded: bool) -> None:
    """Take what the process holds now out of garbage collection; once, and once with the kernels.

    After every task, and every question to a planning process, Spark collects garbage among all objects
    of the process, modules and all: 20 to 40 ms for a task that may take less. What is frozen is not
    looked at.
    """
    gc.freeze()


@cache
def keep_memory() -> None:
    """Have glibc keep what a task frees, up to 64 MiB, for what it takes next; once.

    A task takes and frees some MiB for each batch: what is decompressed, what is sent. By the rule that glibc
    begins with that memory goes back to the system each time or stays, as it happens to lie, and fresh pages
    take a third of the time in which a batch is decompressed.
    """
    if not any(os.environ.get(name) for name in _USERS_OWN):
        with suppress(AttributeError):  # another C library, which has no such function
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
            mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)


def batch_of_task() -> str:
    """Which batch of a streaming query the task is of, as errors name it."""
    context = TaskContext.get()
    number = context.getLocalProperty("streaming.sql.batchId") if context else None
    return "the batch" if number is None else f"batch {number}"
