"""Layouts of a topic, one for each number of partitions, and the partitions between which keys moved. Pure.

    layout 0: 2 partitions   ──►  layout 1: 4 partitions   ──►  layout 2: 6 partitions
    hash % 2                     hash % 4                     hash % 6

A producer picks the partition of a key from a list, at the place ``hash % count``. Each layout has its own
list. In modern Kafka it is the partitions 0 to count - 1. In 0.7 it is those of all brokers, sorted by broker
and partition, so a broker that grows moves the partitions of the brokers after it.

A hash can be at place ``i`` of ``n`` and at place ``j`` of ``m`` exactly if ``i`` and ``j`` have the same
remainder modulo the greatest common divisor of ``n`` and ``m``. So two lists show between which partitions
keys have moved (``parents``).

Source: KIP-253; Kafka's DefaultPartitioner, and its ancestor of 0.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import gcd

from ..model import TopicPartition

Partitions = tuple[TopicPartition, ...]
#: End offset of each partition of a layout's list when the next layout began: its next record has that
#: offset.
Boundaries = Mapping[TopicPartition, int]


# No slots: values that follow from the lists are cached.
@dataclass(frozen=True)
class TopicLayouts:
    """The list of a topic's partitions in each layout, oldest first; each contains all partitions of the one
    before.

    ``boundaries`` has one element fewer: the end offset of each partition when the list was extended. It is
    None if moments define the boundaries, or if no caller needs them.
    """

    lists: tuple[Partitions, ...]
    boundaries: tuple[Boundaries, ...] | None = None

    def __post_init__(self) -> None:
        held = self.boundaries
        grows = all(set(old) < set(new) for old, new in pairwise(self.lists))
        fits = held is None or [set(each) for each in held] == [set(each) for each in self.lists[:-1]]
        if not (self.lists and self.lists[0] and grows and fits):
            raise AssertionError("no layouts of one topic")

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Number of partitions of each layout."""
        return tuple(map(len, self.lists))

    @cached_property
    def _places(self) -> tuple[dict[TopicPartition, int], ...]:
        return tuple({tp: place for place, tp in enumerate(partitions)} for partitions in self.lists)

    def first(self, partition: TopicPartition) -> int:
        """The layout that brought the log."""
        return next(layout for layout, places in enumerate(self._places) if partition in places)

    def common(self, layout: int) -> int:
        """The number by which places in the lists of ``layout`` and the one before leave the same remainder
        where some key has been at both."""
        return gcd(*self.counts[layout - 1 : layout + 1])

    def parents(self, layout: int, partition: TopicPartition) -> Partitions:
        """The other partitions, of the layout before, that held keys which are in this partition since
        ``layout``."""
        place, common = self._places[layout][partition], self.common(layout)
        return tuple(old for old in self.lists[layout - 1][place % common :: common] if old != partition)

    @cached_property
    def is_in_turn(self) -> bool:
        """True if keys move only to new partitions, for example if each count is a multiple of the one before
        and new partitions come after the old ones. Then a new partition has one parent."""
        return not any(
            self.parents(layout, tp) for layout in range(1, len(self.lists)) for tp in self.lists[layout - 1]
        )

    def family(self, partition: TopicPartition) -> TopicPartition:
        """The partition of the first layout that once held all keys of this one, where that
        ``is_in_turn``."""
        while layout := self.first(partition):
            [partition] = self.parents(layout, partition)
        return partition
