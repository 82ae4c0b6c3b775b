"""Progress of Spark's work for a job, from the driver's view of its stages and queries.

    with progress.work("writing", messages_total=15917) as work, watching(spark, work):
        frame.write...

Executors report finished tasks at once, and running ones with each heartbeat
(``spark.executor.heartbeatInterval``, 10 s). Rows of running tasks come from the metrics of a query's plan:
those of its stages lose their names in a heartbeat where driver and executor are one process (``local[*]``).
Bytes are those of stages. The driver counts all in a thread of its own, which may lag behind the end of a
Spark job.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from ..progress import LOOK_INTERVAL_S, Work, repeating

#: Nodes of a plan that take rows from sources begin so, and the metric in which they count them.
_SCANS: Final = ("Scan ", "BatchScan ", "MicroBatchScan")
_SCANNED: Final = "number of output rows"
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
            # Spark's Python does not pass this one on.
            job_ids = context._jsc.sc().statusTracker().getJobIdsForTag(tag)
            totals = stage_totals(spark, job_ids)
            work.set_to(totals.messages, totals.size, totals.tasks_done, totals.tasks)

    try:
        with repeating(look, LOOK_INTERVAL_S):
            yield
            with contextlib.suppress(Py4JError):
                context._jsc.sc().listenerBus().waitUntilEmpty(_COUNTED_WITHIN_MS)
    finally:
        context.removeJobTag(tag)


@contextlib.contextmanager
def watching_batches(
    spark: SparkSession, work: Work, run_id: str, done: Callable[[], tuple[int, int]]
) -> Iterator[None]:
    """Report to ``work`` the rows of a run of a streaming query. ``done`` returns the number of its last
    finished batch and the rows up to that one, to which the rows of the running batch are added."""
    context = spark.sparkContext
    tracker = context.statusTracker()

    def look() -> None:
        batch, messages = done()
        with contextlib.suppress(Py4JError):
            # A run is the job group of its batches. pyspark 4.3 fails to report a query that has job tags.
            running = _running(context, tracker.getJobIdsForGroup(run_id))
            unreported = [job_id for job_id in running if _batch_of(context, job_id) > batch]
            messages += sum(_scanned(spark, query) for query in _queries_of(context, unreported))
        work.set_to(messages, 0, 0, 0)

    with repeating(look, LOOK_INTERVAL_S):
        yield


def stage_totals(spark: SparkSession, job_ids: Iterable[int]) -> StageTotals:
    """Totals of the stages of these jobs."""
    context = spark.sparkContext
    tracker = context.statusTracker()
    job_ids = [*job_ids]
    stage_ids: set[int] = set()
    for job_id in job_ids:
        job = tracker.getJobInfo(job_id)
        stage_ids.update(job.stageIds if job else ())
    # Private to Spark's Scala packages, and all that knows records and bytes while a stage runs.
    store: Any = context._jsc.sc().statusStore()
    stages = {each: stage for each in stage_ids if (stage := store.lastStageAttempt(each)).numTasks()}
    started = {each: stage for each, stage in stages.items() if stage.status().toString() != "SKIPPED"}
    records = {each: stage.inputRecords() for each, stage in started.items()}
    return StageTotals(
        messages=sum(records.values()) + _unreported(spark, job_ids, records),
        size=sum(max(stage.inputBytes(), stage.outputBytes()) for stage in started.values()),
        tasks_done=sum(stage.numCompleteTasks() for stage in started.values()),
        tasks=sum(stage.numTasks() for stage in started.values()),
    )


def _unreported(spark: SparkSession, job_ids: Iterable[int], records: Mapping[int, int]) -> int:
    """Rows that running queries have taken from sources, and that are not in the ``records`` of stages."""
    count = 0
    with contextlib.suppress(Py4JError):
        context = spark.sparkContext
        for query in _queries_of(context, _running(context, job_ids)):
            stages = _queries(spark).execution(query).get().stages()
            reported = sum(records.get(stage, 0) for stage in _each(spark, stages))
            count += max(_scanned(spark, query) - reported, 0)
    return count


def _running(context: SparkContext, job_ids: Iterable[int]) -> set[int]:
    return {*context.statusTracker().getActiveJobsIds()}.intersection(job_ids)


def _queries_of(context: SparkContext, job_ids: Iterable[int]) -> set[int]:
    """SQL queries that these jobs are part of."""
    store: Any = context._jsc.sc().statusStore()
    of_jobs = [store.jobWithAssociatedSql(job_id)._2() for job_id in job_ids]
    return {query.get() for query in of_jobs if query.isDefined()}


def _scanned(spark: SparkSession, query: int) -> int:
    """Rows that a query has taken from sources so far."""
    values = _queries(spark).executionMetrics(query)
    found = [
        values.get(metric.accumulatorId())
        for node in _each(spark, _queries(spark).planGraph(query).allNodes())
        if node.name().startswith(_SCANS)
        for metric in _each(spark, node.metrics())
        if metric.name() == _SCANNED
    ]
    return sum(int(re.sub(r"\D", "", value.get()) or 0) for value in found if value.isDefined())


def _queries(spark: SparkSession) -> Any:
    return spark._jsparkSession.sharedState().statusStore()


def _each(spark: SparkSession, values: Any) -> Iterable[Any]:
    """The elements of a collection of Scala's."""
    jvm: Any = spark.sparkContext._jvm
    elements: Iterable[Any] = jvm.scala.jdk.javaapi.CollectionConverters.asJava(values)
    return elements


def _batch_of(context: SparkContext, job_id: int) -> int:
    """The number of the batch that a job of a streaming query is of, by its description; -1 if unknown."""
    store: Any = context._jsc.sc().statusStore()
    description = store.job(job_id).description()
    match = re.search(r"batch = (\d+)", description.get()) if description.isDefined() else None
    return int(match[1]) if match else -1
