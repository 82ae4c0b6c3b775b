"""Groups that follow a streaming query, as Apache Kafka's coordinator and another client see them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from spark_kafkawire.jobs.offsets.survey import Surveyed
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.streaming import GroupOffsets
from tests.support import librdkafka
from tests.support.foreign import CLIENT_TIMEOUT_S, Record
from tests.support.polling import DEADLINE_S
from tests.support.query_events import Run, source
from tests.support.spark_streams import WAIT_MAX_S, into_noop, run

from .apache_kafka import NEW_PROTOCOL_SINCE, ApacheKafka
from .versions import newest


@pytest.fixture(autouse=True)
def no_kept_connections() -> Iterator[None]:
    yield
    POOL.close_idle()


@pytest.fixture
def topic(kafka: ApacheKafka) -> str:
    """Five records in the first, two in the second partition."""
    topic = librdkafka.create_topic(kafka.bootstrap_servers(), 2, None, {"retention.ms": "-1"})
    records = [Record(b"v", partition=int(number >= 5)) for number in range(7)]
    librdkafka.produce(kafka.bootstrap_servers(), topic, records)
    return topic


def options(kafka: ApacheKafka, topic: str, **others: str) -> dict[str, str]:
    connection = {"kafka.bootstrap.servers": kafka.bootstrap_servers(), "subscribe": topic}
    return {**connection, "startingOffsets": "earliest", "kafka.group.id": f"group-of-{topic}", **others}


def committed(kafka: ApacheKafka, topic: str) -> dict[int, int]:
    """Offsets that the coordinator gives librdkafka's admin client, by partition."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers(), "log_level": 0})
    group = f"group-of-{topic}"
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = asked[group].result(CLIENT_TIMEOUT_S).topic_partitions
    return {
        topic_partition.partition: topic_partition.offset
        for topic_partition in found
        if topic_partition.topic == topic
    }


@newest
def test_lag_tools_see_a_query_of_spark(
    kafka: ApacheKafka, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    given = options(kafka, topic, maxOffsetsPerTrigger="4")
    group = GroupOffsets(given)
    spark.streams.addListener(group)
    try:
        query = run(into_noop(spark, given, tmp_path).trigger(availableNow=True))
        assert group.awaitCommits(query, WAIT_MAX_S)
    finally:
        spark.streams.removeListener(group)
    assert committed(kafka, topic) == {0: 5, 1: 2}
    librdkafka.produce(kafka.bootstrap_servers(), topic, [Record(b"v", partition=1)] * 3)
    report = Surveyed.of({"kafka.bootstrap.servers": kafka.bootstrap_servers(), "subscribe": topic}).report(
        [f"group-of-{topic}"], lambda _: None
    )
    assert [partition.positions[0].lag for partition in report.partitions] == [0, 3]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_told_and_follows_once_they_have_left(
    kafka: ApacheKafka, topic: str, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    if protocol == "consumer" and kafka.version < NEW_PROTOCOL_SINCE:
        pytest.skip("brokers before 4.0 do not coordinate groups themselves")
    group, query = GroupOffsets(options(kafka, topic)), Run()
    with (
        caplog.at_level(logging.WARNING, "spark_kafkawire"),
        librdkafka.member(kafka.bootstrap_servers(), f"group-of-{topic}", topic, group_protocol=protocol),
    ):
        group.onQueryProgress(query.progress(source({topic: {"0": 4, "1": 1}})))
        group.onQueryTerminated(query.terminated())
        assert not group.awaitCommits(query, DEADLINE_S)
    assert f"group 'group-of-{topic}': offsets are not committed: OffsetCommit of group" in caplog.text
    assert (
        "the group has members, which commit offsets themselves; stop them, or use another group"
        in caplog.text
    )
    assert committed(kafka, topic) == {}
    group.onQueryProgress(query.progress(source({topic: {"0": 5, "1": 2}})))
    assert group._commits.settled(DEADLINE_S)
    assert committed(kafka, topic) == {0: 5, 1: 2}
