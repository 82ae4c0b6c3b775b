"""Offsets of partitions of Kafka 0.7: start, end, and starts of segments, from pipelined OFFSETS requests.

Source: ``offsets/*`` of ``tests/golden/kafka-0.7.2``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from spark_kafkawire.errors import (
    Action,
    BrokerError,
    ConnectionLost,
    DiscoveryError,
    KafkaWireError,
    LimitError,
)
from spark_kafkawire.model import Broker, ClusterView, PartitionBounds, TopicPartition
from spark_kafkawire.net.retry import Attempts
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.v07 import EARLIEST_TIME, LATEST_TIME, OffsetsRequest
from spark_kafkawire.protocol.v07.error_codes import ErrorCode, broker_error

from ..asking import ask, side_by_side
from .probe import partition_codes

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
        found = _offsets(broker, [(tp, *question) for tp in partitions for question in questions], net)
        try:
            return {
                tp: _bounds(broker, tp, offsets, start)
                for tp, offsets, [start] in zip(partitions, found[::2], found[1::2], strict=True)
            }
        except BrokerError as error:
            attempts.failed(error)


def all_bounds(
    view: ClusterView, partitions: Iterable[TopicPartition], net: NetOptions
) -> dict[TopicPartition, PartitionBounds]:
    """Bounds of partitions of many brokers, which are asked in parallel. In the order of ``partitions``.

    Raises as ``bounds`` does, ``DiscoveryError`` (fatal) if the broker of a partition is not alive.
    """
    return _of_all(view, partitions, lambda broker, own: bounds(broker, own, net))


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
        found = _offsets(broker, asked, net)
        return {tp: tuple(sorted(set(offsets))) for tp, offsets in zip(partitions, found, strict=True)}

    return _of_all(view, times_ms, question)


def _of_all(
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
        lambda request: _place(request, broker),
        lambda error: _why_closed(broker, partitions, net, error),
    )
    return [_checked(broker, tp, response) for (tp, *_), response in zip(asked, responses, strict=True)]


def _place(request: OffsetsRequest, broker: Broker) -> str:
    return f"OFFSETS of {TopicPartition(request.topic, request.partition, broker.id)}"


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


def _checked(broker: Broker, partition: TopicPartition, response: Any) -> tuple[int, ...]:
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
