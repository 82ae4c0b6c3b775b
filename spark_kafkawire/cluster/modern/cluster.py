"""A cluster of Kafka 0.8 and later: Metadata, ListOffsets, and the offsets of consumer groups.

Imports delay the first query, so modules that few queries need are imported inside of functions.

A stream follows the bounds of its partitions (``FollowedBounds``). Most polls find few new records, or none.
So a poll asks for ends only, with the requests of the poll before, and reads the responses that differ from
the last ones (``protocol.connection``). An error, other leaders, or an end before the known start is left to
the complete request of ``list_offsets``.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from spark_kafkawire.errors import (
    LOG,
    NAMES_COUNT_MAX,
    KafkaWireError,
    OptionError,
    UnknownTopicError,
    counted,
    list_some,
    printable,
    unknown_topics,
)
from spark_kafkawire.model import Broker, Leader, PartitionBounds, RecordTimes, SizeSample, TopicPartition
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.modern.limits import READ_UNCOMMITTED
from spark_kafkawire.protocol.modern.list_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsRequest,
    ListOffsetsResponse,
)

from ..asking import side_by_side
from .list_offsets import all_bounds, end_offsets, list_offsets, record_times, request_of
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

    def racks(self) -> frozenset[str]:
        self._metadata.known_brokers()
        return frozenset(self._metadata.racks.values())

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
                f"{list_some(missing, NAMES_COUNT_MAX, str)} {'is' if len(missing) == 1 else 'are'}",
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

    def follow_bounds(
        self, partitions: tuple[TopicPartition, ...]
    ) -> Mapping[TopicPartition, PartitionBounds]:
        return self._followed.bounds(partitions)

    def cut_points(self, partitions: Sequence[TopicPartition]) -> None:
        """Return None: a record begins at every offset."""

    def high_watermarks(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return end_offsets(self._metadata, partitions, self._net, READ_UNCOMMITTED)

    def local_starts(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        asked = dict.fromkeys(partitions, EARLIEST_LOCAL_TIMESTAMP)
        [result] = list_offsets(self._metadata, [asked], self._net, self._isolation_level)
        return result

    def sample_sizes(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, SizeSample]:
        from .record_sizes import sample_sizes

        return sample_sizes(self._metadata, offsets, self._net)

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
        [result] = list_offsets(self._metadata, [times_ms], self._net, self._isolation_level)
        return {tp: offset if offset >= 0 else None for tp, offset in result.items()}

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


Bounds = Mapping[TopicPartition, PartitionBounds]


class FollowedBounds:
    """Bounds of the same partitions, time after time."""

    def __init__(self, metadata: Metadata, net: NetOptions, isolation_level: int) -> None:
        self._metadata, self._net, self._isolation_level = metadata, net, isolation_level
        self._partitions: tuple[TopicPartition, ...] = ()
        self._version = -1
        self._bounds: Bounds = {}
        self._requests: Mapping[Broker, ListOffsetsRequest] = {}
        self._responses: Mapping[Broker, ListOffsetsResponse] = {}

    def bounds(self, partitions: tuple[TopicPartition, ...]) -> Bounds:
        """Ends of the partitions now, with starts of an earlier call. The result is the object of the last
        call if nothing has changed. Raises as ``list_offsets.all_bounds``."""
        is_known = partitions == self._partitions and self._version == self._metadata.version
        result = self._followed() if is_known else None
        if result is None:
            result = all_bounds(self._metadata, partitions, self._net, self._isolation_level)
            # A change of the metadata while the requests are made is a change for the next call.
            self._partitions, self._version = partitions, self._metadata.version
            self._requests, self._responses = self._latest_requests(partitions), {}
        self._bounds = result
        return result

    def _latest_requests(self, partitions: tuple[TopicPartition, ...]) -> dict[Broker, ListOffsetsRequest]:
        leaders = self._metadata.known_leaders(partitions)
        if len(leaders) < len(partitions):
            self._version = -1  # the ends of the others would stay as they are
        by_broker: dict[Broker, list[TopicPartition]] = defaultdict(list)
        for tp, leader in leaders.items():
            by_broker[leader.broker].append(tp)
        epochs = {tp: leader.epoch for tp, leader in leaders.items()}
        return {
            broker: request_of(dict.fromkeys(led, LATEST_TIMESTAMP), epochs, self._isolation_level, self._net)
            for broker, led in by_broker.items()
        }

    def _followed(self) -> Bounds | None:
        """The bounds by the responses of all leaders; None if only a complete request can tell."""
        responses = side_by_side(self._requests, self._response)
        bounds: dict[TopicPartition, PartitionBounds] | None = None
        for broker, response in responses.items():
            if response is None:
                return None
            if response is self._responses.get(broker):
                continue
            bounds = dict(self._bounds) if bounds is None else bounds
            if not _update(bounds, response):
                return None
        self._responses = {broker: result for broker, result in responses.items() if result is not None}
        return self._bounds if bounds is None else bounds

    def _response(self, broker: Broker) -> ListOffsetsResponse | None:
        try:
            with POOL.lend(broker, self._net.connection) as client:
                response: ListOffsetsResponse = client.request(self._requests[broker])
        except KafkaWireError:
            # The complete request, which repeats this one, looks up the leader first.
            for topic in self._requests[broker].topics:
                self._metadata.forget(topic.name)
            return None
        return response


def _update(bounds: dict[TopicPartition, PartitionBounds], response: ListOffsetsResponse) -> bool:
    """Put the ends of a response into ``bounds``; False if it has errors, or ends before the known starts."""
    for topic in response.topics:
        for partition in topic.partitions:
            tp = TopicPartition(topic.name, partition.partition_index)
            known, latest = bounds[tp], partition.found_offset
            if partition.error_code or latest < known.earliest:
                return False
            if latest != known.latest:
                bounds[tp] = PartitionBounds(tp, known.earliest, latest)
    return True
