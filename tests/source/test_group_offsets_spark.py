"""Groups that follow queries of Spark itself: from the source, a batch late, and from a listener, exactly."""

from __future__ import annotations

from pathlib import Path

import pytest
from kazoo.client import KazooClient
from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.streaming import GroupOffsets, offsets_behind_latest
from tests.support import librdkafka
from tests.support.debian_plain import ENDS, TOPIC
from tests.support.noida import NoidaBroker
from tests.support.polling import poll
from tests.support.spark_streams import WAIT_MAX_S, begun, into_noop, run, send
from tests.support.sparks import AVAILABLE_NOW, READ_LIMITS


@pytest.fixture
def topic(noida: NoidaBroker) -> str:
    topic = noida.create_topic()
    send(noida, topic, range(20))
    return topic


def options(noida: NoidaBroker, topic: str, **others: str) -> dict[str, str]:
    connection = {"kafka.bootstrap.servers": noida.bootstrap_servers, "subscribe": topic}
    return {**connection, "startingOffsets": "earliest", "kafka.group.id": f"group-of-{topic}", **others}


def committed(noida: NoidaBroker, topic: str) -> int:
    return librdkafka.committed_offset(noida.bootstrap_servers, f"group-of-{topic}", topic)


@READ_LIMITS
def test_the_source_commits_a_batch_late_and_the_listener_exactly(
    spark: SparkSession, noida: NoidaBroker, topic: str, tmp_path: Path
) -> None:
    given = options(noida, topic, maxOffsetsPerTrigger="8", commitOffsets="true")
    query = run(into_noop(spark, given, tmp_path).trigger(availableNow=True))
    assert [progress.numInputRows for progress in query.recentProgress] == [8, 8, 4]
    assert committed(noida, topic) in (-1001, 8, 16)  # the process of the source may end before its commits
    send(noida, topic, range(20, 25))
    group = GroupOffsets(given)
    spark.streams.addListener(group)
    try:
        query = run(into_noop(spark, given, tmp_path).trigger(availableNow=True))
        assert group.awaitCommits(query, WAIT_MAX_S)
        assert committed(noida, topic) == 25
        [source] = query.recentProgress[-1].sources
        assert offsets_behind_latest(source)["maxOffsetsBehindLatest"] == 0
    finally:
        spark.streams.removeListener(group)


@AVAILABLE_NOW
def test_a_run_that_finds_nothing_new_has_the_group_follow(
    spark: SparkSession, noida: NoidaBroker, topic: str, tmp_path: Path
) -> None:
    given = options(noida, topic)
    run(into_noop(spark, given, tmp_path).trigger(availableNow=True))
    group = GroupOffsets(given)
    spark.streams.addListener(group)
    try:
        query = run(into_noop(spark, given, tmp_path).trigger(availableNow=True))
        assert group.awaitCommits(query, WAIT_MAX_S)
        assert committed(noida, topic) == 20
    finally:
        spark.streams.removeListener(group)


def test_a_running_query_has_its_finished_batches_committed(
    spark: SparkSession, noida: NoidaBroker, topic: str, tmp_path: Path
) -> None:
    query = begun(into_noop(spark, options(noida, topic, commitOffsets="true"), tmp_path))
    try:
        for count in range(20, 50, 10):
            query.processAllAvailable()
            send(noida, topic, range(count, count + 10))
            query.processAllAvailable()
            poll(lambda: committed(noida, topic) == count, "the commit of the batch before", WAIT_MAX_S)  # noqa: B023
    finally:
        query.stop()


@READ_LIMITS
def test_a_group_of_07_follows_in_zookeeper(
    spark: SparkSession, corpus: EmbeddedCluster, corpus_zookeeper: KazooClient, tmp_path: Path
) -> None:
    given = {"zookeeper.connect": corpus.zookeeper_connect, "subscribe": TOPIC, "startingOffsets": "earliest"}
    given |= {"kafka.group.id": "spark-follower", "maxBytesPerTrigger": "1"}
    group = GroupOffsets(given)
    spark.streams.addListener(group)
    try:
        query = run(into_noop(spark, given, tmp_path).trigger(availableNow=True))
        assert group.awaitCommits(query, WAIT_MAX_S)
    finally:
        spark.streams.removeListener(group)
    folder = f"/consumers/spark-follower/offsets/{TOPIC}"
    found = {
        name: int(corpus_zookeeper.get(f"{folder}/{name}")[0])
        for name in corpus_zookeeper.get_children(folder)
    }
    assert found == ENDS
