"""A cluster of Kafka 0.6 and 0.7: brokers and topics from ZooKeeper or a list, offsets from OFFSETS."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from spark_kafkawire.errors import LOG, BrokersMissingError, OptionError, UnknownTopicError
from spark_kafkawire.model import Broker, ClusterView, Leader, PartitionBounds, RecordTimes, TopicPartition
from spark_kafkawire.net.retry import retried
from spark_kafkawire.options import Discovery, NetOptions

from ..topic_names import names_of
from .expected import listed
from .groups import ConsumerGroups
from .offsets import all_bounds, segments_before
from .segments import start_offset, stop_offset
from .view import check_expected, current_view, partitions_of_topics, unregistered_partitions


class V07Cluster:
    """Implements the protocol ``cluster.Cluster``. It reads ZooKeeper at the first request, and again while
    brokers are missing. Missing brokers are an error unless ``fail_on_data_loss`` is false."""

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
        self._has_warned = False

    @property
    def _view(self) -> ClusterView:
        return self._last_view or self._await_view()

    def _await_view(
        self, needed: Collection[TopicPartition] = (), topics: Collection[str] = ()
    ) -> ClusterView:
        """Wait for all expected brokers, and for those of the needed partitions and topics; the cluster
        then."""
        missed: list[BrokersMissingError] = []
        try:
            found = retried(lambda: self._look(needed, topics, missed), self._net.retry)
        except BrokersMissingError as error:
            if self._fail_on_data_loss:
                raise
            self._last_view = current_view(self._discovery, self._net)
            LOG.warning("%s; reading the others because failOnDataLoss=false", error)
            return self._last_view
        if missed and not needed and self._discovery.expected_brokers is None and not self._has_warned:
            # Once, although a broker registers itself some time before its topics, which are waited for, too.
            self._has_warned = True
            LOG.warning(
                "broker %s has just come back; other brokers may still be starting, and their partitions "
                "would not be read: list all brokers in the option expectedBrokers",
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

    def await_partitions(self, partitions: Collection[TopicPartition]) -> None:
        if self._discovery.zookeeper_connect is None or self._has_given_brokers:
            return  # no more brokers can be discovered
        if _not_held(self._view, partitions):
            self._await_view(partitions)
        if silent := set(partitions).difference(self._view.partitions):
            self._probe(silent)

    def _probe(self, partitions: Collection[TopicPartition]) -> None:
        """Ask the brokers of partitions for topics that they have not registered yet."""
        topics, ids = sorted({tp.topic for tp in partitions}), {tp.broker for tp in partitions}
        asked = [broker for broker in self._view.brokers if broker.id in ids]
        found = unregistered_partitions(self._view, topics, self._net, asked)
        orphaned = {*self._view.orphaned_topics} - {tp.topic for tp in found}
        known = tuple(sorted({*self._view.partitions, *found}))
        self._last_view = replace(self._view, partitions=known, orphaned_topics=tuple(sorted(orphaned)))

    def brokers(self) -> tuple[Broker, ...]:
        return self._view.brokers

    def topics(self) -> tuple[str, ...]:
        if self._discovery.zookeeper_connect is None:
            raise OptionError(
                "option subscribePattern needs zookeeper.connect, because brokers of 0.7 cannot list their "
                "topics; set it, or name the topics with subscribe"
            )
        if orphaned := self._view.orphaned_topics:
            LOG.warning(
                "no broker announces %s, which ZooKeeper still lists: the topics were deleted, or their "
                "brokers are missing; subscribePattern does not match them",
                names_of(orphaned),
            )
        return self._view.topics

    def partitions_of(self, topics: Sequence[str]) -> tuple[TopicPartition, ...]:
        if not self._has_given_brokers and (orphaned := set(topics).intersection(self._view.orphaned_topics)):
            self._await_view(topics=orphaned)
        return partitions_of_topics(self._view, self._discovery, topics, self._net)

    listed_partitions = partitions_of

    def topic_ids(self, topics: Collection[str]) -> dict[str, uuid.UUID]:  # noqa: ARG002  # 0.7 has no topic ids
        return {}

    def assigned(self, partitions: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
        """Partitions of ``partitions``, without those of missing brokers if ``failOnDataLoss`` is false.
        Raises ``UnknownTopicError`` for one that no broker holds."""
        self.await_partitions(partitions)
        if self._discovery.zookeeper_connect is not None:
            lost = _not_held(self._view, partitions)
            partitions = [tp for tp in partitions if tp not in lost]
        held = self.partitions_of(sorted({tp.topic for tp in partitions}))
        if unknown := sorted(set(partitions) - set(held)):
            there = ", ".join(tp.name for tp in held if tp.topic == unknown[0].topic)
            raise UnknownTopicError(
                f"option assign: no broker holds {unknown[0]}; correct it: the topic's partitions are {there}"
            )
        return tuple(partitions)

    def leaders_of(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Leader]:
        alive = {broker.id: broker for broker in self._view.brokers}
        return {tp: Leader(alive[tp.broker]) for tp in partitions if tp.broker in alive}

    known_leaders = leaders_of

    def forget(self, partition: TopicPartition) -> None:
        """Do nothing: a partition of 0.7 never moves."""

    def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionBounds]:
        return all_bounds(self._view, partitions, self._net)

    def followed_bounds(
        self, partitions: tuple[TopicPartition, ...]
    ) -> dict[TopicPartition, PartitionBounds]:
        leaders = self.leaders_of(partitions)
        return self.bounds([tp for tp in partitions if tp in leaders])

    def cut_points(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, ...]]:
        """Start offsets of segments."""
        return {tp: bounds.segment_starts or () for tp, bounds in self.bounds(partitions).items()}

    def high_watermarks(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: bounds.latest for tp, bounds in self.bounds(partitions).items()}

    def local_starts(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: bounds.earliest for tp, bounds in self.bounds(partitions).items()}

    def cleanup_policy(self, topic: str) -> frozenset[str]:  # noqa: ARG002  # 0.7 has no other policy
        return frozenset(("delete",))

    def record_times(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, RecordTimes]:
        return dict.fromkeys(partitions, RecordTimes())

    def start_offsets(
        self, times_ms: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, PartitionBounds]
    ) -> dict[TopicPartition, int | None]:
        # The modification time of a file may be truncated to whole seconds, so it is too early or exact,
        # never too late: a segment is certainly older only if its time is before the whole second.
        older = self._segments_before({tp: ms // 1000 * 1000 for tp, ms in times_ms.items()})
        return {tp: start_offset(bounds[tp], older[tp]) for tp in times_ms}

    def stop_offsets(
        self, times_ms: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, PartitionBounds]
    ) -> dict[TopicPartition, int | None]:
        older = self._segments_before(times_ms)
        return {tp: stop_offset(bounds[tp], older[tp]) for tp in times_ms}

    def committed_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int | None]:
        raise OptionError(
            f"option startingOffsets: 'committed' needs kafka.bootstrap.servers; {partitions[0]} is of "
            "Kafka 0.7, whose consumers keep their offsets in ZooKeeper: give the offsets as JSON"
        )

    @property
    def groups(self) -> ConsumerGroups:
        return ConsumerGroups(self._discovery, self._net.discovery_timeout_s)

    def _segments_before(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[int, ...]]:
        return segments_before(self._view, {tp: ms - 1 for tp, ms in times_ms.items()}, self._net)


def _not_held(view: ClusterView, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
    """Partitions whose brokers are not alive."""
    alive = {broker.id for broker in view.brokers}
    return {tp for tp in partitions if tp.broker not in alive}


def _check_holders(view: ClusterView, needed: Collection[TopicPartition]) -> None:
    """Raise ``BrokersMissingError`` (retriable) for partitions whose broker is not alive."""
    if lost := sorted(_not_held(view, needed)):
        ids = listed({tp.broker for tp in lost if tp.broker is not None})
        raise BrokersMissingError(
            f"broker {ids} is not registered in ZooKeeper and holds {len(lost)} of the partitions that are "
            f"needed, {lost[0]} first; start it"
        )


def _check_registered(view: ClusterView, topics: Collection[str]) -> None:
    """Raise ``BrokersMissingError`` (retriable) for topics that ZooKeeper lists without a broker."""
    if orphaned := sorted(set(topics).intersection(view.orphaned_topics)):
        raise BrokersMissingError(
            f"no broker announces the topic {names_of(orphaned)}, which ZooKeeper still lists: start the "
            "brokers that hold it, or leave it out if it was deleted"
        )
