"""The cost of each task and of the end of a write: many tasks with few rows."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from ..kafka import new_topic
from ..measure import Figure, say
from ..tables import print_table
from ..writing import PARTITIONS
from .readers import Reader
from .writes import EXACTLY_ONCE, IDEMPOTENT, Written, in_turns, write

_ROWS: Final = 10
_VALUE: Final = "repeat('x', 100)"
#: What was asked for: milliseconds of a task, and of the driver for each; seconds until 1,000 have ended.
_TASK_MS_MAX: Final = 10.0
_DRIVER_MS_MAX: Final = 1.5
_THOUSAND: Final = 1_000
_THOUSAND_S_MAX: Final = 3.0


def tasks(spark: SparkSession, servers: str, rounds: int, count: int) -> Iterator[Figure]:
    """Both kinds in turns; then one write whose rows a reader waits for."""
    say(f"tasks: {count:,} tasks of {_ROWS} rows")
    frame = spark.range(0, count * _ROWS, 1, count).selectExpr(f"{_VALUE} AS value")
    written = in_turns(spark, servers, frame, rounds)
    pairs = list(zip(written[EXACTLY_ONCE], written[IDEMPOTENT], strict=True))
    seen_s = _seen_s(spark, servers, frame, count * _ROWS)
    _print(written)
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
    with Reader(servers, topic, PARTITIONS, rows) as reader:
        write(spark, servers, frame, EXACTLY_ONCE, topic)
        return reader.seen_s()


def _print(written: dict[str, list[Written]]) -> None:
    rows = []
    for kind, runs in written.items():
        times = [median(each.seconds for each in runs), median(each.end_s for each in runs)]
        task_ms = median(each.task_ms for each in runs)
        rows.append([kind, f"{task_ms:.1f}", *(f"{each:.2f}" for each in times)])
    print_table(["write", "ms of a task", "s of the whole write", "s after its last task"], rows)
