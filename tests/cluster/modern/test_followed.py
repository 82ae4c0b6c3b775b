"""Bounds of the partitions that a stream follows: what is asked, and what is built again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest

from spark_kafkawire.cluster.modern.cluster import ModernCluster
from spark_kafkawire.model import PartitionBounds, TopicPartition
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.protocol.modern.list_offsets import (
    EARLIEST_TIMESTAMP,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from spark_kafkawire.protocol.modern.metadata import (
    MetadataBroker,
    MetadataPartition,
    MetadataResponse,
    MetadataTopic,
)
from tests.net.modern_peers import Asked, broker
from tests.net.peers import Peer
from tests.support.fake_cluster import BATCH_RECORDS, TOPIC, FakeCluster

from .clusters import cluster_of

NOT_LEADER = 6
PARTITION = TopicPartition("t", 0)


@dataclass
class Log:
    """The only partition of a cluster of two brokers, and what they answer about it."""

    leader: int = 0
    listed_leader: int = 0
    start: int = 0
    end: int = 10
    throttle_time_ms: int = 0
    ports: list[int] = field(default_factory=list)
    times: list[tuple[int, int]] = field(default_factory=list)

    def metadata(self, _: Asked) -> MetadataResponse:
        """Metadata that may be older than the leader."""
        leader = self.listed_leader
        partition = MetadataPartition(
            error_code=0, partition_index=0, leader_id=leader, replica_nodes=(0, 1), isr_nodes=(0, 1)
        )
        self.listed_leader = self.leader
        brokers = (
            MetadataBroker(node_id=number, host="127.0.0.1", port=port)
            for number, port in enumerate(self.ports)
        )
        topic = MetadataTopic(error_code=0, name="t", partitions=(partition,))
        return MetadataResponse(brokers=tuple(brokers), topics=(topic,))

    def list_offsets(self, broker: int, asked: Asked) -> ListOffsetsResponse:
        """An offset, or an error of a broker that is not the leader."""
        time = asked.request.topics[0].partitions[0].timestamp
        self.times.append((broker, time))
        offset = self.start if time == EARLIEST_TIMESTAMP else self.end
        error_code = 0 if broker == self.leader else NOT_LEADER
        found = ListOffsetsPartitionResponse(partition_index=0, error_code=error_code, offset=offset)
        topic = ListOffsetsTopicResponse(name="t", partitions=(found,))
        return ListOffsetsResponse(topics=(topic,), throttle_time_ms=self.throttle_time_ms)


@contextmanager
def followed(log: Log) -> Iterator[ModernCluster]:
    """The cluster of a log, after its first poll."""
    with ExitStack() as stack:
        for number in range(2):

            def offsets(asked: Asked, number: int = number) -> ListOffsetsResponse:
                return log.list_offsets(number, asked)

            peer = stack.enter_context(Peer(broker({"Metadata": log.metadata, "ListOffsets": offsets})))
            log.ports.append(peer.broker.port)
        stack.callback(POOL.close_idle)
        cluster = cluster_of(f"127.0.0.1:{log.ports[0]}")
        assert polled(cluster) == PartitionBounds(PARTITION, log.start, log.end)
        yield cluster


def polled(cluster: ModernCluster) -> PartitionBounds:
    """The bounds of a poll."""
    return cluster.followed_bounds(cluster.partitions_of(["t"]))[PARTITION]


def test_an_end_that_moves_back_is_seen_at_once() -> None:
    log = Log(start=5)
    with followed(log) as cluster:
        for end in (9, 7, 10, 5):
            log.end = end
            assert polled(cluster) == PartitionBounds(PARTITION, 5, end)


def test_an_end_before_the_known_start_is_asked_for_with_the_start() -> None:
    log = Log(start=5)
    with followed(log) as cluster:
        polled(cluster)
        log.start, log.end = 0, 3  # recreated
        assert polled(cluster) == PartitionBounds(PARTITION, 0, 3)


def test_a_start_that_retention_moves_is_not_asked_for_until_the_end_passes_it() -> None:
    log = Log()
    with followed(log) as cluster:
        log.times.clear()
        log.start, log.end = 8, 12
        assert polled(cluster).latest == 12
        assert EARLIEST_TIMESTAMP not in [time for _, time in log.times]


@pytest.mark.parametrize("is_listed", [False, True])
def test_a_leader_that_moves_is_asked_instead(is_listed: bool) -> None:
    log = Log()
    with followed(log) as cluster:
        polled(cluster)
        log.leader, log.end = 1, 20
        log.listed_leader = 1 if is_listed else 0
        log.times.clear()
        assert polled(cluster).latest == 20
        assert [number for number, _ in log.times][-1] == 1
        log.end = 21
        log.times.clear()
        assert polled(cluster).latest == 21
        assert {number for number, _ in log.times} == {1}


def test_responses_that_differ_in_their_throttle_time_alone_are_the_same_bounds() -> None:
    log = Log()
    with followed(log) as cluster:
        first = polled(cluster)
        log.throttle_time_ms = 1
        assert polled(cluster) == first
        log.throttle_time_ms, log.end = 0, 11
        assert polled(cluster).latest == 11
        log.end = 10
        assert polled(cluster) == first


def test_a_new_connection_to_the_leader_is_asked_and_read_again() -> None:
    log = Log()
    with followed(log) as cluster:
        polled(cluster)
        POOL.close_idle()
        log.end = 15
        assert polled(cluster).latest == 15
        POOL.close_idle()
        assert polled(cluster).latest == 15


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
