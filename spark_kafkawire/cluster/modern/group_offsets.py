"""Committed offsets of consumer groups of modern Kafka (0.8 to 4.x): reads and commits.

FindCoordinator finds the broker that stores the offsets of a group. It gets OffsetFetch or OffsetCommit.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from spark_kafkawire.errors import BrokerError, OptionError, UnknownTopicError, quote
from spark_kafkawire.model import Broker, TopicPartition
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.net.retry import call_with_retries
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.api import Api
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
from spark_kafkawire.protocol.modern.group_offsets import (
    NO_OFFSET,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    STABLE_SINCE,
    TOPIC_NAMES_UNTIL,
    FindCoordinatorRequest,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitTopic,
    OffsetFetchGroupResponse,
    OffsetFetchPartitionResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopic,
)
from spark_kafkawire.protocol.modern.limits import NO_TOPIC_ID, with_names

from .metadata import Metadata, refuse_other_id

#: Codes of a commit by a client that is not a member, while the group has members.
_HAS_MEMBERS: Final = frozenset(
    (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS)
)


#: Committed offsets of a group, without partitions that have none.
Committed = dict[TopicPartition, OffsetFetchPartitionResponse]


def committed_offsets(
    metadata: Metadata,
    group_id: str,
    partitions: Sequence[TopicPartition],
    net: NetOptions,
    *,
    is_stable: bool = False,
) -> dict[TopicPartition, int | None]:
    """Committed offsets of a group in each partition, None without one.

    With ``is_stable``, waits for transactions that commit offsets and are open, if the coordinator supports
    it (since Kafka 2.5). The coordinator is looked up again while it starts or moves. Raises ``BrokerError``
    if a broker refuses the group, and when the retries are used up that or a ``TransportError``.
    """

    def once() -> dict[TopicPartition, int | None]:
        with POOL.lend(coordinator_of(metadata, group_id), net.connection) as client:
            require_stable = is_stable and client.version_of(OFFSET_FETCH) >= STABLE_SINCE
            result = _fetch(metadata, client, group_id, partitions, require_stable)
        return {tp: result[tp].committed_offset if tp in result else None for tp in partitions}

    return call_with_retries(once, net.request_retry)


def all_committed(
    metadata: Metadata, group_id: str, net: NetOptions, stable_in: Collection[TopicPartition] | None = None
) -> Committed:
    """Committed offsets of a group in all partitions that have one, with their metadata texts.

    Unless ``stable_in`` is None, waits for transactions that commit offsets and are ending, if the
    coordinator supports it (since Kafka 2.5). ``stable_in`` are the partitions that they may be the first to
    commit an offset of: a request for all partitions leaves those out (Kafka 3.9 and 4.1). Raises as
    ``committed_offsets``; ``UnsupportedVersionError`` (fatal) before Kafka 0.10.2.
    """

    def once() -> Committed:
        with POOL.lend(coordinator_of(metadata, group_id), net.connection) as client:
            is_stable = stable_in is not None and client.version_of(OFFSET_FETCH) >= STABLE_SINCE
            result = _fetch(metadata, client, group_id, None, is_stable)
            left_out = [tp for tp in stable_in or () if tp not in result]
            if is_stable and left_out:
                result |= _fetch(metadata, client, group_id, left_out, require_stable=True)
        return result

    return call_with_retries(once, net.request_retry)


def committed_texts(
    metadata: Metadata, group_id: str, net: NetOptions, *, stable_in: Collection[TopicPartition] | None
) -> tuple[tuple[int, str, str], ...]:
    """Offsets as of ``all_committed``, each with its metadata text and its topic."""
    result = all_committed(metadata, group_id, net, stable_in)
    return tuple((part.committed_offset, part.metadata or "", tp.topic) for tp, part in result.items())


def _fetch(
    metadata: Metadata,
    client: Client,
    group_id: str,
    partitions: Sequence[TopicPartition] | None,
    require_stable: bool,
) -> Committed:
    topics = None
    if partitions is not None:
        ids = _ids(metadata, client, OFFSET_FETCH, partitions)
        topics = tuple(
            OffsetFetchTopic(
                name=topic,
                topic_id=ids.get(topic, NO_TOPIC_ID),
                partition_indexes=tuple(tp.partition for tp in own),
            )
            for topic, own in group_by_topic(partitions).items()
        )
    request = OffsetFetchRequest.for_group(group_id, topics, require_stable=require_stable)
    response: OffsetFetchResponse = client.request(request)
    return read_committed(response.group_of(group_id, topics), client.broker, metadata)


def read_committed(
    group: OffsetFetchGroupResponse, coordinator: Broker, metadata: Metadata | None = None
) -> Committed:
    """Committed offsets in a response. Raises ``BrokerError``; ``metadata`` forgets a topic whose id the
    coordinator does not know."""
    place = f"OffsetFetch of group {quote(group.group_id)} on {coordinator}"
    if group.error_code:
        raise broker_error(group.error_code, place)
    result = {}
    for topic in group.topics:
        for part in topic.partitions:
            tp = TopicPartition(topic.name, part.partition_index)
            if part.error_code:
                if metadata is not None:
                    _forget_unknown(metadata, part.error_code, tp)
                raise broker_error(part.error_code, f"{place}, {tp}")
            if part.committed_offset != NO_OFFSET:
                result[tp] = part
    return result


def commit_offsets(
    metadata: Metadata, group_id: str, offsets: Mapping[TopicPartition, int], net: NetOptions
) -> None:
    """Commit the offset of the next record of each partition, as a client that is not a member of the group.

    A repeated commit has the same effect, so it is retried like ``committed_offsets``. Raises
    ``OptionError`` (fatal) if the group has members, because it would overwrite their commits; otherwise as
    that function does.
    """
    # A position in a deleted topic is not one in a new topic of the same name.
    ids: dict[str, uuid.UUID] = {}
    if offsets:
        call_with_retries(lambda: _commit_once(metadata, group_id, offsets, net, ids), net.request_retry)


def coordinator_of(metadata: Metadata, group_id: str) -> Broker:
    """The broker that stores the offsets of a group.

    Raises ``BrokerError`` (retriable while there is no coordinator), ``TransportError``.
    """
    response = metadata.ask(FindCoordinatorRequest.for_group(group_id))
    result = response.coordinator_of(group_id)
    if result.error_code:
        raise broker_error(
            result.error_code, f"FindCoordinator of group {quote(group_id)}", result.error_message
        )
    return Broker(result.node_id, result.host, result.port)


def ask_coordinator(coordinator: Broker, request: object, net: NetOptions) -> Any:
    """Send a request to a coordinator and return the body of the response. Raises ``TransportError`` and the
    errors of ``Client``."""
    with POOL.lend(coordinator, net.connection) as client:
        return client.request(request)


def _commit_once(
    metadata: Metadata,
    group_id: str,
    offsets: Mapping[TopicPartition, int],
    net: NetOptions,
    ids: dict[str, uuid.UUID],
) -> None:
    coordinator = coordinator_of(metadata, group_id)
    place = f"OffsetCommit of group {quote(group_id)} on {coordinator}"
    with POOL.lend(coordinator, net.connection) as client:
        for topic, id_ in _ids(metadata, client, OFFSET_COMMIT, offsets).items():
            refuse_other_id(topic, ids.setdefault(topic, id_), id_)
        topics = [
            OffsetCommitTopic(
                name=topic,
                topic_id=ids.get(topic, NO_TOPIC_ID),
                partitions=tuple(
                    # Java's clients also write empty metadata.
                    OffsetCommitPartition(
                        partition_index=tp.partition, committed_offset=offsets[tp], committed_metadata=""
                    )
                    for tp in own
                ),
            )
            for topic, own in group_by_topic(offsets).items()
        ]
        request = OffsetCommitRequest(group_id=group_id, topics=tuple(topics))
        response: OffsetCommitResponse = client.request(request)
    codes = {
        TopicPartition(topic.name, partition.partition_index): partition.error_code
        for topic in with_names(response.topics, request.topics)
        for partition in topic.partitions
    }
    for tp in offsets:
        if codes[tp] in _HAS_MEMBERS:
            raise OptionError(
                f"{place}: the group has members, which commit offsets themselves; stop them, or use another "
                "group"
            )
        if codes[tp]:
            _forget_unknown(metadata, codes[tp], tp)
            raise broker_error(codes[tp], f"{place}, {tp}")


def _ids(
    metadata: Metadata, client: Client, api: Api, partitions: Iterable[TopicPartition]
) -> dict[str, uuid.UUID]:
    """Ids of topics for a broker that takes them, without those of topics that are not known."""
    topics = {tp.topic for tp in partitions}
    if client.version_of(api) <= TOPIC_NAMES_UNTIL:
        return {}
    if unknown := topics - metadata.known_ids(topics).keys():
        with suppress(BrokerError, UnknownTopicError):
            metadata.refresh(unknown)
    return {topic: id_ for topic, id_ in metadata.known_ids(topics).items() if topic in topics}


def _forget_unknown(metadata: Metadata, code: int, partition: TopicPartition) -> None:
    """Look up the id of a topic again before its next use, if a broker does not know it."""
    if code == ErrorCode.UNKNOWN_TOPIC_ID:
        metadata.forget(partition.topic)


def group_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    by_topic: dict[str, list[TopicPartition]] = defaultdict(list)
    for partition in partitions:
        by_topic[partition.topic].append(partition)
    return by_topic
