"""Offsets that are committed for a group of a modern cluster, and what a coordinator may say to it."""

from __future__ import annotations

import pytest

from spark_kafkawire.errors import BrokerError, OptionError
from spark_kafkawire.model import TopicPartition
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.mock_cluster import DISCONNECT, FIND_COORDINATOR, MockCluster
from tests.support.noida import NoidaBroker

from .clusters import COORDINATOR_LOADING, GROUP_REFUSED, NOT_COORDINATOR, cluster_of

OFFSET_COMMIT = 8
ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS = 22, 25, 27


def test_another_client_reads_what_was_committed(noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=3)
    partitions = [TopicPartition(topic, partition) for partition in range(3)]
    cluster = cluster_of(noida.bootstrap_servers)
    cluster.groups.commit(f"group-of-{topic}", {partitions[0]: 5, partitions[2]: 1 << 40})
    assert librdkafka.committed_offset(noida.bootstrap_servers, f"group-of-{topic}", topic, 2) == 1 << 40
    found = cluster.groups.offsets(f"group-of-{topic}", partitions)
    assert found == {partitions[0]: 5, partitions[1]: None, partitions[2]: 1 << 40}


def test_the_last_commit_counts_also_backwards(noida: NoidaBroker) -> None:
    partition = TopicPartition(noida.create_topic(), 0)
    cluster = cluster_of(noida.bootstrap_servers)
    for offset in (7, 3):
        cluster.groups.commit(f"group-of-{partition.topic}", {partition: offset})
        assert cluster.groups.offsets(f"group-of-{partition.topic}", [partition]) == {partition: offset}


def test_nothing_is_asked_where_there_is_nothing_to_commit() -> None:
    cluster_of("127.0.0.1:1").groups.commit("g", {})


@pytest.fixture
def partition(mock_cluster: MockCluster) -> TopicPartition:
    mock_cluster.create_topic("t", partitions=1)
    librdkafka.produce(mock_cluster.bootstrap_servers, "t", [Record(b"v")])
    return TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("api_key", "error"),
    [
        (FIND_COORDINATOR, DISCONNECT),
        (OFFSET_COMMIT, COORDINATOR_LOADING),
        (OFFSET_COMMIT, NOT_COORDINATOR),
        (OFFSET_COMMIT, DISCONNECT),
    ],
)
def test_a_commit_is_repeated_while_its_coordinator_starts_or_moves(
    api_key: int, error: int, mock_cluster: MockCluster, partition: TopicPartition
) -> None:
    mock_cluster.push_request_errors(api_key, error, error)
    cluster = cluster_of(mock_cluster.bootstrap_servers)
    cluster.groups.commit("g", {partition: 1})
    assert cluster.groups.offsets("g", [partition]) == {partition: 1}


@pytest.mark.parametrize("error", [ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS])
def test_a_group_with_members_is_left_alone(
    error: int, mock_cluster: MockCluster, partition: TopicPartition
) -> None:
    mock_cluster.push_request_errors(OFFSET_COMMIT, error)
    with pytest.raises(OptionError, match=r"^OffsetCommit of group 'g' on broker .* the group has members"):
        cluster_of(mock_cluster.bootstrap_servers).groups.commit("g", {partition: 1})


def test_a_commit_that_is_refused_is_an_error_at_once(
    mock_cluster: MockCluster, partition: TopicPartition
) -> None:
    mock_cluster.push_request_errors(OFFSET_COMMIT, GROUP_REFUSED)
    with pytest.raises(BrokerError, match=r"^OffsetCommit of group 'g' .*t 0: the user is not authorized"):
        cluster_of(mock_cluster.bootstrap_servers).groups.commit("g", {partition: 1})
