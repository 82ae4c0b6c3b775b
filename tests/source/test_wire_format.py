"""The option wireFormat through Spark: reads, writes and streams in the format of the proposal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from tests.support import replay
from tests.support.sparks import STREAM_SINKS

from .task_errors import message_of

PROPOSAL = {"wireFormat": "proposal"}
KEYS = ["topic", "broker", "partition", "offset", "index"]


def load(spark: SparkSession, cluster: EmbeddedCluster, topic: str, **options: str) -> DataFrame:
    discovery = {"zookeeper.connect": cluster.zookeeper_connect, "subscribe": topic}
    return spark.read.format("kafkawire").options(**discovery, **options).load()


def save(frame: DataFrame, **options: Any) -> None:
    frame.write.format("kafkawire").mode("append").options(**options).save()


@pytest.fixture(scope="module")
def of_07_alone() -> Iterator[EmbeddedCluster]:
    """A broker that does not speak the proposal, with some bytes of log."""
    with EmbeddedCluster(brokers=1, partitions=1, zookeeper=False) as cluster:
        first = bytes.fromhex("0000000b01009271ee576669727374")
        replay.produce(cluster.brokers[0].port, ("t", 0), first)
        yield cluster


def test_the_partitions_of_a_real_broker_read_the_same(spark: SparkSession, corpus: EmbeddedCluster) -> None:
    proposed, plain = (load(spark, corpus, "debian-gzip", **options) for options in (PROPOSAL, {}))
    assert plain.count() > 1000
    assert_df_equality(proposed.orderBy(KEYS), plain.orderBy(KEYS))


def test_what_is_written_in_it_is_there(spark: SparkSession, corpus: EmbeddedCluster) -> None:
    zookeeper = {"zookeeper.connect": corpus.zookeeper_connect}
    rows = spark.range(5000, numPartitions=3).selectExpr("CAST(id AS STRING) AS value")
    save(rows, topic="proposed", compression="gzip", **PROPOSAL, **zookeeper)
    assert values(load(spark, corpus, "proposed")) == sorted(b"%d" % number for number in range(5000))


@STREAM_SINKS
def test_a_topic_is_copied_by_a_stream_in_it(
    spark: SparkSession, corpus: EmbeddedCluster, tmp_path: Path
) -> None:
    zookeeper = {"zookeeper.connect": corpus.zookeeper_connect}
    query = (
        spark.readStream.format("kafkawire")
        .options(subscribe="debian-gzip", startingOffsets="earliest", **PROPOSAL, **zookeeper)
        .load()
        .select("value")
        .writeStream.format("kafkawire")
        .options(
            topic="streamed-copy", checkpointLocation=str(tmp_path / "checkpoint"), **PROPOSAL, **zookeeper
        )
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    copied = values(load(spark, corpus, "streamed-copy", **PROPOSAL))
    assert copied == values(load(spark, corpus, "debian-gzip"))


def values(frame: DataFrame) -> list[bytes]:
    return sorted(bytes(row.value) for row in frame.select("value").collect())


def test_a_broker_that_does_not_speak_it_is_told_in_one_line(
    spark: SparkSession, of_07_alone: EmbeddedCluster
) -> None:
    brokers = {"broker.list": of_07_alone.broker_list}
    frame = spark.read.format("kafkawire").options(subscribe="t", **brokers, **PROPOSAL).load()
    reported = (
        f"broker 0 ({of_07_alone.brokers[0].address}): option wireFormat: the broker supports Kafka 0.7 and "
        "closes on requests of the proposal; remove the option, or start a broker that supports it "
        "(wire.format=0.7,proposal)"
    )
    with pytest.raises(PythonException) as reading:
        frame.collect()
    assert message_of(reading.value).endswith(f"OptionError: t 0-0 at offset 0: {reported}")
    with pytest.raises(PythonException) as writing:
        save(frame.sparkSession.createDataFrame([("a",)], "value string"), topic="t", **brokers, **PROPOSAL)
    assert message_of(writing.value).endswith(f"OptionError: {reported}")
    assert replay.end_offset(of_07_alone.brokers[0].port, ("t", 0)) == 15
