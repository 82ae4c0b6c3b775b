"""The cost of a task, of a plan, of packs, and of a large log in one partition."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.planner.batch import plan
from tests.support.fake_cluster import BATCH_RECORDS, TOPIC, FakeCluster
from tests.support.local_spark import CORES

from .logs import LogData, write_log
from .measure import Figure, Kind, interleaved, print_table, say, side_by_side
from .processes import (
    WORKER,
    Watch,
    cpu_seconds,
    forget_peaks,
    held_mib,
    peaks_mib,
    spent_seconds,
)
from .reading import served_07
from .session import (
    PREFIX,
    Bench,
    Side,
    Spark,
    check,
    read_into_nothing,
    standalone,
    write_topic,
)

_TASKS: Final = 200
_MS_PER_TASK_MAX: Final = 20.0
_PLAN_BROKERS: Final = 10
_PLAN_PARTITIONS: Final = 100
_PLAN_S_MAX: Final = 2.0
_PEAK_MIB_MAX: Final = 250.0
_PACK_BROKERS: Final = 10
_WARM_PARTITIONS: Final = 40
#: The largest share of the time that packs may take.
_PACK_SHARE_MAX: Final = 0.2


def task_cost(bench: Bench) -> Iterator[Figure]:
    """Milliseconds of a core for each of 200 partitions of ten messages."""
    say(f"task cost: {_TASKS} tiny partitions")
    with TemporaryDirectory(prefix=PREFIX) as folder:
        for partition in range(_TASKS):
            write_log(Path(folder), f"tiny-{partition}", value_size=100, rows=10)
        with served_07(Path(folder), _TASKS) as broker:
            side = Side("kafkawire", {**broker, "subscribe": "tiny"})
            runs = {"tasks": lambda: read_into_nothing(side.batch(bench.spark))}
            seconds = median(interleaved(runs, bench.rounds)["tasks"])
    details = {"tasks": _TASKS, "seconds": round(seconds, 4), "rounds": bench.rounds}
    ms = 1000 * seconds * CORES / _TASKS
    yield Figure("task cost", "ms_per_task_core", ms, _MS_PER_TASK_MAX, at_most=True, details=details)


def planning(bench: Bench) -> Iterator[Figure]:
    """Seconds to plan 1,000 partitions on ten brokers that ZooKeeper names."""
    say(f"planning: {_PLAN_BROKERS} brokers with {_PLAN_PARTITIONS} partitions each")
    with TemporaryDirectory(prefix=PREFIX) as folder:
        log_dirs = [Path(folder) / str(broker) for broker in range(_PLAN_BROKERS)]
        for log_dir in log_dirs:
            for partition in range(_PLAN_PARTITIONS):
                write_log(log_dir, f"wide-{partition}", value_size=100, rows=10)
        with EmbeddedCluster(_PLAN_BROKERS, _PLAN_PARTITIONS, log_dirs=log_dirs) as cluster:
            options = ReadOptions.parse({"zookeeper.connect": cluster.zookeeper_connect, "subscribe": "wide"})

            def run() -> None:
                assert len(plan(options)) == _PLAN_BROKERS * _PLAN_PARTITIONS

            seconds = median(interleaved({"planning": run}, bench.rounds)["planning"])
    name = "planning 1,000 partitions on 10 brokers"
    details = {"rounds": bench.rounds}
    yield Figure(name, "seconds", seconds, _PLAN_S_MAX, at_most=True, details=details)


def large_log(bench: Bench) -> Iterator[Figure]:
    """One partition of 100 MiB, 1 GiB and 2 GiB: speed and memory."""
    say("large log: 100 MiB, 1 GiB and 2 GiB in one partition")
    with TemporaryDirectory(prefix=PREFIX) as folder:
        sizes = {"tiny": 1 << 10, "small": 100 << 20, "large": 1 << 30, "huge": 2 << 30}
        log = {
            name: write_log(Path(folder), f"{name}-0", value_size=100, rows=size // 110)
            for name, size in sizes.items()
        }
        with served_07(Path(folder)) as broker:
            sides = {name: Side("kafkawire", {**broker, "subscribe": name}) for name in sizes}
            runs = {name: lambda side=side: _read(bench, side) for name, side in sides.items()}
            runs["tiny"]()
            idle = held_mib()
            forget_peaks()
            runs["huge"]()
            yield _peak(idle, log["huge"])
            kinds = {
                name: Kind(runs[name], log[name].rows, log[name].value_bytes) for name in ("small", "large")
            }
            took = side_by_side(kinds, bench.rounds)
            ratio = took["large"].rows_per_s / took["small"].rows_per_s
            details = {name: item.details for name, item in took.items()}
            yield Figure("read 1 GiB over 100 MiB", "ratio", ratio, 0.9, details=details)


def _read(bench: Bench, side: Side) -> None:
    read_into_nothing(side.batch(bench.spark))


def _peak(idle: dict[int, float], log: LogData) -> Figure:
    pid, peak = max(peaks_mib().items(), key=lambda item: item[1] - idle.get(item[0], 0.0))
    held = idle.get(pid, 0.0)
    details = {"bytes": log.size, "idle_mib": round(held), "peak_mib": round(peak)}
    name = "worker memory above idle, reading 2 GiB"
    return Figure(name, "mib", peak - held, _PEAK_MIB_MAX, at_most=True, details=details)


def packs(bench: Bench) -> Iterator[Figure]:
    """CPU time of a read of many small partitions, with a task for each and with packs."""
    with FakeCluster(partitions=_WARM_PARTITIONS, brokers=2) as warm:
        for packed in (False, True) * 3:
            _spent(bench, warm, packed=packed)
    say(f"packs: {bench.size:,} partitions of {BATCH_RECORDS} records")
    with FakeCluster(partitions=bench.size, brokers=_PACK_BROKERS) as cluster:
        spent = {packed: _spent(bench, cluster, packed=packed) for packed in (True, False)}
    total_s = {packed: sum(seconds.values()) for packed, seconds in spent.items()}
    rows = []
    for packed, name in ((True, "packSmallPartitions=true"), (False, "a task for each")):
        jvm_s = spent[packed].get("jvm", 0.0)
        rows.append([name, *(f"{item:.2f}" for item in (total_s[packed], jvm_s, total_s[packed] - jvm_s))])
    print_table([f"{bench.size:,} partitions of {BATCH_RECORDS} records", "CPU s", "jvm", "Python"], rows)
    share = total_s[True] / total_s[False]
    yield Figure("packs, to a task for each", "times_the_cpu", share, _PACK_SHARE_MAX, at_most=True)


def _spent(bench: Bench, cluster: FakeCluster, *, packed: bool) -> dict[str, float]:
    """CPU seconds of one read of all partitions, by role, but that of the broker."""
    options = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": TOPIC}
    side = Side("kafkawire", {**options, "packSmallPartitions": str(packed)})
    spark, before = bench.spark, cpu_seconds()
    count = side.batch(spark).selectExpr("count(value)").collect()[0][0]
    check("all partitions", count, cluster.partitions * BATCH_RECORDS)
    spent = spent_seconds(before, cpu_seconds())
    return {role: seconds for role, seconds in spent.items() if role != "broker"}


_VALUE_SIZE: Final = 1024
#: Rows of a read that starts the executor's worker.
_FEW: Final = 1_000
#: The most that the second half of a read may hold, to what the first half held.
_GROWTH_MAX: Final = 1.1
#: What the disk has left beside the topic.
_SPARE_BYTES: Final = 4 << 30


def large_topic(bench: Bench) -> Iterator[Figure]:
    """It is read once, by one executor of 1 GiB with one core.

    Nothing is asked of the JVM but that it is the same process at the end: it grows to what its heap may be.
    """
    gib, spark, servers = bench.size, bench.spark, bench.servers
    rows = (gib << 30) // _VALUE_SIZE
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < (gib << 30) + _SPARE_BYTES:
        raise OSError(f"{gib} GiB are to be written where {free >> 30} are free: ask for fewer with --size")
    say(f"large topic: {gib} GiB, {rows:,} rows of {_VALUE_SIZE} bytes")
    few = Side("kafkawire", write_topic(spark, servers, _FEW))
    large = Side("kafkawire", write_topic(spark, servers, rows, _VALUE_SIZE))
    with standalone(1) as settings, Spark(settings) as reader:
        check("the few rows", reader.count(few), _FEW)
        with Watch() as watch:
            began_s = perf_counter()
            check("the large topic", reader.count(large), rows)
            seconds = perf_counter() - began_s
        held = watch.peaks()
    halves = [
        [name, *(f"{mib:.0f}" for mib in (item.before, item.first_half, item.second_half))]
        for name, item in held.items()
    ]
    print_table(["MiB held at once", "before", "first half", "second half"], halves)
    yield Figure(f"million rows/s of {gib} GiB by one core", "rows", rows / seconds / 1e6)
    for name, item in held.items():
        asked = _GROWTH_MAX if name == WORKER else None
        yield Figure(f"{name}: most of the second half, to the first", "times", item.growth, asked, True)
