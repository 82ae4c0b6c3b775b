"""A snapshot of a cluster and the offsets of its consumer groups: values, their words, the problems that
``--check`` reports, and the report as one JSON object. Pure.

    ClusterReport ── brokers, groups, exactly-once writes
          └─ TopicReport ── PartitionReport ── one GroupPosition for each of the groups

Names come from the cluster and may be hostile. Characters that are not printable are shown by their
number, so that a name can neither move the cursor nor change the direction of the text around it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final

from spark_kafkawire.errors import plural, quoted
from spark_kafkawire.model import Broker, Generation, OffsetUnit, PartitionBounds, TopicPartition

from ..progress import format_size

#: Text for an unknown value.
NONE_TEXT: Final = "-"
#: The last second that a date can show, milliseconds since 1970.
_DATE_MAX_MS: Final = 253_402_300_799_000


@dataclass(frozen=True, slots=True)
class Wording:
    """Words for a cluster's offsets; ``in_partitions`` goes after the sum of all sizes.

    ``has_segments`` and ``has_times`` are true if its brokers report these of a partition.
    """

    kafka: str
    size: str
    in_partitions: str
    has_segments: bool
    has_times: bool


WORDINGS: Final[Mapping[Generation, Wording]] = MappingProxyType(
    {
        Generation.V07: Wording(
            "Kafka 0.7", "bytes", "in the partitions", has_segments=True, has_times=False
        ),
        Generation.MODERN: Wording(
            "Kafka", "records", "records in the partitions", has_segments=False, has_times=True
        ),
    }
)


def printable(name: str) -> str:
    """A name from the cluster whose characters all show: ``\\x1b`` for an escape, and so on."""
    if name.isprintable() and "\\" not in name:
        return name
    return "".join(_printable(character) for character in name)


def _printable(character: str) -> str:
    if character.isprintable() and character != "\\":
        return character
    number = ord(character)
    if character == "\\":
        return "\\\\"
    return (
        f"\\x{number:02x}"
        if number < 0x100
        else f"\\u{number:04x}"
        if number < 0x10000
        else f"\\U{number:08x}"
    )


def number_text(value: int | None) -> str:
    """``1,234,567``"""
    return NONE_TEXT if value is None else f"{value:,}"


def size_text(value: int | None, generation: Generation) -> str:
    """``1.2 MiB`` of a partition of bytes, ``1,234,567`` of one of records."""
    return NONE_TEXT if value is None else _SIZE_TEXTS[generation.offset_unit](value)


_SIZE_TEXTS: Final[Mapping[OffsetUnit, Callable[[int], str]]] = MappingProxyType(
    {OffsetUnit.BYTES: format_size, OffsetUnit.RECORDS: number_text}
)


def time_text(time_ms: int | None) -> str:
    """``2026-11-21 14:30:00Z``, in UTC. A record's time is its producer's word, and may be no date."""
    if time_ms is None:
        return NONE_TEXT
    if not 0 <= time_ms <= _DATE_MAX_MS:
        return f"{time_ms} ms"
    return datetime.fromtimestamp(time_ms // 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")


def count_text(count: int, one: str, many: str | None = None) -> str:
    """``1 topic``, ``2,000 topics``"""
    return f"{count:,} {plural(count, one, many)}"


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


#: Text of a check for each state of an offset.
_COMPLAINTS: Final[Mapping[Standing, str]] = MappingProxyType(
    {
        Standing.UNKNOWN: "in partitions that no broker serves now",
        Standing.BEHIND: "before the start of the log",
        Standing.BEYOND: "beyond the end of the log",
    }
)


def complaints(report: ClusterReport) -> list[str]:
    """A line for each problem of a group; no lines if all offsets are in their partitions."""
    return [line for index in range(len(report.groups)) for line in _of_group(report, index)]


def _of_group(report: ClusterReport, index: int) -> Iterator[str]:
    group, total = f"group {quoted(report.groups[index])}", report.group(index)
    unknown = [each.topic_partition for each in report.unknown_of(index)]
    if not unknown and not total.partition_count:
        yield f"{group} has committed no offset here"
    if unknown:
        yield (
            f"{group}: {count_text(len(unknown), 'offset')} in partitions that no broker holds, "
            f"{unknown[0]} first"
        )
    for standing, what in _COMPLAINTS.items():
        partitions = [
            partition.topic_partition
            for partition in report.partitions
            if partition.positions[index].standing is standing
        ]
        lost = f" ({size_text(total.lost, report.generation)} lost)" if standing is Standing.BEHIND else ""
        if partitions:
            yield f"{group}: {count_text(len(partitions), 'offset')} {what}{lost}, {partitions[0]} first"


def as_json(report: ClusterReport) -> dict[str, Any]:
    """The report's values under Kafka's words; names are as the cluster has them.

    ``bytes`` (0.7) or ``records`` is the size of a partition, ``lag`` the part that a group has not read, and
    ``lost`` the part that was deleted before the group read it. ``writes`` has the groups that keep the
    records of exactly-once writes, by the writes' names. Unknown values are null. Times are milliseconds
    since 1970.
    """
    wording = WORDINGS[report.generation]
    return {
        "cluster": report.place,
        "taken": report.taken_ms,
        "brokers": [{"id": broker.id, "host": broker.host, "port": broker.port} for broker in report.brokers],
        "topics": len(report.topics),
        "partitions": len(report.partitions),
        wording.size: report.size,
        "groups": {group: _group(report, index) for index, group in enumerate(report.groups)},
        "writes": {write.name: list(write.groups) for write in report.writes},
        "logs": [_partition(report, partition) for partition in report.partitions],
    }


def _group(report: ClusterReport, index: int) -> dict[str, Any]:
    total = report.group(index)
    return {
        "partitions": total.partition_count,
        "lag": total.lag,
        "lost": total.lost,
        "unknown_partitions": len(report.unknown_of(index)),
    }


def _partition(report: ClusterReport, partition: PartitionReport) -> dict[str, Any]:
    wording = WORDINGS[report.generation]
    return {
        "topic": partition.topic_partition.topic,
        "partition": partition.topic_partition.partition,
        "broker": partition.leader.id if partition.leader else partition.topic_partition.broker,
        "earliest": partition.bounds.earliest if partition.bounds else None,
        "latest": partition.bounds.latest if partition.bounds else None,
        wording.size: partition.size if partition.bounds else None,
        **({"segments": partition.segment_count} if wording.has_segments else {}),
        **(
            {"first_time": partition.first_time_ms, "max_time": partition.max_time_ms}
            if wording.has_times
            else {}
        ),
        **({"groups": _positions(report, partition)} if report.groups else {}),
    }


def _positions(report: ClusterReport, partition: PartitionReport) -> dict[str, Any]:
    return {group: _position(at) for group, at in zip(report.groups, partition.positions, strict=True)}


def _position(at: GroupPosition) -> dict[str, Any]:
    return {"offset": at.committed, "lag": at.lag, "lost": at.lost}
