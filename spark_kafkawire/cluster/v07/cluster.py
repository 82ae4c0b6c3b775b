"""A cluster of Kafka 0.6 and 0.7: brokers and topics from ZooKeeper or a list, offsets from OFFSETS.

Pipelined OFFSETS requests return the start and the end of partitions, and the starts of segments. Source:
``offsets/*`` of ``tests/golden/kafka-0.7.2``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from spark_kafkawire.errors import (
    LOG,
    Action,
    BrokerError,
    BrokersMissingError,
    ConnectionLost,
    DiscoveryError,
    KafkaWireError,
    LimitError,
    OptionError,
    UnknownTopicError,
    names_of,
)
from spark_kafkawire.model import (
    Broker,
    ClusterView,
    Leader,
    PartitionBounds,
    RecordTimes,
    SizeSample,
    TopicPartition,
)
from spark_kafkawire.net.retry import Attempts, call_with_retries
from spark_kafkawire.options import Discovery, NetOptions
from spark_kafkawire.protocol.v07 import EARLIEST_TIME, LATEST_TIME, ErrorCode, OffsetsRequest, broker_error

from ..asking import ask, side_by_side
from .groups import ConsumerGroups
from .segments import start_offset, stop_offset
from .view import (
    current_view,
    expected_view,
    list_ids,
    partition_codes,
    partitions_of_topics,
    unregistered_partitions,
)


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
            result = call_with_retries(lambda: self._look(needed, topics, missed), self._net.retry)
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
                list_ids({broker.id for broker in result.brokers}),
            )
        return result

    def _look(
        self, needed: Collection[TopicPartition], topics: Collection[str], missed: list[BrokersMissingError]
    ) -> ClusterView:
        try:
            result = self._last_view = expected_view(self._discovery, self._net)
            _check_holders(result, needed)
            _check_registered(result, topics)
        except BrokersMissingError as error:
            missed.append(error)
            raise
        return result

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
        result = unregistered_partitions(self._view, topics, self._net, asked)
        orphaned = {*self._view.orphaned_topics} - {tp.topic for tp in result}
        known = tuple(sorted({*self._view.partitions, *result}))
        self._last_view = replace(self._view, partitions=known, orphaned_topics=tuple(sorted(orphaned)))

    def brokers(self) -> tuple[Broker, ...]:
        return self._view.brokers

    def racks(self) -> frozenset[str]:
        """Return no racks: these brokers have none."""
        return frozenset()

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

    def follow_bounds(self, partitions: tuple[TopicPartition, ...]) -> dict[TopicPartition, PartitionBounds]:
        leaders = self.leaders_of(partitions)
        return self.bounds([tp for tp in partitions if tp in leaders])

    def cut_points(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, ...]]:
        """Start offsets of segments."""
        return {tp: bounds.segment_starts or () for tp, bounds in self.bounds(partitions).items()}

    def high_watermarks(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: bounds.latest for tp, bounds in self.bounds(partitions).items()}

    def local_starts(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: bounds.earliest for tp, bounds in self.bounds(partitions).items()}

    def sample_sizes(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, SizeSample]:
        return dict.fromkeys(offsets, SizeSample(1, 1))  # offsets are bytes

    def cleanup_policy(self, topic: str) -> frozenset[str]:  # noqa: ARG002  # 0.7 has no other policy
        return frozenset(("delete",))

    def record_times(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, RecordTimes]:
        return dict.fromkeys(partitions, RecordTimes())

    def start_offsets(
        self, times_ms: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, PartitionBounds]
    ) -> dict[TopicPartition, int | None]:
        # The modification time of a file may be truncated to whole seconds, so it is too early or exact,
        # never too late: a segment is certainly older only if its time is before the whole second.
        before = {tp: ms // 1000 * 1000 - 1 for tp, ms in times_ms.items()}
        older = segments_before(self._view, before, self._net)
        return {tp: start_offset(bounds[tp], older[tp]) for tp in times_ms}

    def stop_offsets(
        self, times_ms: Mapping[TopicPartition, int], bounds: Mapping[TopicPartition, PartitionBounds]
    ) -> dict[TopicPartition, int | None]:
        older = segments_before(self._view, {tp: ms - 1 for tp, ms in times_ms.items()}, self._net)
        return {tp: stop_offset(bounds[tp], older[tp]) for tp in times_ms}

    def committed_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int | None]:
        raise OptionError(
            f"option startingOffsets: 'committed' needs kafka.bootstrap.servers; {partitions[0]} is of "
            "Kafka 0.7, whose consumers keep their offsets in ZooKeeper: give the offsets as JSON"
        )

    @property
    def groups(self) -> ConsumerGroups:
        return ConsumerGroups(self._discovery, self._net.discovery_timeout_s)


def _not_held(view: ClusterView, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
    alive = {broker.id for broker in view.brokers}
    return {tp for tp in partitions if tp.broker not in alive}


def _check_holders(view: ClusterView, needed: Collection[TopicPartition]) -> None:
    """Raise ``BrokersMissingError`` (retriable) for partitions whose broker is not alive."""
    if lost := sorted(_not_held(view, needed)):
        ids = list_ids({tp.broker for tp in lost if tp.broker is not None})
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


T = TypeVar("T")

#: Most offsets in one response, which is then 1 MiB large. There may be more segments.
OFFSETS_COUNT_MAX: Final = 131_072


def bounds(
    broker: Broker, partitions: Sequence[TopicPartition], net: NetOptions
) -> dict[TopicPartition, PartitionBounds]:
    """Bounds of partitions of one broker. A partition that does not exist counts as empty, ``[0, 0)``.

    The start offset is requested twice, alone and with all segments, because one wrong number would move it
    or make the partition look empty. The responses differ if retention deletes a segment between them; then
    both are requested again. Raises ``TransportError`` when the retries are used up, ``BrokerError`` for a
    partition that the broker does not have, a topic name that it refuses or responses that stay different,
    ``ProtocolError`` (fatal).
    """

    questions = (LATEST_TIME, OFFSETS_COUNT_MAX), (EARLIEST_TIME, 1)
    attempts = Attempts(net.retry.impatient)
    while True:
        result = _offsets(broker, [(tp, *question) for tp in partitions for question in questions], net)
        try:
            return {
                tp: _bounds(broker, tp, offsets, start)
                for tp, offsets, [start] in zip(partitions, result[::2], result[1::2], strict=True)
            }
        except BrokerError as error:
            attempts.failed(error)


def all_bounds(
    view: ClusterView, partitions: Iterable[TopicPartition], net: NetOptions
) -> dict[TopicPartition, PartitionBounds]:
    """Bounds of partitions of many brokers, which are asked in parallel. In the order of ``partitions``.

    Raises as ``bounds`` does, ``DiscoveryError`` (fatal) if the broker of a partition is not alive.
    """
    return _ask_all(view, partitions, lambda broker, own: bounds(broker, own, net))


def segments_before(
    view: ClusterView, times_ms: Mapping[TopicPartition, int], net: NetOptions
) -> dict[TopicPartition, tuple[int, ...]]:
    """Start offsets of the segments that were last written at or before a timestamp, ascending.

    Timestamps are milliseconds since 1970 on the clock of the broker; earlier ones count as 1970, because -1
    and -2 are special in OFFSETS. No message of a segment is younger than the last write of the segment. So
    all messages younger than the timestamp are at or after the last offset of the result, or anywhere if the
    result is empty. If the timestamp is not in the past, the last element is the end of the partition. Raises
    as ``all_bounds`` does.
    """

    def question(broker: Broker, partitions: list[TopicPartition]) -> dict[TopicPartition, tuple[int, ...]]:
        asked = [(tp, max(times_ms[tp], 0), OFFSETS_COUNT_MAX) for tp in partitions]
        result = _offsets(broker, asked, net)
        return {tp: tuple(sorted(set(offsets))) for tp, offsets in zip(partitions, result, strict=True)}

    return _ask_all(view, times_ms, question)


def _ask_all(
    view: ClusterView,
    partitions: Iterable[TopicPartition],
    question: Callable[[Broker, list[TopicPartition]], Mapping[TopicPartition, T]],
) -> dict[TopicPartition, T]:
    alive = {broker.id: broker for broker in view.brokers}
    by_broker: dict[Broker, list[TopicPartition]] = {}
    partitions = list(partitions)
    for partition in partitions:
        if partition.broker not in alive:
            raise DiscoveryError(
                f"{partition}: broker {partition.broker} is not alive; start it, or leave the partition out"
            )
        by_broker.setdefault(alive[partition.broker], []).append(partition)
    answers = side_by_side(by_broker, lambda broker: question(broker, by_broker[broker]))
    return {tp: answers[alive[tp.broker]][tp] for tp in partitions if tp.broker is not None}


def _offsets(
    broker: Broker, asked: Sequence[tuple[TopicPartition, int, int]], net: NetOptions
) -> list[tuple[int, ...]]:
    """Send OFFSETS for partitions, each with a timestamp and a maximum number of offsets."""
    requests = [OffsetsRequest(tp.topic, tp.partition, time_ms, count) for tp, time_ms, count in asked]
    partitions = list(dict.fromkeys(tp for tp, *_ in asked))
    responses = ask(
        broker,
        requests,
        net,
        lambda request: f"OFFSETS of {TopicPartition(request.topic, request.partition, broker.id)}",
        lambda error: _why_closed(broker, partitions, net, error),
    )
    return [_check_offsets(broker, tp, response) for (tp, *_), response in zip(asked, responses, strict=True)]


def _why_closed(
    broker: Broker, partitions: list[TopicPartition], net: NetOptions, error: KafkaWireError
) -> KafkaWireError:
    # A broker closes the connection on OFFSETS of a partition that does not exist, and also when it dies;
    # FETCH distinguishes the two cases.
    if not isinstance(error, ConnectionLost):
        return error
    try:
        codes = partition_codes(broker, partitions, replace(net, retry=net.retry.impatient))
    except KafkaWireError:
        return error
    for partition, code in zip(partitions, codes, strict=True):
        if code in (ErrorCode.WRONG_PARTITION, ErrorCode.UNKNOWN):
            return broker_error(code, f"{partition} on {broker}")
    return error


def _check_offsets(broker: Broker, partition: TopicPartition, response: Any) -> tuple[int, ...]:
    offsets: tuple[int, ...] = response.offsets
    if response.error_code:
        raise broker_error(response.error_code, f"OFFSETS of {partition} on {broker}")
    if len(offsets) >= OFFSETS_COUNT_MAX:
        raise LimitError(
            f"{partition} on {broker} has {len(offsets)} segments or more; at most {OFFSETS_COUNT_MAX - 1} "
            "can be read: lower log.retention.hours there, and raise log.file.size for new segments"
        )
    return offsets


def _bounds(
    broker: Broker, partition: TopicPartition, offsets: tuple[int, ...], start: int
) -> PartitionBounds:
    # The end offset is followed by the start offsets of the segments. The last segment starts at the end
    # offset while none of its bytes is flushed. A last segment without any byte is listed as the end offset
    # alone.
    latest, earliest = offsets[0], offsets[-1]
    if start != earliest:
        raise BrokerError(
            f"OFFSETS of {partition} on {broker}: one answer starts the log at offset {start}, another one "
            f"says that it holds [{earliest}, {latest}); each segment file is named after its first "
            "offset: correct the names there",
            action=Action.BACK_OFF,
        )
    starts = tuple(offset for offset in sorted(set(offsets)) if offset < latest)
    return PartitionBounds(partition, earliest=earliest, latest=latest, segment_starts=starts)
