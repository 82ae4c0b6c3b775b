"""Bounds of the partitions that a stream follows: what is asked, and what is built again."""

from __future__ import annotations

from spark_kafkawire.model import TopicPartition
from tests.benchmarks.scale.cluster import BATCH_RECORDS, TOPIC, FakeCluster

from .clusters import cluster_of


def test_a_poll_without_news_asks_for_ends_alone_and_builds_nothing() -> None:
    with FakeCluster(partitions=20, brokers=2) as fake:
        cluster = cluster_of(fake.bootstrap)
        cluster.followed_bounds(cluster.partitions_of([TOPIC]))
        first = cluster.followed_bounds(cluster.partitions_of([TOPIC]))
        fake.requests()
        assert cluster.followed_bounds(cluster.partitions_of([TOPIC])) is first
        assert fake.requests() == {"Metadata": 1, "ListOffsets": 2}


def test_new_records_move_the_ends_of_their_partitions() -> None:
    with FakeCluster(partitions=20, brokers=2) as fake:
        cluster = cluster_of(fake.bootstrap)
        before = cluster.followed_bounds(cluster.partitions_of([TOPIC]))
        fake.grow(3)
        after = cluster.followed_bounds(cluster.partitions_of([TOPIC]))
        assert list(after) == list(before)
        for tp in before:
            grown = BATCH_RECORDS if tp in [TopicPartition(TOPIC, number) for number in range(3)] else 0
            assert after[tp].latest == before[tp].latest + grown
        assert after == cluster.bounds(list(after))


def test_a_forgotten_topic_is_asked_for_again() -> None:
    with FakeCluster(partitions=4, brokers=2) as fake:
        cluster = cluster_of(fake.bootstrap)
        first = cluster.followed_bounds(cluster.partitions_of([TOPIC]))
        cluster.forget(TopicPartition(TOPIC, 0))
        fake.grow(4)
        found = cluster.followed_bounds(cluster.partitions_of([TOPIC]))
        assert {each.latest for each in found.values()} == {2 * BATCH_RECORDS}
        assert {each.latest for each in first.values()} == {BATCH_RECORDS}
