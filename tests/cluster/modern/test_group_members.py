"""Members of a consumer group, and the partitions that it has offsets for."""

from __future__ import annotations

import pytest

from spark_kafkawire.errors import UnsupportedVersionError
from spark_kafkawire.model import TopicPartition
from tests.support import librdkafka
from tests.support.mock_cluster import OFFSET_FETCH, MockCluster
from tests.support.noida import NoidaBroker
from tests.support.polling import poll

from .clusters import cluster_of


def test_the_groups_of_later_kafka_are_those_of_consumers(noida: NoidaBroker) -> None:
    topic = noida.create_topic()
    librdkafka.commit_offsets(noida.bootstrap_servers, f"group-of-{topic}", topic, {0: 5})
    assert f"group-of-{topic}" in cluster_of(noida.bootstrap_servers).groups.names()


def test_a_consumer_is_a_member_of_its_group_while_it_lives(noida: NoidaBroker) -> None:
    topic = noida.create_topic()
    cluster, group = cluster_of(noida.bootstrap_servers), f"group-of-{topic}"
    assert cluster.groups.members(group) == ()
    with librdkafka.member(noida.bootstrap_servers, group, topic, client_id="alive"):
        [member] = cluster.groups.members(group)
    assert member.startswith("alive")
    poll(lambda: not cluster.groups.members(group), "the consumer has left")


def test_the_partitions_of_a_group_are_all_that_it_has_offsets_for(noida: NoidaBroker) -> None:
    first, second = (noida.create_topic(partitions=3) for _ in range(2))
    group = f"group-of-{first}"
    librdkafka.commit_offsets(noida.bootstrap_servers, group, first, {0: 5, 2: 7})
    librdkafka.commit_offsets(noida.bootstrap_servers, group, second, {1: 9})
    expected = [TopicPartition(first, 0), TopicPartition(first, 2), TopicPartition(second, 1)]
    found = cluster_of(noida.bootstrap_servers).groups.partitions(group)
    assert found == tuple(sorted(expected))


def test_a_broker_that_cannot_list_a_groups_logs_has_all_of_them_asked(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=2)
    mock_cluster.set_api_versions(OFFSET_FETCH, 1, 1)
    found = cluster_of(mock_cluster.bootstrap_servers).groups.partitions("g")
    assert found == (TopicPartition("t", 0), TopicPartition("t", 1))


def test_a_broker_that_tells_no_members_is_an_error(mock_cluster: MockCluster) -> None:
    with pytest.raises(UnsupportedVersionError, match=r"does not offer DescribeGroups"):
        cluster_of(mock_cluster.bootstrap_servers).groups.members("g")
