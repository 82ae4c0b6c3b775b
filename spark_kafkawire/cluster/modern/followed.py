"""Bounds of the partitions that a stream follows in modern Kafka (0.8 to 4.x).

Most polls find few new records, or none. So a poll asks for ends only, with the requests of the poll before,
and reads the responses that differ from the last ones (``protocol.connection``). An error, other leaders, or
an end before the known start is left to the complete request of ``list_offsets``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.model import Broker, PartitionBounds, TopicPartition
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.modern.list_offsets import (
    LATEST_TIMESTAMP,
    ListOffsetsRequest,
    ListOffsetsResponse,
)

from ..asking import side_by_side
from .list_offsets import all_bounds, request_of
from .metadata import Metadata

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
        found = self._followed() if is_known else None
        if found is None:
            found = all_bounds(self._metadata, partitions, self._net, self._isolation_level)
            # A change of the metadata while the requests are made is a change for the next call.
            self._partitions, self._version = partitions, self._metadata.version
            self._requests, self._responses = self._latest_requests(partitions), {}
        self._bounds = found
        return found

    def _latest_requests(self, partitions: tuple[TopicPartition, ...]) -> dict[Broker, ListOffsetsRequest]:
        leaders = self._metadata.known_leaders(partitions)
        if len(leaders) < len(partitions):
            self._version = -1  # the ends of the others would stay as they are
        by_broker: dict[Broker, list[TopicPartition]] = defaultdict(list)
        for tp, leader in leaders.items():
            by_broker[leader.broker].append(tp)
        epochs = {tp: leader.epoch for tp, leader in leaders.items()}
        return {
            broker: request_of(dict.fromkeys(led, LATEST_TIMESTAMP), epochs, self._isolation_level)
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
        self._responses = {broker: found for broker, found in responses.items() if found is not None}
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
