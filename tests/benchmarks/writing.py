"""Writes through Spark, against a writer that only counts what it gets."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_kafkawire.broker import EmbeddedCluster

from .against import Moving, against_ceiling
from .measure import Figure, say
from .values import VALUE_SIZES, text

COMPRESSIONS: Final = ("none", "snappy", "gzip")
PARTITIONS: Final = 2
#: Rows of a write, which takes two seconds or more.
_ROWS: Final = {10: 12_000_000, 100: 6_000_000, 1024: 1_500_000}
_TARGETS: Final = {(10, "none"): 0.5, (100, "none"): 0.5, (1024, "none"): 0.5, (100, "snappy"): 0.4}
#: Steps from row to row through the text: prime, so that values differ.
_STEP: Final = 7919


def write(spark: SparkSession, rounds: int) -> Iterator[Figure]:
    """All value sizes and compressions, with ``acks=1``."""
    with (
        TemporaryDirectory(prefix="kafkawire-bench-") as folder,
        EmbeddedCluster(brokers=1, partitions=PARTITIONS, zookeeper=False, log_dirs=[folder]) as cluster,
    ):
        for value_size in VALUE_SIZES:
            yield from _write(spark, rounds, cluster, value_size)


def _write(spark: SparkSession, rounds: int, cluster: EmbeddedCluster, value_size: int) -> Iterator[Figure]:
    say(f"write: values of {value_size} bytes")
    rows = _ROWS[value_size]
    frame = rows_to_write(spark, value_size, rows)
    size = rows * value_size
    ceiling = Moving(lambda: frame.write.format("counting").mode("append").save(), rows, size)
    runs = {name: Moving(_writer(frame, cluster, name), rows, size) for name in COMPRESSIONS}
    yield from against_ceiling("write", value_size, ceiling, runs, _TARGETS, rounds)


def rows_to_write(spark: SparkSession, value_size: int, rows: int) -> DataFrame:
    """Pieces of a text: cheap to make, half to one and a half times the size, compressible."""
    data = bytearray(text()[: 1 << 20])
    place = F.col("id") * _STEP % (len(data) - 2 * value_size) + 1
    size = value_size - value_size // 2 + F.col("id") % (value_size // 2 * 2 + 1)
    value = F.substring(F.lit(data), place.cast("int"), size.cast("int"))
    return spark.range(0, rows, 1, PARTITIONS).select(value.alias("value"))


def _writer(frame: DataFrame, cluster: EmbeddedCluster, compression: str) -> Callable[[], None]:
    """Writes to a new topic each time. What it wrote is removed, so that the disk does not fill."""
    topics = (f"{compression}{number}x{id(frame)}" for number in count())

    def run() -> None:
        topic = next(topics)
        options = {
            "broker.list": cluster.broker_list,
            "topic": topic,
            "compression": compression,
            "acks": "1",
        }
        frame.write.format("kafkawire").mode("append").options(**options).save()
        for folder in Path(cluster.brokers[0].log_dir).glob(f"{topic}-*"):
            shutil.rmtree(folder)

    return run
