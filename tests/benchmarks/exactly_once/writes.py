"""Writes of both kinds, and Spark's figures of their tasks."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from tests.support import librdkafka

from ..kafka import new_topic
from ..measure import interleaved

#: The two kinds, and the option in which they differ.
IDEMPOTENT: Final = "idempotent"
EXACTLY_ONCE: Final = "exactly once"
DELIVERY: Final = {IDEMPOTENT: "at-least-once", EXACTLY_ONCE: "exactly-once"}
_NUMBERS: Final = count()


@dataclass(frozen=True, slots=True)
class Written:
    """Times of one write: the whole write, the mean of its tasks, and the end after the last task."""

    seconds: float
    task_ms: float
    end_s: float


def write(spark: SparkSession, servers: str, frame: DataFrame, kind: str, topic: str) -> Written:
    """Write to a topic."""
    group = f"write-{next(_NUMBERS)}"
    options = {"kafka.bootstrap.servers": servers, "topic": topic, "delivery": DELIVERY[kind]}
    spark.sparkContext.setJobGroup(group, kind)
    began_s = time.perf_counter()
    frame.write.format("kafkawire").mode("append").options(**options).save()
    seconds, ended_s = time.perf_counter() - began_s, time.time()
    stage = _stage(spark, group)
    task_ms = stage.executorRunTime() / stage.numCompleteTasks()
    return Written(seconds, task_ms, ended_s - stage.completionTime().get().getTime() / 1000)


def in_turns(spark: SparkSession, servers: str, frame: DataFrame, rounds: int) -> dict[str, list[Written]]:
    """Both kinds, each time to a new topic; what the first of each took, which is for warming up, is left
    out."""
    written: dict[str, list[Written]] = {kind: [] for kind in DELIVERY}

    def run(kind: str) -> None:
        topic = new_topic(servers)
        written[kind].append(write(spark, servers, frame, kind, topic))
        librdkafka.delete_topic(servers, topic)

    interleaved({kind: partial(run, kind) for kind in DELIVERY}, rounds)
    return {kind: runs[1:] for kind, runs in written.items()}


def _stage(spark: SparkSession, group: str) -> Any:
    """Spark's stored attempt of the one stage of a job."""
    tracker = spark.sparkContext.statusTracker()
    [job] = tracker.getJobIdsForGroup(group)
    info = tracker.getJobInfo(job)
    assert info is not None
    [stage] = info.stageIds
    return spark.sparkContext._jsc.sc().statusStore().lastStageAttempt(stage)
