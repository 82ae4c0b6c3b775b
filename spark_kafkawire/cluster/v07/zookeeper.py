"""Brokers and topics as 0.7 brokers register them in ZooKeeper.

====================  =====================================================================
node                  data
====================  =====================================================================
/brokers/ids/N        ``creator:host:port`` of broker N; there while it is alive
/brokers/topics/T/N   how many partitions of topic T broker N is configured to have
====================  =====================================================================

Source: ``zk_tree.json`` of ``tests/golden/kafka-0.7.2``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from ...errors import BrokersMissingError, DiscoveryError, quoted, shown
from ...model import Broker, ClusterView, TopicPartition
from ...options import Discovery
from .zookeeper_session import read_tree
from .zookeeper_tree import Tree

IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"

#: Logs of one cluster. Each is a folder of a broker: more are a lie or a mistake.
LOGS_COUNT_MAX: Final = 250_000

#: A port, and the end of a registration's creator: ``-``, a start time.
_PORT: Final = re.compile(r"[0-9]{1,5}")
_CREATED: Final = re.compile(r"-[0-9]+:")
#: What no host holds.
_NO_HOST: Final = re.compile(r"[\s/]")


def discover(discovery: Discovery, timeout_s: float) -> ClusterView:
    """All brokers and logs that ZooKeeper knows at this moment.

    Nodes that vanish meanwhile are left out; a lost session is replaced and everything read
    anew, all within ``timeout_s``.

    Raises ``DiscoveryError`` (fatal), ``OptionError`` (fatal) for an impossible address.
    """
    return read_tree(discovery, timeout_s, _cluster_view)


def _cluster_view(tree: Tree) -> ClusterView:
    broker_names, topics = tree.children([IDS, TOPICS])
    if not broker_names:
        raise _why_empty(tree, broker_names)
    brokers = tuple(sorted(_brokers(tree, broker_names)))
    if not brokers:
        raise BrokersMissingError("no Kafka broker is alive any more: the last one has just gone")
    logs = tuple(sorted(_logs(tree, topics or [])))
    return ClusterView(brokers, logs, tuple(sorted({*(topics or ())} - {log.topic for log in logs})))


def _why_empty(tree: Tree, broker_names: list[str] | None) -> DiscoveryError:
    if broker_names is not None:
        return BrokersMissingError(f"no Kafka broker is alive: {IDS} is empty")
    if not tree.exists("/"):
        return DiscoveryError("the chroot (the path after the hosts) is not in ZooKeeper")
    return DiscoveryError(f"no Kafka broker has registered here ({IDS} is not there): is the chroot right?")


def _brokers(tree: Tree, names: list[str]) -> Iterator[Broker]:
    paths = [f"{IDS}/{name}" for name in names]
    for path, name, data in zip(paths, names, tree.data(paths), strict=True):
        if data is not None:
            address = _address(data.decode("utf-8", "replace"))
            if not address or not 0 < address[1] < 65536:
                raise _bad_node(path, data, "creator:host:port")
            yield Broker(_broker_id(path, name), *address)


def _address(registration: str) -> tuple[str, int] | None:
    """Host and port of ``creator:host:port``; None where it is not like that.

    The creator is a host name or address, ``-`` and a start time. It and the host may be IPv6 addresses,
    which hold colons: so the creator ends with the first start time, and without any at the first colon.
    """
    rest, _, port = registration.rpartition(":")
    # Nothing here is looked at more than a few times: one expression for all took cubic time.
    first = max((found.end() for found in _NO_HOST.finditer(rest)), default=0)
    starts = (found.end() for found in _CREATED.finditer(rest))
    start = next((start for start in starts if start >= first), rest.find(":") + 1)
    host = rest[start:]
    if not start or start < first or not host or not _PORT.fullmatch(port):
        return None
    return host.strip("[]"), int(port)


def _logs(tree: Tree, topics: list[str]) -> Iterator[TopicPartition]:
    for topic, counts in partition_counts(tree, topics).items():
        for broker_id, count in counts.items():
            yield from (TopicPartition(topic, partition, broker_id) for partition in range(count))


def partition_counts(tree: Tree, topics: Sequence[str]) -> dict[str, dict[int, int]]:
    """How many partitions each broker has of each topic, by its id. Raises ``DiscoveryError`` (fatal)."""
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
            if total > LOGS_COUNT_MAX:
                raise DiscoveryError(
                    f"{TOPICS} announces {total} partitions or more, at most {LOGS_COUNT_MAX} can be"
                )
            counts[topic][_broker_id(path, name)] = count
    return counts


def _broker_id(path: str, name: str) -> int:
    if not re.fullmatch(r"0|[1-9][0-9]{0,8}", name):
        raise DiscoveryError(f"node {shown(path)} is not named by a broker id")
    return int(name)


def _partition_count(path: str, data: bytes) -> int:
    if not re.fullmatch(rb"[1-9]\d{0,8}", data):
        raise _bad_node(path, data, "a partition count")
    return int(data)


def _bad_node(path: str, data: bytes, expected: str) -> DiscoveryError:
    return DiscoveryError(f"node {shown(path)} holds {quoted(data)}, which is not {expected}")
