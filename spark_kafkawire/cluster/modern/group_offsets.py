"""Where a consumer group stands in each partition: FindCoordinator, then OffsetFetch or OffsetCommit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ...errors import OptionError, quoted
from ...model import Broker, TopicPartition
from ...net.pool import POOL
from ...net.retry import Attempts
from ...options import NetOptions
from ...protocol.modern.error_codes import ErrorCode, broker_error
from ...protocol.modern.find_coordinator import FindCoordinatorRequest
from ...protocol.modern.offset_commit import (
    OffsetCommitPartition,
    OffsetCommitReply,
    OffsetCommitRequest,
    OffsetCommitTopic,
)
from ...protocol.modern.offset_fetch import (
    OFFSET_FETCH,
    STABLE_SINCE,
    OffsetFetchGroupReply,
    OffsetFetchReply,
    OffsetFetchRequest,
    OffsetFetchTopic,
)
from .metadata import Metadata

#: What a coordinator answers to a commit from outside while the group has members.
_HAS_MEMBERS: Final = frozenset(
    (
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
    )
)


def committed_offsets(
    metadata: Metadata, group_id: str, logs: Sequence[TopicPartition], net: NetOptions
) -> dict[TopicPartition, int | None]:
    """The offset that a group committed for each log, None where it has none.

    The coordinator is looked for again while it starts or moves. Raises ``BrokerError`` where a
    broker refuses the group, and when the retries are used up that or a ``TransportError``.
    """
    attempts = Attempts(net.retry, patience_s=net.request_timeout_s)
    return attempts.run(lambda: _fetched_once(metadata, group_id, logs, net))


def committed_texts(
    metadata: Metadata, group_id: str, net: NetOptions, *, require_stable: bool
) -> tuple[tuple[int, str], ...]:
    """Every offset that a group committed, of any log, with the text beside it.

    ``require_stable`` waits for a transaction that commits offsets and is ending, where the coordinator
    knows of that (from Kafka 2.5 on). Raises as ``committed_offsets``.
    """

    def once() -> tuple[tuple[int, str], ...]:
        coordinator = coordinator_of(metadata, group_id)
        place = f"OffsetFetch of group {quoted(group_id)} on {coordinator}"
        with POOL.lend(coordinator, net.connection) as client:
            is_known = client.version_of(OFFSET_FETCH) >= STABLE_SINCE
            request = OffsetFetchRequest.for_group(group_id, None, require_stable=require_stable and is_known)
            reply: OffsetFetchReply = client.request(request)
        group = reply.group_of(group_id)
        if group.error_code:
            raise broker_error(group.error_code, place)
        _offsets(group, place)
        parts = (part for topic in group.topics for part in topic.partitions)
        return tuple((part.committed_offset, part.metadata or "") for part in parts)

    return Attempts(net.retry, patience_s=net.request_timeout_s).run(once)


def commit_offsets(
    metadata: Metadata, group_id: str, offsets: Mapping[TopicPartition, int], net: NetOptions
) -> None:
    """Commit the offset of the next record of each log, as a client that is no member of the group.

    A commit that is repeated says the same, so it is retried as ``committed_offsets`` is. Raises
    ``OptionError`` (fatal) where the group has members, whose own commits it would undo; else as
    that does.
    """
    if offsets:
        attempts = Attempts(net.retry, patience_s=net.request_timeout_s)
        attempts.run(lambda: _committed_once(metadata, group_id, offsets, net))


def coordinator_of(metadata: Metadata, group_id: str) -> Broker:
    """The broker that keeps a group's offsets.

    Raises ``BrokerError`` (retriable while there is none), ``TransportError``.
    """
    reply = metadata.ask(FindCoordinatorRequest.for_group(group_id))
    found = reply.coordinator_of(group_id)
    if found.error_code:
        raise broker_error(
            found.error_code, f"FindCoordinator of group {quoted(group_id)}", found.error_message
        )
    return Broker(found.node_id, found.host, found.port)


def ask_coordinator(coordinator: Broker, request: object, net: NetOptions) -> Any:
    """The reply's body. Raises ``TransportError`` and what ``Client`` raises."""
    with POOL.lend(coordinator, net.connection) as client:
        return client.request(request)


def _fetched_once(
    metadata: Metadata, group_id: str, logs: Sequence[TopicPartition], net: NetOptions
) -> dict[TopicPartition, int | None]:
    coordinator = coordinator_of(metadata, group_id)
    place = f"OffsetFetch of group {quoted(group_id)} on {coordinator}"
    reply: OffsetFetchReply = ask_coordinator(coordinator, _request(group_id, logs), net)
    group = reply.group_of(group_id)
    if group.error_code:
        raise broker_error(group.error_code, place)
    found = _offsets(group, place)
    return {log: found[log] for log in logs}


def _committed_once(
    metadata: Metadata, group_id: str, offsets: Mapping[TopicPartition, int], net: NetOptions
) -> None:
    coordinator = coordinator_of(metadata, group_id)
    place = f"OffsetCommit of group {quoted(group_id)} on {coordinator}"
    reply: OffsetCommitReply = ask_coordinator(coordinator, _commit_request(group_id, offsets), net)
    told = {
        TopicPartition(topic.name, partition.partition_index): partition.error_code
        for topic in reply.topics
        for partition in topic.partitions
    }
    for log in offsets:
        if told[log] in _HAS_MEMBERS:
            raise OptionError(
                f"{place}: the group has members, which commit themselves; stop them, or use another group"
            )
        if told[log]:
            raise broker_error(told[log], f"{place}, {log}")


def _request(group_id: str, logs: Sequence[TopicPartition]) -> OffsetFetchRequest:
    topics = [
        OffsetFetchTopic(name=topic, partition_indexes=tuple(log.partition for log in own))
        for topic, own in by_topic(logs).items()
    ]
    return OffsetFetchRequest.for_group(group_id, tuple(topics))


def _commit_request(group_id: str, offsets: Mapping[TopicPartition, int]) -> OffsetCommitRequest:
    topics = [
        OffsetCommitTopic(
            name=topic,
            partitions=tuple(
                # Java's clients write empty metadata, too, where they have none.
                OffsetCommitPartition(
                    partition_index=log.partition, committed_offset=offsets[log], committed_metadata=""
                )
                for log in own
            ),
        )
        for topic, own in by_topic(offsets).items()
    ]
    return OffsetCommitRequest(group_id=group_id, topics=tuple(topics))


def by_topic(logs: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    by_topic: dict[str, list[TopicPartition]] = defaultdict(list)
    for log in logs:
        by_topic[log.topic].append(log)
    return by_topic


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
