"""A snapshot of a cluster and the offsets of its consumer groups: rows of partitions, their words, the
problems that ``--check`` reports, and the report as one JSON object. Pure.

    {"topic": "t", "partition": 0, "broker": 1, "earliest": 5, "latest": 9, "records": 4,
     "first_time": 1700000000000, "max_time": 1700000060999,
     "groups": {"g": {"offset": 7, "lag": 2, "lost": 0}}}

In 0.7 ``bytes`` and ``segments`` stand in place of ``records`` and the times, which are milliseconds since
1970. ``lag`` is the part that a group has not read, and ``lost`` the part that was deleted before the group
read it. Unknown values are None. A topic is a row of the sums, with the rows of its partitions as ``logs``.

Names come from the cluster and may be hostile. Characters that are not printable are shown by their
number, so that a name can neither move the cursor nor change the direction of the text around it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final

from spark_kafkawire.errors import plural, quote
from spark_kafkawire.model import Broker, Generation, PartitionBounds, RecordTimes, TopicPartition
from spark_kafkawire.tables import Row

from ..progress import format_size

#: Text for an unknown value.
NONE_TEXT: Final = "-"
#: The last second that a date can show, milliseconds since 1970.
_DATE_MAX_MS: Final = 253_402_300_799_000


def printable(name: str) -> str:
    """A name from the cluster whose characters all show: ``\\x1b`` for an escape, and so on."""
    return "".join(map(_printable, name))


def _printable(character: str) -> str:
    if character.isprintable():
        return "\\\\" if character == "\\" else character
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def number_text(value: int | None) -> str:
    """``1,234,567``"""
    return NONE_TEXT if value is None else f"{value:,}"


def time_text(time_ms: int | None) -> str:
    """``2026-11-21 14:30:00Z``, in UTC. A record's time is its producer's word, and may be no date."""
    if time_ms is None:
        return NONE_TEXT
    if not 0 <= time_ms <= _DATE_MAX_MS:
        return f"{time_ms} ms"
    return datetime.fromtimestamp(time_ms // 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")


def count_text(count: int, one: str) -> str:
    """``1 topic``, ``2,000 topics``"""
    return f"{count:,} {plural(count, one)}"


@dataclass(frozen=True, slots=True)
class Wording:
    """Words for a cluster's offsets; ``in_partitions`` goes after the sum of all sizes.

    ``size`` is the name of a partition's size in a row, ``more`` are the names of its other values with their
    titles and texts.
    """

    kafka: str
    size: str
    in_partitions: str
    size_text: Callable[[int], str]
    more: Mapping[str, tuple[str, Callable[[int | None], str]]]


WORDINGS: Final[Mapping[Generation, Wording]] = MappingProxyType(
    {
        Generation.V07: Wording(
            "Kafka 0.7", "bytes", "in the partitions", format_size, {"segments": ("segments", number_text)}
        ),
        Generation.MODERN: Wording(
            "Kafka",
            "records",
            "records in the partitions",
            number_text,
            {"first_time": ("first record", time_text), "max_time": ("youngest record", time_text)},
        ),
    }
)


def size_text(value: int | None, generation: Generation) -> str:
    """``1.2 MiB`` of a partition of bytes, ``1,234,567`` of one of records."""
    return NONE_TEXT if value is None else WORDINGS[generation].size_text(value)


@dataclass(frozen=True, slots=True, order=True)
class GroupOffset:
    """The offset that a group committed for a partition."""

    group: str
    topic_partition: TopicPartition
    offset: int


class Standing(enum.Enum):
    """Places of a group's offset outside of a log that is served."""

    UNKNOWN = "no broker serves this partition"
    BEHIND = "before the log's start"
    BEYOND = "beyond the log's end"


def find_standing(offset: int | None, earliest: int | None, latest: int | None) -> Standing | None:
    """Place of a group's offset; None without one, and if it is in the log, whose ends are None while no
    broker serves it."""
    if offset is None:
        return None
    if earliest is None or latest is None:
        return Standing.UNKNOWN
    if offset < earliest:
        return Standing.BEHIND
    return Standing.BEYOND if offset > latest else None


def row_of(
    generation: Generation,
    partition: TopicPartition,
    leader: Broker | None,
    bounds: PartitionBounds | None,
    times: RecordTimes,
    offsets: Mapping[str, int | None],
) -> Row:
    """The row of a partition; ``offsets`` are those of each group."""
    earliest, latest, starts = (
        (bounds.earliest, bounds.latest, bounds.segment_starts) if bounds else (None, None, None)
    )
    values = {
        "segments": None if starts is None else len(starts),
        "first_time": times.first_ms,
        "max_time": times.max_ms,
    }
    wording = WORDINGS[generation]
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "broker": leader.id if leader else partition.broker,
        "earliest": earliest,
        "latest": latest,
        wording.size: bounds.latest - bounds.earliest if bounds else None,
        **{name: values[name] for name in wording.more},
        **({"groups": {group: _position(at, bounds) for group, at in offsets.items()}} if offsets else {}),
    }


def _position(at: int | None, bounds: PartitionBounds | None) -> Row:
    if at is None or bounds is None:
        return {"offset": at, "lag": None, "lost": 0}
    lag = max(0, bounds.latest - max(at, bounds.earliest))
    return {"offset": at, "lag": lag, "lost": max(0, bounds.earliest - at)}


