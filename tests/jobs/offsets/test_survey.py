"""Requests of a survey to a cluster, and its report of an incomplete one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from spark_kafkawire.broker import EmbeddedCluster, ZooKeeperServer
from spark_kafkawire.errors import OptionError
from spark_kafkawire.jobs.offsets.report import GroupOffset
from spark_kafkawire.jobs.offsets.survey import Surveyed
from spark_kafkawire.model import Generation, TopicPartition
from spark_kafkawire.net.pool import POOL
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.mock_cluster import LIST_OFFSETS, NO_LEADER, MockCluster
from tests.support.noida import NoidaBroker
from tests.support.tree_writer import TreeWriter


@pytest.fixture(autouse=True)
def no_kept_connections() -> Iterator[None]:
    yield
    POOL.close_idle()


def quiet(_what: str) -> None:
    """Progress that nobody sees."""


def at(servers: str, **options: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": servers, "requestTimeout": "10s", **options}


def test_a_partition_without_leader_is_told_and_not_waited_for(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=2)
    mock_cluster.set_leader("t", 0, 2)
    librdkafka.produce(mock_cluster.bootstrap_servers, "t", [Record(b"v", partition=0)])
    mock_cluster.set_leader("t", 1, NO_LEADER)
    report = Surveyed.of(at(mock_cluster.bootstrap_servers)).report([], quiet)
    served, unserved = report.partitions
    assert served.leader is not None
    assert (served.leader.id, served.size) == (2, 1)
    assert (unserved.leader, unserved.bounds) == (None, None)
    assert [broker.id for broker in report.brokers] == [1, 2, 3]


def test_each_leader_is_asked_four_times_however_many_partitions_it_has(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=30)
    for partition in range(30):
        mock_cluster.set_leader("t", partition, 1 + partition % 3)
    records = [Record(b"v", partition=partition) for partition in range(30)]
    librdkafka.produce(mock_cluster.bootstrap_servers, "t", records)
    surveyed = Surveyed.of(at(mock_cluster.bootstrap_servers))
    mock_cluster.start_request_tracking()
    assert surveyed.report([], quiet).size == 30
    asked = Counter(
        request.broker_id for request in mock_cluster.requests() if request.api_key == LIST_OFFSETS
    )
    # Where logs start, where they end, and when their first and their youngest records were made.
    assert set(asked) == {1, 2, 3}
    assert max(asked.values()) <= 4


def test_a_cluster_without_topics_is_an_empty_report(mock_cluster: MockCluster) -> None:
    report = Surveyed.of(at(mock_cluster.bootstrap_servers)).report([], quiet)
    assert (report.topics, report.partitions, len(report.brokers)) == ((), (), 3)


def test_offsets_for_other_topics_are_strays_only_where_all_topics_are_told(noida: NoidaBroker) -> None:
    first, second = (noida.create_topic() for _ in range(2))
    group = f"group-of-{first}"
    librdkafka.commit_offsets(noida.bootstrap_servers, group, first, {0: 3})
    librdkafka.commit_offsets(noida.bootstrap_servers, group, second, {0: 5})
    every = Surveyed.of(at(noida.bootstrap_servers)).report([group], quiet)
    chosen = Surveyed.of(at(noida.bootstrap_servers, subscribe=first)).report([group], quiet)
    first_offset = GroupOffset(group, TopicPartition(first, 0), 3)
    assert every.unknown == chosen.unknown == ()
    assert every.group_offsets() == (first_offset, GroupOffset(group, TopicPartition(second, 0), 5))
    assert chosen.group_offsets() == (first_offset,)


@pytest.fixture
def tree(zookeeper: ZooKeeperServer, request: pytest.FixtureRequest) -> Iterator[TreeWriter]:
    """A tree of the test's own."""
    with TreeWriter(zookeeper.connect, f"/{request.node.name}") as writer:
        yield writer


def test_a_partition_of_a_dead_broker_is_told(tree: TreeWriter) -> None:
    tree.put_broker(0, port=9)
    tree.put_topic("t", {7: 2})
    tree.put("/consumers/g/offsets/t/7-1", b"5")
    tree.put("/consumers/g/offsets/gone/0-0", b"6")
    report = Surveyed.of({"zookeeper.connect": tree.connect}).report(["g"], quiet)
    assert [
        (partition.topic_partition.name, partition.bounds, partition.committed)
        for partition in report.partitions
    ] == [("7-0", None, (None,)), ("7-1", None, (5,))]
    assert report.unknown == (GroupOffset("g", TopicPartition("gone", 0, 0), 6),)
    assert (report.group(0).lag, report.group(0).partition_count) == (None, 1)


def test_a_node_that_holds_no_offset_is_told_and_keeps_nothing_else_back(
    tree: TreeWriter, caplog: pytest.LogCaptureFixture
) -> None:
    tree.put_broker(0, port=9)
    tree.put_topic("t", {7: 2})
    tree.put("/consumers/g/offsets/t/7-0", b"no offset")
    tree.put("/consumers/g/offsets/t/7-1", b"5")
    tree.put("/consumers/g/offsets/t/no partition", b"5")
    surveyed = Surveyed.of({"zookeeper.connect": tree.connect})
    assert surveyed.groups_with_offsets(quiet) == ("g",)
    assert surveyed.report(["g"], quiet).group(0).partition_count == 1
    assert "t/7-0 holds 'no offset', which is not an offset; the node is ignored" in caplog.text


def test_a_list_of_brokers_is_told_of_the_topics_that_are_named(corpus: EmbeddedCluster) -> None:
    options = {"broker.list": corpus.broker_list, "subscribe": "debian-gzip"}
    surveyed = Surveyed.of(options)
    assert (surveyed.place, surveyed.generation) == (f"broker.list={corpus.broker_list}", Generation.V07)
    assert [tp.name for tp in surveyed.partitions] == ["0-0", "0-1", "0-2", "1-0", "1-1", "1-2"]
    assert surveyed.report([], quiet).size > 1_000_000
    with pytest.raises(OptionError, match=r"group 'g': .* set zookeeper\.connect"):
        surveyed.report(["g"], quiet)


def test_a_report_shows_no_secret(noida: NoidaBroker) -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hunter2";'
    login = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": jaas,
    }
    surveyed = Surveyed.of(at(noida.bootstrap_servers, **login, subscribe=noida.create_topic()))
    assert "hunter2" not in repr(surveyed)
    assert surveyed.report([], quiet).place == f"kafka.bootstrap.servers={noida.bootstrap_servers}"


def test_a_partition_that_only_the_group_knows_is_told_with_its_topic(
    tree: TreeWriter, caplog: pytest.LogCaptureFixture
) -> None:
    # Broker 7's session is expired: neither it nor its partitions are in ZooKeeper.
    tree.put_broker(0, port=9)
    tree.put_topic("t", {3: 1})
    tree.put("/consumers/g/offsets/t/7-1", b"5")
    tree.put("/consumers/g/offsets/other/7-0", b"6")
    report = Surveyed.of({"zookeeper.connect": tree.connect, "subscribe": "t"}).report(["g"], quiet)
    assert report.unknown == (GroupOffset("g", TopicPartition("t", 1, 7), 5),)
    assert caplog.messages == [
        "1 offset in partitions that no live broker holds, t 7-1 of group 'g' first: start its broker, "
        "unless it is gone for good"
    ]
