"""A cluster of Kafka 0.8 and later: Metadata, ListOffsets, and the offsets of consumer groups.

Imports delay the first query, so modules that few queries need are imported inside of functions.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from spark_kafkawire.errors import (
    LOG,
    OptionError,
    UnknownTopicError,
    counted,
    listed_some,
    printable,
)
from spark_kafkawire.model import Broker, Leader, PartitionBounds, RecordTimes, TopicPartition
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.modern.limits import READ_UNCOMMITTED
from spark_kafkawire.protocol.modern.list_offsets import EARLIEST_LOCAL_TIMESTAMP, LATEST_TIMESTAMP

from ..topic_names import NAMES_COUNT_MAX, unknown_topics
from .followed import FollowedBounds
from .list_offsets import all_bounds, list_offsets, record_times
from .metadata import Metadata

if TYPE_CHECKING:
    from .groups import ConsumerGroups


class ModernCluster:
    """Implements the protocol ``cluster.Cluster``. ``isolation_level`` decides where partitions end;
    ``group_id`` is the group of ``committed_offsets``."""

    def __init__(
        self, metadata: Metadata, net: NetOptions, isolation_level: int, group_id: str | None = None
    ) -> None:
        self._metadata = metadata
        self._net = net
        self._isolation_level = isolation_level
        self._group_id = group_id
        self._followed = FollowedBounds(metadata, net, isolation_level)

    def brokers(self) -> tuple[Broker, ...]:
        return self._metadata.known_brokers()

    def topics(self) -> list[str]:
        return [topic.name for topic in self._metadata.topics() if not topic.is_internal]

    def partitions_of(self, topics: Sequence[str]) -> tuple[TopicPartition, ...]:
        try:
            self._metadata.refresh(topics)
        except UnknownTopicError as error:
            there = self._metadata.topics()
            missing = sorted(set(topics).difference(topic.name for topic in there))
            known = [topic.name for topic in there if not topic.is_internal]
            raise (unknown_topics(missing, known) if missing else error) from error
        return tuple(tp for topic in topics for tp in self._metadata.partitions_of(topic))

    def listed_partitions(self, topics: Sequence[str]) -> tuple[TopicPartition, ...]:
        if in_doubt := [topic for topic in topics if not self._metadata.knows(topic)]:
            self.partitions_of(in_doubt)  # they have no leaders yet, or an error with the reason
        return tuple(tp for topic in topics for tp in self._metadata.partitions_of(topic))

    def topic_ids(self, topics: Collection[str]) -> dict[str, uuid.UUID]:
        there = self._metadata.topics()
        return {topic.name: topic.id for topic in there if topic.id and topic.name in topics}

    def assigned(self, partitions: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
        """Partitions that exist, as in Spark's own connector; a warning names the others. Raises
        ``UnknownTopicError`` for a topic that no broker holds, as that connector does."""
        there = set(self.partitions_of(sorted({tp.topic for tp in partitions})))
        if missing := [tp for tp in partitions if tp not in there]:
            counts = Counter(tp.topic for tp in there)
            topic = missing[0].topic
            LOG.warning(
                "option assign: %s left out, as in Spark's own connector; topic %s has %s",
                f"{listed_some(missing, NAMES_COUNT_MAX, str)} {'is' if len(missing) == 1 else 'are'}",
                printable(topic),
                counted(counts[topic], "partition"),
            )
        return tuple(tp for tp in partitions if tp in there)

    def await_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Do nothing: any broker describes all partitions."""

    def leaders_of(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Leader]:
        return self._metadata.leaders_of(partitions)

    def known_leaders(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Leader]:
        return self._metadata.known_leaders(partitions)

    def forget(self, partition: TopicPartition) -> None:
        self._metadata.forget(partition.topic)

    def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionBounds]:
        return all_bounds(self._metadata, partitions, self._net, self._isolation_level)

    def followed_bounds(
        self, partitions: tuple[TopicPartition, ...]
    ) -> Mapping[TopicPartition, PartitionBounds]:
        return self._followed.bounds(partitions)

    def cut_points(self, partitions: Sequence[TopicPartition]) -> None:
        """Return None: a record begins at every offset."""

    def high_watermarks(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        asked = dict.fromkeys(partitions, LATEST_TIMESTAMP)
        [found] = list_offsets(self._metadata, [asked], self._net, READ_UNCOMMITTED)
        return found

    def local_starts(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        asked = dict.fromkeys(partitions, EARLIEST_LOCAL_TIMESTAMP)
        [found] = list_offsets(self._metadata, [asked], self._net, self._isolation_level)
        return found

    def cleanup_policy(self, topic: str) -> frozenset[str]:
        from .topic_configs import cleanup_policy

        return cleanup_policy(self._metadata, topic)

    def record_times(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, RecordTimes]:
        return record_times(self._metadata, partitions, self._net)

    def start_offsets(
        self,
        times_ms: Mapping[TopicPartition, int],
        bounds: Mapping[TopicPartition, PartitionBounds],  # noqa: ARG002  # the broker has an index by time
    ) -> dict[TopicPartition, int | None]:
        [found] = list_offsets(self._metadata, [times_ms], self._net, self._isolation_level)
        return {tp: offset if offset >= 0 else None for tp, offset in found.items()}

    stop_offsets = start_offsets

    def committed_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int | None]:
        if self._group_id is None:
            raise OptionError(
                "option startingOffsets: 'committed' needs kafka.group.id, which is not set: set it to "
                "the group that committed the offsets"
            )
        from .group_offsets import committed_offsets

        return committed_offsets(self._metadata, self._group_id, partitions, self._net, is_stable=True)

    @property
    def groups(self) -> ConsumerGroups:
        from .groups import ConsumerGroups

        return ConsumerGroups(self._metadata, self._net)
