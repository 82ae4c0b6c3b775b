"""Queries that go from Spark's own connector to this one and back, with sinks, a state, and crashes.

Each story returns what its test looks at. A crash is a commit log without its last entry, which is what
Spark finds after one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_kafkawire.jobs.checkpoints.run import run_checkpoints
from tests.support.spark_streams import PATIENCE_S, started

from .stream_scenarios import Topic

EARLIEST: Final = {"startingOffsets": "earliest"}


class Story:
    """A query on one checkpoint, with a topic of its own."""

    def __init__(self, spark: SparkSession, servers: str, folder: Path, name: str) -> None:
        self._spark = spark
        self.topic = Topic(servers, f"story-{name}")
        self.folder = folder / f"story-{name}"
        self.checkpoint = self.folder / "checkpoint"

    def frame(self, source: str, **options: str) -> DataFrame:
        reader = self._spark.readStream.format(source).option("kafka.bootstrap.servers", self.topic.servers)
        return reader.option("subscribe", self.topic.name).options(**options).load()

    def run(self, writer: DataStreamWriter) -> str | None:
        """The error that the query ends with, if it does."""
        writer = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)

        def ended() -> None:
            assert writer.start().awaitTermination(PATIENCE_S), "the query does not end"

        try:
            started(ended)
        except StreamingQueryException as error:
            return str(error)
        return None

    def read(self, source: str, **options: str) -> dict[str, Any]:
        """The offsets that each batch of one run had, by number, and its error."""
        batches: dict[int, list[int]] = {}

        def keep(frame: DataFrame, number: int) -> None:
            batches[number] = sorted(row["offset"] for row in frame.select("offset").collect())

        error = self.run(self.frame(source, **options).writeStream.foreachBatch(keep))
        return {"batches": batches, "error": error}

    def crash(self) -> None:
        """Undo the commit of the last batch."""
        commits = self.checkpoint / "commits"
        last = max(int(file.name) for file in commits.glob("[0-9]*"))
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)

    def prepare(self, target: str) -> Any:
        """What jobs/checkpoints.py makes of the checkpoint for the other connector."""
        return run_checkpoints(str(self.checkpoint), target, sys.stdout, write=True, json=True)


def parquet(spark: SparkSession, servers: str, folder: Path) -> Any:
    """A stream into Parquet, four times from one to the other."""
    story = Story(spark, servers, folder, "parquet")
    story.topic.create()
    out = str(story.folder / "out")
    for number, source in enumerate(("kafka", "kafkawire", "kafka", "kafkawire")):
        story.topic.put(10, number % 2)
        frame = story.frame(source, **EARLIEST, maxOffsetsPerTrigger="4")
        writer = frame.writeStream.format("parquet").option("path", out)
        assert (error := story.run(writer)) is None, error
    return sorted([row["partition"], row["offset"]] for row in spark.read.parquet(out).collect())


def state(spark: SparkSession, servers: str, folder: Path) -> Any:
    """What was seen by one connector is a duplicate to the other."""
    story = Story(spark, servers, folder, "state")
    story.topic.create(1)
    seen: list[list[str]] = []

    def keep(frame: DataFrame, _: int) -> None:
        seen.append(sorted(bytes(row["value"]).decode() for row in frame.collect()))

    story.topic.put(5, key=b"k")
    for source in ("kafka", "kafkawire", "kafka"):
        frame = story.frame(source, **EARLIEST).withWatermark("timestamp", "1 hour")
        writer = frame.dropDuplicates(["value", "timestamp"]).writeStream.foreachBatch(keep)
        assert (error := story.run(writer)) is None, error
        story.topic.again()
        story.topic.put(1)
    return [values for values in seen if values]


def crashed(spark: SparkSession, servers: str, folder: Path) -> Any:
    """A batch that one has not finished is finished by the other, both ways."""
    story = Story(spark, servers, folder, "crashed")
    story.topic.create(1)
    runs = []
    for source in ("kafka", "kafkawire", "kafka"):
        story.topic.put(5)
        runs.append(story.read(source, **EARLIEST, maxOffsetsPerTrigger="3"))
        story.crash()
    return runs


def first_of_kafka(spark: SparkSession, servers: str, folder: Path) -> Any:
    """The first batch of Spark's own is not finished; its start was 3."""
    story = Story(spark, servers, folder, "first-of-kafka")
    story.topic.create(1)
    story.topic.put(5)
    runs = [story.read("kafka", startingOffsets=json.dumps({story.topic.name: {"0": 3}}))]
    story.crash()
    runs.append(story.read("kafkawire", startingOffsets="latest"))
    [source] = story.prepare("kafkawire")["sources"]
    runs.append(story.read("kafkawire", startingOffsets=json.dumps(source["start"])))
    return runs


def first_of_kafkawire(spark: SparkSession, servers: str, folder: Path) -> Any:
    """The first batch of ours, which pins the latest offsets, is not finished."""
    story = Story(spark, servers, folder, "first-of-kafkawire")
    story.topic.create(1)
    story.topic.put(5)
    runs = [story.read("kafkawire")]
    story.crash()
    story.topic.put(3)
    runs.append(story.read("kafka", startingOffsets="latest"))
    story.prepare("kafka")
    runs.append(story.read("kafka", startingOffsets="latest"))
    return runs


STORIES: Final[dict[str, Callable[[SparkSession, str, Path], Any]]] = {
    "parquet": parquet,
    "state": state,
    "crashed": crashed,
    "first-of-kafka": first_of_kafka,
    "first-of-kafkawire": first_of_kafkawire,
}
