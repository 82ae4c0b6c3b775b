"""Offsets of 0.7's consumer groups: read as the JVM wrote them, written as it writes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from spark_kafkawire.cluster.v07.cluster import V07Cluster
from spark_kafkawire.errors import DiscoveryError, OptionError
from spark_kafkawire.model import Broker, TopicPartition
from spark_kafkawire.options import Discovery
from tests.support.golden import read_json
from tests.support.settings import net_07
from tests.support.tree_writer import TreeWriter
from tests.support.zookeeper_tree import Node, read_tree

STAGES = read_json("zk_tree.json")["stages"]
#: A group of two consumers, of one that has left in order, and of none any more.
LIVE, LEFT = "12_after_more_messages", "13_consumer1_shut_down"
GROUP, TOPIC = "lab-group", "cc-topic"
PARTITIONS = [TopicPartition(TOPIC, partition, broker) for broker in (0, 1) for partition in range(3)]
ROOT = f"/consumers/{GROUP}"


def recorded(stage: str) -> dict[str, dict[str, Any]]:
    """The nodes that consumers wrote, by path."""
    return {node["path"]: node for node in STAGES[stage]["tree"] if node["path"].startswith(ROOT)}


@pytest.fixture
def client(tree: TreeWriter) -> Iterator[KazooClient]:
    """A client below the test's chroot."""
    tree.put("/consumers")
    client = KazooClient(tree.connect)
    client.start()
    yield client
    client.stop()
    client.close()


def restore(client: KazooClient, stage: str) -> None:
    """Make the recorded nodes, ephemeral ones as nodes of this client."""
    for path, node in sorted(recorded(stage).items()):
        data = None if node["data"] is None else node["data"].encode()
        client.create(path, data, ephemeral=node["ephemeral"])


def cluster(tree: TreeWriter) -> V07Cluster:
    return V07Cluster(tree.discovery, net_07())


@pytest.mark.parametrize("stage", [LIVE, LEFT, "10_consumer1_two_streams", "19_compressed"])
def test_offsets_are_read_as_the_jvm_wrote_them(stage: str, client: KazooClient, tree: TreeWriter) -> None:
    nodes = [node for node in STAGES[stage]["tree"] if node["path"].startswith("/consumers/")]
    offsets = [node for node in nodes if "/offsets/" in node["path"] and node["data"]]
    assert offsets
    for node in offsets:
        client.create(node["path"], node["data"].encode(), makepath=True)
        _, _, group, _, topic, name = node["path"].split("/")
        broker, partition = name.split("-")
        tp = TopicPartition(topic, int(partition), int(broker))
        assert cluster(tree).groups.offsets(group, [tp]) == {tp: int(node["data"])}


def test_offsets_are_written_as_the_jvm_writes_them(client: KazooClient, tree: TreeWriter) -> None:
    expected = [
        Node(path, node["data"], node["ephemeral"])
        for path, node in sorted(recorded(LEFT).items())
        if path == ROOT or path.startswith(f"{ROOT}/offsets")
    ]
    assert len(expected) == 3 + len(PARTITIONS)
    cluster(tree).groups.commit(GROUP, dict.fromkeys(PARTITIONS, 54))
    assert read_tree(client, ROOT) == expected


def test_a_second_commit_changes_the_offset_nodes_and_nothing_else(
    client: KazooClient, tree: TreeWriter
) -> None:
    restore(client, LEFT)
    for path in client.get_children(f"{ROOT}/ids"):
        client.delete(f"{ROOT}/ids/{path}")
    before = {node.path: client.exists(node.path).mzxid for node in read_tree(client, ROOT)}
    moved = {PARTITIONS[0]: 74, PARTITIONS[4]: 94}
    cluster(tree).groups.commit(GROUP, moved)
    after = {node.path: client.exists(node.path).mzxid for node in read_tree(client, ROOT)}
    written = {f"{ROOT}/offsets/{TOPIC}/{tp.name}" for tp in moved}
    assert {path for path in after if after[path] != before.get(path)} == written
    found = cluster(tree).groups.offsets(GROUP, PARTITIONS)
    assert found == {**dict.fromkeys(PARTITIONS, 54), **moved}


def test_a_group_with_live_consumers_is_left_alone(client: KazooClient, tree: TreeWriter) -> None:
    restore(client, LIVE)
    before = read_tree(client, ROOT)
    with pytest.raises(
        OptionError, match=r"^group 'lab-group' has live consumers \(lab-group_fixed-name, lab-group_vm-"
    ):
        cluster(tree).groups.commit(GROUP, {PARTITIONS[0]: 0})
    assert read_tree(client, ROOT) == before
    cluster(tree).groups.commit(GROUP, {PARTITIONS[0]: 0}, force=True)
    changed = set(read_tree(client, ROOT)) - set(before)
    assert changed == {Node(f"{ROOT}/offsets/{TOPIC}/0-0", "0", ephemeral=False)}


def test_what_a_group_has_not_committed_is_none(client: KazooClient, tree: TreeWriter) -> None:
    restore(client, LEFT)
    unknown = TopicPartition("another", 0, 0)
    assert cluster(tree).groups.offsets(GROUP, [unknown, PARTITIONS[1]]) == {unknown: None, PARTITIONS[1]: 54}
    assert cluster(tree).groups.offsets("nobody", [PARTITIONS[0]]) == {PARTITIONS[0]: None}


@pytest.mark.parametrize("data", [b"", b"-1", b"5.0", b"x" * 100, b"9223372036854775808", b"\xff"])
def test_what_is_no_offset_is_told_with_its_node(data: bytes, tree: TreeWriter) -> None:
    tree.put(f"{ROOT}/offsets/{TOPIC}/0-0", data)
    tree.put(f"{ROOT}/offsets/{TOPIC}/0-1", b"54")
    found = cluster(tree).groups.offsets(GROUP, PARTITIONS[:2], strict=False)
    assert found == {PARTITIONS[0]: None, PARTITIONS[1]: 54}
    with pytest.raises(DiscoveryError, match=rf"node {ROOT}/offsets/{TOPIC}/0-0 holds .*not an offset$"):
        cluster(tree).groups.offsets(GROUP, PARTITIONS)


@pytest.mark.parametrize("group", ["", "a/b", ".", "..", "a\nb"])
def test_a_group_that_no_node_can_be_named_by_is_refused(group: str, tree: TreeWriter) -> None:
    with pytest.raises(OptionError, match=r"cannot be the name of a node in ZooKeeper"):
        cluster(tree).groups.commit(group, {PARTITIONS[0]: 1})


def test_groups_need_zookeeper() -> None:
    without = V07Cluster(Discovery(broker_list=(Broker(0, "127.0.0.1", 1),)), net_07())
    for ask in (lambda: without.groups.offsets("g", PARTITIONS), lambda: without.groups.commit("g", {})):
        with pytest.raises(OptionError, match=r"group 'g': .* set zookeeper\.connect, not broker\.list"):
            ask()
