"""A cluster of Kafka 0.6 and 0.7: brokers and topics from ZooKeeper or a list, offsets from OFFSETS."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ...errors import BrokersMissingError, OptionError, UnknownTopicError, quoted
from ...model import Broker, ClusterView, Leader, LogBounds, RecordTimes, TopicPartition
from ...net.retry import Attempts
from ...options import Discovery, NetOptions
from ..topic_names import names_of
from .expected import listed
from .groups import commit_group_offsets, group_members, list_groups, logs_of_group, read_group_offsets
from .offsets import all_bounds, segments_before
from .segments import start_offset, stop_offset
from .view import check_expected, current_view, logs_of_topics, unregistered_logs

_log = logging.getLogger("spark_kafkawire")


class Cluster:
    """Implements the protocol ``cluster.Cluster``. ZooKeeper is read when the first question comes, and again
    while brokers are waited for. Missing brokers are an error unless ``fail_on_data_loss`` is false."""

    def __init__(
        self,
        discovery: Discovery,
        net: NetOptions,
        brokers: tuple[Broker, ...] | None = None,
        *,
        fail_on_data_loss: bool = True,
    ) -> None:
        self._discovery = discovery
        self._net = net
        self._fail_on_data_loss = fail_on_data_loss
        self._has_given_brokers = brokers is not None
        self._last_view = None if brokers is None else ClusterView(brokers, ())

    @property
    def _view(self) -> ClusterView:
        return self._last_view or self._await_view()

    def _await_view(
        self, needed: Collection[TopicPartition] = (), topics: Collection[str] = ()
    ) -> ClusterView:
        """The cluster once all brokers are there that are expected, and those of the logs and topics that
        are needed."""
        missed: list[BrokersMissingError] = []
        try:
            found = Attempts(self._net.retry).run(lambda: self._look(needed, topics, missed))
        except BrokersMissingError as error:
            if self._fail_on_data_loss:
                raise
            self._last_view = current_view(self._discovery, self._net)
            _log.warning("%s; reading the others because failOnDataLoss=false", error)
            return self._last_view
        if missed and not needed and self._discovery.expected_brokers is None:
            _log.warning(
                "broker %s has just come back, and nobody can know whether others are still starting, whose "
                "logs would not be read: the option expectedBrokers says which brokers there must be",
                listed({broker.id for broker in found.brokers}),
            )
        return found

    def _look(
        self,
        needed: Collection[TopicPartition],
        topics: Collection[str],
        missed: list[BrokersMissingError],
    ) -> ClusterView:
        try:
            found = current_view(self._discovery, self._net)
            check_expected(found, self._discovery)
            self._last_view = found
            _check_holders(found, needed)
            _check_registered(found, topics)
        except BrokersMissingError as error:
            missed.append(error)
            raise
        return found

    def await_logs(self, logs: Collection[TopicPartition]) -> None:
        if self._discovery.zookeeper_connect is None or self._has_given_brokers:
            return  # no more brokers can be discovered
        if _not_held(self._view, logs):
            self._await_view(logs)
        if silent := set(logs).difference(self._view.logs):
            self._probe(silent)

    def _probe(self, logs: Collection[TopicPartition]) -> None:
        """Ask the brokers of logs for what they have not registered yet."""
        topics, ids = sorted({log.topic for log in logs}), {log.broker for log in logs}
        asked = [broker for broker in self._view.brokers if broker.id in ids]
        found = unregistered_logs(self._view, topics, self._net, asked)
        orphaned = {*self._view.orphaned_topics} - {log.topic for log in found}
        known = tuple(sorted({*self._view.logs, *found}))
        self._last_view = replace(self._view, logs=known, orphaned_topics=tuple(sorted(orphaned)))

    def brokers(self) -> tuple[Broker, ...]:
        return self._view.brokers

    def topics(self) -> tuple[str, ...]:
        if self._discovery.zookeeper_connect is None:
            raise OptionError(
                "option subscribePattern needs zookeeper.connect: brokers of 0.7 cannot list their topics"
            )
        if orphaned := self._view.orphaned_topics:
            _log.warning(
                "no broker announces %s, which ZooKeeper has: they were deleted, or are of brokers that are "
                "missing; a pattern finds none of them",
                names_of(orphaned),
            )
        return self._view.topics

    def logs_of(self, topics: Sequence[str]) -> tuple[TopicPartition, ...]:
        if not self._has_given_brokers and (orphaned := set(topics).intersection(self._view.orphaned_topics)):
            self._await_view(topics=orphaned)
        return logs_of_topics(self._view, self._discovery, topics, self._net)

    logs_listed = logs_of

    def topic_ids(self, topics: Collection[str]) -> dict[str, uuid.UUID]:  # noqa: ARG002  # 0.7 has none
        return {}

    def assigned(self, logs: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
        """All of the logs but for those of missing brokers, where data loss is borne. Raises
        ``UnknownTopicError`` for one that no broker holds."""
        self.await_logs(logs)
        if self._discovery.zookeeper_connect is not None:
            lost = _not_held(self._view, logs)
            logs = [log for log in logs if log not in lost]
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

    known_leaders = leaders_of

    def forget(self, log: TopicPartition) -> None:
        """Nothing: a log of 0.7 never moves."""

    def bounds(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, LogBounds]:
        return all_bounds(self._view, logs, self._net)

    def cut_points(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, ...]]:
        """The starts of segments."""
        return {log: bounds.segment_starts or () for log, bounds in self.bounds(logs).items()}

    def high_watermarks(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {log: bounds.latest for log, bounds in self.bounds(logs).items()}

    def local_starts(self, logs: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {log: bounds.earliest for log, bounds in self.bounds(logs).items()}

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
        return list_groups(self._discovery, self._net.discovery_timeout_s)

    def group_members(self, group: str) -> tuple[str, ...]:
        self._check_groups(group)
        return group_members(self._discovery, self._net.discovery_timeout_s, group)

    def logs_of_group(self, group: str) -> tuple[TopicPartition, ...]:
        self._check_groups(group)
        return logs_of_group(self._discovery, self._net.discovery_timeout_s, group)

    def read_group_offsets(
        self, group: str, logs: Sequence[TopicPartition], *, strict: bool = True
    ) -> dict[TopicPartition, int | None]:
        self._check_groups(group)
        return read_group_offsets(self._discovery, self._net.discovery_timeout_s, group, logs, strict=strict)

    def commit_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], *, force: bool = False
    ) -> None:
        self._check_groups(group)
        commit_group_offsets(self._discovery, self._net.discovery_timeout_s, group, offsets, force=force)

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


def _not_held(view: ClusterView, logs: Collection[TopicPartition]) -> set[TopicPartition]:
    """The logs whose brokers are not there."""
    alive = {broker.id for broker in view.brokers}
    return {log for log in logs if log.broker not in alive}


def _check_holders(view: ClusterView, needed: Collection[TopicPartition]) -> None:
    """Raises ``BrokersMissingError`` (retriable) for logs whose broker is not there."""
    if lost := sorted(_not_held(view, needed)):
        ids = listed({log.broker for log in lost if log.broker is not None})
        raise BrokersMissingError(
            f"broker {ids} is not registered in ZooKeeper, and holds {len(lost)} of the partitions that are "
            f"needed, {lost[0]} first; start it"
        )


def _check_registered(view: ClusterView, topics: Collection[str]) -> None:
    """Raises ``BrokersMissingError`` (retriable) for topics that are known, and of no broker."""
    if orphaned := sorted(set(topics).intersection(view.orphaned_topics)):
        raise BrokersMissingError(
            f"no broker announces the topic {names_of(orphaned)}, which ZooKeeper has: start the brokers "
            "that hold it, or leave it out if it was deleted"
        )
