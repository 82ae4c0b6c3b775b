"""Failures in the middle of a query: each ends in complete data or in one clear line."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Row, SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from tests.support.golden import read_json

TOPIC = "debian-gzip"
COUNTS = {
    (log["broker"], log["partition"]): log["messages"]
    for log in read_json("corpus/manifest.json")
    if log["topic"] == TOPIC
}


def load(spark: SparkSession, cluster: EmbeddedCluster, **options: str) -> DataFrame:
    reader = spark.read.format("kafkawire").option("zookeeper.connect", cluster.zookeeper_connect)
    return reader.option("subscribe", TOPIC).options(**options).load()


def half_read(frame: DataFrame) -> tuple[Iterator[Row], Counter[tuple[int, int]]]:
    """The rest of a query whose first Spark partition has been read, and what that held."""
    rows = iter(frame.select("broker", "partition").toLocalIterator())
    return rows, Counter([tuple(next(rows))])


def test_a_broker_killed_in_the_middle_of_a_read_is_one_line(
    spark: SparkSession, cluster: EmbeddedCluster
) -> None:
    rows, _ = half_read(load(spark, cluster, retries="2"))
    port = cluster.brokers[1].port
    cluster.brokers[1].kill()
    with pytest.raises(Py4JJavaError) as caught:
        list(rows)
    # Spark 4.0 has the text twice, after words of its own that differ.
    lines = [line for line in str(caught.value).splitlines() if "spark_kafkawire.errors." in line]
    [line] = {line.partition("spark_kafkawire.errors.")[2] for line in lines}
    assert "gave up after 3 attempts" in line
    assert f"debian-gzip 1-0 at offset 0: broker 1 (127.0.0.1:{port}): cannot connect" in line


def test_a_broker_that_comes_back_in_time_costs_nothing_but_time(
    spark: SparkSession, cluster: EmbeddedCluster
) -> None:
    rows, counts = half_read(load(spark, cluster, retries="100", retryBackoff="50ms"))
    cluster.brokers[1].kill()
    restart = threading.Thread(target=cluster.brokers[1].start)
    restart.start()
    counts.update(map(tuple, rows))
    restart.join()
    assert counts == COUNTS


def test_a_write_while_a_read_runs_adds_nothing_to_the_read(
    spark: SparkSession, cluster: EmbeddedCluster
) -> None:
    frame = load(spark, cluster)
    rows, counts = half_read(frame)
    write = load(spark, cluster).write.format("kafkawire").mode("append")
    write.option("zookeeper.connect", cluster.zookeeper_connect).option("topic", TOPIC).save()
    counts.update(map(tuple, rows))
    assert counts == COUNTS
    assert load(spark, cluster).count() == 2 * sum(COUNTS.values())


def test_a_zookeeper_lost_after_planning_is_not_missed(
    spark: SparkSession, own_cluster: EmbeddedCluster
) -> None:
    rows, counts = half_read(load(spark, own_cluster))
    assert own_cluster.zookeeper is not None
    own_cluster.zookeeper.close()
    counts.update(map(tuple, rows))
    assert counts == COUNTS
