"""Where logs start and end, and where their segments start: OFFSETS, asked ahead.

Source: ``offsets/*`` of ``tests/golden/kafka-0.7.2``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from ...errors import ConnectionLost, DiscoveryError, KafkaWireError, LimitError
from ...model import Broker, ClusterView, LogBounds, TopicPartition
from ...options import NetOptions
from ...protocol.v07 import LATEST_TIME, OffsetsRequest
from ...protocol.v07.error_codes import ErrorCode, broker_error
from ..asking import ask, side_by_side
from .probe import partition_codes

T = TypeVar("T")

#: Offsets asked for of one log. A reply of so many is 1 MiB and means that there may be more.
OFFSETS_COUNT_MAX: Final = 131_072


def bounds(
    broker: Broker, logs: Sequence[TopicPartition], net: NetOptions
) -> dict[TopicPartition, LogBounds]:
    """The bounds of logs of one broker. A log that is not there counts as empty, ``[0, 0)``.

    Raises ``TransportError`` when the retries are used up, ``BrokerError`` for a partition that
    the broker has not or a topic name that it refuses, ``ProtocolError`` (fatal).
    """
    found = _offsets(broker, dict.fromkeys(logs, LATEST_TIME), net)
    return {log: _bounds(log, offsets) for log, offsets in found.items()}


def all_bounds(
    view: ClusterView, logs: Iterable[TopicPartition], net: NetOptions
) -> dict[TopicPartition, LogBounds]:
    """The bounds of logs of many brokers, which are asked side by side. In the order of ``logs``.

    Raises as ``bounds`` does, ``DiscoveryError`` (fatal) where a log's broker is not alive.
    """
    return _of_all(view, logs, lambda broker, own: bounds(broker, own, net))


def segments_before(
    view: ClusterView, times_ms: Mapping[TopicPartition, int], net: NetOptions
) -> dict[TopicPartition, tuple[int, ...]]:
    """The starts of each log's segments last written at its time or before, ascending.

    Times are milliseconds since 1970 on the broker's clock; earlier ones count as 1970, for
    OFFSETS means something else by -1 and -2. A message of a segment is at most as young as the
    segment's last write: all messages younger than a time lie at or after the last start given
    here, or anywhere where none is given. The end of the log is the last element when the time
    is not before the present. Raises as ``all_bounds`` does.
    """

    def question(broker: Broker, logs: list[TopicPartition]) -> dict[TopicPartition, tuple[int, ...]]:
        found = _offsets(broker, {log: max(times_ms[log], 0) for log in logs}, net)
        return {log: tuple(sorted(set(offsets))) for log, offsets in found.items()}

    return _of_all(view, times_ms, question)


def _of_all(
    view: ClusterView,
    logs: Iterable[TopicPartition],
    question: Callable[[Broker, list[TopicPartition]], Mapping[TopicPartition, T]],
) -> dict[TopicPartition, T]:
    alive = {broker.id: broker for broker in view.brokers}
    by_broker: dict[Broker, list[TopicPartition]] = {}
    logs = list(logs)
    for log in logs:
        if log.broker not in alive:
            raise DiscoveryError(f"{log}: broker {log.broker} is not alive; start it, or leave the log out")
        by_broker.setdefault(alive[log.broker], []).append(log)
    answers = side_by_side(by_broker, lambda broker: question(broker, by_broker[broker]))
    return {log: answers[alive[log.broker]][log] for log in logs if log.broker is not None}


def _offsets(
    broker: Broker, times_ms: Mapping[TopicPartition, int], net: NetOptions
) -> dict[TopicPartition, tuple[int, ...]]:
    requests = [
        OffsetsRequest(log.topic, log.partition, time_ms, OFFSETS_COUNT_MAX)
        for log, time_ms in times_ms.items()
    ]
    replies = ask(
        broker,
        requests,
        net,
        lambda request: _place(request, broker),
        lambda error: _why_closed(broker, list(times_ms), net, error),
    )
    return {log: _checked(broker, log, reply) for log, reply in zip(times_ms, replies, strict=True)}


def _place(request: OffsetsRequest, broker: Broker) -> str:
    return f"OFFSETS of {TopicPartition(request.topic, request.partition, broker.id)}"


def _why_closed(
    broker: Broker, logs: list[TopicPartition], net: NetOptions, error: KafkaWireError
) -> KafkaWireError:
    # OFFSETS of a partition that is not there is answered by a closed connection, as is the
    # death of a broker; FETCH tells the two apart.
    if not isinstance(error, ConnectionLost):
        return error
    try:
        codes = partition_codes(broker, logs, replace(net, retry=net.retry.impatient))
    except KafkaWireError:
        return error
    for log, code in zip(logs, codes, strict=True):
        if code in (ErrorCode.WRONG_PARTITION, ErrorCode.UNKNOWN):
            return broker_error(code, f"{log} on {broker}")
    return error


def _checked(broker: Broker, log: TopicPartition, reply: Any) -> tuple[int, ...]:
    offsets: tuple[int, ...] = reply.offsets
    if reply.error_code:
        raise broker_error(reply.error_code, f"OFFSETS of {log} on {broker}")
    if len(offsets) >= OFFSETS_COUNT_MAX:
        raise LimitError(
            f"{log} on {broker} has {len(offsets)} segments or more; at most {OFFSETS_COUNT_MAX - 1} can be"
            " read: raise log.file.size there"
        )
    return offsets


def _bounds(log: TopicPartition, offsets: tuple[int, ...]) -> LogBounds:
    # The end is followed by the segments' starts; the last segment's equals it while no byte of
    # that segment is flushed. A last segment without any byte is listed as the end alone.
    latest = offsets[0]
    starts = tuple(offset for offset in sorted(set(offsets)) if offset < latest)
    return LogBounds(log, earliest=offsets[-1], latest=latest, segment_starts=starts)
