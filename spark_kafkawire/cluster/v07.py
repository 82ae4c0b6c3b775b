"""A cluster of Kafka 0.6 and 0.7: brokers and topics from ZooKeeper or a list, offsets from OFFSETS.

0.7 knows the age of a segment file, not of a message: its modification time is that of its last
message. So a start by timestamp is the start of the first segment that may hold a message that
young, and an end by timestamp is the end of the first segment that certainly holds one. No message
of the asked range is missed; more may come.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from ..errors import OptionError, UnknownTopicError, quoted
from ..model import Broker, ClusterView, Leader, LogBounds, RecordTimes, TopicPartition
from ..options import Discovery, NetOptions
from .offsets import all_bounds, segments_before
from .v07_groups import commit_group_offsets, group_members, list_groups, logs_of_group, read_group_offsets
from .view import logs_of_topics, view


class V07Cluster:
    """The cluster as it was when it was first asked; the contract of ``Cluster``."""

    def __init__(
        self, discovery: Discovery, net: NetOptions, brokers: tuple[Broker, ...] | None = None
    ) -> None:
        self._discovery = discovery
        self._net = net
        self._known_brokers = brokers

    @cached_property
    def _view(self) -> ClusterView:
        if self._known_brokers is not None:
            return ClusterView(self._known_brokers, ())
        return view(self._discovery, self._net)

    def brokers(self) -> tuple[Broker, ...]:
        return self._view.brokers

    def topics(self) -> tuple[str, ...]:
        if self._discovery.zookeeper_connect is None:
            raise OptionError(
                "option subscribePattern needs zookeeper.connect: brokers of 0.7 cannot list their topics"
            )
        return self._view.topics

    def logs_of(self, topics: Sequence[str]) -> tuple[TopicPartition, ...]:
        return logs_of_topics(self._view, self._discovery, topics, self._net)

    def topic_ids(self, topics: Collection[str]) -> dict[str, uuid.UUID]:  # noqa: ARG002  # 0.7 has none
        return {}

    def assigned(self, logs: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
        """All of the logs. Raises ``UnknownTopicError`` for one that no broker holds."""
        held = self.logs_of(sorted({log.topic for log in logs}))
        if unknown := sorted(set(logs) - set(held)):
            there = ", ".join(log.name for log in held if log.topic == unknown[0].topic)
            raise UnknownTopicError(
                f"option assign: no broker holds {unknown[0]}; the topic's partitions are {there}"
            )
        return tuple(logs)

    def leaders_of(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, Leader]:
        alive = {broker.id: broker for broker in self._view.brokers}
        return {log: Leader(alive[log.broker]) for log in logs if log.broker in alive}

    leaders_now = leaders_of

    def forget(self, log: TopicPartition) -> None:
        """Nothing: a log of 0.7 never moves."""

    def bounds(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, LogBounds]:
        return all_bounds(self._view, logs, self._net)

    def high_watermarks(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {log: found.latest for log, found in self.bounds(logs).items()}

    def local_starts(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {log: found.earliest for log, found in self.bounds(logs).items()}

    def cleanup_policy(self, topic: str) -> frozenset[str]:  # noqa: ARG002  # 0.7 has no other
        return frozenset(("delete",))

    def record_times(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, RecordTimes]:
        return dict.fromkeys(logs, RecordTimes())

    def start_offsets(
        self, times_ms: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, LogBounds]
    ) -> dict[TopicPartition, int | None]:
        # A file's modification time may be cut to whole seconds, so it can be too early, never too
        # late: a segment is certainly older only where its time is before the whole second.
        older = self._segments_before({log: ms // 1000 * 1000 for log, ms in times_ms.items()})
        return {log: start_offset(bounds[log], older[log]) for log in times_ms}

    def stop_offsets(
        self, times_ms: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, LogBounds]
    ) -> dict[TopicPartition, int | None]:
        older = self._segments_before(times_ms)
        return {log: stop_offset(bounds[log], older[log]) for log in times_ms}

    def committed_offsets(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, int | None]:
        raise OptionError(
            f"option startingOffsets: 'committed' needs kafka.bootstrap.servers; {logs[0]} is of Kafka 0.7, "
            "whose consumers keep their offsets in ZooKeeper: give them as JSON"
        )

    def groups(self) -> tuple[str, ...]:
        self._check_groups("*")
        return list_groups(self._discovery, self._net.request_timeout_s)

    def group_members(self, group: str) -> tuple[str, ...]:
        self._check_groups(group)
        return group_members(self._discovery, self._net.request_timeout_s, group)

    def logs_of_group(self, group: str) -> tuple[TopicPartition, ...]:
        self._check_groups(group)
        return logs_of_group(self._discovery, self._net.request_timeout_s, group)

    def read_group_offsets(
        self, group: str, logs: Sequence[TopicPartition], *, strict: bool = True
    ) -> dict[TopicPartition, int | None]:
        self._check_groups(group)
        return read_group_offsets(self._discovery, self._net.request_timeout_s, group, logs, strict=strict)

    def commit_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], *, force: bool = False
    ) -> None:
        self._check_groups(group)
        commit_group_offsets(self._discovery, self._net.request_timeout_s, group, offsets, force=force)

    def _check_groups(self, group: str) -> None:
        if self._discovery.zookeeper_connect is None:
            raise OptionError(
                f"group {quoted(group)}: 0.7 keeps groups in ZooKeeper; set zookeeper.connect, not "
                "broker.list"
            )

    def _segments_before(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[int, ...]]:
        return segments_before(self._view, {log: ms - 1 for log, ms in times_ms.items()}, self._net)


def start_offset(found: LogBounds, older: Sequence[int]) -> int | None:
    """The first segment that is not among the ``older`` ones (ascending starts); None for the end."""
    offset = _boundary_after(found, older[-1]) if older else found.earliest
    return offset if offset < found.latest else None


def stop_offset(found: LogBounds, older: Sequence[int]) -> int | None:
    """The end of the first segment that is not among the ``older`` ones; None for the log's."""
    reaching = _boundary_after(found, older[-1]) if older else found.earliest
    offset = _boundary_after(found, reaching)
    return offset if offset < found.latest else None


def _boundary_after(found: LogBounds, offset: int) -> int:
    """The first segment start after ``offset``, or the end of the log."""
    return next((start for start in found.segment_starts or () if start > offset), found.latest)
