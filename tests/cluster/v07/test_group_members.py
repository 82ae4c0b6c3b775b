"""Members of a consumer group of 0.7, and the partitions that it has offsets for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spark_kafkawire.cluster.v07.cluster import V07Cluster
from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import Broker, TopicPartition
from spark_kafkawire.options import Discovery
from tests.support.golden import read_json
from tests.support.settings import net_07
from tests.support.tree_writer import TreeWriter

STAGES = read_json("zk_tree.json")["stages"]


def restore(tree: TreeWriter, stage: str) -> None:
    """The recorded consumers' nodes, as persistent ones."""
    for node in STAGES[stage]["tree"]:
        if node["path"].startswith("/consumers/") and not node["children"]:
            tree.put(node["path"], (node["data"] or "").encode())


def test_the_groups_of_07_are_all_that_zookeeper_has(tree: TreeWriter) -> None:
    cluster = V07Cluster(tree.discovery, net_07())
    tree.put("/brokers")
    assert cluster.groups.names() == ()
    restore(tree, "11_second_consumer_joined")
    tree.put("/consumers/another/ids")
    assert cluster.groups.names() == ("another", "lab-group")


def test_the_members_of_a_07_group_are_those_that_the_jvm_registered(tree: TreeWriter) -> None:
    restore(tree, "11_second_consumer_joined")
    cluster = V07Cluster(tree.discovery, net_07())
    first, second = cluster.groups.members("lab-group")
    assert first == "lab-group_fixed-name"
    assert second.startswith("lab-group_vm-")
    assert cluster.groups.members("nobody") == ()


def test_the_partitions_of_a_07_group_are_all_that_it_has_offsets_for(tree: TreeWriter) -> None:
    restore(tree, "15_wildcard_whitelist")
    tree.put("/consumers/lab-wild/offsets/cc-topic/not-a-log", b"5")
    tree.put("/consumers/lab-wild/offsets/empty")
    cluster = V07Cluster(tree.discovery, net_07())
    assert cluster.groups.partitions("lab-wild") == (
        *(TopicPartition("cc-comp", partition, 0) for partition in range(3)),
        *(TopicPartition("cc-topic", partition, broker) for partition in range(3) for broker in (0, 1)),
    )
    assert cluster.groups.partitions("nobody") == ()


@pytest.mark.parametrize("group", ["", "a/b", ".."])
def test_a_group_that_no_node_can_be_named_by_is_refused(group: str, tree: TreeWriter) -> None:
    cluster = V07Cluster(tree.discovery, net_07())
    for ask in (cluster.groups.members, cluster.groups.partitions):
        with pytest.raises(OptionError, match="cannot be the name of a node"):
            ask(group)


@pytest.mark.parametrize("topic", ["", "a/b", ".."])
def test_a_topic_that_leads_out_of_its_group_is_refused(topic: str, tree: TreeWriter) -> None:
    cluster = V07Cluster(tree.discovery, net_07())
    with pytest.raises(OptionError, match="cannot be the name of a node"):
        cluster.groups.commit("g", {TopicPartition(topic, 0, 0): 1})


def test_groups_of_07_need_zookeeper() -> None:
    cluster = V07Cluster(Discovery(broker_list=(Broker(0, "127.0.0.1", 1),)), net_07())
    asks: tuple[Callable[[str], object], ...] = (cluster.groups.members, cluster.groups.partitions)
    for ask in asks:
        with pytest.raises(OptionError, match=r"set zookeeper\.connect, not broker\.list"):
            ask("g")
