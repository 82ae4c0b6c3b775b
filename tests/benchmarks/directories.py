"""Reads of log directories through Spark, beside reads of the same files through a broker.

All runs of a value size are interleaved: the directory, the broker, and batches that are there already. The
page cache holds the files. The brokers are faster than those of Kafka: that of modern Kafka is the process of
``log_server``, which does nothing but send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.broker.log_directory import CLEAN_SHUTDOWN_FILE

from . import logs, modern_logs
from .log_server import log_server
from .logs import LogData
from .measure import Figure, interleaved, say, throughput
from .processes import CpuMeter

VALUE_SIZES: Final = (100, 1024)
PARTITIONS: Final = 2
_CODECS_07: Final = ("none", "gzip", "snappy")
_CODECS: Final = (*_CODECS_07, "lz4", "zstd")
#: Rows of a partition: each read takes a second or more.
_PARTITION_ROWS: Final = {100: 3_000_000, 1024: 600_000}
_CEILING: Final = "ceiling"
#: Least speed of a read of 1 KiB without compression, in parts of the ceiling.
_OF_CEILING_MIN: Final = 0.8


@dataclass(frozen=True, slots=True)
class _Kind:
    """A generation of Kafka: how its logs are written, linked and served."""

    title: str
    codecs: tuple[str, ...]
    write: Callable[..., LogData]
    link: Callable[[Path, Path], None]
    served: Callable[[Path], AbstractContextManager[Mapping[str, str]]]


def directories(spark: SparkSession, rounds: int) -> Iterator[Figure]:
    """Both generations, each value size and codec."""
    for kind in _KINDS:
        for value_size in VALUE_SIZES:
            with TemporaryDirectory(prefix="kafkawire-bench-") as folder:
                yield from _of_kind(spark, rounds, kind, value_size, Path(folder))


def _of_kind(
    spark: SparkSession, rounds: int, kind: _Kind, value_size: int, folder: Path
) -> Iterator[Figure]:
    say(f"directories: {kind.title}, values of {value_size} bytes")
    served, directory = folder / "served", folder / "directory"
    served.mkdir()
    directory.mkdir()
    log: dict[str, LogData] = {}
    for codec in kind.codecs:
        for partition in range(PARTITIONS):
            log[codec] = kind.write(
                served,
                f"{codec}-{partition}",
                value_size=value_size,
                rows=_PARTITION_ROWS[value_size],
                compression=codec,
            )
    kind.link(served, directory)
    with kind.served(served) as broker:
        yield from _measured(spark, rounds, kind, value_size, log, {"path": str(directory)}, broker)


def _measured(
    spark: SparkSession,
    rounds: int,
    kind: _Kind,
    value_size: int,
    log: Mapping[str, LogData],
    directory: Mapping[str, str],
    broker: Mapping[str, str],
) -> Iterator[Figure]:
    rows = PARTITIONS * log["none"].rows
    runs = {_CEILING: _of(_ready_made(spark, value_size, log["none"], _frame(spark, directory, "none")))}
    for codec in kind.codecs:
        runs[f"directory {codec}"] = _of(_frame(spark, directory, codec))
        runs[f"broker {codec}"] = _of(_frame(spark, broker, codec))
    meter = CpuMeter()
    seconds = interleaved({name: meter.metered(name, run) for name, run in runs.items()}, rounds)
    ceiling_s = median(seconds[_CEILING])
    for codec in kind.codecs:
        ours, theirs = (f"{side} {codec}" for side in ("directory", "broker"))
        assert log[codec].rows == log["none"].rows
        cpu = {name: meter.ns_per_row(name, rows) for name in (ours, theirs, _CEILING)}
        details = {
            "kafka": kind.title,
            "value_size": value_size,
            "compression": codec,
            **throughput(seconds[ours], rows=rows, size=PARTITIONS * log[codec].value_bytes),
            "broker_seconds": round(median(seconds[theirs]), 4),
            "ceiling_seconds": round(ceiling_s, 4),
            "cpu_ns_per_row": cpu[ours],
            "broker_cpu_ns_per_row": cpu[theirs],
            "ceiling_cpu_ns_per_row": cpu[_CEILING],
        }
        asked = _OF_CEILING_MIN if (value_size, codec) == (VALUE_SIZES[-1], "none") else None
        ratio = median(seconds[theirs]) / median(seconds[ours])
        yield Figure("directory over broker", "ratio", ratio, 1.0, details=details)
        cpu_ratio = sum(cpu[theirs].values()) / sum(cpu[ours].values())
        yield Figure("directory over broker, CPU", "ratio", cpu_ratio, 1.0, details=details)
        yield Figure(
            "directory over ceiling", "ratio", ceiling_s / median(seconds[ours]), asked, details=details
        )


def _frame(spark: SparkSession, source: Mapping[str, str], topic: str) -> Callable[[], DataFrame]:
    options = {**source, "subscribe": topic}
    return lambda: spark.read.format("kafkawire").options(**options).load()


def _ready_made(
    spark: SparkSession, value_size: int, log: LogData, like: Callable[[], DataFrame]
) -> Callable[[], DataFrame]:
    """As many rows of the same columns, in batches of as many bytes, that are there already."""
    options = {
        "valueSize": value_size,
        "batchRows": modern_logs.BATCH_BYTES_MAX * 8 // value_size,
        "partitionRows": log.rows,
        "partitions": PARTITIONS,
    }
    schema = like().schema
    return lambda: spark.read.format("prebuilt").schema(schema).options(**options).load()


def _of(frame: Callable[[], DataFrame]) -> Callable[[], None]:
    """Reads all rows and throws them away."""
    return lambda: frame().write.format("noop").mode("overwrite").save()


def _link_07(served: Path, directory: Path) -> None:
    """The same logs as of a broker that was stopped in order, whatever the running one makes of its own."""
    (directory / CLEAN_SHUTDOWN_FILE).touch()
    for log in served.iterdir():
        if log.is_dir():
            (directory / log.name).symlink_to(log)


def _link_modern(served: Path, directory: Path) -> None:
    """The same logs under the names of Kafka, with their offset indexes."""
    for log in served.iterdir():
        folder = directory / log.name
        folder.mkdir()
        (folder / f"{0:020}.log").symlink_to(log / modern_logs.DATA)
        starts = np.load(log / modern_logs.INDEX)
        # An entry has the last offset of a batch, and its position. The first batch has none.
        entries = np.stack((starts[2:, 0] - 1, starts[1:-1, 1]), axis=1)
        (folder / f"{0:020}.index").write_bytes(entries.astype(">i4").tobytes())


@contextmanager
def _served_07(folder: Path) -> Iterator[Mapping[str, str]]:
    with EmbeddedCluster(
        brokers=1, partitions=PARTITIONS, zookeeper=False, log_dirs=[str(folder)]
    ) as cluster:
        yield {"broker.list": cluster.broker_list}


@contextmanager
def _served_modern(folder: Path) -> Iterator[Mapping[str, str]]:
    with log_server(folder) as servers:
        yield {"kafka.bootstrap.servers": servers}


_KINDS: Final = (
    _Kind("0.7", _CODECS_07, logs.write_log, _link_07, _served_07),
    _Kind("modern", _CODECS, modern_logs.write_log, _link_modern, _served_modern),
)
