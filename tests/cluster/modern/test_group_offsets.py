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
    logs = [TopicPartition(topic, partition) for partition in range(3)]
    cluster = cluster_of(noida.bootstrap_servers)
    cluster.commit_group_offsets(f"group-of-{topic}", {logs[0]: 5, logs[2]: 1 << 40})
    assert librdkafka.committed_offset(noida.bootstrap_servers, f"group-of-{topic}", topic, 2) == 1 << 40
    found = cluster.read_group_offsets(f"group-of-{topic}", logs)
    assert found == {logs[0]: 5, logs[1]: None, logs[2]: 1 << 40}


def test_the_last_commit_counts_also_backwards(noida: NoidaBroker) -> None:
    log = TopicPartition(noida.create_topic(), 0)
    cluster = cluster_of(noida.bootstrap_servers)
    for offset in (7, 3):
        cluster.commit_group_offsets(f"group-of-{log.topic}", {log: offset})
        assert cluster.read_group_offsets(f"group-of-{log.topic}", [log]) == {log: offset}


def test_nothing_is_asked_where_there_is_nothing_to_commit() -> None:
    cluster_of("127.0.0.1:1").commit_group_offsets("g", {})


@pytest.fixture
def log(mock_cluster: MockCluster) -> TopicPartition:
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
    api_key: int, error: int, mock_cluster: MockCluster, log: TopicPartition
) -> None:
    mock_cluster.push_request_errors(api_key, error, error)
    cluster = cluster_of(mock_cluster.bootstrap_servers)
    cluster.commit_group_offsets("g", {log: 1})
    assert cluster.read_group_offsets("g", [log]) == {log: 1}


@pytest.mark.parametrize("error", [ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS])
def test_a_group_with_members_is_left_alone(
    error: int, mock_cluster: MockCluster, log: TopicPartition
) -> None:
    mock_cluster.push_request_errors(OFFSET_COMMIT, error)
    with pytest.raises(OptionError, match=r"^OffsetCommit of group 'g' on broker .* the group has members"):
        cluster_of(mock_cluster.bootstrap_servers).commit_group_offsets("g", {log: 1})


def test_a_commit_that_is_refused_is_an_error_at_once(mock_cluster: MockCluster, log: TopicPartition) -> None:
    mock_cluster.push_request_errors(OFFSET_COMMIT, GROUP_REFUSED)
    with pytest.raises(BrokerError, match=r"^OffsetCommit of group 'g' .*t 0: the user may not do this"):
        cluster_of(mock_cluster.bootstrap_servers).commit_group_offsets("g", {log: 1})
