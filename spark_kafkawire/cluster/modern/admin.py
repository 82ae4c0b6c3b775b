"""Requests of administration to modern Kafka (0.10.1 to 4.x), which reads and writes never need.

- CreateTopics (0.10.1), sent to the controller of the cluster
- DescribeLogDirs (1.0): sizes of replicas in the log directories of brokers
- DescribeProducers (2.8): producers of partitions, from their leaders. Source: KIP-664.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spark_kafkawire.errors import LOG, BrokerError, OptionError, printable, quote
from spark_kafkawire.model import Broker, TopicPartition
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.net.retry import call_with_retries
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.modern.admin import (
    BROKER_DEFAULT,
    BROKER_DEFAULTS_SINCE,
    CREATE_TOPICS,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    LogDir,
    ProducerState,
    ProducersTopic,
)
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error

from ..asking import side_by_side
from .group_offsets import ask_coordinator, group_by_topic
from .metadata import Metadata

#: Codes of a topic that exists: another client created it first, or this client did and lost the response.
_THERE: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


def create_topics(
    metadata: Metadata,
    partition_counts: Mapping[str, int],
    net: NetOptions,
    replication_factor: int = BROKER_DEFAULT,
) -> None:
    """Create topics with the given partition counts, and skip those that exist. ``metadata`` describes all of
    them afterwards.

    ``BROKER_DEFAULT`` leaves the number of replicas to the brokers. The controller is looked up again
    while it moves. Raises ``OptionError`` (fatal) if a broker before 2.4 requires the number of replicas,
    ``UnsupportedVersionError`` (fatal) before 0.10.1, and when the retries are used up ``BrokerError`` or
    ``TransportError``.
    """
    left = dict(partition_counts)

    def attempt() -> None:
        topics = tuple(
            CreatableTopic(name=topic, num_partitions=count, replication_factor=replication_factor)
            for topic, count in sorted(left.items())
        )
        request = CreateTopicsRequest(topics=topics, timeout_ms=round(1000 * net.request_timeout_s / 2))
        controller = metadata.controller()
        failure = None
        for created in _ask(controller, request, net).topics:
            if created.error_code in _THERE:
                left.pop(created.name, None)
            else:
                location = f"CreateTopics of {quote(created.name)} on {controller}"
                failure = broker_error(created.error_code, location, created.error_message)
        if failure:
            raise failure

    if left:
        call_with_retries(attempt, net.request_retry)
        metadata.refresh(partition_counts, are_created=True)


def _ask(controller: Broker, request: CreateTopicsRequest, net: NetOptions) -> CreateTopicsResponse:
    wants_default = any(
        BROKER_DEFAULT in (topic.num_partitions, topic.replication_factor) for topic in request.topics
    )
    with POOL.lend(controller, net.connection) as client:
        if wants_default and client.version_of(CREATE_TOPICS) < BROKER_DEFAULTS_SINCE:
            raise OptionError(
                "brokers before 2.4 have no default for the partitions and replicas of a new topic: set "
                "topicPartitions and topicReplicationFactor, or the arguments of the job"
            )
        response: CreateTopicsResponse = client.request(request)
    return response


@dataclass(frozen=True, slots=True)
class BrokerDisk:
    """The log directories of a broker: sizes of its replicas, and of the volumes, bytes.

    ``total_bytes`` and ``usable_bytes`` are None if the broker does not report them (before 3.3). While a
    replica moves to another directory, the size of the current one counts.
    """

    replica_bytes: Mapping[TopicPartition, int]
    total_bytes: int | None
    usable_bytes: int | None


def broker_disks(
    brokers: Iterable[Broker], net: NetOptions, partitions: Iterable[TopicPartition] | None = None
) -> dict[Broker, BrokerDisk]:
    """The log directories of brokers, with some partitions or with all. A directory whose disk failed is left
    out with a warning.

    Raises ``BrokerError`` with the code of the missing right if the user may not describe the cluster,
    ``UnsupportedVersionError`` (fatal) before Kafka 2.0, and when the retries are used up ``BrokerError`` or
    ``TransportError``.
    """
    topics = None
    if partitions is not None:
        topics = tuple(
            DescribableLogDirTopic(topic=topic, partitions=tuple(tp.partition for tp in own))
            for topic, own in group_by_topic(partitions).items()
        )
    request = DescribeLogDirsRequest(topics=topics)

    def question(broker: Broker) -> BrokerDisk:
        return call_with_retries(lambda: _disk(broker, request, net), net.request_retry)

    return side_by_side(brokers, question)


def _disk(broker: Broker, request: DescribeLogDirsRequest, net: NetOptions) -> BrokerDisk:
    location = f"DescribeLogDirs on {broker}"
    response: DescribeLogDirsResponse = ask_coordinator(broker, request, net)
    if response.error_code:
        raise broker_error(response.error_code, location)
    if not response.results:
        # Every broker has a directory. Before version 3 this is the response to users without the right.
        raise broker_error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, location)
    result = [item for item in response.results if not _has_failed(item, location)]
    sizes = {
        TopicPartition(topic.name, replica.partition_index): replica.partition_size
        for item in result
        for topic in item.topics
        for replica in topic.partitions
        if not replica.is_future_key
    }
    return BrokerDisk(
        sizes, _sum(item.total_bytes for item in result), _sum(item.usable_bytes for item in result)
    )


def _has_failed(directory: LogDir, place: str) -> bool:
    if not directory.error_code:
        return False
    error: BrokerError = broker_error(directory.error_code, f"{place}, {printable(directory.log_dir)}")
    LOG.warning("%s: its partitions have no size", error)
    return True


def _sum(sizes: Iterable[int]) -> int | None:
    """The sum of sizes; None without sizes, or if one is unknown (-1)."""
    known = list(sizes)
    return sum(known) if known and min(known) >= 0 else None


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
            result = side_by_side(by_leader, lambda broker: _ask_broker(broker, by_leader[broker], net))
        except Exception:
            for topic in {tp.topic for tp in partitions}:
                metadata.forget(topic)  # a leader may have moved
            raise
        return {tp: states for of_leader in result.values() for tp, states in of_leader.items()}

    return call_with_retries(once, net.request_retry)


def _ask_broker(broker: Broker, partitions: Sequence[TopicPartition], net: NetOptions) -> Producers:
    request = DescribeProducersRequest(
        topics=tuple(
            ProducersTopic(name=topic, partition_indexes=tuple(tp.partition for tp in own))
            for topic, own in group_by_topic(partitions).items()
        )
    )
    response: DescribeProducersResponse = ask_coordinator(broker, request, net)
    result: Producers = {}
    for topic in response.topics:
        for part in topic.partitions:
            tp = TopicPartition(topic.name, part.partition_index)
            if part.error_code:
                location = f"DescribeProducers of {tp} on {broker}"
                raise broker_error(part.error_code, location, part.error_message)
            result[tp] = part.active_producers
    return result
