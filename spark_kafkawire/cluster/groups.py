"""Where a consumer group stands in each partition: FindCoordinator, then OffsetFetch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ..errors import ProtocolError
from ..model import Broker, TopicPartition
from ..net.pool import POOL
from ..net.retry import Attempts
from ..options import NetOptions
from ..protocol.modern.error_codes import broker_error
from ..protocol.modern.find_coordinator import FindCoordinatorRequest
from ..protocol.modern.group_offsets import (
    OffsetFetchGroupReply,
    OffsetFetchReply,
    OffsetFetchRequest,
    OffsetFetchTopic,
)
from .metadata import Metadata


def committed_offsets(
    metadata: Metadata, group_id: str, logs: Sequence[TopicPartition], net: NetOptions
) -> dict[TopicPartition, int | None]:
    """The offset that a group committed for each log, None where it has none.

    The coordinator is looked for again while it starts or moves. Raises ``BrokerError`` where a
    broker refuses the group, and when the retries are used up that or a ``TransportError``.
    """
    attempts = Attempts(net.retry, patience_s=net.request_timeout_s)
    return attempts.run(lambda: _asked_once(metadata, group_id, logs, net))


def coordinator_of(metadata: Metadata, group_id: str) -> Broker:
    """The broker that keeps a group's offsets.

    Raises ``BrokerError`` (retriable while there is none), ``TransportError``.
    """
    reply = metadata.ask(FindCoordinatorRequest.for_group(group_id))
    found = reply.coordinator_of(group_id)
    if found.error_code:
        raise broker_error(found.error_code, f"FindCoordinator of group {group_id!r}", found.error_message)
    return Broker(found.node_id, found.host, found.port)


def _asked_once(
    metadata: Metadata, group_id: str, logs: Sequence[TopicPartition], net: NetOptions
) -> dict[TopicPartition, int | None]:
    coordinator = coordinator_of(metadata, group_id)
    place = f"OffsetFetch of group {group_id!r} on {coordinator}"
    client = POOL.take(coordinator, net.connection)
    reply: OffsetFetchReply = client.request(_request(group_id, logs))
    POOL.give_back(client)
    group = reply.group_of(group_id)
    if group.error_code:
        raise broker_error(group.error_code, place)
    found = _offsets(group, place)
    if missing := [log for log in logs if log not in found]:
        raise ProtocolError(f"{place}: the answer does not mention {missing[0]}")
    return {log: found[log] for log in logs}


def _request(group_id: str, logs: Sequence[TopicPartition]) -> OffsetFetchRequest:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for log in logs:
        by_topic[log.topic].append(log.partition)
    topics = [
        OffsetFetchTopic(name=topic, partition_indexes=tuple(numbers)) for topic, numbers in by_topic.items()
    ]
    return OffsetFetchRequest.for_group(group_id, tuple(topics))


def _offsets(group: OffsetFetchGroupReply, place: str) -> dict[TopicPartition, int | None]:
    found: dict[TopicPartition, int | None] = {}
    for topic in group.topics:
        for partition in topic.partitions:
            log = TopicPartition(topic.name, partition.partition_index)
            if partition.error_code:
                raise broker_error(partition.error_code, f"{place}, {log}")
            committed = partition.committed_offset
            found[log] = committed if committed >= 0 else None
    return found