def _list_known(rows: Iterable[Row], name: str) -> list[int]:
    return [row[name] for row in rows if row[name] is not None]


#: The value of several partitions, from the known ones; of others it is the sum.
_FOLDS: Final[Mapping[str, Callable[[list[int]], int]]] = MappingProxyType(
    {"first_time": min, "max_time": max}
)


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
    def of(cls, rows: Iterable[Row], group: str) -> GroupTotal:
        """The sums over rows of partitions."""
        held = [row for row in rows if row["groups"][group]["offset"] is not None]
        served = [row for row in held if row["earliest"] is not None]
        positions = [row["groups"][group] for row in served]
        return cls(
            lag=sum(at["lag"] for at in positions) if served else None,
            lost=sum(at["lost"] for at in positions),
            partition_count=len(held),
            size=sum(row["latest"] - row["earliest"] for row in served),
            beyond_count=sum(row["groups"][group]["offset"] > row["latest"] for row in served),
        )


@dataclass(frozen=True)
class ClusterReport:
    """State of a cluster at ``taken_ms``, milliseconds since 1970.

    ``place`` is the discovery option as the user gave it, ``generation`` defines the unit of its offsets.
    ``brokers`` and ``logs``, the rows of partitions, are sorted, ``groups`` are in the order of the command
    line. ``unknown`` are offsets of the groups for partitions that the cluster does not hold. ``writes`` are
    exactly-once writes with those selected groups that keep their records: these are not consumers, their
    offsets are no positions in a partition, and they are not among ``groups``.
    """

    place: str
    generation: Generation
    taken_ms: int
    brokers: tuple[Broker, ...]
    groups: tuple[str, ...]
    logs: tuple[Row, ...]
    unknown: tuple[GroupOffset, ...] = ()
    writes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def wording(self) -> Wording:
        """The words for its offsets."""
        return WORDINGS[self.generation]

    @cached_property
    def topics(self) -> tuple[Row, ...]:
        """The rows of topics, sorted by name."""
        by_topic = groupby(self.logs, key=lambda row: row["topic"])
        return tuple(self._topic(name, tuple(logs)) for name, logs in by_topic)

    def _topic(self, name: str, logs: tuple[Row, ...]) -> Row:
        known = {item: _list_known(logs, item) for item in self.wording.more}
        folded = {item: _FOLDS.get(item, sum)(own) if own else None for item, own in known.items()}
        return {
            "topic": name,
            "logs": logs,
            self.wording.size: sum(_list_known(logs, self.wording.size)),
            **folded,
        }

    @property
    def size(self) -> int:
        """Bytes or records of all partitions."""
        return sum(_list_known(self.logs, self.wording.size))

    def partition_of(self, row: Row) -> TopicPartition:
        """The partition of a row."""
        broker = row["broker"] if self.generation.has_partitions_of_brokers else None
        return TopicPartition(row["topic"], row["partition"], broker)

    def group(self, name: str) -> GroupTotal:
        """Totals of a group in all partitions."""
        return GroupTotal.of(self.logs, name)

    def unknown_of(self, group: str) -> list[TopicPartition]:
        """The partitions that the cluster does not hold, and that the group has offsets for."""
        return [item.topic_partition for item in self.unknown if item.group == group]

    def group_offsets(self) -> tuple[GroupOffset, ...]:
        """All offsets of the groups, sorted; also those for partitions that do not exist."""
        held = (
            GroupOffset(group, self.partition_of(row), row["groups"][group]["offset"])
            for row in self.logs
            for group in self.groups
            if row["groups"][group]["offset"] is not None
        )
        return tuple(sorted([*held, *self.unknown]))


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
    return [line for group in report.groups for line in _describe_group(report, group)]


def _describe_group(report: ClusterReport, name: str) -> Iterator[str]:
    group, total = f"group {quote(name)}", report.group(name)
    unknown = report.unknown_of(name)
    if not unknown and not total.partition_count:
        yield f"{group} has committed no offset here"
    if unknown:
        yield (
            f"{group}: {count_text(len(unknown), 'offset')} in partitions that no broker holds, "
            f"{unknown[0]} first"
        )
    for location, what in _COMPLAINTS.items():
        result = [
            row
            for row in report.logs
            if find_standing(row["groups"][name]["offset"], row["earliest"], row["latest"]) is location
        ]
        lost = f" ({size_text(total.lost, report.generation)} lost)" if location is Standing.BEHIND else ""
        if result:
            first = report.partition_of(result[0])
            yield f"{group}: {count_text(len(result), 'offset')} {what}{lost}, {first} first"


def report_json(report: ClusterReport) -> dict[str, Any]:
    """The report's rows and sums; names are as the cluster has them. ``writes`` has the groups that keep the
    records of exactly-once writes, by the writes' names."""
    return {
        "cluster": report.place,
        "taken": report.taken_ms,
        "brokers": [{"id": broker.id, "host": broker.host, "port": broker.port} for broker in report.brokers],
        "topics": len(report.topics),
        "partitions": len(report.logs),
        report.wording.size: report.size,
        "groups": {group: _group(report, group) for group in report.groups},
        "writes": {name: list(groups) for name, groups in report.writes.items()},
        "logs": list(report.logs),
    }


def _group(report: ClusterReport, group: str) -> dict[str, Any]:
    total = report.group(group)
    return {
        "partitions": total.partition_count,
        "lag": total.lag,
        "lost": total.lost,
        "unknown_partitions": len(report.unknown_of(group)),
    }
