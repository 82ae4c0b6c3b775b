"""Streams whose source has a name, ``readStream.name()``: Spark writes other checkpoints for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.jobs.submitting import command
from tests.support.noida import NoidaBroker
from tests.support.spark_streams import run, send
from tests.support.sparks import since_spark

_SWITCH = "spark.sql.streaming.queryEvolution.enableSourceEvolution"


@pytest.fixture
def evolving(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set(_SWITCH, "true")
    yield spark
    spark.conf.unset(_SWITCH)


@since_spark(4, 3, "takes names of sources, and goes by their order")
def test_a_query_of_named_sources_continues_from_its_checkpoint(
    evolving: SparkSession, noida: NoidaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = {"first": noida.create_topic(), "second": noida.create_topic()}
    checkpoint = tmp_path / "checkpoint"

    def rows_of(*names: str) -> int:
        first, second = (
            evolving.readStream.format("kafkawire")
            .name(name)
            .option("kafka.bootstrap.servers", noida.bootstrap_servers)
            .option("subscribe", topics[name])
            .option("startingOffsets", "earliest")
            .load()
            for name in names
        )
        writer = first.union(second).writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        return sum(batch.numInputRows for batch in run(writer.trigger(availableNow=True)).recentProgress)

    send(noida, topics["first"], range(20))
    assert rows_of("first", "second") == 20
    send(noida, topics["first"], range(3))
    send(noida, topics["second"], range(4))
    # Names and not places say which source is which.
    assert rows_of("second", "first") == 7

    assert command("checkpoints").JOB.main([str(checkpoint), "--quiet"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert "the sources of the query have names (readStream.name)" in line
