"""Progress of Spark's reads and writes, for a notebook or a terminal.

    from spark_kafkawire.progress import showing_progress

    with showing_progress(spark, "copying events"):
        frame.write.parquet("/data/events")

It prints ``kafkawire: copying events: 40%, 1,234,567 messages, 120.3 MiB, 98,765 messages/s, 0:19 left``
every ten seconds, on a terminal a bar, and a last line at the end. The numbers are Spark's own: finished
tasks, and the rows and bytes of sources and sinks. Running tasks report rows with each heartbeat
(``spark.executor.heartbeatInterval``, 10 s), and bytes, too, except where driver and executor are one process
(``local[*]``). The driver does not know the lag of a running task. For a
streaming query ``spark_kafkawire.streaming.GroupOffsets`` logs the lag. A client of Spark Connect gets only
tasks and bytes. Queries of other threads are not counted. These include streaming queries, which have their
own threads.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TextIO

from .jobs.progress import Work, progress_on
from .source.query_plans import has_plans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["showing_progress"]


@contextlib.contextmanager
def showing_progress(
    spark: SparkSession, what: str = "running", stream: TextIO | None = None
) -> Iterator[None]:
    """Show the progress of Spark's work for this thread until the block ends.

    ``what`` names the work. The progress goes to ``stream``, by default standard error. An error in showing
    the progress does not end the work.
    """
    if has_plans(spark):
        from .jobs.spark import watching as watch  # a client of Spark Connect lacks what it imports
    else:
        watch = _report_stages
    with progress_on(stream or sys.stderr, "kafkawire") as progress:
        with progress.work(what) as work, watch(spark, work):
            yield
        progress.ended(what, work)


@contextlib.contextmanager
def _report_stages(spark: Any, work: Work) -> Iterator[None]:
    """Report to ``work`` the stages that a Spark Connect server runs for this client."""

    def handler(stages: Iterable[Any] | None, **_: Any) -> None:
        known = list(stages or ())
        done, tasks = (sum(map(attrgetter(name), known)) for name in ("num_completed_tasks", "num_tasks"))
        work.set_to(None, sum(stage.num_bytes_read for stage in known), done, tasks)

    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)
