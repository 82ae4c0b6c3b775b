"""What a member of a group of Kafka 0.7 owns, and what it does in ZooKeeper to own its share.

==========================  =============================================  ===========
node below /consumers/G     data                                           goes with
==========================  =============================================  ===========
ids/C                       what consumer C reads: ``{ "T": 2 }``          the session
owners/T/BROKER-PARTITION   the thread that reads it: ``C-1``              the session
offsets/T/BROKER-PARTITION  offset of the next message, as decimal text    nobody
==========================  =============================================  ===========

An owner node is made by one member alone: what another one still owns is waited for. The offset of a log is
read once the log is claimed, for its owner of before commits, and then gives up.

Source: ``zk_tree.json`` of ``tests/golden/kafka-0.7.2``; ZookeeperConsumerConnector of Kafka 0.7.2.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ...errors import quoted, shown
from ...model import TopicPartition
from ..claim import Claim
from .balancing import GroupView, subscription, thread_counts, threads_of
from .groups import CONSUMERS, offset_of, offset_path
from .zookeeper import TOPICS, partition_counts
from .zookeeper_tree import Tree

_log = logging.getLogger("spark_kafkawire")

#: For so long a consumer of the JVM's waits for a partition before it gives up reading at all, seconds: four
#: times (``rebalance.retries.max``) two (``rebalance.backoff.ms``).
JVM_PATIENCE_S: Final = 8.0


class Ownership:
    """Of one consumer. ``claims`` is what it owns, ``others`` what it shall own and another thread has yet.
    What is ``held`` is given up by nobody but a lost session. ``unregistered`` are its topics of which no
    broker had a partition at the last look."""

    def __init__(self, group: str, consumer: str, topics: Sequence[str], thread_count: int) -> None:
        self._root = f"{CONSUMERS}/{group}"
        self._group, self._consumer = group, consumer
        self._topics, self._thread_count = topics, thread_count
        self._threads = {thread.encode() for thread in threads_of(consumer, thread_count)}
        self._claim_count = 0
        self._wanted_s: float | None = None
        self.claims: dict[TopicPartition, Claim] = {}
        self.others: dict[TopicPartition, str] = {}
        self.unregistered: list[str] = []
        self.held: frozenset[TopicPartition] = frozenset()

    @property
    def is_waited_for(self) -> bool:
        """Whether it holds what others are to have."""
        return self._wanted_s is not None

    def lose(self) -> None:
        """The session is lost, and with it all nodes: others may be the owners by now."""
        if self.claims:
            _log.warning(
                "group %s: the session of %s was lost, and with it %d partitions: what it has read of them "
                "and not committed may be read again by others",
                quoted(self._group),
                shown(self._consumer),
                len(self.claims),
            )
        self.claims.clear()

    def balance(self, tree: Tree) -> None:
        """Own the share that is due to the consumer as the group is now, as far as others let it."""
        tree.claim(f"{self._root}/ids/{self._consumer}", subscription(self._topics, self._thread_count))
        share = self._look(tree).share_of(self._consumer)
        self._give_up(tree, [log for log in self.claims if log not in share])
        self._claim(tree, share)

    def commit(self, tree: Tree, offsets: Mapping[TopicPartition, tuple[int, Claim]]) -> list[TopicPartition]:
        """Write where the group stands, but for logs that are not owned by these claims any more."""
        mine = {log: offset for log, (offset, claim) in offsets.items() if self.claims.get(log) == claim}
        tree.put({offset_path(self._group, log): str(offset).encode() for log, offset in mine.items()})
        return [log for log in offsets if log not in mine]

    def _look(self, tree: Tree) -> GroupView:
        ids, topics = (names or [] for names in tree.children([f"{self._root}/ids", TOPICS]))
        paths = {f"{self._root}/ids/{name}": name for name in ids}
        counts = {
            paths[path]: thread_counts(path, data, topics)
            for path, data in zip(paths, tree.data(paths), strict=True)
            if data is not None
        }
        there = set(topics)
        partitions = partition_counts(tree, [topic for topic in self._topics if topic in there])
        self.unregistered = [topic for topic in self._topics if not partitions.get(topic)]
        return GroupView(counts, partitions)

    def _give_up(self, tree: Tree, logs: Sequence[TopicPartition]) -> None:
        """Let others have logs, but for those that are held."""
        free = [log for log in logs if log not in self.held]
        tree.remove(self._owner_path(log) for log in free)
        for log in free:
            del self.claims[log]
        now_s = time.monotonic()
        if len(free) < len(logs):
            self._wanted_s = self._wanted_s or now_s
            return
        if self._wanted_s is not None and now_s - self._wanted_s >= JVM_PATIENCE_S:
            _log.warning(
                "group %s: others waited %.0f s for a batch to end, and consumers of the JVM give up after "
                "%g s: let batches and triggers be shorter, or their rebalance.retries.max be larger",
                quoted(self._group),
                now_s - self._wanted_s,
                JVM_PATIENCE_S,
            )
        self._wanted_s = None

    def _claim(self, tree: Tree, share: Mapping[TopicPartition, str]) -> None:
        owners = dict(zip(share, tree.data(map(self._owner_path, share)), strict=True))
        self.others = {
            log: shown(owner) for log, owner in owners.items() if owner not in (None, *self._threads)
        }
        kept = {log for log in self.claims if log not in share or owners[log] in self._threads}
        self.claims = {log: claim for log, claim in self.claims.items() if log in kept}
        moved = [log for log in kept if log in share and owners[log] != share[log].encode()]
        tree.put({self._owner_path(log): share[log].encode() for log in moved})
        self._take(tree, {log: share[log] for log in share if log not in kept and log not in self.others})

    def _take(self, tree: Tree, wanted: Mapping[TopicPartition, str]) -> None:
        """Claim logs that nobody has, or that are ours by a request whose answer was lost."""
        taken = []
        for log, thread in wanted.items():
            path = self._owner_path(log)
            if tree.claim(path, thread.encode()) or next(tree.data([path])) in self._threads:
                taken.append(log)
            else:
                self.others[log] = "another one"
        self.claims.update(self._claimed(tree, taken))

    def _claimed(self, tree: Tree, logs: Iterable[TopicPartition]) -> dict[TopicPartition, Claim]:
        """The claims of logs that are owned now, and where the group stands in them."""
        paths = {offset_path(self._group, log): log for log in logs}
        claims = {}
        for (path, log), data in zip(paths.items(), tree.data(paths), strict=True):
            self._claim_count += 1
            offset = None if data is None else offset_of(path, data, strict=True)
            claims[log] = Claim(log, self._claim_count, offset)
        return claims

    def _owner_path(self, log: TopicPartition) -> str:
        return f"{self._root}/owners/{log.topic}/{log.name}"
