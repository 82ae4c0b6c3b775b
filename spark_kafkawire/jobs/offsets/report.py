"""What a cluster holds and where its consumer groups stand, at one moment: values and arithmetic.

ClusterReport ── brokers, groups
      └─ TopicReport ── LogReport ── one GroupPosition for each of the groups
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from ...model import Broker, Generation, LogBounds, TopicPartition


@dataclass(frozen=True, slots=True, order=True)
class GroupOffset:
    """The offset that a group committed for a log."""

    group: str
    log: TopicPartition
    offset: int


class Standing(enum.Enum):
    """Where a group stands in a log."""

    UNCOMMITTED = "no offset"
    WITHIN = "within"
    BEHIND = "before the log's start"
    BEYOND = "beyond the log's end"
    UNKNOWN = "the log is not served"


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """A group's committed offset in a log; ``bounds`` is None while no broker serves the log."""

    committed: int | None
    bounds: LogBounds | None

    @property
    def standing(self) -> Standing:
        """Where the offset lies, seen from the log."""
        if self.committed is None:
            return Standing.UNCOMMITTED
        if self.bounds is None:
            return Standing.UNKNOWN
        if self.committed < self.bounds.earliest:
            return Standing.BEHIND
        return Standing.BEYOND if self.committed > self.bounds.latest else Standing.WITHIN

    @property
    def lag(self) -> int | None:
        """What the log still holds for the group, bytes or records; None where that is not known."""
        if self.committed is None or self.bounds is None:
            return None
        return max(0, self.bounds.latest - max(self.committed, self.bounds.earliest))

    @property
    def lost(self) -> int:
        """What retention deleted before the group read it, bytes or records."""
        if self.committed is None or self.bounds is None:
            return 0
        return max(0, self.bounds.earliest - self.committed)


@dataclass(frozen=True, slots=True)
class LogReport:
    """One log. ``leader`` and ``bounds`` are None while no broker serves it.

    ``first_time_ms`` and ``max_time_ms`` are the times of its first record and of its youngest one,
    None where the broker cannot tell or there is no record. ``committed`` has one element for each
    group of the report, in its order; None where the group has committed nothing.
    """

    log: TopicPartition
    leader: Broker | None
    bounds: LogBounds | None
    first_time_ms: int | None = None
    max_time_ms: int | None = None
    committed: tuple[int | None, ...] = ()

    @property
    def size(self) -> int:
        """What the log holds: bytes, or offsets, which are its records where none was compacted away."""
        return self.bounds.latest - self.bounds.earliest if self.bounds else 0

    @property
    def segment_count(self) -> int | None:
        """Its segments that hold data; None where brokers do not tell."""
        starts = self.bounds.segment_starts if self.bounds else None
        return None if starts is None else len(starts)

    @property
    def positions(self) -> tuple[GroupPosition, ...]:
        """Where each group of the report stands."""
        return tuple(GroupPosition(offset, self.bounds) for offset in self.committed)


@dataclass(frozen=True, slots=True)
class TopicReport:
    """One topic: its logs, sorted."""

    name: str
    logs: tuple[LogReport, ...]

    @property
    def size(self) -> int:
        """Bytes or records of all its logs."""
        return sum(log.size for log in self.logs)

    @property
    def segment_count(self) -> int | None:
        """Segments of all its logs; None where brokers do not tell."""
        return _sum(log.segment_count for log in self.logs)

    @property
    def first_time_ms(self) -> int | None:
        """The earliest of its logs' first times."""
        return min((log.first_time_ms for log in self.logs if log.first_time_ms is not None), default=None)

    @property
    def max_time_ms(self) -> int | None:
        """The time of its youngest record."""
        return max((log.max_time_ms for log in self.logs if log.max_time_ms is not None), default=None)

    def group(self, index: int) -> GroupTotal:
        """Where the group of that index stands in the topic."""
        return GroupTotal.of(log.positions[index] for log in self.logs)


@dataclass(frozen=True, slots=True)
class GroupTotal:
    """Where a group stands in several logs.

    ``lag`` and ``lost`` are bytes or records, ``lag`` None where the group has committed nothing.
    ``log_count`` counts the logs that it has an offset for; ``size`` is what those hold.
    """

    lag: int | None
    lost: int
    log_count: int
    size: int
    beyond_count: int

    @classmethod
    def of(cls, positions: Iterable[GroupPosition]) -> GroupTotal:
        """The sum of positions."""
        committed = [position for position in positions if position.committed is not None]
        return cls(
            lag=_sum(position.lag for position in committed),
            lost=sum(position.lost for position in committed),
            log_count=len(committed),
            size=sum(at.bounds.latest - at.bounds.earliest for at in committed if at.bounds),
            beyond_count=sum(position.standing is Standing.BEYOND for position in committed),
        )


@dataclass(frozen=True)
class ClusterReport:
    """What a cluster held at ``taken_ms``, milliseconds since 1970.

    ``place`` is the discovery option as the user gave it, ``generation`` says what its offsets count.
    ``brokers`` and ``logs`` are sorted, ``groups`` are in the order of the command line. ``strays``
    are offsets of the groups for logs that the cluster does not hold.
    """

    place: str
    generation: Generation
    taken_ms: int
    brokers: tuple[Broker, ...]
    groups: tuple[str, ...]
    logs: tuple[LogReport, ...]
    strays: tuple[GroupOffset, ...] = ()

    @cached_property
    def topics(self) -> tuple[TopicReport, ...]:
        """The topics, sorted by name."""
        by_topic = groupby(self.logs, key=lambda log: log.log.topic)
        return tuple(TopicReport(topic, tuple(logs)) for topic, logs in by_topic)

    @property
    def size(self) -> int:
        """Bytes or records of all logs."""
        return sum(log.size for log in self.logs)

    def logs_on(self, broker: Broker) -> Iterator[LogReport]:
        """The logs that a broker serves."""
        return (log for log in self.logs if log.leader == broker)

    def group(self, index: int) -> GroupTotal:
        """Where the group of that index stands in all logs."""
        return GroupTotal.of(log.positions[index] for log in self.logs)

    def strays_of(self, index: int) -> tuple[GroupOffset, ...]:
        """The offsets of the group of that index for logs that the cluster does not hold."""
        return tuple(stray for stray in self.strays if stray.group == self.groups[index])

    def group_offsets(self) -> tuple[GroupOffset, ...]:
        """All offsets of the groups, sorted; also those for logs that are not there."""
        held = (
            GroupOffset(group, log.log, offset)
            for log in self.logs
            for group, offset in zip(self.groups, log.committed, strict=True)
            if offset is not None
        )
        return tuple(sorted([*held, *self.strays]))


def _sum(values: Iterable[int | None]) -> int | None:
    """The sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
