"""Ownership of partitions by a member of a group of Kafka 0.7, and the ZooKeeper nodes that it needs.

==========================  =============================================  ===========
node below /consumers/G     data                                           lifetime
==========================  =============================================  ===========
ids/C                       topics of consumer C: ``{ "T": 2 }``           the session
owners/T/BROKER-PARTITION   the thread that reads it: ``C-1``              the session
offsets/T/BROKER-PARTITION  offset of the next message, as decimal text    persistent
leaving/C                   empty; asks consumer C of this package to end  its writer
==========================  =============================================  ===========

Only one member can create an owner node: the others wait until its owner removes it. The offset of a
partition is read after the partition is claimed, because the previous owner commits before it gives the
partition up.

Source: ``zk_tree.json`` of ``tests/golden/kafka-0.7.2``; ZookeeperConsumerConnector of Kafka 0.7.2.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from spark_kafkawire.errors import LOG, DiscoveryError, counted, printable, quoted
from spark_kafkawire.model import TopicPartition

from .balancing import GroupView, subscription, thread_counts, threads_of
from .groups import CONSUMERS, leaving_path, offset_of, offset_path
from .owned_partition import OwnedPartition
from .zookeeper import TOPICS, partition_counts
from .zookeeper_tree import Node, Tree

#: Seconds that a JVM consumer waits for a partition before it stops reading: four times
#: (``rebalance.retries.max``) two seconds (``rebalance.backoff.ms``).
JVM_WAIT_S: Final = 8.0
#: Most consumers of one group, and bytes of all their registrations: more are another program's work.
CONSUMERS_COUNT_MAX: Final = 10_000
REGISTRATIONS_BYTES_MAX: Final = 64 << 20


class Ownership:
    """The partitions of one consumer.

    ``partitions`` are those that it owns. ``others`` are assigned to it while another thread still owns them.
    Partitions that are ``held`` are given up only when the session is lost. ``unregistered`` are the topics
    of the consumer for which no broker had a partition at the last look.

    ``abandoned`` has a line for each node that kept partitions from every reader at the last look. It is the
    owner node of a partition that is assigned to this consumer, if the owner is not registered, or the
    registration of a consumer without a ZooKeeper session. ZooKeeper removes the nodes of a consumer that
    ends; such nodes remain if a tree was copied or restored, or if another program made them.
    """

    def __init__(self, group: str, consumer: str, topics: Sequence[str], thread_count: int) -> None:
        self._root = f"{CONSUMERS}/{group}"
        self._group, self._consumer = group, consumer
        self._topics, self._thread_count = topics, thread_count
        self._threads = {thread.encode() for thread in threads_of(consumer, thread_count)}
        self._claim_count = 0
        self._wanted_s: float | None = None
        self._without_session: list[str] = []
        self.partitions: dict[TopicPartition, OwnedPartition] = {}
        self.others: dict[TopicPartition, str] = {}
        self.unregistered: list[str] = []
        self.abandoned: list[str] = []
        self.is_asked_to_leave = False
        self.held: frozenset[TopicPartition] = frozenset()

    @property
    def is_waited_for(self) -> bool:
        """True if it holds partitions that are assigned to other consumers."""
        return self._wanted_s is not None

    def lose(self) -> None:
        """Handle a lost session: its nodes are gone, and other consumers may be the owners by now."""
        if self.partitions:
            LOG.warning(
                "group %s: the session of %s was lost, and with it %s: other consumers may read again what "
                "it has not committed there",
                quoted(self._group),
                printable(self._consumer),
                counted(len(self.partitions), "partition"),
            )
        self.partitions.clear()

    def balance(self, tree: Tree) -> None:
        """Take over the partitions that are assigned to the consumer now, if their owners gave them up."""
        self.is_asked_to_leave = tree.exists(leaving_path(self._group, self._consumer))
        tree.claim({f"{self._root}/ids/{self._consumer}": subscription(self._topics, self._thread_count)})
        share = self._look(tree).share_of(self._consumer)
        self._give_up(tree, [tp for tp in self.partitions if tp not in share])
        self._claim(tree, share)

    def commit(
        self, tree: Tree, offsets: Mapping[TopicPartition, tuple[int, OwnedPartition]]
    ) -> list[TopicPartition]:
        """Commit offsets, except those of partitions that were lost since, and return these partitions."""
        mine = {tp: offset for tp, (offset, own) in offsets.items() if self.partitions.get(tp) == own}
        tree.put({offset_path(self._group, tp): str(offset).encode() for tp, offset in mine.items()})
        return [tp for tp in offsets if tp not in mine]

    def _look(self, tree: Tree) -> GroupView:
        ids, topics = (names or [] for names in tree.children([f"{self._root}/ids", TOPICS]))
        if len(ids) > CONSUMERS_COUNT_MAX:
            raise DiscoveryError(
                f"node {printable(self._root)}/ids registers {counted(len(ids), 'consumer')}, and a group "
                f"has at most {CONSUMERS_COUNT_MAX}: stop the program that wrote them"
            )
        paths = {f"{self._root}/ids/{name}": name for name in ids}
        nodes = {
            path: node for path, node in zip(paths, self._registrations(tree, paths), strict=True) if node
        }
        there = set(topics)
        topics = [topic for topic in self._topics if topic in there]
        counts = {paths[path]: self._counts(path, node.data, topics) for path, node in nodes.items()}
        self._without_session = [
            f"node {printable(path)} registers a consumer but belongs to no ZooKeeper session: the "
            "partitions of that consumer are not read"
            for path, node in nodes.items()
            if not node.is_ephemeral and any(counts[paths[path]].get(topic) for topic in self._topics)
        ]
        partitions = partition_counts(tree, topics)
        self.unregistered = [topic for topic in self._topics if not partitions.get(topic)]
        return GroupView(counts, partitions)

    def _registrations(self, tree: Tree, paths: Iterable[str]) -> Iterator[Node | None]:
        size = 0
        for node in tree.nodes(paths):
            size += len(node.data) if node else 0
            if size > REGISTRATIONS_BYTES_MAX:
                raise DiscoveryError(
                    f"the nodes in {printable(self._root)}/ids hold more than {REGISTRATIONS_BYTES_MAX} "
                    "bytes, which is too much for a group: stop the program that wrote them"
                )
            yield node

    def _counts(self, path: str, data: bytes, topics: Sequence[str]) -> dict[str, int]:
        """Numbers of threads of a consumer for ``topics``. Topics that it reads besides do not matter here,
        and a filter may match any number of them."""
        counts = thread_counts(path, data, topics)
        return {topic: counts[topic] for topic in topics if topic in counts}

    def _give_up(self, tree: Tree, partitions: Sequence[TopicPartition]) -> None:
        """Give up partitions, except for those that are held."""
        free = [tp for tp in partitions if tp not in self.held]
        tree.remove(self._owner_path(tp) for tp in free)
        for partition in free:
            del self.partitions[partition]
        now_s = time.monotonic()
        if len(free) < len(partitions):
            self._wanted_s = self._wanted_s or now_s
            return
        if self._wanted_s is not None and now_s - self._wanted_s >= JVM_WAIT_S:
            LOG.warning(
                "group %s: other consumers waited %.0f s for a batch to end, and JVM consumers give up after "
                "%g s: make batches and triggers shorter, or raise rebalance.retries.max of these consumers",
                quoted(self._group),
                now_s - self._wanted_s,
                JVM_WAIT_S,
            )
        self._wanted_s = None

    def _claim(self, tree: Tree, share: Mapping[TopicPartition, str]) -> None:
        owners = dict(zip(share, tree.data(map(self._owner_path, share)), strict=True))
        foreign = {tp: owner for tp, owner in owners.items() if owner not in (None, *self._threads)}
        self.others = {tp: printable(owner) for tp, owner in foreign.items()}
        without_consumer = self._without_consumer(tree, foreign)
        self.abandoned = [*self._without_session, *without_consumer]
        kept = {tp for tp in self.partitions if tp not in share or owners[tp] in self._threads}
        self.partitions = {tp: own for tp, own in self.partitions.items() if tp in kept}
        moved = [tp for tp in kept if tp in share and owners[tp] != share[tp].encode()]
        tree.put({self._owner_path(tp): share[tp].encode() for tp in moved})
        self._take(tree, {tp: share[tp] for tp in share if tp not in kept and tp not in self.others})

    def _without_consumer(self, tree: Tree, owners: Mapping[TopicPartition, bytes | None]) -> list[str]:
        """A line for each owner without a registered consumer. A consumer registers before it claims, and its
        nodes disappear together, so registrations are read after owners."""
        if not owners:
            return []
        [names] = tree.children([f"{self._root}/ids"], fresh=True)
        registered = set(names or ())
        consumers = {
            tp: (owner or b"").decode("utf-8", "replace").rpartition("-")[0] for tp, owner in owners.items()
        }
        return [
            f"node {printable(self._owner_path(tp))} names the owner {quoted(owners[tp])}, but no consumer "
            f"{quoted(consumer)} is registered in {printable(self._root)}/ids: {tp} is not read"
            for tp, consumer in consumers.items()
            if consumer not in registered
        ]

    def _take(self, tree: Tree, wanted: Mapping[TopicPartition, str]) -> None:
        """Claim partitions without an owner, or with a thread of this consumer, if the response was lost."""
        paths = {self._owner_path(tp): tp for tp in wanted}
        is_new = tree.claim({path: wanted[tp].encode() for path, tp in paths.items()})
        before = [path for path in paths if not is_new[path]]
        lost = {
            path for path, owner in zip(before, tree.data(before), strict=True) if owner not in self._threads
        }
        self.others |= {paths[path]: "another consumer" for path in paths if path in lost}
        self.partitions.update(self._claimed(tree, [tp for path, tp in paths.items() if path not in lost]))

    def _claimed(
        self, tree: Tree, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OwnedPartition]:
        """Partitions that are owned from now on, with their committed offsets."""
        paths = {offset_path(self._group, tp): tp for tp in partitions}
        owned = {}
        for (path, partition), data in zip(paths.items(), tree.data(paths, fresh=True), strict=True):
            self._claim_count += 1
            offset = None if data is None else offset_of(path, data, strict=True)
            owned[partition] = OwnedPartition(partition, self._claim_count, offset)
        return owned

    def _owner_path(self, partition: TopicPartition) -> str:
        return f"{self._root}/owners/{partition.topic}/{partition.name}"
