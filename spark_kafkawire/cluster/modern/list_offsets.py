"""The offsets of the start, the end and timestamps of partitions: ListOffsets.

Each leader is asked for all its partitions at once, its requests pipelined on one connection, and all
leaders at the same time. A partition whose leader has moved is asked for again, there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ...errors import BrokerError, ConnectFailed, KafkaWireError, ProtocolError, UnsupportedVersionError
from ...model import Broker, LogBounds, RecordTimes, TopicPartition
from ...net.pool import POOL
from ...net.retry import Attempts
from ...options import NetOptions
from ...protocol.modern.error_codes import ErrorCode, broker_error
from ...protocol.modern.isolation import READ_UNCOMMITTED
from ...protocol.modern.list_offsets import (
    EARLIEST_LOCAL_SINCE,
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    LIST_OFFSETS,
    MAX_TIMESTAMP,
    MAX_TIMESTAMP_SINCE,
    ListOffsetsPartition,
    ListOffsetsPartitionReply,
    ListOffsetsReply,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ..asking import side_by_side
from .metadata import Metadata

#: One question after the other: the timestamp, or what stands for one, of each log.
Timestamps = Mapping[TopicPartition, int]
#: What one leader answers to each question (by its place) and log: the partition's reply or an error.
_Answers = dict[tuple[int, TopicPartition], ListOffsetsPartitionReply | KafkaWireError]
#: Codes of a partition whose broker cannot tell the time of its records: they may have none, or the
#: cluster is not through with its upgrade.
_NO_TIMES: Final = (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION)


def all_bounds(
    metadata: Metadata,
    logs: Iterable[TopicPartition],
    net: NetOptions,
    isolation_level: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, LogBounds]:
    """Where logs start and end now, in the order of ``logs``.

    With READ_COMMITTED a log ends where its first open transaction begins. Raises as
    ``list_offsets`` does, ``ProtocolError`` (fatal) for bounds that cannot be.
    """
    logs = list(logs)
    asked = [dict.fromkeys(logs, time) for time in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)]
    earliest, latest = list_offsets(metadata, asked, net, isolation_level)
    for log in logs:
        if not 0 <= earliest[log] <= latest[log]:
            raise ProtocolError(f"ListOffsets of {log}: it cannot hold [{earliest[log]}, {latest[log]})")
    return {log: LogBounds(log, earliest[log], latest[log]) for log in logs}


def list_offsets(
    metadata: Metadata, asked: Sequence[Timestamps], net: NetOptions, isolation_level: int = READ_UNCOMMITTED
) -> list[dict[TopicPartition, int]]:
    """For each of ``asked``, the first offset of each log whose record is as young as the timestamp, ms.

    It is ``NO_OFFSET`` where no record is. Raises ``UnknownTopicError`` (fatal),
    ``UnsupportedVersionError`` (fatal) where a broker is too old (0.10.0) to know the time of
    records, and when the retries are used up ``BrokerError`` or ``TransportError``.
    """
    replies = _ask_until_all_answer(metadata, asked, net, isolation_level)
    return [{log: reply.found_offset for log, reply in found.items()} for found in replies]


def record_times(
    metadata: Metadata, logs: Iterable[TopicPartition], net: NetOptions
) -> dict[TopicPartition, RecordTimes]:
    """When the first and the youngest record of each log was made, as far as brokers tell.

    Brokers before 0.10.1 know no times of records, and before 3.0 (KIP-734) not the youngest one.
    Raises as ``list_offsets`` does.
    """
    logs = list(logs)
    first = _times(metadata, dict.fromkeys(logs, 0), net)
    youngest = _times(metadata, dict.fromkeys(logs, MAX_TIMESTAMP), net) if first else {}
    return {log: RecordTimes(first.get(log), youngest.get(log)) for log in logs}


def _times(metadata: Metadata, asked: Timestamps, net: NetOptions) -> dict[TopicPartition, int]:
    """The time of the record that is found for each log; nothing where brokers are too old."""
    try:
        [replies] = _ask_until_all_answer(metadata, [asked], net, READ_UNCOMMITTED, _NO_TIMES)
    except UnsupportedVersionError:
        return {}
    return {log: reply.timestamp for log, reply in replies.items() if reply.timestamp >= 0}


def _ask_until_all_answer(
    metadata: Metadata,
    asked: Sequence[Timestamps],
    net: NetOptions,
    isolation_level: int,
    accepted_codes: Collection[int] = (),
) -> list[dict[TopicPartition, ListOffsetsPartitionReply]]:
    """The replies to each of ``asked``; those with an accepted error code count as answers."""
    found: list[dict[TopicPartition, ListOffsetsPartitionReply]] = [{} for _ in asked]
    attempts = Attempts(net.retry, patience_s=net.request_timeout_s)
    while any(pending := [_without(*pair) for pair in zip(asked, found, strict=True)]):
        failures = []
        for (index, log), outcome in _asked_once(metadata, pending, net, isolation_level).items():
            if isinstance(outcome, BrokerError) and outcome.code in accepted_codes:
                outcome = ListOffsetsPartitionReply(partition_index=log.partition, error_code=outcome.code)
            if isinstance(outcome, ListOffsetsPartitionReply):
                found[index][log] = outcome
            else:
                metadata.forget(log.topic)
                failures.append(outcome)
        if failures:
            attempts.failed(next((error for error in failures if not error.retriable), failures[0]))
    return [{log: replies[log] for log in times} for times, replies in zip(asked, found, strict=True)]


def _without(times: Timestamps, found: Mapping[TopicPartition, object]) -> Timestamps:
    return {log: time for log, time in times.items() if log not in found}


def _asked_once(
    metadata: Metadata, pending: Sequence[Timestamps], net: NetOptions, isolation_level: int
) -> _Answers:
    """One attempt at all leaders; every question gets an answer or an error."""
    leaders = metadata.leaders_of({log for times in pending for log in times})
    epochs = {log: leader.epoch for log, leader in leaders.items()}
    by_broker: dict[Broker, list[dict[TopicPartition, int]]] = defaultdict(lambda: [{} for _ in pending])
    for index, times in enumerate(pending):
        for log, time in times.items():
            by_broker[leaders[log].broker][index][log] = time

    def question(broker: Broker) -> _Answers:
        try:
            return dict(_answers(broker, by_broker[broker], epochs, net, isolation_level))
        except KafkaWireError as error:
            logs = [(index, log) for index, times in enumerate(by_broker[broker]) for log in times]
            return dict.fromkeys(logs, _located(error, logs[0][1]))

    answers = side_by_side(by_broker, question)
    return {key: outcome for of_broker in answers.values() for key, outcome in of_broker.items()}


def _located(error: KafkaWireError, log: TopicPartition) -> KafkaWireError:
    """The error, which says that the address is the leader's, and not one that the user gave."""
    if not isinstance(error, ConnectFailed):
        return error
    return error.located(f"the leader of {log}, at the address that brokers advertise (advertised.listeners)")


