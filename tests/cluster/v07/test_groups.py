"""Groups of 0.7: offsets in ZooKeeper, members, watched nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent

from spark_kafkawire.cluster.v07.cluster import V07Cluster
from spark_kafkawire.cluster.v07.groups import ConsumerGroups
from spark_kafkawire.cluster.v07.zookeeper_client import WatchedNodes
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
    result = cluster(tree).groups.offsets(GROUP, PARTITIONS)
    assert result == {**dict.fromkeys(PARTITIONS, 54), **moved}


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


def test_a_partition_that_a_group_has_not_committed_has_no_offset(
    client: KazooClient, tree: TreeWriter
) -> None:
    restore(client, LEFT)
    unknown = TopicPartition("another", 0, 0)
    assert cluster(tree).groups.offsets(GROUP, [unknown, PARTITIONS[1]]) == {unknown: None, PARTITIONS[1]: 54}
    assert cluster(tree).groups.offsets("nobody", [PARTITIONS[0]]) == {PARTITIONS[0]: None}


@pytest.mark.parametrize("data", [b"", b"-1", b"5.0", b"x" * 100, b"9223372036854775808", b"\xff"])
def test_report_an_invalid_offset_with_its_node(data: bytes, tree: TreeWriter) -> None:
    tree.put(f"{ROOT}/offsets/{TOPIC}/0-0", data)
    tree.put(f"{ROOT}/offsets/{TOPIC}/0-1", b"54")
    result = cluster(tree).groups.offsets(GROUP, PARTITIONS[:2], strict=False)
    assert result == {PARTITIONS[0]: None, PARTITIONS[1]: 54}
    with pytest.raises(DiscoveryError, match=rf"node {ROOT}/offsets/{TOPIC}/0-0 holds .*not an offset$"):
        cluster(tree).groups.offsets(GROUP, PARTITIONS)


def asks_of(groups: ConsumerGroups, group: str) -> tuple[Callable[[], object], ...]:
    return (
        lambda: groups.offsets(group, PARTITIONS),
        lambda: groups.commit(group, {PARTITIONS[0]: 1}),
        lambda: groups.members(group),
        lambda: groups.partitions(group),
    )


@pytest.mark.parametrize("name", ["", "a/b", ".", "..", "a\nb"])
def test_a_group_or_topic_that_no_node_can_be_named_by_is_refused(name: str, tree: TreeWriter) -> None:
    groups = cluster(tree).groups
    for ask in asks_of(groups, name)[1:]:
        with pytest.raises(OptionError, match=r"cannot be the name of a node in ZooKeeper"):
            ask()
    with pytest.raises(OptionError, match="cannot be the name of a node"):
        groups.commit("g", {TopicPartition(name, 0, 0): 1})


def test_groups_need_zookeeper() -> None:
    without = V07Cluster(Discovery(broker_list=(Broker(0, "127.0.0.1", 1),)), net_07())
    for ask in asks_of(without.groups, "g"):
        with pytest.raises(OptionError, match=r"group 'g': .* set zookeeper\.connect, not broker\.list"):
            ask()


def restore_consumers(tree: TreeWriter, stage: str) -> None:
    """The recorded consumers' nodes, as persistent ones."""
    for node in STAGES[stage]["tree"]:
        if node["path"].startswith("/consumers/") and not node["children"]:
            tree.put(node["path"], (node["data"] or "").encode())


def test_the_groups_of_07_are_all_that_zookeeper_has(tree: TreeWriter) -> None:
    tree.put("/brokers")
    assert cluster(tree).groups.names() == ()
    restore_consumers(tree, "11_second_consumer_joined")
    tree.put("/consumers/another/ids")
    assert cluster(tree).groups.names() == ("another", "lab-group")


def test_the_members_of_a_07_group_are_those_that_the_jvm_registered(tree: TreeWriter) -> None:
    restore_consumers(tree, "11_second_consumer_joined")
    first, second = cluster(tree).groups.members("lab-group")
    assert first == "lab-group_fixed-name"
    assert second.startswith("lab-group_vm-")
    assert cluster(tree).groups.members("nobody") == ()


def test_the_partitions_of_a_07_group_are_all_that_it_has_offsets_for(tree: TreeWriter) -> None:
    restore_consumers(tree, "15_wildcard_whitelist")
    tree.put("/consumers/lab-wild/offsets/cc-topic/not-a-log", b"5")
    tree.put("/consumers/lab-wild/offsets/empty")
    assert cluster(tree).groups.partitions("lab-wild") == (
        *(TopicPartition("cc-comp", partition, 0) for partition in range(3)),
        *(TopicPartition("cc-topic", partition, broker) for partition in range(3) for broker in (0, 1)),
    )
    assert cluster(tree).groups.partitions("nobody") == ()


def event(path: str | None) -> WatchedEvent:
    kind = EventType.NONE if path is None else EventType.CHANGED
    return WatchedEvent(kind, KeeperState.CONNECTED, path)


def kept(*paths: str) -> tuple[WatchedNodes, list[None]]:
    """Nodes with answers, and a list with an item for each report of a change."""
    reports: list[None] = []
    watched = WatchedNodes(lambda: reports.append(None))
    for path in paths:
        watched.request("node", path)
        watched.keep("node", path, f"answer of {path}")
    return watched, reports


def test_an_answer_is_kept_until_the_event_of_its_node() -> None:
    watched, reports = kept("/a", "/b")
    assert watched.answer("node", "/a") == "answer of /a"
    assert watched.answer("children", "/a") is None
    watched.seen(event("/a"))
    assert watched.answer("node", "/a") is None
    assert watched.answer("node", "/b") == "answer of /b"
    assert len(reports) == 1


def test_an_answer_whose_event_comes_first_is_not_kept() -> None:
    """kazoo delivers events and answers in two threads."""
    watched, _ = kept()
    watched.request("node", "/a")
    watched.seen(event("/a"))
    watched.keep("node", "/a", "before the change")
    assert watched.answer("node", "/a") is None
    watched.request("node", "/a")
    watched.keep("node", "/a", "after it")
    assert watched.answer("node", "/a") == "after it"


def test_a_broken_connection_ends_all_watches() -> None:
    watched, reports = kept("/a", "/b")
    watched.request("node", "/c")
    watched.seen(event(None))
    watched.keep("node", "/c", "of the connection before")
    assert [watched.answer("node", path) for path in ("/a", "/b", "/c")] == [None] * 3
    assert len(reports) == 1
