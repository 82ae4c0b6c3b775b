"""How far Spark is with a read or a write, for who waits for it in a notebook or at a terminal.

    from spark_kafkawire.progress import showing_progress

    with showing_progress(spark, "copying events"):
        frame.write.parquet("/data/events")

It prints ``kafkawire: copying events: 40%, 1,234,567 messages, 120.3 MiB, 98,765 messages/s, 0:19 left``
every ten seconds, on a terminal a bar, and a last line at the end. What it counts is Spark's own: tasks that
have ended, and the rows and bytes of sources and sinks, of running tasks with each heartbeat
(``spark.executor.heartbeatInterval``, 10 s). How far a task is behind its log's end nobody tells the driver
before the task has ended; of a streaming query ``spark_kafkawire.streaming.GroupOffsets`` logs the lag. A
client of Spark Connect hears of tasks and bytes alone. Queries that another thread runs are not counted, and
streaming queries run in threads of their own.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any, TextIO

from pyspark.sql import SparkSession

from .jobs.shell.progress import Work, progress_on
from .jobs.spark.stages import watching

__all__ = ["showing_progress"]


@contextlib.contextmanager
def showing_progress(
    spark: SparkSession, what: str = "running", stream: TextIO | None = None
) -> Iterator[None]:
    """Show, until the block ends, how far Spark is with what this thread runs in the block.

    ``what`` names it; ``stream`` is where it is shown, standard error unless another is given. Nothing that
    fails in showing it ends what is shown.
    """
    # Its class is not imported to ask for it: that takes gRPC.
    watch = _told if type(spark).__module__.startswith("pyspark.sql.connect.") else watching
    with progress_on(stream or sys.stderr, "kafkawire") as progress:
        with progress.work(what) as work, watch(spark, work):
            yield
        progress.ended(what, work)


@contextlib.contextmanager
def _told(spark: Any, work: Work) -> Iterator[None]:
    """Tell ``work`` what a server of Spark Connect says of the stages that it runs for this client."""

    def handler(stages: Iterable[Any] | None, **_: Any) -> None:
        known = list(stages or ())
        done, tasks = (sum(map(attrgetter(name), known)) for name in ("num_completed_tasks", "num_tasks"))
        work.stands_at(None, sum(stage.num_bytes_read for stage in known), done, tasks)

    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)