def _answers(
    broker: Broker,
    asked: Sequence[Timestamps],
    epochs: Mapping[TopicPartition, int],
    net: NetOptions,
    isolation_level: int,
) -> Iterator[tuple[tuple[int, TopicPartition], ListOffsetsPartitionReply | KafkaWireError]]:
    places = [index for index, times in enumerate(asked) if times]
    replies = _replies(broker, [_request(asked[index], epochs, isolation_level) for index in places], net)
    for index, reply in zip(places, replies, strict=True):
        partitions = _partitions(reply)
        for log in asked[index]:
            found = partitions[log]
            yield (index, log), _refused(log, broker, found.error_code) if found.error_code else found


def _refused(log: TopicPartition, broker: Broker, code: int) -> BrokerError:
    return broker_error(code, f"ListOffsets of {log} on {broker}")


def _replies(
    broker: Broker, requests: Sequence[ListOffsetsRequest], net: NetOptions
) -> list[ListOffsetsReply]:
    with POOL.lend(broker, net.connection) as client:
        version = client.version_of(LIST_OFFSETS)
        if version == 0 and any(map(_asks_for_time, requests)):
            raise UnsupportedVersionError(
                f"{broker} is older than Kafka 0.10.1 and does not know which offset belongs to a timestamp: "
                "give offsets instead"
            )
        if version < MAX_TIMESTAMP_SINCE and any(map(_asks_for_youngest, requests)):
            raise UnsupportedVersionError(
                f"{broker} is older than Kafka 3.0 and does not know its youngest records"
            )
        if version < EARLIEST_LOCAL_SINCE:
            requests = [_without_tiers(request) for request in requests]
        return [reply.body for reply in client.pipeline(requests)]


def _asks_for_time(request: ListOffsetsRequest) -> bool:
    return any(partition.timestamp >= 0 for topic in request.topics for partition in topic.partitions)


def _asks_for_youngest(request: ListOffsetsRequest) -> bool:
    return any(part.timestamp == MAX_TIMESTAMP for topic in request.topics for part in topic.partitions)


def _without_tiers(request: ListOffsetsRequest) -> ListOffsetsRequest:
    """The request in the words of brokers that have everything on their own disks."""
    if all(
        part.timestamp != EARLIEST_LOCAL_TIMESTAMP for topic in request.topics for part in topic.partitions
    ):
        return request
    topics = tuple(
        replace(
            topic, partitions=tuple(replace(part, timestamp=EARLIEST_TIMESTAMP) for part in topic.partitions)
        )
        for topic in request.topics
    )
    return replace(request, topics=topics)


def _request(
    times: Timestamps, epochs: Mapping[TopicPartition, int], isolation_level: int
) -> ListOffsetsRequest:
    """The question; with the epoch, who led a log before does not answer for who leads it now."""
    by_topic: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for log, ms in times.items():
        partition = ListOffsetsPartition(
            partition_index=log.partition, current_leader_epoch=epochs[log], timestamp=ms
        )
        by_topic[log.topic].append(partition)
    topics = [ListOffsetsTopic(name=topic, partitions=tuple(parts)) for topic, parts in by_topic.items()]
    return ListOffsetsRequest(isolation_level=isolation_level, topics=tuple(topics))


def _partitions(reply: ListOffsetsReply) -> dict[TopicPartition, ListOffsetsPartitionReply]:
    return {
        TopicPartition(topic.name, partition.partition_index): partition
        for topic in reply.topics
        for partition in topic.partitions
    }
