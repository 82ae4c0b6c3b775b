"""Exactly once beside the idempotent write, on Apache Kafka: both kinds take turns, each to a new topic."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from functools import partial
from itertools import count
from statistics import median
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from tests.support import librdkafka

from .measure import Figure, interleaved, print_table, say
from .session import Bench
from .sources import PARTITIONS, VALUE_SIZE, check, new_topic, rows_to_write

#: The two kinds, and the option in which they differ.
IDEMPOTENT: Final = "idempotent"
EXACTLY_ONCE: Final = "exactly once"
DELIVERY: Final = {IDEMPOTENT: "at-least-once", EXACTLY_ONCE: "exactly-once"}
_NUMBERS: Final = count()
_ROWS: Final = 10
_VALUE: Final = "repeat('x', 100)"
#: What was asked for: milliseconds of a task, and of the driver for each; seconds until 1,000 have ended.
_TASK_MS_MAX: Final = 10.0
_DRIVER_MS_MAX: Final = 1.5
_THOUSAND: Final = 1_000
_THOUSAND_S_MAX: Final = 3.0
#: How many times as fast as the idempotent write it was asked to be.
_SPEED_MIN: Final = 0.95
#: How long it waits for all rows once the write is over, seconds.
_RETRY_TIMEOUT_S: Final = 60.0


def tasks(bench: Bench) -> Iterator[Figure]:
    """Both kinds in turns; then one write whose rows a reader waits for."""
    spark, servers, count = bench.spark, bench.servers, bench.size
    say(f"tasks: {count:,} tasks of {_ROWS} rows")
    frame = spark.range(0, count * _ROWS, 1, count).selectExpr(f"{_VALUE} AS value")
    written = _in_turns(bench, frame)
    pairs = list(zip(written[EXACTLY_ONCE], written[IDEMPOTENT], strict=True))
    seen_s = _seen_s(spark, servers, frame, count * _ROWS)
    rows = [
        [kind, *(f"{each:.2f}" for each in map(median, zip(*map(astuple, runs), strict=True)))]
        for kind, runs in written.items()
    ]
    print_table(["write", "ms of a task", "s of the whole write", "s after its last task"], rows)
    task_ms = median(once.task_ms - other.task_ms for once, other in pairs)
    driver_ms = median(1000 * (once.end_s - other.end_s) / count for once, other in pairs)
    end_s = median(once.end_s for once, _ in pairs)
    end_s_max = _THOUSAND_S_MAX if count == _THOUSAND else None
    yield Figure("ms of a task beyond the idempotent write's", "ms", task_ms, _TASK_MS_MAX, at_most=True)
    yield Figure("ms of the driver for each task, likewise", "ms", driver_ms, _DRIVER_MS_MAX, at_most=True)
    yield Figure(
        f"s from the last of {count:,} tasks to the write's end", "s", end_s, end_s_max, at_most=True
    )
    yield Figure("s between the first and the last row that a reader sees come", "s", seen_s)


def _seen_s(spark: SparkSession, servers: str, frame: DataFrame, rows: int) -> float:
    """For how long a reader of what is committed sees a part of a write."""
    topic = new_topic(servers)
    with _Reader(servers, topic, PARTITIONS, rows) as reader:
        _write(spark, servers, frame, EXACTLY_ONCE, topic)
        return reader.seen_s()


def throughput(bench: Bench) -> Iterator[Figure]:
    """Both kinds in turns: all of a write counts, from ``save`` to its end."""
    say(f"throughput: {bench.size:,} records of {VALUE_SIZE} bytes")
    frame = rows_to_write(bench.spark, VALUE_SIZE, bench.size)
    written = _in_turns(bench, frame)
    seconds = {kind: [each.seconds for each in runs] for kind, runs in written.items()}
    medians = {kind: median(each) for kind, each in seconds.items()}
    rows = [[kind, f"{each:.2f}", f"{bench.size / each / 1e6:.2f}"] for kind, each in medians.items()]
    print_table(["write", "s", "million rows/s"], rows)
    ratios = [other / once for once, other in zip(seconds[EXACTLY_ONCE], seconds[IDEMPOTENT], strict=True)]
    yield Figure("throughput of 100 B, to idempotent", "times_as_fast", median(ratios), _SPEED_MIN)


@dataclass(frozen=True, slots=True)
class Written:
    """Times of one write: the mean of its tasks, the whole write, and the end after the last task."""

    task_ms: float
    seconds: float
    end_s: float


def _write(spark: SparkSession, servers: str, frame: DataFrame, kind: str, topic: str) -> Written:
    """Write to a topic."""
    group = f"write-{next(_NUMBERS)}"
    options = {"kafka.bootstrap.servers": servers, "topic": topic, "delivery": DELIVERY[kind]}
    spark.sparkContext.setJobGroup(group, kind)
    began_s = time.perf_counter()
    frame.write.format("kafkawire").mode("append").options(**options).save()
    seconds, ended_s = time.perf_counter() - began_s, time.time()
    stage = _stage(spark, group)
    task_ms = stage.executorRunTime() / stage.numCompleteTasks()
    return Written(task_ms, seconds, ended_s - stage.completionTime().get().getTime() / 1000)


def _in_turns(bench: Bench, frame: DataFrame) -> dict[str, list[Written]]:
    """Both kinds, each time to a new topic; what the first of each took, which is for warming up, is left
    out."""
    written: dict[str, list[Written]] = {kind: [] for kind in DELIVERY}

    def run(kind: str) -> None:
        topic = new_topic(bench.servers)
        written[kind].append(_write(bench.spark, bench.servers, frame, kind, topic))
        librdkafka.delete_topic(bench.servers, topic)

    interleaved({kind: partial(run, kind) for kind in DELIVERY}, bench.rounds)
    return {kind: runs[1:] for kind, runs in written.items()}


def _stage(spark: SparkSession, group: str) -> Any:
    """Spark's stored attempt of the one stage of a job."""
    tracker = spark.sparkContext.statusTracker()
    [job] = tracker.getJobIdsForGroup(group)
    info = tracker.getJobInfo(job)
    assert info is not None
    [stage] = info.stageIds
    return spark.sparkContext._jsc.sc().statusStore().lastStageAttempt(stage)


class _Reader:
    """Reads a new topic while it is written, until ``rows`` have come, and notes when the first and the last
    of them came."""

    def __init__(self, servers: str, topic: str, partitions: int, rows: int) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "readers",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 20,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._rows = rows
        self._came_s: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def seen_s(self) -> float:
        """Seconds between the first row that was seen and the last one."""
        self._thread.join(_RETRY_TIMEOUT_S)
        check("a reader of a write", len(self._came_s), self._rows)
        return self._came_s[-1] - self._came_s[0]

    def __enter__(self) -> _Reader:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while len(self._came_s) < self._rows and not self._stop.is_set():
            messages = self._consumer.consume(10_000, 0.02)
            now_s = time.monotonic()
            self._came_s += [now_s for message in messages if message.error() is None]
