"""How the partitions of a topic grew, and between which of them its keys moved. Pure.

    epoch 0: 2 partitions   ──►  epoch 1: 4 partitions   ──►  epoch 2: 6 partitions
    hash % 2                     hash % 4                     hash % 6

A producer picks the log of a key from a list, at the place ``hash % count``. In each epoch the list is
another one: later on the partitions 0 to count - 1, in 0.7 those of all brokers, sorted by broker and
partition, so that a broker that grows moves the logs of those behind it.

A hash that is at place ``i`` of ``n`` and at place ``j`` of ``m`` is there where ``i`` and ``j`` leave the
same remainder by the greatest divisor that ``n`` and ``m`` have in common, and nowhere else: so from the
places in two lists follows between which logs keys have moved (``parents``).

Source: KIP-253; Kafka's DefaultPartitioner, and its ancestor of 0.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import gcd

from ..model import TopicPartition

Logs = tuple[TopicPartition, ...]
#: Where each log of an epoch's list stood when the next epoch began: its first record since has that offset.
Boundaries = Mapping[TopicPartition, int]


# No slots: what follows from the lists is found once.
@dataclass(frozen=True)
class TopicEpochs:
    """The list of a topic's logs in each epoch, the first one first; each holds all logs of that before it.

    ``boundaries`` has one element less: what was in each log when it was extended. None where moments tell
    that, or nothing has to.
    """

    lists: tuple[Logs, ...]
    boundaries: tuple[Boundaries, ...] | None = None

    def __post_init__(self) -> None:
        held = self.boundaries
        grows = all(set(old) < set(new) for old, new in pairwise(self.lists))
        fits = held is None or [set(each) for each in held] == [set(each) for each in self.lists[:-1]]
        if not (self.lists and self.lists[0] and grows and fits):
            raise AssertionError("no epochs of one topic")

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How many logs each epoch has."""
        return tuple(map(len, self.lists))

    @cached_property
    def _places(self) -> tuple[dict[TopicPartition, int], ...]:
        return tuple({log: place for place, log in enumerate(logs)} for logs in self.lists)

    def first(self, log: TopicPartition) -> int:
        """The epoch that brought the log."""
        return next(epoch for epoch, places in enumerate(self._places) if log in places)

    def common(self, epoch: int) -> int:
        """The number by which places in the lists of ``epoch`` and the one before leave the same remainder
        where some key has been at both."""
        return gcd(*self.counts[epoch - 1 : epoch + 1])

    def parents(self, epoch: int, log: TopicPartition) -> Logs:
        """The other logs, of the epoch before, that held keys which are in this log since ``epoch``."""
        place, common = self._places[epoch][log], self.common(epoch)
        return tuple(old for old in self.lists[epoch - 1][place % common :: common] if old != log)

    @cached_property
    def is_in_turn(self) -> bool:
        """Whether keys only ever move on to new logs, as where each count is a multiple of the one before and
        new logs stand behind the old ones. Then a new log has one parent."""
        return not any(
            self.parents(epoch, log) for epoch in range(1, len(self.lists)) for log in self.lists[epoch - 1]
        )

    def family(self, log: TopicPartition) -> TopicPartition:
        """The log of the first epoch that once held all keys of this one, where that ``is_in_turn``."""
        while epoch := self.first(log):
            [log] = self.parents(epoch, log)
        return log
