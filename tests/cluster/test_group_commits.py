"""Commits that follow a query: the newest one counts, a failure is logged, and the query does not wait."""

from __future__ import annotations

import logging
import re

import pytest
from kazoo.client import KazooClient

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.cluster.group_commits import WARN_AGAIN_S, GroupCommits, commits_of
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import StreamOptions
from tests.support import librdkafka
from tests.support.mock_cluster import MockCluster
from tests.support.noida import NoidaBroker
from tests.support.polling import DEADLINE_S

from .modern.clusters import GROUP_REFUSED, cluster_of

OFFSET_COMMIT, OFFSET_FETCH = 8, 9
UNKNOWN_MEMBER_ID = 25
PARTITION = TopicPartition("t", 0)


def commits_to(connection: dict[str, str], group: str) -> GroupCommits:
    options = {**connection, "subscribe": "t", "kafka.group.id": group, "requestTimeout": "2s"}
    return commits_of(StreamOptions.parse(options).read)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.fixture
def mock(mock_cluster: MockCluster) -> MockCluster:
    """Three brokers that hold t."""
    mock_cluster.create_topic("t", partitions=1)
    return mock_cluster


def test_a_group_stands_where_the_newest_offsets_are(
    noida: NoidaBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = noida.create_topic(partitions=2)
    commits = commits_to({"kafka.bootstrap.servers": noida.bootstrap_servers}, f"group-of-{topic}")
    for offset in range(1, 101):
        commits.commit({TopicPartition(topic, 0): offset, TopicPartition(topic, 1): 2 * offset})
    assert commits.settled(DEADLINE_S)
    for partition, offset in ((0, 100), (1, 200)):
        found = librdkafka.committed_offset(noida.bootstrap_servers, f"group-of-{topic}", topic, partition)
        assert found == offset
    assert warnings(caplog) == []


def test_a_group_that_stands_further_on_is_put_back_which_is_told(
    noida: NoidaBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = noida.create_topic()
    group, partition = f"group-of-{topic}", TopicPartition(topic, 0)
    librdkafka.commit_offsets(noida.bootstrap_servers, group, topic, {0: 9})
    commits = commits_to({"kafka.bootstrap.servers": noida.bootstrap_servers}, group)
    commits.commit({partition: 4})
    assert commits.settled(DEADLINE_S)
    assert librdkafka.committed_offset(noida.bootstrap_servers, group, topic) == 4
    [reported] = warnings(caplog)
    assert reported.startswith(f"group '{group}': the committed offset 9 of {topic} 0 is set back to 4, the")


@pytest.mark.parametrize(
    ("api_key", "error", "reported"),
    [
        (OFFSET_COMMIT, GROUP_REFUSED, "OffsetCommit of group 'g' on .* the user is not authorized"),
        (OFFSET_FETCH, GROUP_REFUSED, "OffsetFetch of group 'g' on .* the user is not authorized"),
        (OFFSET_COMMIT, UNKNOWN_MEMBER_ID, "OffsetCommit of group 'g' on .*: the group has members, .* stop"),
    ],
)
def test_a_commit_that_is_refused_is_told_and_made_good_by_the_next_one(
    mock: MockCluster, caplog: pytest.LogCaptureFixture, api_key: int, error: int, reported: str
) -> None:
    caplog.set_level(logging.INFO, "spark_kafkawire")
    mock.push_request_errors(api_key, error)
    commits = commits_to({"kafka.bootstrap.servers": mock.bootstrap_servers}, "g")
    commits.commit({PARTITION: 1})
    assert not commits.settled(DEADLINE_S)
    [warning] = warnings(caplog)
    assert warning.startswith("group 'g': offsets are not committed: ")
    assert re.search(reported, warning)
    assert warning.endswith("; the query continues, and its next batch tries again")
    commits.retry()
    assert commits.settled(DEADLINE_S)
    assert librdkafka.committed_offset(mock.bootstrap_servers, "g", "t") == 1
    assert caplog.records[-1].getMessage() == "group 'g': commits succeed again"


def test_a_failure_that_goes_on_is_told_once_a_minute(
    mock: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = 0.0
    commits = GroupCommits(cluster_of(mock.bootstrap_servers).groups, "g", clock=lambda: now_s)
    for warning_count, now_s in ((1, 0.0), (1, WARN_AGAIN_S - 1), (2, WARN_AGAIN_S)):
        mock.push_request_errors(OFFSET_COMMIT, GROUP_REFUSED)
        commits.commit({PARTITION: int(now_s)})
        assert not commits.settled(DEADLINE_S)
        assert len(warnings(caplog)) == warning_count


@pytest.mark.slow
def test_a_coordinator_that_is_silent_holds_up_nobody_and_is_given_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with NoidaBroker() as broker:
        topic = broker.create_topic()
        commits = commits_to({"kafka.bootstrap.servers": broker.bootstrap_servers, "retries": "0"}, "g")
        broker.pause()
        try:
            for offset in range(3):
                commits.commit({TopicPartition(topic, 0): offset})  # each returns at once
            assert not commits.settled(0.0)
            assert not commits.settled(DEADLINE_S)
            assert "offsets are not committed" in warnings(caplog)[-1]
        finally:
            broker.resume()
        commits.retry()
        assert commits.settled(DEADLINE_S)
        assert librdkafka.committed_offset(broker.bootstrap_servers, "g", topic) == 2


def test_groups_of_07_follow_in_zookeeper(
    corpus: EmbeddedCluster, corpus_zookeeper: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    partition, node = TopicPartition("debian-plain", 1, 0), "/consumers/follower/offsets/debian-plain/0-1"
    commits = commits_to({"zookeeper.connect": corpus.zookeeper_connect}, "follower")
    commits.commit({partition: 12_345})
    assert commits.settled(DEADLINE_S)
    assert corpus_zookeeper.get(node)[0] == b"12345"
    corpus_zookeeper.create("/consumers/follower/ids/follower_host-1", makepath=True, ephemeral=True)
    commits.commit({partition: 20_000})
    assert not commits.settled(DEADLINE_S)
    assert corpus_zookeeper.get(node)[0] == b"12345"
    [reported] = warnings(caplog)
    assert (
        "group 'follower' has live consumers (follower_host-1), which commit offsets themselves; stop them"
        in reported
    )
