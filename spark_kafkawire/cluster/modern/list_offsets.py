"""Offsets of partitions of modern Kafka (0.8 to 4.x): start, end, and offsets by timestamp (ListOffsets).

Each leader gets one request for all of its partitions, pipelined on one connection; the requests to all
leaders are sent in parallel. If a leader has moved, its partition is requested again from the new leader.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from spark_kafkawire.errors import (
    BrokerError,
    ConnectFailed,
    KafkaWireError,
    ProtocolError,
    UnsupportedVersionError,
)
from spark_kafkawire.model import Broker, PartitionBounds, RecordTimes, TopicPartition
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.net.retry import Attempts
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
from spark_kafkawire.protocol.modern.limits import READ_UNCOMMITTED
from spark_kafkawire.protocol.modern.list_offsets import (
    EARLIEST_LOCAL_SINCE,
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    LIST_OFFSETS,
    MAX_TIMESTAMP,
    MAX_TIMESTAMP_SINCE,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

from ..asking import side_by_side
from .metadata import Metadata

#: The timestamp of each partition, or one of the special timestamps of ListOffsets.
Timestamps = Mapping[TopicPartition, int]
#: Answers of one leader by question (its index) and partition: the response of the partition or an error.
_Answers = dict[tuple[int, TopicPartition], ListOffsetsPartitionResponse | KafkaWireError]
#: Part of ``requestTimeout`` that a leader gets for a look into tiered storage.
_REMOTE_SHARE: Final = 0.9
#: Codes of a partition whose broker has no timestamps of its records: the records may have no timestamps, or
#: the upgrade of the cluster is not complete.
_NO_TIMES: Final = (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION)


def all_bounds(
    metadata: Metadata,
    partitions: Iterable[TopicPartition],
    net: NetOptions,
    isolation_level: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, PartitionBounds]:
    """Start and end offsets of partitions now, in the order of ``partitions``.

    With READ_COMMITTED a partition ends where its first open transaction begins. Raises as
    ``list_offsets`` does, ``ProtocolError`` (fatal) for impossible bounds.
    """
    partitions = list(partitions)
    asked = [dict.fromkeys(partitions, time) for time in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)]
    earliest, latest = list_offsets(metadata, asked, net, isolation_level)
    for partition in partitions:
        if not 0 <= earliest[partition] <= latest[partition]:
            raise ProtocolError(
                f"ListOffsets of {partition}: impossible bounds [{earliest[partition]}, "
                f"{latest[partition]}); see the log of the leader, and let a follower lead: restart the "
                "leader's broker"
            )
    return {tp: PartitionBounds(tp, earliest[tp], latest[tp]) for tp in partitions}


def end_offsets(
    metadata: Metadata, partitions: Iterable[TopicPartition], net: NetOptions, isolation_level: int
) -> dict[TopicPartition, int]:
    """End offsets of partitions now; with READ_COMMITTED the last stable offsets. Raises as ``list_offsets``
    does."""
    [result] = list_offsets(metadata, [dict.fromkeys(partitions, LATEST_TIMESTAMP)], net, isolation_level)
    return result


def list_offsets(
    metadata: Metadata, asked: Sequence[Timestamps], net: NetOptions, isolation_level: int = READ_UNCOMMITTED
) -> list[dict[TopicPartition, int]]:
    """First offsets of records at or after the timestamps (ms), for each of ``asked``.

    The offset is ``NO_OFFSET`` without such a record. Raises ``UnknownTopicError`` (fatal),
    ``UnsupportedVersionError`` (fatal) if a broker is too old (0.10.0) to find offsets by time, and when the
    retries are used up ``BrokerError`` or ``TransportError``.
    """
    responses = _ask_until_all_answer(metadata, asked, net, isolation_level)
    return [{tp: response.found_offset for tp, response in result.items()} for result in responses]


def record_times(
    metadata: Metadata, partitions: Iterable[TopicPartition], net: NetOptions
) -> dict[TopicPartition, RecordTimes]:
    """Timestamps of the first and of the youngest record of each partition, as far as brokers report them.

    Brokers before 0.10.1 report no timestamps, and before 3.0 (KIP-734) not the youngest one.
    Raises as ``list_offsets`` does.
    """
    partitions = list(partitions)
    first = _times(metadata, dict.fromkeys(partitions, 0), net)
    youngest = _times(metadata, dict.fromkeys(partitions, MAX_TIMESTAMP), net) if first else {}
    return {tp: RecordTimes(first.get(tp), youngest.get(tp)) for tp in partitions}


def _times(metadata: Metadata, asked: Timestamps, net: NetOptions) -> dict[TopicPartition, int]:
    """Timestamps of the records that are found; empty if the brokers are too old."""
    try:
        [responses] = _ask_until_all_answer(metadata, [asked], net, READ_UNCOMMITTED, _NO_TIMES)
    except UnsupportedVersionError:
        return {}
    return {tp: response.timestamp for tp, response in responses.items() if response.timestamp >= 0}


def _ask_until_all_answer(
    metadata: Metadata,
    asked: Sequence[Timestamps],
    net: NetOptions,
    isolation_level: int,
    accepted_codes: Collection[int] = (),
) -> list[dict[TopicPartition, ListOffsetsPartitionResponse]]:
    """Responses to each of ``asked``; a response with an accepted error code counts as an answer."""
    result: list[dict[TopicPartition, ListOffsetsPartitionResponse]] = [{} for _ in asked]
    attempts = Attempts(net.request_retry)
    while any(
        pending := [
            {tp: time for tp, time in times.items() if tp not in there}
            for times, there in zip(asked, result, strict=True)
        ]
    ):
        failures = []
        for (index, tp), outcome in _ask_once(metadata, pending, net, isolation_level).items():
            if isinstance(outcome, BrokerError) and outcome.code in accepted_codes:
                outcome = ListOffsetsPartitionResponse(partition_index=tp.partition, error_code=outcome.code)
            if isinstance(outcome, ListOffsetsPartitionResponse):
                result[index][tp] = outcome
            else:
                metadata.forget(tp.topic)
                failures.append(outcome)
        if failures:
            attempts.failed(next((error for error in failures if not error.retriable), failures[0]))
    return [{tp: responses[tp] for tp in times} for times, responses in zip(asked, result, strict=True)]


def _ask_once(
    metadata: Metadata, pending: Sequence[Timestamps], net: NetOptions, isolation_level: int
) -> _Answers:
    """Attempt to ask all leaders once; every question gets an answer or an error."""
    leaders = metadata.leaders_of({tp for times in pending for tp in times})
    epochs = {tp: leader.epoch for tp, leader in leaders.items()}
    by_broker: dict[Broker, list[dict[TopicPartition, int]]] = defaultdict(lambda: [{} for _ in pending])
    for index, times in enumerate(pending):
        for partition, time in times.items():
            by_broker[leaders[partition].broker][index][partition] = time

    def question(broker: Broker) -> _Answers:
        own = by_broker[broker]
        try:
            return dict(_answers(broker, own, epochs, net, isolation_level))
        except KafkaWireError as error:
            partitions = [(index, tp) for index, times in enumerate(own) for tp in times]
            if isinstance(error, ConnectFailed):  # the broker advertised the address, and not the user
                error = error.locate(
                    f"the leader of {partitions[0][1]}, at the address that brokers advertise "
                    "(advertised.listeners)"
                )
            return dict.fromkeys(partitions, error)

    answers = side_by_side(by_broker, question)
    return {key: outcome for of_broker in answers.values() for key, outcome in of_broker.items()}


def _answers(
    broker: Broker,
    asked: Sequence[Timestamps],
    epochs: Mapping[TopicPartition, int],
    net: NetOptions,
    isolation_level: int,
) -> Iterator[tuple[tuple[int, TopicPartition], ListOffsetsPartitionResponse | KafkaWireError]]:
    indexes = [index for index, times in enumerate(asked) if times]
    requests = [request_of(asked[index], epochs, isolation_level, net) for index in indexes]
    location = net.connection.place(broker)
    for index, response in zip(indexes, _responses(broker, requests, net), strict=True):
        for topic in response.topics:
            for part in topic.partitions:
                tp, code = TopicPartition(topic.name, part.partition_index), part.error_code
                refusal = broker_error(code, f"ListOffsets of {tp} on {location}") if code else None
                yield (index, tp), refusal or part


def _responses(
    broker: Broker, requests: Sequence[ListOffsetsRequest], net: NetOptions
) -> list[ListOffsetsResponse]:
    times = {part.timestamp for item in requests for topic in item.topics for part in topic.partitions}
    with POOL.lend(broker, net.connection) as client:
        version = client.version_of(LIST_OFFSETS)
        if version == 0 and max(times) >= 0:
            raise UnsupportedVersionError(
                f"{broker} is older than Kafka 0.10.1 and cannot find offsets by timestamp: "
                "give offsets instead"
            )
        if version < MAX_TIMESTAMP_SINCE and MAX_TIMESTAMP in times:
            raise UnsupportedVersionError(
                f"{broker} is older than Kafka 3.0 and cannot find its youngest records; upgrade it"
            )
        if version < EARLIEST_LOCAL_SINCE and EARLIEST_LOCAL_TIMESTAMP in times:
            requests = [_without_tiers(request) for request in requests]
        return [response.body for response in client.pipeline(requests)]


def _without_tiers(request: ListOffsetsRequest) -> ListOffsetsRequest:
    """The request for brokers without tiered storage."""

    def asked(part: ListOffsetsPartition) -> ListOffsetsPartition:
        is_local = part.timestamp == EARLIEST_LOCAL_TIMESTAMP
        return replace(part, timestamp=EARLIEST_TIMESTAMP) if is_local else part

    topics = (replace(topic, partitions=tuple(map(asked, topic.partitions))) for topic in request.topics)
    return replace(request, topics=tuple(topics))


def request_of(
    times: Timestamps, epochs: Mapping[TopicPartition, int], isolation_level: int, net: NetOptions
) -> ListOffsetsRequest:
    """The request; the leader epoch keeps a previous leader from answering it. A leader that has to look into
    tiered storage gives up just before the client does, so that its answer says so."""
    by_topic: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for tp, ms in times.items():
        partition = ListOffsetsPartition(
            partition_index=tp.partition, current_leader_epoch=epochs[tp], timestamp=ms
        )
        by_topic[tp.topic].append(partition)
    topics = [ListOffsetsTopic(name=topic, partitions=tuple(parts)) for topic, parts in by_topic.items()]
    return ListOffsetsRequest(
        isolation_level=isolation_level,
        topics=tuple(topics),
        timeout_ms=round(_REMOTE_SHARE * net.request_timeout_s * 1000),
    )
