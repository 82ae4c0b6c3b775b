"""Who is in a consumer group, and which logs it has offsets for, in both dialects."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spark_kafkawire.cluster.v07.cluster import Cluster
from spark_kafkawire.errors import OptionError, UnsupportedVersionError
from spark_kafkawire.model import Broker, TopicPartition
from spark_kafkawire.options import Discovery
from tests.support import librdkafka
from tests.support.golden import read_json
from tests.support.mock_cluster import OFFSET_FETCH, MockCluster
from tests.support.noida import NoidaBroker
from tests.support.polling import poll
from tests.support.settings import net_07

from ...support.tree_writer import TreeWriter
from .test_cluster import cluster_of

STAGES = read_json("zk_tree.json")["stages"]


def restore(tree: TreeWriter, stage: str) -> None:
    """The recorded consumers' nodes, as persistent ones."""
    for node in STAGES[stage]["tree"]:
        if node["path"].startswith("/consumers/") and not node["children"]:
            tree.put(node["path"], (node["data"] or "").encode())


def test_the_groups_of_07_are_all_that_zookeeper_has(tree: TreeWriter) -> None:
    cluster = Cluster(tree.discovery, net_07())
    tree.put("/brokers")
    assert cluster.groups() == ()
    restore(tree, "11_second_consumer_joined")
    tree.put("/consumers/another/ids")
    assert cluster.groups() == ("another", "lab-group")


def test_the_groups_of_later_kafka_are_those_of_consumers(noida: NoidaBroker) -> None:
    topic = noida.create_topic()
    librdkafka.commit_offsets(noida.bootstrap_servers, f"group-of-{topic}", topic, {0: 5})
    assert f"group-of-{topic}" in cluster_of(noida.bootstrap_servers).groups()


def test_the_members_of_a_07_group_are_those_that_the_jvm_registered(tree: TreeWriter) -> None:
    restore(tree, "11_second_consumer_joined")
    cluster = Cluster(tree.discovery, net_07())
    first, second = cluster.group_members("lab-group")
    assert first == "lab-group_fixed-name"
    assert second.startswith("lab-group_vm-")
    assert cluster.group_members("nobody") == ()


def test_the_logs_of_a_07_group_are_all_that_it_has_offsets_for(tree: TreeWriter) -> None:
    restore(tree, "15_wildcard_whitelist")
    tree.put("/consumers/lab-wild/offsets/cc-topic/not-a-log", b"5")
    tree.put("/consumers/lab-wild/offsets/empty")
    cluster = Cluster(tree.discovery, net_07())
    assert cluster.logs_of_group("lab-wild") == (
        *(TopicPartition("cc-comp", partition, 0) for partition in range(3)),
        *(TopicPartition("cc-topic", partition, broker) for partition in range(3) for broker in (0, 1)),
    )
    assert cluster.logs_of_group("nobody") == ()


@pytest.mark.parametrize("group", ["", "a/b", ".."])
def test_a_group_that_no_node_can_be_named_by_is_refused(group: str, tree: TreeWriter) -> None:
    cluster = Cluster(tree.discovery, net_07())
    for ask in (cluster.group_members, cluster.logs_of_group):
        with pytest.raises(OptionError, match="cannot be the name of a node"):
            ask(group)


@pytest.mark.parametrize("topic", ["", "a/b", ".."])
def test_a_topic_that_leads_out_of_its_group_is_refused(topic: str, tree: TreeWriter) -> None:
    cluster = Cluster(tree.discovery, net_07())
    with pytest.raises(OptionError, match="cannot be the name of a node"):
        cluster.commit_group_offsets("g", {TopicPartition(topic, 0, 0): 1})


def test_groups_of_07_need_zookeeper() -> None:
    cluster = Cluster(Discovery(broker_list=(Broker(0, "127.0.0.1", 1),)), net_07())
    asks: tuple[Callable[[str], object], ...] = (cluster.group_members, cluster.logs_of_group)
    for ask in asks:
        with pytest.raises(OptionError, match=r"set zookeeper\.connect, not broker\.list"):
            ask("g")


def test_a_consumer_is_a_member_of_its_group_while_it_lives(noida: NoidaBroker) -> None:
    topic = noida.create_topic()
    cluster, group = cluster_of(noida.bootstrap_servers), f"group-of-{topic}"
    assert cluster.group_members(group) == ()
    with librdkafka.member(noida.bootstrap_servers, group, topic, client_id="alive"):
        [member] = cluster.group_members(group)
    assert member.startswith("alive")
    poll(lambda: not cluster.group_members(group), "the consumer has left")


def test_the_logs_of_a_group_are_all_that_it_has_offsets_for(noida: NoidaBroker) -> None:
    first, second = (noida.create_topic(partitions=3) for _ in range(2))
    group = f"group-of-{first}"
    librdkafka.commit_offsets(noida.bootstrap_servers, group, first, {0: 5, 2: 7})
    librdkafka.commit_offsets(noida.bootstrap_servers, group, second, {1: 9})
    expected = [TopicPartition(first, 0), TopicPartition(first, 2), TopicPartition(second, 1)]
    found = cluster_of(noida.bootstrap_servers).logs_of_group(group)
    assert found == tuple(sorted(expected))


def test_a_broker_that_cannot_list_a_groups_logs_has_all_of_them_asked(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=2)
    mock_cluster.set_api_versions(OFFSET_FETCH, 1, 1)
    found = cluster_of(mock_cluster.bootstrap_servers).logs_of_group("g")
    assert found == (TopicPartition("t", 0), TopicPartition("t", 1))


def test_a_broker_that_tells_no_members_is_an_error(mock_cluster: MockCluster) -> None:
    with pytest.raises(UnsupportedVersionError, match=r"does not offer DescribeGroups"):
        cluster_of(mock_cluster.bootstrap_servers).group_members("g")
