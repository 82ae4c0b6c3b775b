"""The cost of a task and of a plan that read almost nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.planner.batch import plan
from tests.support.local_spark import CORES

from .logs import write_log
from .measure import Figure, interleaved, say
from .reading import reader

_TASKS: Final = 200
_MS_PER_TASK_MAX: Final = 20.0
_PLAN_BROKERS: Final = 10
_PLAN_PARTITIONS: Final = 100
_PLAN_S_MAX: Final = 2.0


def task_cost(spark: SparkSession, rounds: int) -> Iterator[Figure]:
    """Milliseconds of a core for each of 200 partitions of ten messages."""
    say(f"task cost: {_TASKS} tiny partitions")
    with TemporaryDirectory(prefix="kafkawire-bench-") as folder:
        for partition in range(_TASKS):
            write_log(Path(folder), f"tiny-{partition}", value_size=100, rows=10)
        with EmbeddedCluster(1, partitions=_TASKS, zookeeper=False, log_dirs=[folder]) as cluster:
            seconds = interleaved({"tasks": reader(spark, cluster, "tiny")}, rounds)["tasks"]
    yield Figure(
        "task cost",
        "ms_per_task_core",
        1000 * median(seconds) * CORES / _TASKS,
        _MS_PER_TASK_MAX,
        at_most=True,
        details={"tasks": _TASKS, "seconds": round(median(seconds), 4), "rounds": rounds},
    )


def planning(rounds: int) -> Iterator[Figure]:
    """Seconds to plan 1,000 partitions on ten brokers that ZooKeeper names."""
    say(f"planning: {_PLAN_BROKERS} brokers with {_PLAN_PARTITIONS} partitions each")
    with TemporaryDirectory(prefix="kafkawire-bench-") as folder:
        log_dirs = [Path(folder) / str(broker) for broker in range(_PLAN_BROKERS)]
        for log_dir in log_dirs:
            for partition in range(_PLAN_PARTITIONS):
                write_log(log_dir, f"wide-{partition}", value_size=100, rows=10)
        with EmbeddedCluster(_PLAN_BROKERS, _PLAN_PARTITIONS, log_dirs=log_dirs) as cluster:
            options = ReadOptions.parse({"zookeeper.connect": cluster.zookeeper_connect, "subscribe": "wide"})

            def run() -> None:
                assert len(plan(options)) == _PLAN_BROKERS * _PLAN_PARTITIONS

            seconds = interleaved({"planning": run}, rounds)["planning"]
    yield Figure(
        "planning 1,000 partitions on 10 brokers",
        "seconds",
        median(seconds),
        _PLAN_S_MAX,
        at_most=True,
        details={"rounds": rounds},
    )
