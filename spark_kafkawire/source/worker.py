"""What a process of Spark's, of tasks or of planning, does for what it is asked next."""

from __future__ import annotations

import gc
from functools import cache

from pyspark import TaskContext


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


def batch_of_task() -> str:
    """Which batch of a streaming query the task is of, as errors name it."""
    context = TaskContext.get()
    number = context.getLocalProperty("streaming.sql.batchId") if context else None
    return "the batch" if number is None else f"batch {number}"
