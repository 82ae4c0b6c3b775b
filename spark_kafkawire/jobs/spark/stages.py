"""Progress of Spark's work for a job, from the driver's view of its stages.

    with progress.work("writing", messages_total=15917) as work, watching(spark, work):
        frame.write...

Executors report the progress of running tasks with each heartbeat (``spark.executor.heartbeatInterval``, 10
s), and that of finished tasks at once. The driver counts them in a thread of its own, which may lag behind
the end of a Spark job.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from ..shell.progress import LOOK_INTERVAL_S, Work, repeating

#: Time for the driver to count the last tasks, milliseconds. After it the totals may be too low.
_COUNTED_WITHIN_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class StageTotals:
    """Sums over the stages of some Spark jobs; ``messages`` are rows that came from sources."""

    messages: int = 0
    size: int = 0
    tasks_done: int = 0
    tasks: int = 0


@contextlib.contextmanager
def watching(spark: SparkSession, work: Work) -> Iterator[None]:
    """Report to ``work`` the progress of the Spark jobs that this thread runs in the block."""
    context = spark.sparkContext
    # Several Python processes may share a JVM, one after the other or at once, as notebooks do. A tag leaves
    # the thread's job group, which may be the user's, as it is.
    tag = f"kafkawire-{uuid.uuid4().hex}"
    context.addJobTag(tag)

    def look() -> None:
        # Missing progress must never stop the job.
        with contextlib.suppress(Py4JError):
            totals = stage_totals(context, tag)
            work.set_to(totals.messages, totals.size, totals.tasks_done, totals.tasks)

    try:
        with repeating(look, LOOK_INTERVAL_S):
            yield
            with contextlib.suppress(Py4JError):
                context._jsc.sc().listenerBus().waitUntilEmpty(_COUNTED_WITHIN_MS)
    finally:
        context.removeJobTag(tag)


def stage_totals(context: SparkContext, tag: str) -> StageTotals:
    """Totals of the stages of the jobs with this tag."""
    tracker = context.statusTracker()
    # Spark's Python does not pass this one on.
    job_ids = context._jsc.sc().statusTracker().getJobIdsForTag(tag)
    stage_ids: set[int] = set()
    for job_id in job_ids:
        job = tracker.getJobInfo(job_id)
        stage_ids.update(job.stageIds if job else ())
    # Private to Spark's Scala packages, and all that knows records and bytes while a stage runs.
    store: Any = context._jsc.sc().statusStore()
    stages = [stage for each in stage_ids if (stage := store.lastStageAttempt(each)).numTasks()]
    started = [stage for stage in stages if stage.status().toString() != "SKIPPED"]
    return StageTotals(
        messages=sum(stage.inputRecords() for stage in started),
        size=sum(max(stage.inputBytes(), stage.outputBytes()) for stage in started),
        tasks_done=sum(stage.numCompleteTasks() for stage in started),
        tasks=sum(stage.numTasks() for stage in started),
    )
