"""Streaming queries of a Spark on a busy machine: from a topic of a broker or from lines of files, into a
topic or into nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from . import librdkafka
from .foreign import Record
from .noida import NoidaBroker

T = TypeVar("T")

#: How long a query may take on such a machine, seconds.
WAIT_MAX_S: Final = 240
#: What becomes of a query whose process the machine starts too late for Spark, which gives it ten seconds.
TOO_BUSY: Final = "Python worker failed to connect back"
STARTS_MAX: Final = 6


def started(attempt: Callable[[], T]) -> T:
    """Result of ``attempt``, which starts a query; tried again if the machine was too busy for one."""
    for start in range(1, STARTS_MAX + 1):
        try:
            return attempt()
        except StreamingQueryException as error:
            if TOO_BUSY not in str(error) or start == STARTS_MAX:
                raise
    raise AssertionError


def send(
    noida: NoidaBroker, topic: str, values: Iterable[int], partition: int = 0, ms: int | None = None
) -> None:
    """Append the numbers to a partition, with this timestamp or that of now."""
    records = [Record(b"%d" % value, partition=partition, timestamp_ms=ms) for value in values]
    librdkafka.produce(noida.bootstrap_servers, topic, records)


def stream(spark: SparkSession, noida: NoidaBroker, topic: str, **options: str) -> DataFrame:
    """A stream of a topic."""
    reader = spark.readStream.format("kafkawire").option("kafka.bootstrap.servers", noida.bootstrap_servers)
    return reader.option("subscribe", topic).options(**options).load()


def run(writer: DataStreamWriter, *arguments: str) -> StreamingQuery:
    """A query that ends by itself, once it has."""

    def ended() -> StreamingQuery:
        query = writer.start(*arguments)
        assert query.awaitTermination(WAIT_MAX_S), "the query did not end"
        return query

    return started(ended)


def begun(writer: DataStreamWriter) -> StreamingQuery:
    """A query that goes on, after its first batch."""

    def begun_once() -> StreamingQuery:
        query = writer.start()
        deadline = time.monotonic() + WAIT_MAX_S
        while not query.recentProgress and time.monotonic() < deadline:
            query.awaitTermination(1)
        return query

    return started(begun_once)


def lose_commit(checkpoint: Path, batch: int) -> None:
    """Let the next start of a query run this batch again, as after a crash before Spark noted its end."""
    for name in (f"{batch}", f".{batch}.crc"):
        (checkpoint / "commits" / name).unlink()


def lines(spark: SparkSession, folder: Path) -> DataFrame:
    """A stream of the lines of the files in a folder."""
    return spark.readStream.text(str(folder / "in"))


def put(folder: Path, name: str, *values: str) -> None:
    """A file of lines in the folder that ``lines`` reads."""
    (folder / "in" / name).write_text("".join(f"{value}\n" for value in values))


def write(rows: DataFrame, noida: NoidaBroker, folder: Path, mode: str = "append", **options: str) -> int:
    """Write what there is; rows that the query has told of."""
    writer = rows.writeStream.format("kafkawire").outputMode(mode).trigger(availableNow=True)
    writer = writer.option("kafka.bootstrap.servers", noida.bootstrap_servers).options(**options)
    query = run(writer.option("checkpointLocation", str(folder / "checkpoint")))
    return sum(progress.numInputRows for progress in query.recentProgress)


def into_noop(spark: SparkSession, options: dict[str, str], checkpoint: Path) -> DataStreamWriter:
    """A query of what these options name, whose rows go nowhere."""
    rows = spark.readStream.format("kafkawire").options(**options).load()
    return rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
