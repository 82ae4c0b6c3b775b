"""Consumer groups of Kafka 0.7: their offsets and members in ZooKeeper.

======================================  ===================================================
node                                    data
======================================  ===================================================
/consumers/G/ids/C                      topics of consumer C of the group; exists while it lives
/consumers/G/offsets/T/BROKER-PARTITION  offset of the next message, as decimal text
======================================  ===================================================

Offset nodes are persistent, and the nodes above them have null data. Consumers read them when they start and
at each rebalance, and write them every ``autocommit.interval.ms``: an offset that another client writes in
between is lost, and may make a consumer read twice.

Source: ``zk_tree.json`` of ``tests/golden/kafka-0.7.2``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar

from spark_kafkawire.errors import LOG, DiscoveryError, OptionError, list_some, printable, quote
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import Discovery, is_node_name

from .zookeeper_client import Tree, read_tree

T = TypeVar("T")


CONSUMERS: Final = "/consumers"
_LOG_NAME: Final = re.compile(r"(0|[1-9][0-9]{0,8})-(0|[1-9][0-9]{0,8})")
#: Seconds between two checks for consumers that have left, and seconds that ZooKeeper may take after the last
#: check.
_LOOK_AGAIN_S: Final = 0.1
_ANSWER_S: Final = 10.0
#: Most consumers in one error message.
_NAMES_COUNT_MAX: Final = 3


class ConsumerGroups:
    """Implements the protocol ``cluster.ConsumerGroups``. Each method opens a session with ZooKeeper, and
    ends within ``timeout_s``.

    Methods raise ``DiscoveryError``, and ``OptionError`` for a group name that is not valid in ZooKeeper
    (both fatal).
    """

    def __init__(self, discovery: Discovery, timeout_s: float) -> None:
        self._discovery = discovery
        self._timeout_s = timeout_s

    def names(self) -> tuple[str, ...]:
        [names] = self._read("*", lambda tree: list(tree.children([CONSUMERS])))
        return tuple(sorted(names or ()))

    def members(self, group: str) -> tuple[str, ...]:
        """Ids of the live consumers."""
        path = f"{CONSUMERS}/{_node_name(group, 'group')}/ids"
        [names] = self._read(group, lambda tree: list(tree.children([path])))
        return tuple(sorted(names or ()))

    def partitions(self, group: str) -> tuple[TopicPartition, ...]:
        root = f"{CONSUMERS}/{_node_name(group, 'group')}/offsets"

        def read(tree: Tree) -> list[tuple[str, list[str] | None]]:
            [topics] = tree.children([root])
            names = topics or []
            return list(zip(names, tree.children(f"{root}/{topic}" for topic in names), strict=True))

        result = self._read(group, read)
        matches = ((topic, _LOG_NAME.fullmatch(name)) for topic, names in result for name in names or ())
        return tuple(sorted(TopicPartition(topic, int(m[2]), int(m[1])) for topic, m in matches if m))

    def offsets(
        self, group: str, partitions: Sequence[TopicPartition], *, strict: bool = True
    ) -> dict[TopicPartition, int | None]:
        """Committed offsets. A node with anything other than an offset is an error, or a warning and no
        offset unless ``strict``."""
        paths = [offset_path(group, tp) for tp in partitions]
        result = self._read(group, lambda tree: list(tree.data(paths)))
        return {
            tp: None if data is None else offset_of(path, data, strict=strict)
            for tp, path, data in zip(partitions, paths, result, strict=True)
        }

    def committed(self, group: str) -> dict[TopicPartition, int]:
        offsets = self.offsets(group, self.partitions(group), strict=False)
        return {tp: offset for tp, offset in offsets.items() if offset is not None}

    def texts(self, group: str) -> tuple[tuple[int, str, str], ...]:
        """Return nothing: offsets of 0.7 have no metadata."""
        self._check(group)
        return ()

    def commit(self, group: str, offsets: Mapping[TopicPartition, int], *, force: bool = False) -> None:
        """Write the offsets as the group's consumers do: offset nodes and the nodes above them, no others."""
        nodes = {offset_path(group, tp): str(offset).encode() for tp, offset in offsets.items()}

        def write(tree: Tree) -> None:
            [members] = tree.children([f"{CONSUMERS}/{group}/ids"])
            if members and not force:
                named = list_some(sorted(members), _NAMES_COUNT_MAX, printable)
                raise OptionError(
                    f"group {quote(group)} has live consumers ({named}), which commit offsets themselves; "
                    "stop them, or use another group"
                )
            tree.put(nodes)

        self._read(group, write)

    def _read(self, group: str, read: Callable[[Tree], T]) -> T:
        self._check(group)
        return read_tree(self._discovery, self._timeout_s, read)

    def _check(self, group: str) -> None:
        if self._discovery.zookeeper_connect is None:
            raise OptionError(
                f"group {quote(group)}: 0.7 keeps groups in ZooKeeper; set zookeeper.connect, not broker.list"
            )


def ask_to_leave(discovery: Discovery, timeout_s: float, group: str, consumers: Collection[str]) -> bool:
    """Ask consumers of this package to leave a group between two batches. True once all have left.

    It withdraws the request after ``timeout_s``. Raises as ``ConsumerGroups`` does.
    """
    deadline = Deadline.after(timeout_s)
    paths = {leaving_path(group, name): f"{CONSUMERS}/{group}/ids/{name}" for name in consumers}

    def ask(tree: Tree) -> bool:
        while paths:
            for request, registration in [*paths.items()]:
                # Repeated, because a lost session removes the node.
                tree.claim({request: b""})
                if not tree.exists(registration):
                    del paths[request]
            if paths and not deadline.left_s:
                return False
            time.sleep(min(_LOOK_AGAIN_S, deadline.left_s) if paths else 0)
        return True

    return read_tree(discovery, timeout_s + _ANSWER_S, ask)


def leaving_path(group: str, consumer: str) -> str:
    """The node that asks a consumer to leave. JVM consumers ignore it."""
    return f"{CONSUMERS}/{_node_name(group, 'group')}/leaving/{consumer}"


def offset_path(group: str, partition: TopicPartition) -> str:
    """The node of the offset of a group in a partition. Raises ``OptionError`` (fatal)."""
    topic = _node_name(partition.topic, "topic")
    return f"{CONSUMERS}/{_node_name(group, 'group')}/offsets/{topic}/{partition.name}"


def _node_name(name: str, what: str) -> str:
    if not is_node_name(name):
        raise OptionError(f"{what} {quote(name)} cannot be the name of a node in ZooKeeper; choose another")
    return name


def offset_of(path: str, data: bytes, *, strict: bool) -> int | None:
    """The offset in the data of a node. Other data raises ``DiscoveryError`` (fatal), or is a warning and
    None unless ``strict``."""
    # Java's Long.parseLong also accepts a sign, but no client writes it.
    if not re.fullmatch(rb"\d{1,19}", data) or int(data) >= 1 << 63:
        fault = f"node {printable(path)} holds {quote(data)}, which is not an offset"
        if strict:
            raise DiscoveryError(fault)
        LOG.warning("%s; the node is ignored", fault)
        return None
    return int(data)
