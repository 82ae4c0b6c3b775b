"""Writes through Spark to Kafka 0.7 and to modern Kafka, against a writer that only counts what it gets."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pyspark.sql import DataFrame

from spark_kafkawire.broker import EmbeddedCluster

from .log_server import SINK, log_server
from .measure import Figure, Kind, Run, say
from .reading import Targets, against_ceiling
from .session import PREFIX, Bench
from .sources import PARTITIONS, rows_to_write
from .values import VALUE_SIZES

COMPRESSIONS: Final = ("none", "snappy", "gzip")
MODERN_VALUE_SIZES: Final = (100, 1024)
MODERN_COMPRESSIONS: Final = ("none", "lz4", "zstd")
#: Rows of a write, which takes two seconds or more.
_ROWS: Final = {10: 12_000_000, 100: 6_000_000, 1024: 1_500_000}
_TARGETS: Final[Targets] = {
    (10, "none"): 0.5,
    (100, "none"): 0.5,
    (1024, "none"): 0.5,
    (100, "snappy"): 0.4,
}
_MODERN_TARGETS: Final[Targets] = {(100, "none"): 0.4}


def write(bench: Bench) -> Iterator[Figure]:
    """All value sizes and compressions, with ``acks=1``. Each write is to a new topic."""
    with (
        TemporaryDirectory(prefix=PREFIX) as folder,
        EmbeddedCluster(brokers=1, partitions=PARTITIONS, zookeeper=False, log_dirs=[folder]) as cluster,
    ):
        topics = (str(number) for number in count())

        def writer(frame: DataFrame, compression: str) -> Run:
            def run() -> None:
                topic = next(topics)
                options = {"broker.list": cluster.broker_list, "topic": topic, "acks": "1"}
                _save(frame, "kafkawire", {**options, "compression": compression})
                # So that the disk does not fill.
                for log in Path(cluster.brokers[0].log_dir).glob(f"{topic}-*"):
                    shutil.rmtree(log)

            return run

        for value_size in VALUE_SIZES:
            yield from _write(bench, "write", value_size, COMPRESSIONS, writer, _TARGETS)


def write_modern(bench: Bench) -> Iterator[Figure]:
    """Writes with the defaults (``acks=all``, idempotent), to a broker that keeps nothing."""
    with TemporaryDirectory(prefix=PREFIX) as folder, log_server(Path(folder)) as servers:
        sink = {"kafka.bootstrap.servers": servers, "topic": SINK}

        def writer(frame: DataFrame, compression: str) -> Run:
            return lambda: _save(frame, "kafkawire", {**sink, "kafka.compression.type": compression})

        for value_size in MODERN_VALUE_SIZES:
            yield from _write(bench, "write modern", value_size, MODERN_COMPRESSIONS, writer, _MODERN_TARGETS)


def _write(
    bench: Bench,
    name: str,
    value_size: int,
    compressions: tuple[str, ...],
    writer: Callable[[DataFrame, str], Run],
    targets: Targets,
) -> Iterator[Figure]:
    say(f"{name}: values of {value_size} bytes")
    rows = _ROWS[value_size]
    frame, size = rows_to_write(bench.spark, value_size, rows), rows * value_size
    ceiling = Kind(lambda: _save(frame, "counting", {}), rows, size)
    runs = {each: Kind(writer(frame, each), rows, size) for each in compressions}
    yield from against_ceiling(bench, name, value_size, ceiling, runs, targets)


def _save(frame: DataFrame, format: str, options: Mapping[str, str]) -> None:
    frame.write.format(format).mode("append").options(**options).save()
