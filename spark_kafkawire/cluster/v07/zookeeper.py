"""Brokers and topics of Kafka 0.7 in ZooKeeper, as the brokers register them.

====================  =====================================================================
node                  data
====================  =====================================================================
/brokers/ids/N        ``creator:host:port`` of broker N; exists while it is alive
/brokers/topics/T/N   number of partitions of topic T on broker N
====================  =====================================================================

Source: ``zk_tree.json`` of ``tests/golden/kafka-0.7.2``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from spark_kafkawire.errors import BrokersMissingError, DiscoveryError, printable, quoted
from spark_kafkawire.model import Broker, ClusterView, TopicPartition
from spark_kafkawire.options import Discovery

from .later_brokers import check_none_is_later
from .zookeeper_session import read_tree
from .zookeeper_tree import Tree

IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"

#: Most partitions of one cluster. Each is a folder of a broker, so a larger number is wrong.
PARTITIONS_COUNT_MAX: Final = 250_000

#: A port, and the end of the creator in a registration: ``-`` and a start time.
_PORT: Final = re.compile(r"[0-9]{1,5}")
_CREATED: Final = re.compile(r"-[0-9]+:")
#: Characters that no host name contains.
_NO_HOST: Final = re.compile(r"[\s/]")


def discover(discovery: Discovery, timeout_s: float) -> ClusterView:
    """Brokers and partitions that are registered in ZooKeeper now.

    Nodes that vanish meanwhile are left out. If the session is lost, a new session reads everything again,
    all within ``timeout_s``.

    Raises ``DiscoveryError`` (fatal), ``OptionError`` (fatal) for an impossible address.
    """
    return read_tree(discovery, timeout_s, _cluster_view)


def _cluster_view(tree: Tree) -> ClusterView:
    broker_names, topics = tree.children([IDS, TOPICS])
    if not broker_names:
        raise _why_empty(tree, broker_names)
    brokers = tuple(sorted(_brokers(tree, broker_names)))
    if not brokers:
        raise BrokersMissingError(
            f"no Kafka broker is alive any more: the last one has just left {IDS}; start the brokers, or "
            "correct zookeeper.connect"
        )
    partitions = tuple(sorted(_partitions(tree, topics or [])))
    return ClusterView(
        brokers, partitions, tuple(sorted({*(topics or ())} - {tp.topic for tp in partitions}))
    )


def _why_empty(tree: Tree, broker_names: list[str] | None) -> DiscoveryError:
    if broker_names is not None:
        return BrokersMissingError(
            f"no Kafka broker is alive: {IDS} is empty; start the brokers, or correct zookeeper.connect"
        )
    if not tree.exists("/"):
        return DiscoveryError(
            "the chroot (the path after the hosts) is not in ZooKeeper; correct zookeeper.connect"
        )
    return DiscoveryError(
        f"no Kafka broker has registered here ({IDS} does not exist): check the chroot (the path after the "
        "hosts)"
    )


def _brokers(tree: Tree, names: list[str]) -> Iterator[Broker]:
    paths = [f"{IDS}/{name}" for name in names]
    registrations = list(tree.data(paths))
    check_none_is_later(registrations)
    for path, name, data in zip(paths, names, registrations, strict=True):
        if data is not None:
            address = _address(data.decode("utf-8", "replace"))
            if not address or not 0 < address[1] < 65536:
                raise _bad_node(path, data, "creator:host:port")
            yield Broker(_broker_id(path, name), *address)


def _address(registration: str) -> tuple[str, int] | None:
    """Host and port of ``creator:host:port``; None for any other text.

    The creator is a host name or address, ``-`` and a start time. Both it and the host may be IPv6 addresses,
    which contain colons. So the creator ends after the first start time, or at the first colon if there is no
    start time.
    """
    rest, _, port = registration.rpartition(":")
    # Every character is examined a few times at most: a single regular expression took cubic time.
    first = max((found.end() for found in _NO_HOST.finditer(rest)), default=0)
    starts = (found.end() for found in _CREATED.finditer(rest))
    start = next((start for start in starts if start >= first), rest.find(":") + 1)
    host = rest[start:]
    if not start or start < first or not host or not _PORT.fullmatch(port):
        return None
    return host.strip("[]"), int(port)


def _partitions(tree: Tree, topics: list[str]) -> Iterator[TopicPartition]:
    for topic, counts in partition_counts(tree, topics).items():
        for broker_id, count in counts.items():
            yield from (TopicPartition(topic, partition, broker_id) for partition in range(count))


def partition_counts(tree: Tree, topics: Sequence[str]) -> dict[str, dict[int, int]]:
    """Numbers of partitions by topic and broker id. Raises ``DiscoveryError`` (fatal)."""
    holders = tree.children(f"{TOPICS}/{topic}" for topic in topics)
    registered = [
        (topic, name, f"{TOPICS}/{topic}/{name}")
        for topic, names in zip(topics, holders, strict=True)
        for name in names or ()
    ]
    total = 0
    counts: dict[str, dict[int, int]] = {topic: {} for topic in topics}
    for (topic, name, path), data in zip(registered, tree.data(path for *_, path in registered), strict=True):
        if data is not None:
            count = _partition_count(path, data)
            total += count
            if total > PARTITIONS_COUNT_MAX:
                raise DiscoveryError(
                    f"{TOPICS} announces {total} partitions or more, at most {PARTITIONS_COUNT_MAX} are "
                    "possible; correct its nodes"
                )
            counts[topic][_broker_id(path, name)] = count
    return counts


def _broker_id(path: str, name: str) -> int:
    if not re.fullmatch(r"0|[1-9][0-9]{0,8}", name):
        raise DiscoveryError(
            f"the name of node {printable(path)} is not a broker id: remove the node, or stop the program "
            "that made it"
        )
    return int(name)


def _partition_count(path: str, data: bytes) -> int:
    if not re.fullmatch(rb"[1-9]\d{0,8}", data):
        raise _bad_node(path, data, "a partition count")
    return int(data)


def _bad_node(path: str, data: bytes, expected: str) -> DiscoveryError:
    return DiscoveryError(
        f"node {printable(path)} holds {quoted(data)}, which is not {expected}: stop the program that wrote "
        "it"
    )
