"""Asks a cluster what it holds: each broker once for all its logs, and each group once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ...cluster.cluster import Cluster, cluster_of
from ...errors import OptionError, quoted, shown
from ...model import Generation, Leader, LogBounds, RecordTimes, TopicPartition
from ...options import ReadOptions
from ...planner.batch import select
from ..state.positions import name_order
from .report import ClusterReport, GroupOffset, LogReport
from .wording import count_text

_log = logging.getLogger("spark_kafkawire")

#: The options that choose topics. Without them all are reported.
_SELECTION: Final = frozenset(("subscribe", "subscribepattern", "assign"))
_EVERY_TOPIC: Final = {"subscribePattern": ".*"}
#: The offsets of each group.
OffsetsOfGroups = Mapping[str, Mapping[TopicPartition, int]]


@dataclass(frozen=True)
class Surveyed:
    """A cluster and those of its logs that the options choose."""

    place: str
    generation: Generation
    cluster: Cluster
    logs: tuple[TopicPartition, ...]
    has_all_topics: bool

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Surveyed:
        """Find the cluster and its logs; all of them where no option chooses topics.

        Raises ``OptionError`` (fatal), and what discovery raises.
        """
        chooses = any(name.lower() in _SELECTION for name in options)
        read = ReadOptions.parse({**options, **({} if chooses else _EVERY_TOPIC)})
        cluster = cluster_of(read)
        logs = select(read.selection, cluster) if chooses else cluster.logs_of(_all_topics(cluster))
        generation = read.discovery.generation
        return cls(
            read.discovery.place, generation, cluster, tuple(sorted(logs, key=name_order)), not chooses
        )

    def report(
        self, groups: Sequence[str], step: Callable[[str], None], clock: Callable[[], float] = time.time
    ) -> ClusterReport:
        """Ask the brokers; ``step`` is told what is asked.

        Raises ``BrokerError`` or ``TransportError`` when the retries are used up.
        """
        # Offsets come before ends: a group that reads on meanwhile is not beyond the end.
        committed = self.group_offsets(groups, step)
        leaders = self.cluster.known_leaders(self.logs)
        brokers = count_text(len({leader.broker for leader in leaders.values()}), "broker")
        step(f"asking {brokers} for {count_text(len(leaders), 'partition')}")
        led = [log for log in self.logs if log in leaders]
        bounds = self.cluster.bounds(led)
        times = self.cluster.record_times([log for log in led if bounds[log].earliest < bounds[log].latest])
        logs = tuple(_log_report(log, leaders, bounds, times, groups, committed) for log in self.logs)
        return ClusterReport(
            self.place,
            self.generation,
            int(1000 * clock()),
            tuple(self.cluster.brokers()),
            tuple(groups),
            logs,
            self._strays(committed),
        )

    def groups_with_offsets(self, step: Callable[[str], None]) -> tuple[str, ...]:
        """All groups that have an offset for one of the logs, or for any where all topics are told."""
        step("listing groups")
        committed = self.group_offsets(self.cluster.groups(), step)
        held = set(self.logs)
        return tuple(
            group
            for group, offsets in committed.items()
            if (offsets if self.has_all_topics else held & offsets.keys())
        )

    def group_offsets(self, groups: Sequence[str], step: Callable[[str], None]) -> OffsetsOfGroups:
        """What each group has committed."""
        if groups:
            step(f"reading the offsets of {count_text(len(groups), 'group')}")
        return {group: self._offsets_of(group) for group in groups}

    def _offsets_of(self, group: str) -> dict[TopicPartition, int]:
        found = self.cluster.read_group_offsets(group, self.cluster.logs_of_group(group), strict=False)
        return {log: offset for log, offset in found.items() if offset is not None}

    def _strays(self, committed: OffsetsOfGroups) -> tuple[GroupOffset, ...]:
        """Offsets in logs that are not there. In 0.7 a log of the chosen topics is among them, too, while its
        broker is down or its session is expired: nothing but the group tells of it."""
        held = set(self.logs)
        topics = {log.topic for log in held}
        strays = sorted(
            GroupOffset(group, log, offset)
            for group, offsets in committed.items()
            for log, offset in offsets.items()
            if log not in held and (self.has_all_topics or (log.broker is not None and log.topic in topics))
        )
        if lost := [stray for stray in strays if stray.log.broker is not None]:
            _log.warning(
                "%s in logs that no live broker holds, %s of group %s first: start its broker, unless it is "
                "gone for good",
                count_text(len(lost), "offset"),
                shown(lost[0].log),
                quoted(lost[0].group),
            )
        return tuple(strays)


def _all_topics(cluster: Cluster) -> Sequence[str]:
    try:
        return cluster.topics()
    except OptionError as error:
        raise OptionError("argument --topic: brokers of 0.7 cannot list their topics; name them") from error


def _log_report(
    log: TopicPartition,
    leaders: Mapping[TopicPartition, Leader],
    bounds: Mapping[TopicPartition, LogBounds],
    times: Mapping[TopicPartition, RecordTimes],
    groups: Sequence[str],
    committed: OffsetsOfGroups,
) -> LogReport:
    made = times.get(log, RecordTimes())
    return LogReport(
        log,
        leaders[log].broker if log in leaders else None,
        bounds.get(log),
        made.first_ms,
        made.max_ms,
        tuple(committed[group].get(log) for group in groups),
    )
