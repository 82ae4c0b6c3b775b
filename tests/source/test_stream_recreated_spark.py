"""Recreated topics in queries of Spark itself, whose offset log keeps what was found."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_kafkawire.jobs.checkpoints.run import run_checkpoints
from spark_kafkawire.planner.stream_offsets import ID_MARK
from tests.support.recreated import RecreatingBroker
from tests.support.spark_streams import begun, run

pytestmark = pytest.mark.timeout(600)


class Stream:
    """A query into Parquet, on a checkpoint of its own."""

    def __init__(self, spark: SparkSession, broker: RecreatingBroker, folder: Path) -> None:
        self._spark, self._broker = spark, broker
        self.checkpoint, self.out = folder / "checkpoint", str(folder / "out")

    def writer(self, fail: str) -> DataStreamWriter:
        options = {"kafka.bootstrap.servers": self._broker.bootstrap_servers, "startingOffsets": "earliest"}
        options |= {"failOnDataLoss": fail, "retryBackoff": "1ms", "subscribe": "t"}
        rows = self._spark.readStream.format("kafkawire").options(**options).load()
        values = rows.selectExpr("CAST(value AS STRING) AS value")
        return values.writeStream.format("parquet").option("checkpointLocation", str(self.checkpoint))

    def run(self, fail: str = "true") -> None:
        run(self.writer(fail).trigger(availableNow=True), self.out)

    def fails(self, reported: str) -> None:
        with pytest.raises(StreamingQueryException, match=reported):
            self.run()

    def values(self) -> list[str]:
        return sorted(row["value"] for row in self._spark.read.parquet(self.out).collect())

    def ends(self) -> list[Any]:
        files = sorted((self.checkpoint / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
        return [json.loads(file.read_text().splitlines()[2]) for file in files]


def values(name: str, start: int, stop: int) -> list[str]:
    return [f"{name}-{number}" for number in range(start, stop)]


@pytest.fixture(params=["with", "without"])
def broker(request: pytest.FixtureRequest) -> Iterator[RecreatingBroker]:
    with RecreatingBroker(has_ids=request.param == "with") as running:
        running.create("t", *values("old", 0, 10))
        yield running


@pytest.mark.parametrize("count", [4, 15], ids=["fewer", "more"])
@pytest.mark.parametrize("broker", ["with"], indirect=True)
def test_a_recreated_topic_is_an_error_at_each_start_and_lenient_reads_it_from_its_first_record(
    spark: SparkSession, broker: RecreatingBroker, tmp_path: Path, count: int
) -> None:
    stream = Stream(spark, broker, tmp_path)
    stream.run()
    [end] = stream.ends()
    assert list(end)[1].startswith(f"{ID_MARK}t ")
    broker.delete("t")
    broker.create("t", *values("new", 0, count))
    stream.fails("the topic t was deleted and recreated: its id was ")
    broker.send("t", *values("new", count, 20))
    stream.fails("the topic t was deleted and recreated: its id was ")
    assert stream.values() == values("old", 0, 10)
    stream.run("false")
    assert stream.values() == sorted([*values("old", 0, 10), *values("new", 0, 20)])
    stream.run()
    assert len(stream.values()) == 30


@pytest.mark.parametrize("broker", ["without"], indirect=True)
def test_without_ids_the_loss_is_in_the_offset_log_until_somebody_places_the_query(
    spark: SparkSession, broker: RecreatingBroker, tmp_path: Path
) -> None:
    stream = Stream(spark, broker, tmp_path)
    stream.run()
    broker.delete("t")
    broker.create("t", *values("new", 0, 4))
    reported = "the end of t 0 was changed from 10 to 4"
    stream.fails(reported)
    assert [end["t"] for end in stream.ends()] == [{"0": 10}, {"0": 4}]
    broker.send("t", *values("new", 4, 20))
    stream.fails(reported)
    run_checkpoints(str(stream.checkpoint), None, io.StringIO(), write=True, json=False, place={"t": {}})
    stream.run()
    assert stream.values() == sorted([*values("old", 0, 10), *values("new", 0, 20)])


@pytest.mark.parametrize("broker", ["with"], indirect=True)
def test_a_topic_that_is_recreated_under_a_running_query(
    spark: SparkSession, broker: RecreatingBroker, tmp_path: Path
) -> None:
    stream = Stream(spark, broker, tmp_path)
    query = begun(stream.writer("false").option("path", stream.out).trigger(processingTime="0 seconds"))
    try:
        query.processAllAvailable()
        broker.delete("t")
        broker.create("t", *values("new", 0, 15))
        query.processAllAvailable()
    finally:
        query.stop()
    assert stream.values() == sorted([*values("old", 0, 10), *values("new", 0, 15)])
