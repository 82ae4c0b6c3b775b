"""Reads through Spark, against a source that hands over batches it has already."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.clients.reading.fetcher import Fetcher
from spark_kafkawire.clients.reading.task import FetchTask
from spark_kafkawire.cluster.v07.cluster import V07Cluster
from spark_kafkawire.model import Broker, Leader, OffsetRange, TopicPartition
from spark_kafkawire.options import Discovery, FetchOptions
from tests.support.settings import net_07

from .against import Moving, against_ceiling
from .logs import LogData, write_log
from .measure import Figure, interleaved, say, throughput
from .processes import forget_peaks, held_mib, peaks_mib
from .values import VALUE_SIZES

COMPRESSIONS: Final = ("none", "snappy", "gzip")
PARTITIONS: Final = 2
#: Rows of a partition: each read takes two seconds or more.
_PARTITION_ROWS: Final = {10: 6_000_000, 100: 5_000_000, 1024: 1_000_000}
_TARGETS: Final = {
    (10, "none"): 0.90,
    (100, "none"): 0.80,
    (1024, "none"): 0.60,
    (100, "snappy"): 0.60,
    (100, "gzip"): 0.45,
}
_PEAK_MIB_MAX: Final = 250.0


def read(spark: SparkSession, rounds: int) -> Iterator[Figure]:
    """All value sizes and compressions."""
    for value_size in VALUE_SIZES:
        with TemporaryDirectory(prefix="kafkawire-bench-") as folder:
            logs = {
                compression: _write_logs(Path(folder), value_size, compression)
                for compression in COMPRESSIONS
            }
            with _cluster(folder) as cluster:
                yield from _read(spark, rounds, cluster, value_size, logs)


def _write_logs(folder: Path, value_size: int, compression: str) -> LogData:
    """A topic of equal logs; what each of them holds."""
    for partition in range(PARTITIONS):
        log = write_log(
            folder,
            f"{compression}-{partition}",
            value_size=value_size,
            rows=_PARTITION_ROWS[value_size],
            compression=compression,
        )
    return log


def _read(
    spark: SparkSession, rounds: int, cluster: EmbeddedCluster, value_size: int, logs: dict[str, LogData]
) -> Iterator[Figure]:
    say(f"read: values of {value_size} bytes")
    plain = logs["none"]
    size = PARTITIONS * plain.value_bytes
    prebuilt = reader_of_batches(spark, value_size, plain.rows, batch_rows(cluster, plain))
    runs = {
        compression: Moving(
            reader(spark, cluster, compression), PARTITIONS * log.rows, PARTITIONS * log.value_bytes
        )
        for compression, log in logs.items()
    }
    ceiling = Moving(prebuilt, PARTITIONS * plain.rows, size)
    yield from against_ceiling("read", value_size, ceiling, runs, _TARGETS, rounds)


def large_log(spark: SparkSession, rounds: int) -> Iterator[Figure]:
    """One partition of 100 MiB, 1 GiB and 2 GiB: speed, memory, bytes that are sent for nothing."""
    say("large log: 100 MiB, 1 GiB and 2 GiB in one partition")
    with TemporaryDirectory(prefix="kafkawire-bench-") as folder:
        sizes = {"tiny": 1 << 10, "small": 100 << 20, "large": 1 << 30, "huge": 2 << 30}
        logs = {
            name: write_log(Path(folder), f"{name}-0", value_size=100, rows=size // 110)
            for name, size in sizes.items()
        }
        with _cluster(folder) as cluster:
            yield _peak(spark, cluster, logs["huge"])
            runs = {name: reader(spark, cluster, name) for name in ("small", "large")}
            seconds = interleaved(runs, rounds)
            speeds = {name: logs[name].rows / median(seconds[name]) for name in runs}
            yield Figure(
                "read 1 GiB over 100 MiB",
                "ratio",
                speeds["large"] / speeds["small"],
                0.9,
                details={
                    name: throughput(seconds[name], rows=logs[name].rows, size=logs[name].value_bytes)
                    for name in runs
                },
            )
            yield _received(cluster, logs["large"])


def _peak(spark: SparkSession, cluster: EmbeddedCluster, log: LogData) -> Figure:
    reader(spark, cluster, "tiny")()
    idle = held_mib()
    forget_peaks()
    reader(spark, cluster, "huge")()
    pid, peak = max(peaks_mib().items(), key=lambda item: item[1] - idle.get(item[0], 0.0))
    return Figure(
        "worker memory above idle, reading 2 GiB",
        "mib",
        peak - idle.get(pid, 0.0),
        _PEAK_MIB_MAX,
        at_most=True,
        details={"bytes": log.size, "idle_mib": round(idle.get(pid, 0.0)), "peak_mib": round(peak)},
    )


def _received(cluster: EmbeddedCluster, log: LogData) -> Figure:
    fetcher = _fetcher(cluster, "large", log)
    for _ in fetcher.columns():
        pass
    return Figure(
        "bytes received over bytes in the log",
        "ratio",
        fetcher.bytes_received / log.size,
        1.01,
        at_most=True,
        details={"bytes": log.size},
    )


def reader(spark: SparkSession, cluster: EmbeddedCluster, topic: str) -> Callable[[], None]:
    """Reads a topic and throws it away."""

    def run() -> None:
        options = {"broker.list": cluster.broker_list, "subscribe": topic}
        frame = spark.read.format("kafkawire").options(**options).load()
        frame.write.format("noop").mode("overwrite").save()

    return run


def reader_of_batches(spark: SparkSession, value_size: int, rows: int, batch_rows: int) -> Callable[[], None]:
    """Reads as many rows of batches that are there already."""

    def run() -> None:
        options = {
            "valueSize": value_size,
            "batchRows": batch_rows,
            "partitionRows": rows,
            "partitions": PARTITIONS,
        }
        frame = spark.read.format("prebuilt").options(**options).load()
        frame.write.format("noop").mode("overwrite").save()

    return run


def batch_rows(cluster: EmbeddedCluster, log: LogData) -> int:
    """Rows in the first batch of an uncompressed log: the ceiling's batches are as large."""
    return next(_fetcher(cluster, "none", log).columns()).count


def _fetcher(cluster: EmbeddedCluster, topic: str, log: LogData) -> Fetcher:
    broker = cluster.brokers[0]
    offset_range = OffsetRange(TopicPartition(topic, 0, broker.id), 0, log.size)
    task = FetchTask(offset_range, Leader(Broker(broker.id, broker.host, broker.port)))
    reading_from = V07Cluster(Discovery(), net_07(), (task.leader.broker,))
    return Fetcher(task, reading_from, FetchOptions(), net_07())


@contextmanager
def _cluster(folder: str) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=1, partitions=PARTITIONS, zookeeper=False, log_dirs=[folder]) as cluster:
        yield cluster
