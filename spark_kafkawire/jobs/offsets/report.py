"""A snapshot of a cluster and the offsets of its consumer groups: values and arithmetic.

ClusterReport ── brokers, groups, exactly-once writes
      └─ TopicReport ── PartitionReport ── one GroupPosition for each of the groups
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from spark_kafkawire.model import Broker, Generation, PartitionBounds, TopicPartition


@dataclass(frozen=True, slots=True, order=True)
class GroupOffset:
    """The offset that a group committed for a partition."""

    group: str
    topic_partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, order=True)
class WriteGroups:
    """Groups that keep the records of an exactly-once write: they are not consumers, and their offsets are
    not positions in a partition."""

    name: str
    groups: tuple[str, ...]


class Standing(enum.Enum):
    """Places of a group's offset in a partition."""

    UNCOMMITTED = "no offset"
    WITHIN = "within"
    BEHIND = "before the log's start"
    BEYOND = "beyond the log's end"
    UNKNOWN = "the partition is not served"


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """A group's committed offset in a partition; ``bounds`` is None while no broker serves the partition."""

    committed: int | None
    bounds: PartitionBounds | None

    @property
    def standing(self) -> Standing:
        """Place of the offset, seen from the log."""
        if self.committed is None:
            return Standing.UNCOMMITTED
        if self.bounds is None:
            return Standing.UNKNOWN
        if self.committed < self.bounds.earliest:
            return Standing.BEHIND
        return Standing.BEYOND if self.committed > self.bounds.latest else Standing.WITHIN

    @property
    def lag(self) -> int | None:
        """Bytes or records that the partition still holds for the group; None if unknown."""
        if self.committed is None or self.bounds is None:
            return None
        return max(0, self.bounds.latest - max(self.committed, self.bounds.earliest))

    @property
    def lost(self) -> int:
        """Bytes or records that retention deleted before the group read them."""
        if self.committed is None or self.bounds is None:
            return 0
        return max(0, self.bounds.earliest - self.committed)


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """A partition. ``leader`` and ``bounds`` are None while no broker serves it.

    ``first_time_ms`` and ``max_time_ms`` are the times of its first record and of its youngest one,
    None if the broker does not report it or there is no record. ``committed`` has one element for each
    group of the report, in its order; None where the group has committed nothing.
    """

    topic_partition: TopicPartition
    leader: Broker | None
    bounds: PartitionBounds | None
    first_time_ms: int | None = None
    max_time_ms: int | None = None
    committed: tuple[int | None, ...] = ()

    @property
    def size(self) -> int:
        """Size of the partition: bytes, or offsets, which equal its records without compaction."""
        return self.bounds.latest - self.bounds.earliest if self.bounds else 0

    @property
    def segment_count(self) -> int | None:
        """Its segments that hold data; None if brokers do not report them."""
        starts = self.bounds.segment_starts if self.bounds else None
        return None if starts is None else len(starts)

    @property
    def positions(self) -> tuple[GroupPosition, ...]:
        """Positions of each group of the report."""
        return tuple(GroupPosition(offset, self.bounds) for offset in self.committed)


@dataclass(frozen=True, slots=True)
class TopicReport:
    """A topic: its partitions, sorted."""

    name: str
    partitions: tuple[PartitionReport, ...]

    @property
    def size(self) -> int:
        """Bytes or records of all its partitions."""
        return sum(partition.size for partition in self.partitions)

    @property
    def segment_count(self) -> int | None:
        """Segments of all its partitions; None if brokers do not report them."""
        return _sum(partition.segment_count for partition in self.partitions)

    @property
    def first_time_ms(self) -> int | None:
        """The earliest of its logs' first times."""
        return min(
            (partition.first_time_ms for partition in self.partitions if partition.first_time_ms is not None),
            default=None,
        )

    @property
    def max_time_ms(self) -> int | None:
        """The time of its youngest record."""
        return max(
            (partition.max_time_ms for partition in self.partitions if partition.max_time_ms is not None),
            default=None,
        )

    def group(self, index: int) -> GroupTotal:
        """Totals of the group with that index in the topic."""
        return GroupTotal.of(partition.positions[index] for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class GroupTotal:
    """Totals of a group over several partitions.

    ``lag`` and ``lost`` are bytes or records, ``lag`` None where the group has committed nothing.
    ``partition_count`` counts the partitions that it has an offset for; ``size`` is their size.
    """

    lag: int | None
    lost: int
    partition_count: int
    size: int
    beyond_count: int

    @classmethod
    def of(cls, positions: Iterable[GroupPosition]) -> GroupTotal:
        """The sum of positions."""
        committed = [position for position in positions if position.committed is not None]
        return cls(
            lag=_sum(position.lag for position in committed),
            lost=sum(position.lost for position in committed),
            partition_count=len(committed),
            size=sum(at.bounds.latest - at.bounds.earliest for at in committed if at.bounds),
            beyond_count=sum(position.standing is Standing.BEYOND for position in committed),
        )


@dataclass(frozen=True)
class ClusterReport:
    """State of a cluster at ``taken_ms``, milliseconds since 1970.

    ``place`` is the discovery option as the user gave it, ``generation`` defines the unit of its offsets.
    ``brokers`` and ``partitions`` are sorted, ``groups`` are in the order of the command line. ``unknown``
    are offsets of the groups for partitions that the cluster does not hold. ``writes`` are exactly-once
    writes whose groups were selected; these groups are not among ``groups``.
    """

    place: str
    generation: Generation
    taken_ms: int
    brokers: tuple[Broker, ...]
    groups: tuple[str, ...]
    partitions: tuple[PartitionReport, ...]
    unknown: tuple[GroupOffset, ...] = ()
    writes: tuple[WriteGroups, ...] = ()

    @cached_property
    def topics(self) -> tuple[TopicReport, ...]:
        """The topics, sorted by name."""
        by_topic = groupby(self.partitions, key=lambda partition: partition.topic_partition.topic)
        return tuple(TopicReport(topic, tuple(partitions)) for topic, partitions in by_topic)

    @property
    def size(self) -> int:
        """Bytes or records of all partitions."""
        return sum(partition.size for partition in self.partitions)

    def partitions_on(self, broker: Broker) -> Iterator[PartitionReport]:
        """The partitions that a broker serves."""
        return (partition for partition in self.partitions if partition.leader == broker)

    def group(self, index: int) -> GroupTotal:
        """Totals of the group with that index in all partitions."""
        return GroupTotal.of(partition.positions[index] for partition in self.partitions)

    def unknown_of(self, index: int) -> tuple[GroupOffset, ...]:
        """The offsets of the group of that index for partitions that the cluster does not hold."""
        return tuple(each for each in self.unknown if each.group == self.groups[index])

    def group_offsets(self) -> tuple[GroupOffset, ...]:
        """All offsets of the groups, sorted; also those for partitions that do not exist."""
        held = (
            GroupOffset(group, partition.topic_partition, offset)
            for partition in self.partitions
            for group, offset in zip(self.groups, partition.committed, strict=True)
            if offset is not None
        )
        return tuple(sorted([*held, *self.unknown]))


def _sum(values: Iterable[int | None]) -> int | None:
    """The sum of the known values; None if all are unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
