"""Where a consumer group of Kafka 0.7 stands: its offsets in ZooKeeper.

======================================  ===================================================
node                                    data
======================================  ===================================================
/consumers/G/ids/C                      what consumer C of the group reads; there while it lives
/consumers/G/offsets/T/BROKER-PARTITION  offset of the next message, as decimal text
======================================  ===================================================

Offset nodes are persistent, those above them have null data. Consumers read them when they begin and
when they share their partitions anew, and write them every ``autocommit.interval.ms``: what somebody
else writes meanwhile is lost, and may make a consumer read twice.

Source: ``zk_tree.json`` of ``tests/golden/kafka-0.7.2``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Final

from ...errors import DiscoveryError, OptionError, quoted, shown
from ...model import TopicPartition
from ...options import Discovery, is_node_name
from .zookeeper_session import read_tree
from .zookeeper_tree import Tree

_log = logging.getLogger("spark_kafkawire")

CONSUMERS: Final = "/consumers"
_LOG_NAME: Final = re.compile(r"(0|[1-9][0-9]{0,8})-(0|[1-9][0-9]{0,8})")
#: Bytes of a node's data that an error shows.
_SHOWN_SIZE_MAX: Final = 60
#: Consumers that an error names.
_NAMES_COUNT_MAX: Final = 3


def read_group_offsets(
    discovery: Discovery,
    timeout_s: float,
    group: str,
    logs: Sequence[TopicPartition],
    *,
    strict: bool = True,
) -> dict[TopicPartition, int | None]:
    """The offset that a group committed for each log, None where it has none.

    Raises ``DiscoveryError``, ``OptionError`` for a group that no node can be named by (both fatal).
    A node that holds something else is an error; unless ``strict`` it is a warning, and no offset.
    """
    paths = [offset_path(group, log) for log in logs]
    found = read_tree(discovery, timeout_s, lambda tree: list(tree.data(paths)))
    return {
        log: None if data is None else offset_of(path, data, strict=strict)
        for log, path, data in zip(logs, paths, found, strict=True)
    }


def commit_group_offsets(
    discovery: Discovery,
    timeout_s: float,
    group: str,
    offsets: Mapping[TopicPartition, int],
    *,
    force: bool = False,
) -> None:
    """Write a group's offsets as its consumers do.

    Raises ``OptionError`` (fatal) where the group has live consumers, unless ``force`` is set; else as
    ``read_group_offsets``. Nothing but offset nodes and those above them is ever written.
    """
    nodes = {offset_path(group, log): str(offset).encode() for log, offset in offsets.items()}

    def write(tree: Tree) -> None:
        [members] = tree.children([f"{CONSUMERS}/{group}/ids"])
        if members and not force:
            more = len(members) - _NAMES_COUNT_MAX
            named = ", ".join(map(shown, sorted(members)[:_NAMES_COUNT_MAX])) + (
                f" and {more} more" if more > 0 else ""
            )
            raise OptionError(
                f"group {quoted(group)} has live consumers ({named}), which commit themselves; "
                "stop them, or use another group"
            )
        tree.put(nodes)

    read_tree(discovery, timeout_s, write)


def list_groups(discovery: Discovery, timeout_s: float) -> tuple[str, ...]:
    """The names of all groups, sorted. Raises ``DiscoveryError`` (fatal)."""
    [names] = read_tree(discovery, timeout_s, lambda tree: list(tree.children([CONSUMERS])))
    return tuple(sorted(names or ()))


def group_members(discovery: Discovery, timeout_s: float, group: str) -> tuple[str, ...]:
    """The ids of a group's live consumers, sorted. Raises as ``read_group_offsets`` does."""
    path = f"{CONSUMERS}/{_node_name(group, 'group')}/ids"
    [names] = read_tree(discovery, timeout_s, lambda tree: list(tree.children([path])))
    return tuple(sorted(names or ()))


def logs_of_group(discovery: Discovery, timeout_s: float, group: str) -> tuple[TopicPartition, ...]:
    """All logs that a group has an offset for, sorted. Raises as ``read_group_offsets`` does."""
    root = f"{CONSUMERS}/{_node_name(group, 'group')}/offsets"

    def read(tree: Tree) -> list[tuple[str, list[str] | None]]:
        [topics] = tree.children([root])
        names = topics or []
        return list(zip(names, tree.children(f"{root}/{topic}" for topic in names), strict=True))

    found = read_tree(discovery, timeout_s, read)
    matches = ((topic, _LOG_NAME.fullmatch(name)) for topic, names in found for name in names or ())
    return tuple(sorted(TopicPartition(topic, int(m[2]), int(m[1])) for topic, m in matches if m))


def offset_path(group: str, log: TopicPartition) -> str:
    """The node of a group's offset in a log. Raises ``OptionError`` (fatal)."""
    topic = _node_name(log.topic, "topic")
    return f"{CONSUMERS}/{_node_name(group, 'group')}/offsets/{topic}/{log.name}"


def _node_name(name: str, what: str) -> str:
    if not is_node_name(name):
        raise OptionError(f"{what} {quoted(name)} cannot be the name of a node in ZooKeeper")
    return name


def offset_of(path: str, data: bytes, *, strict: bool) -> int | None:
    """The offset that a node holds. Raises ``DiscoveryError`` (fatal) for something else, unless it is only
    told (not ``strict``)."""
    # Java's Long.parseLong takes a sign, which nobody has written.
    if not re.fullmatch(rb"\d{1,19}", data) or int(data) >= 1 << 63:
        fault = f"node {shown(path)} holds {quoted(data)}, which is not an offset"
        if strict:
            raise DiscoveryError(fault)
        _log.warning("%s; it is left out", fault)
        return None
    return int(data)
