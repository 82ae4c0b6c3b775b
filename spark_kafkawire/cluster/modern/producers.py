"""Producers of partitions of modern Kafka (2.8 to 4.x), from DescribeProducers to their leaders.

Source: KIP-664.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from spark_kafkawire.model import Broker, TopicPartition
from spark_kafkawire.net.retry import retried
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.modern.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    ProducersTopic,
)
from spark_kafkawire.protocol.modern.error_codes import broker_error

from ..asking import side_by_side
from .group_offsets import ask_coordinator, by_topic
from .metadata import Metadata

#: Producers of each partition.
Producers = dict[TopicPartition, tuple[ProducerState, ...]]


def active_producers(metadata: Metadata, partitions: Sequence[TopicPartition], net: NetOptions) -> Producers:
    """Producers whose state the leader of each partition keeps.

    Raises ``UnsupportedVersionError`` (fatal) before Kafka 2.8, ``BrokerError`` if the user may not read a
    topic, and when the retries are used up that or a ``TransportError``.
    """

    def once() -> Producers:
        by_leader: dict[Broker, list[TopicPartition]] = defaultdict(list)
        for tp, leader in metadata.leaders_of(partitions).items():
            by_leader[leader.broker].append(tp)
        try:
            found = side_by_side(by_leader, lambda broker: _asked(broker, by_leader[broker], net))
        except Exception:
            for topic in {tp.topic for tp in partitions}:
                metadata.forget(topic)  # a leader may have moved
            raise
        return {tp: states for of_leader in found.values() for tp, states in of_leader.items()}

    return retried(once, net.request_retry)


def _asked(broker: Broker, partitions: Sequence[TopicPartition], net: NetOptions) -> Producers:
    request = DescribeProducersRequest(
        topics=tuple(
            ProducersTopic(name=topic, partition_indexes=tuple(tp.partition for tp in own))
            for topic, own in by_topic(partitions).items()
        )
    )
    response: DescribeProducersResponse = ask_coordinator(broker, request, net)
    found: Producers = {}
    for topic in response.topics:
        for part in topic.partitions:
            tp = TopicPartition(topic.name, part.partition_index)
            if part.error_code:
                place = f"DescribeProducers of {tp} on {broker}"
                raise broker_error(part.error_code, place, part.error_message)
            found[tp] = part.active_producers
    return found
