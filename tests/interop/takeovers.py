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
from pyspark.sql.functions import window
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_kafkawire.jobs.checkpoints.run import run_checkpoints
from tests.support import librdkafka
from tests.support.spark_streams import WAIT_MAX_S, started

from .stream_scenarios import T0, Topic

EARLIEST: Final = {"startingOffsets": "earliest"}


class Story:
    """A query on one checkpoint, with a topic of its own."""

    def __init__(self, spark: SparkSession, servers: str, folder: Path, name: str) -> None:
        self._spark = spark
        self.topic = Topic(servers, f"story-{name}")
        self.folder = folder / f"story-{name}"
        self.checkpoint = self.folder / "checkpoint"

    def frame(self, source: str, more: str = "", **options: str) -> DataFrame:
        reader = self._spark.readStream.format(source).option("kafka.bootstrap.servers", self.topic.servers)
        return reader.option("subscribe", self.topic.name + more).options(**options).load()

    def sink(self, frame: DataFrame, sink: str) -> DataStreamWriter:
        """Writes the values to the topic's namesake ``-out``."""
        # Spark finds Python sinks in threads alone that it knows a session of.
        self._spark.createDataFrame([(0,)], "a INT")
        writer = frame.select("value").writeStream.format(sink)
        return writer.options(
            **{"kafka.bootstrap.servers": self.topic.servers, "topic": f"{self.topic.name}-out"}
        )

    def run(self, writer: DataStreamWriter) -> str | None:
        """The error that the query ends with, if it does."""
        writer = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)

        def ended() -> None:
            assert writer.start().awaitTermination(WAIT_MAX_S), "the query does not end"

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

    def ends(self) -> list[Any]:
        """The offsets of all batches, as they are written down."""
        files = sorted((self.checkpoint / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
        return [json.loads(file.read_text().splitlines()[2]) for file in files]

    def crash(self) -> None:
        """Undo the commit of the last batch."""
        commits = self.checkpoint / "commits"
        last = max(int(file.name) for file in commits.glob("[0-9]*"))
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)

    def prepare(self, target: str) -> Any:
        """Result of ``kafkawire checkpoints``, which prepares the checkpoint for the other connector."""
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
    """Rows that one connector has seen are duplicates to the other."""
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


def sinks(spark: SparkSession, servers: str, folder: Path) -> Any:
    """Source and sink are swapped one after the other; then the last batch is written again by the other
    sink."""
    story = Story(spark, servers, folder, "sinks")
    story.topic.create()
    story.topic.create(1, "-out")
    both, written = ("kafka", "kafkawire"), []
    swaps = [(source, sink) for source in both for sink in both]
    for source, sink in (*swaps, swaps[0]):
        story.topic.put(3)
        writer = story.sink(story.frame(source, **EARLIEST, maxOffsetsPerTrigger="2"), sink)
        assert (error := story.run(writer)) is None, error
        written.append(_values(story, "-out"))
    for sink in both:
        story.crash()
        assert (error := story.run(story.sink(story.frame("kafka", **EARLIEST), sink))) is None, error
        written.append(_values(story, "-out"))
    return written


def _values(story: Story, more: str) -> list[int]:
    found = librdkafka.consume(story.topic.servers, story.topic.name + more)
    return sorted(int(each.value or b"") for each in found)


def aggregate(spark: SparkSession, servers: str, folder: Path) -> Any:
    """Windows are counted in the mode update; each run but the first two has records, too, that are late
    by the watermark of the run before, which was the other connector's."""
    story = Story(spark, servers, folder, "aggregate")
    story.topic.create(1)
    counted: list[dict[int, int]] = []

    def keep(frame: DataFrame, _: int) -> None:
        rows = frame.selectExpr("unix_seconds(window.start) start", "count").collect()
        counted.append({row["start"] - T0 // 1000: row["count"] for row in rows})

    story.topic.put(6)
    for number, source in enumerate(("kafka", "kafkawire", "kafka", "kafkawire", "kafka")):
        frame = story.frame(source, **EARLIEST).withWatermark("timestamp", "2 seconds")
        counts = frame.groupBy(window("timestamp", "5 seconds")).count()
        assert (error := story.run(counts.writeStream.outputMode("update").foreachBatch(keep))) is None, error
        if number:
            story.topic.again()
        story.topic.put(3 if number else 6)
    return [counts for counts in counted if counts]


def union(spark: SparkSession, servers: str, folder: Path) -> Any:
    """One source by each connector, which change places; every other run ends with a crash."""
    story = Story(spark, servers, folder, "union")
    for more in ("", "-b"):
        story.topic.create(1, more)
    batches: dict[int, list[list[Any]]] = {}

    def keep(frame: DataFrame, number: int) -> None:
        rows = [[row["topic"].removeprefix(story.topic.name), row["offset"]] for row in frame.collect()]
        assert batches.setdefault(number, sorted(rows)) == sorted(rows)

    for number, places in enumerate((("kafka", "kafkawire"), ("kafkawire", "kafka")) * 2):
        story.topic.put(3)
        story.topic.put(2, more="-b")
        first, second = (
            story.frame(source, more, **EARLIEST, maxOffsetsPerTrigger="2").select("topic", "offset")
            for source, more in zip(places, ("", "-b"), strict=True)
        )
        assert (error := story.run(first.union(second).writeStream.foreachBatch(keep))) is None, error
        if number % 2 == 0:
            story.crash()
    return sorted(row for rows in batches.values() for row in rows)


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


def recreated(spark: SparkSession, servers: str, folder: Path) -> Any:
    """A query goes to ours, which keeps the topic's id, back and again; then the topic is recreated with more
    records, and after an error at each of two starts ours reads it from its first record."""
    story = Story(spark, servers, folder, "recreated")
    story.topic.create(1)
    runs = []
    for source in ("kafka", "kafkawire", "kafka", "kafkawire"):
        story.topic.put(3)
        runs.append(story.read(source, **EARLIEST))
    story.topic.delete()
    story.topic.create(1)
    story.topic.put(20)
    runs += [story.read("kafkawire", **EARLIEST) for _ in range(2)]
    runs.append(story.read("kafkawire", **EARLIEST, failOnDataLoss="false"))
    story.topic.put(2)
    runs.append(story.read("kafka", **EARLIEST))
    return {"runs": runs, "ends": story.ends()}


STORIES: Final[dict[str, Callable[[SparkSession, str, Path], Any]]] = {
    "parquet": parquet,
    "state": state,
    "sinks": sinks,
    "aggregate": aggregate,
    "union": union,
    "crashed": crashed,
    "first-of-kafka": first_of_kafka,
    "first-of-kafkawire": first_of_kafkawire,
    "recreated": recreated,
}
