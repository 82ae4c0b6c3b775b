"""A cluster of Kafka 0.8 and later: Metadata, ListOffsets, and the offsets of consumer groups.

A first query waits for what is imported, so what few queries ask for is imported where they do.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Mapping, Sequence

from ...errors import OptionError, UnknownTopicError
from ...model import Broker, Leader, LogBounds, RecordTimes, TopicPartition
from ...options import NetOptions
from ...protocol.modern.isolation import READ_UNCOMMITTED
from ...protocol.modern.list_offsets import EARLIEST_LOCAL_TIMESTAMP, LATEST_TIMESTAMP
from ..topic_names import unknown_topics
from .list_offsets import all_bounds, list_offsets, record_times
from .metadata import Metadata

_log = logging.getLogger("spark_kafkawire")


class Cluster:
    """Implements the protocol ``cluster.Cluster``. ``isolation_level`` tells where logs end, ``group_id``
    whose committed offsets are meant."""

    def __init__(
        self, metadata: Metadata, net: NetOptions, isolation_level: int, group_id: str | None = None
    ) -> None:
        self._metadata = metadata
        self._net = net
        self._isolation_level = isolation_level
        self._group_id = group_id

    def brokers(self) -> tuple[Broker, ...]:
        if not self._metadata.brokers:
            self._metadata.refresh(())
        return self._metadata.brokers

    def topics(self) -> list[str]:
        return [topic.name for topic in self._metadata.topics() if not topic.is_internal]

    def logs_of(self, topics: Sequence[str]) -> tuple[TopicPartition, ...]:
        try:
            self._metadata.refresh(topics)
        except UnknownTopicError as error:
            known = [topic.name for topic in self._metadata.topics()]
            missing = sorted(set(topics) - set(known))
            raise (unknown_topics(missing, known) if missing else error) from error
        return tuple(log for topic in topics for log in self._metadata.partitions_of(topic))

    def logs_listed(self, topics: Sequence[str]) -> tuple[TopicPartition, ...]:
        if in_doubt := [topic for topic in topics if not self._metadata.knows(topic)]:
            self.logs_of(in_doubt)  # they have no leaders yet, or an error that tells why
        return tuple(log for topic in topics for log in self._metadata.partitions_of(topic))

    def topic_ids(self, topics: Collection[str]) -> dict[str, uuid.UUID]:
        there = self._metadata.topics()
        return {topic.name: topic.id for topic in there if topic.id and topic.name in topics}

    def assigned(self, logs: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
        """Those that exist, as Spark's own connector has it; a warning names the others. Raises
        ``UnknownTopicError`` for a topic that no broker holds, as it does, too."""
        there = set(self.logs_of(sorted({log.topic for log in logs})))
        if missing := [log for log in logs if log not in there]:
            _log.warning(
                "option assign: there is no %s, which is left out", " and no ".join(map(str, missing))
            )
        return tuple(log for log in logs if log in there)

    def await_logs(self, logs: Collection[TopicPartition]) -> None:
        """Nothing: any broker tells of all logs."""

    def leaders_of(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, Leader]:
        return self._metadata.leaders_of(logs)

    def known_leaders(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, Leader]:
        return self._metadata.known_leaders(logs)

    def forget(self, log: TopicPartition) -> None:
        self._metadata.forget(log.topic)

    def bounds(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, LogBounds]:
        return all_bounds(self._metadata, logs, self._net, self._isolation_level)

    def cut_points(self, logs: Sequence[TopicPartition]) -> None:
        """None: a record begins at every offset."""

    def high_watermarks(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        asked = dict.fromkeys(logs, LATEST_TIMESTAMP)
        [found] = list_offsets(self._metadata, [asked], self._net, READ_UNCOMMITTED)
        return found

    def local_starts(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        asked = dict.fromkeys(logs, EARLIEST_LOCAL_TIMESTAMP)
        [found] = list_offsets(self._metadata, [asked], self._net, self._isolation_level)
        return found

    def cleanup_policy(self, topic: str) -> frozenset[str]:
        from .topic_configs import cleanup_policy

        return cleanup_policy(self._metadata, topic)

    def record_times(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, RecordTimes]:
        return record_times(self._metadata, logs, self._net)

    def start_offsets(
        self,
        times_ms: Mapping[TopicPartition, int],
        bounds: Mapping[TopicPartition, LogBounds],  # noqa: ARG002  # the broker knows every record's time
    ) -> dict[TopicPartition, int | None]:
        [found] = list_offsets(self._metadata, [times_ms], self._net, self._isolation_level)
        return {log: offset if offset >= 0 else None for log, offset in found.items()}

    stop_offsets = start_offsets

    def committed_offsets(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, int | None]:
        if self._group_id is None:
            raise OptionError(
                "option startingOffsets: 'committed' needs kafka.group.id, whose offsets are meant"
            )
        return self.read_group_offsets(self._group_id, logs)

    def groups(self) -> tuple[str, ...]:
        from .group_members import list_groups

        return list_groups(self.brokers(), self._net)

    def group_members(self, group: str) -> tuple[str, ...]:
        from .group_members import group_members

        return group_members(self._metadata, group, self._net)

    def logs_of_group(self, group: str) -> tuple[TopicPartition, ...]:
        from .group_members import logs_of_group

        return logs_of_group(self._metadata, group, self._net)

    def read_group_offsets(
        self,
        group: str,
        logs: Sequence[TopicPartition],
        *,
        strict: bool = True,  # noqa: ARG002  # brokers keep offsets alone
    ) -> dict[TopicPartition, int | None]:
        from .group_offsets import committed_offsets

        return committed_offsets(self._metadata, group, logs, self._net)

    def commit_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        *,
        force: bool = False,  # noqa: ARG002  # the coordinator decides
    ) -> None:
        from .group_offsets import commit_offsets

        commit_offsets(self._metadata, group, offsets, self._net)
