"""Batches of a write task to modern Kafka (0.8 to 4.x) that wait to be sent, by leader.

A request takes batches of one leader, and leaders take turns. So the cost of a request does not grow with the
batches that wait for other leaders.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from spark_kafkawire.model import Broker, TopicPartition

from .batches import ProducerBatch


class LeaderQueues:
    """Queues of batches, one for each leader, and one for partitions without a known leader.

    All batches of a partition wait in one queue, in their order. ``leaders_of`` returns the known leaders of
    partitions; call ``regroup`` after it has forgotten leaders.
    """

    def __init__(self, leaders_of: Callable[[Sequence[TopicPartition]], Sequence[Broker | None]]) -> None:
        self._leaders_of = leaders_of
        self._arrived: list[ProducerBatch] = []
        self._by_leader: dict[Broker | None, deque[ProducerBatch]] = {}
        #: Leaders with a queue. The first one is next.
        self._turns: deque[Broker | None] = deque()

    def __bool__(self) -> bool:
        return bool(self._arrived or self._turns)

    def put(self, batches: Iterable[ProducerBatch]) -> None:
        """Add batches, each after the waiting ones of its partition."""
        self._arrived += batches

    def take_all(self) -> list[ProducerBatch]:
        """Remove all batches, and return them in the order of their indexes."""
        waiting = [batch for queue in self._by_leader.values() for batch in queue]
        # The sort is stable: parts of one batch, which have its index, keep their order.
        batches = sorted(waiting, key=attrgetter("index")) + self._arrived
        self._arrived, self._by_leader = [], {}
        self._turns.clear()
        return batches

    def regroup(self) -> None:
        """Look up all leaders again."""
        self._arrived = self.take_all()

    def next(self) -> tuple[Broker | None, ProducerBatch]:
        """The leader whose turn it is, None if it is not known, and the first batch in its queue."""
        self._group()
        leader = self._turns[0]
        return leader, self._by_leader[leader][0]

    def take(self, take: Callable[[ProducerBatch], bool]) -> None:
        """Offer the batches of the leader whose turn it is, in order, and remove those that ``take`` accepts.
        The next turn is another leader's."""
        leader = self._turns.popleft()
        if left := deque(batch for batch in self._by_leader.pop(leader) if not take(batch)):
            self._by_leader[leader] = left
            self._turns.append(leader)

    def _group(self) -> None:
        """Put batches that have arrived into the queues of their leaders."""
        if not self._arrived:
            return
        batches = self._ungrouped()
        leaders = self._leaders_of([batch.topic_partition for batch in batches])
        for batch, leader in zip(batches, leaders, strict=True):
            if (queue := self._by_leader.get(leader)) is None:
                queue = self._by_leader[leader] = deque()
                self._turns.append(leader)
            queue.append(batch)

    def _ungrouped(self) -> list[ProducerBatch]:
        """Take the batches without a known leader, which may be known by now, and then those that have
        arrived."""
        arrived, self._arrived = self._arrived, []
        if (unled := self._by_leader.pop(None, None)) is None:
            return arrived
        self._turns.remove(None)
        return [*unled, *arrived]
