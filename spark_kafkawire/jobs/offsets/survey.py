"""Asks a cluster for its topics and offsets: each broker once for all its partitions, and each group once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spark_kafkawire.clients.writing.modern.transactional.write_state import (
    OffsetAndMetadata,
    may_be_group_of_write,
    write_of_group,
)
from spark_kafkawire.cluster.cluster import Cluster, cluster_of
from spark_kafkawire.errors import LOG, OptionError, printable, quote
from spark_kafkawire.model import Generation, RecordTimes, TopicPartition
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.planner.batch import select

from ..state import name_order
from .report import ClusterReport, GroupOffset, count_text, row_of

#: The options that choose topics. Without them all are reported.
_SELECTION: Final = frozenset(("subscribe", "subscribepattern", "assign"))
_EVERY_TOPIC: Final = {"subscribePattern": ".*"}
#: The offsets of each group.
OffsetsOfGroups = Mapping[str, Mapping[TopicPartition, int]]


@dataclass(frozen=True)
class Surveyed:
    """A cluster and those of its partitions that the options choose."""

    place: str
    generation: Generation
    cluster: Cluster
    partitions: tuple[TopicPartition, ...]
    has_all_topics: bool

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Surveyed:
        """Find the cluster and its partitions; all of them if no option selects topics.

        Raises ``OptionError`` (fatal), and the errors of discovery.
        """
        chooses = any(name.lower() in _SELECTION for name in options)
        read = ReadOptions.parse({**options, **({} if chooses else _EVERY_TOPIC)})
        cluster = cluster_of(read)
        partitions = (
            select(read.selection, cluster) if chooses else cluster.partitions_of(_all_topics(cluster))
        )
        generation = read.discovery.generation
        return cls(
            read.discovery.place, generation, cluster, tuple(sorted(partitions, key=name_order)), not chooses
        )

    def report(
        self, groups: Sequence[str], step: Callable[[str], None], clock: Callable[[], float] = time.time
    ) -> ClusterReport:
        """Ask the brokers; ``step`` is called with the text of each step. Groups that keep the records of
        writes are separated from the others.

        Raises ``BrokerError`` or ``TransportError`` when the retries are used up.
        """
        # Offsets come before ends: a group that reads on meanwhile is not beyond the end.
        writes = self._writes(groups)
        kept = {group for own in writes.values() for group in own}
        groups = [group for group in groups if group not in kept]
        committed = self.group_offsets(groups, step)
        leaders = self.cluster.known_leaders(self.partitions)
        brokers = count_text(len({leader.broker for leader in leaders.values()}), "broker")
        step(f"asking {brokers} for {count_text(len(leaders), 'partition')}")
        led = [tp for tp in self.partitions if tp in leaders]
        bounds = self.cluster.bounds(led)
        times = self.cluster.record_times([tp for tp in led if bounds[tp].earliest < bounds[tp].latest])
        rows = tuple(
            row_of(
                self.generation,
                tp,
                leaders[tp].broker if tp in leaders else None,
                bounds.get(tp),
                times.get(tp, RecordTimes()),
                {group: committed[group].get(tp) for group in groups},
            )
            for tp in self.partitions
        )
        return ClusterReport(
            self.place,
            self.generation,
            int(1000 * clock()),
            tuple(self.cluster.brokers()),
            tuple(groups),
            rows,
            self._unknown(committed),
            writes,
        )

    def groups_with_offsets(self, step: Callable[[str], None]) -> tuple[str, ...]:
        """All groups that have an offset for one of the partitions, or for any partition if all topics are
        reported."""
        step("listing groups")
        committed = self.group_offsets(self.cluster.groups.names(), step)
        held = set(self.partitions)
        return tuple(
            group
            for group, offsets in committed.items()
            if (offsets if self.has_all_topics else held & offsets.keys())
        )

    def group_offsets(self, groups: Sequence[str], step: Callable[[str], None]) -> OffsetsOfGroups:
        """The committed offsets of each group."""
        if groups:
            step(f"reading the offsets of {count_text(len(groups), 'group')}")
        return {group: self.cluster.groups.committed(group) for group in groups}

    def _writes(self, groups: Sequence[str]) -> dict[str, list[str]]:
        """The writes whose records some of the groups keep."""
        result: dict[str, list[str]] = {}
        for group in filter(may_be_group_of_write, groups):
            records = [OffsetAndMetadata(*item) for item in self.cluster.groups.texts(group)]
            if (name := write_of_group(group, records)) is not None:
                result.setdefault(name, []).append(group)
        return dict(sorted(result.items()))

    def _unknown(self, committed: OffsetsOfGroups) -> tuple[GroupOffset, ...]:
        """Offsets in partitions that do not exist. In 0.7 these include partitions of the selected topics
        whose broker is down or whose session is expired: only the group still names them."""
        held = set(self.partitions)
        topics = {tp.topic for tp in held}
        unknown = sorted(
            GroupOffset(group, tp, offset)
            for group, offsets in committed.items()
            for tp, offset in offsets.items()
            if tp not in held and (self.has_all_topics or (tp.broker is not None and tp.topic in topics))
        )
        if lost := [item for item in unknown if item.topic_partition.broker is not None]:
            LOG.warning(
                "%s in partitions that no live broker holds, %s of group %s first: start its broker, "
                "unless it is gone for good",
                count_text(len(lost), "offset"),
                printable(lost[0].topic_partition),
                quote(lost[0].group),
            )
        return tuple(unknown)


def _all_topics(cluster: Cluster) -> Sequence[str]:
    try:
        return cluster.topics()
    except OptionError as error:
        raise OptionError("argument --topic: brokers of 0.7 cannot list their topics; name them") from error
