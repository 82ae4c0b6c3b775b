"""Committed offsets of consumer groups, and the coordinators that keep them.

FindCoordinator (modern Kafka): the broker that coordinates a consumer group or a transactional id.

Later versions ask for several keys at once, in another shape. ``FindCoordinatorRequest.for_group`` and
``for_transaction`` fill in both shapes, and ``FindCoordinatorResponse.coordinator_of`` reads both.

Versions of FindCoordinator::

    0       the coordinator of a group
    1       the coordinator of a transactional id, too; throttle time, text of an error (KIP-98)
    2       throttled responses come at once, and the client waits (KIP-219)
    3       flexible (KIP-482)
    4       several keys (KIP-699)
    5       not spoken: TRANSACTION_ABORTABLE may come (KIP-890)
    6       not spoken: share groups (KIP-932)

OffsetCommit (Kafka 0.8.2 and later): sets the committed offsets of a consumer group.

Versions of OffsetCommit::

    0       not spoken: ZooKeeper keeps the offsets
    1       the brokers keep them; each with its time
    2       one retention time in place of those times
    3       throttle time
    4       throttled responses come at once, and the client waits (KIP-219)
    5       no retention time any more (KIP-211)
    6       epochs of leaders (KIP-320)
    7       static members (KIP-345)
    8       flexible (KIP-482)
    9       members of groups that brokers coordinate (KIP-848)
    10      topics by id (KIP-848)

OffsetFetch (Kafka 0.8.2 and later): the committed offsets of a consumer group.

Later versions ask for several groups at once, in another shape. ``OffsetFetchRequest.for_group`` fills in
both shapes, and ``OffsetFetchResponse.group_of`` reads both.

Versions of OffsetFetch::

    0       not spoken: ZooKeeper keeps the offsets
    1       the brokers keep them
    2       null asks for all topics; an error of the group
    3       throttle time
    4       throttled responses come at once, and the client waits (KIP-219)
    5       epochs of leaders (KIP-320)
    6       flexible (KIP-482)
    7       only offsets that no open transaction may change (KIP-447)
    8       several groups (KIP-709)
    9       members of groups that brokers coordinate (KIP-848)
    10      topics by id (KIP-848)
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ..api import VERSION_MAX
from ..primitives import BOOL, INT8, INT16, INT32, INT64, UUID, Array, String
from ..responses import Faults, below, find_repeated, not_an_address, not_topics, partitions_of, unlike
from ..schema import Struct, wire
from . import declare
from .limits import NO_TOPIC_ID, have_ids, response_bytes_max, small_response_bytes_max, with_names

#: Last version of OffsetCommit and OffsetFetch that names topics; later ones have their ids.
TOPIC_NAMES_UNTIL: Final = 9

#: First version that asks for several keys.
SEVERAL_SINCE: Final = 4
#: Keys of one request: the response is a small one.
_TOGETHER_MAX: Final = 1_000
#: ``key_type``: the key is a group id.
GROUP: Final = 0
#: ``key_type``: the key is a transactional id.
TRANSACTION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorRequest:
    """Ask for the broker that coordinates a group or a transactional id, the key of type ``key_type``."""

    key: str = wire(String(), until=3, default="", ignorable=True)
    key_type: int = wire(INT8, since=1, default=GROUP)
    coordinator_keys: tuple[str, ...] = wire(Array(String()), since=4, default=(), ignorable=True)

    @classmethod
    def for_group(cls, group_id: str) -> FindCoordinatorRequest:
        """The request that any version can carry."""
        return cls(key=group_id, coordinator_keys=(group_id,))

    @classmethod
    def together(cls, wanted: Sequence[FindCoordinatorRequest]) -> list[FindCoordinatorRequest]:
        """Combine requests into as few as possible, from version ``SEVERAL_SINCE`` on."""
        keys = {kind: [who.key for who in wanted if who.key_type == kind] for kind in (GROUP, TRANSACTION)}
        return [
            cls(key_type=kind, coordinator_keys=tuple(own[at : at + _TOGETHER_MAX]))
            for kind, own in keys.items()
            for at in range(0, len(own), _TOGETHER_MAX)
        ]

    @classmethod
    def for_transaction(cls, transactional_id: str) -> FindCoordinatorRequest:
        """The request for a transactional id, from version 1 on. It makes the brokers create their internal
        topic of transactions: they answer no other request about transactions without it."""
        return cls(key=transactional_id, key_type=TRANSACTION, coordinator_keys=(transactional_id,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    """The coordinator of ``key``, or the error."""

    key: str = wire(String())
    node_id: int = wire(INT32)
    host: str = wire(String())
    port: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(String(), nullable_since=0, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorResponse:
    """A coordinator in the fields of the response itself, or ``coordinators`` from version 4 on."""

    throttle_time_ms: int = wire(INT32, since=1, default=0)
    error_code: int = wire(INT16, until=3, default=0)
    error_message: str | None = wire(String(), since=1, until=3, nullable_since=1, default=None)
    node_id: int = wire(INT32, until=3, default=-1)
    host: str = wire(String(), until=3, default="")
    port: int = wire(INT32, until=3, default=-1)
    coordinators: tuple[Coordinator, ...] | None = wire(Array(Struct(Coordinator)), since=4, default=None)

    def coordinator_of(self, key: str) -> Coordinator:
        """The response for a requested group or transactional id, in any version."""
        if self.coordinators is None:
            return Coordinator(
                key=key,
                node_id=self.node_id,
                host=self.host,
                port=self.port,
                error_code=self.error_code,
                error_message=self.error_message,
            )
        return next(coordinator for coordinator in self.coordinators if coordinator.key == key)

    def coordinators_of(self, request: FindCoordinatorRequest) -> dict[FindCoordinatorRequest, Coordinator]:
        """The coordinators of all requested keys, by the request for each single key."""
        result = (self.coordinator_of(request.key),) if self.coordinators is None else self.coordinators
        return {replace(request, key=item.key, coordinator_keys=(item.key,)): item for item in result}


def _coordinator_faults(
    request: FindCoordinatorRequest, response: FindCoordinatorResponse, _version: int
) -> Faults:
    if response.coordinators is not None:
        yield from unlike(request.coordinator_keys, (result.key for result in response.coordinators))
    for result in (response,) if response.coordinators is None else response.coordinators:
        if not result.error_code:
            yield from not_an_address(result.node_id, result.host, result.port)


FIND_COORDINATOR: Final = declare(
    FindCoordinatorRequest, FindCoordinatorResponse, small_response_bytes_max, _coordinator_faults
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitPartition:
    """The offset of the next record that the group wants to read."""

    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, since=6, default=-1, ignorable=True)
    commit_timestamp: int = wire(INT64, since=1, until=1, default=-1)
    """Time of the commit, ms; -1 for the broker's time."""
    committed_metadata: str | None = wire(String(), nullable_since=0, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitTopic:
    """Offsets of one topic's partitions."""

    name: str = wire(String(), until=TOPIC_NAMES_UNTIL, default="", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, since=TOPIC_NAMES_UNTIL + 1, default=NO_TOPIC_ID, ignorable=True)
    partitions: tuple[OffsetCommitPartition, ...] = wire(Array(Struct(OffsetCommitPartition)))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest:
    """Commit offsets; the defaults are for a client that is not a member of the group."""

    group_id: str = wire(String())
    generation_id_or_member_epoch: int = wire(INT32, default=-1)
    """Generation of the group, or epoch of the member; -1 for no member."""
    member_id: str = wire(String(), default="")
    group_instance_id: str | None = wire(String(), since=7, nullable_since=7, default=None)
    retention_time_ms: int = wire(INT64, since=2, until=4, default=-1, ignorable=True)
    """Time for which the offsets are kept, ms; -1 for the broker's setting (removed by KIP-211)."""
    topics: tuple[OffsetCommitTopic, ...] = wire(Array(Struct(OffsetCommitTopic)))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitPartitionResponse:
    """Outcome of committing a partition's offset."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitTopicResponse:
    """Outcomes of one topic's partitions."""

    name: str = wire(String(), until=TOPIC_NAMES_UNTIL, default="")
    topic_id: uuid.UUID = wire(UUID, since=TOPIC_NAMES_UNTIL + 1, default=NO_TOPIC_ID)
    partitions: tuple[OffsetCommitPartitionResponse, ...] = wire(Array(Struct(OffsetCommitPartitionResponse)))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse:
    """Outcome for each partition."""

    throttle_time_ms: int = wire(INT32, since=3, default=0)
    topics: tuple[OffsetCommitTopicResponse, ...] = wire(Array(Struct(OffsetCommitTopicResponse)))


def check_committed(request: Any, response: Any, _version: int) -> Faults:
    """Faults of a response to OffsetCommit or TxnOffsetCommit."""
    topics = with_names(response.topics, request.topics)
    return unlike(partitions_of(request.topics), partitions_of(topics))


def _commit_version_max(request: OffsetCommitRequest) -> int:
    return VERSION_MAX if have_ids(request.topics) else TOPIC_NAMES_UNTIL


OFFSET_COMMIT: Final = declare(
    OffsetCommitRequest,
    OffsetCommitResponse,
    response_bytes_max,
    check_committed,
    version_max=_commit_version_max,
)


#: First version with ``require_stable``.
STABLE_SINCE: Final = 7
#: ``committed_offset`` of a partition for which the group has committed none.
NO_OFFSET: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchTopic:
    """Partitions of one topic."""

    name: str = wire(String(), until=TOPIC_NAMES_UNTIL, default="", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, since=TOPIC_NAMES_UNTIL + 1, default=NO_TOPIC_ID, ignorable=True)
    partition_indexes: tuple[int, ...] = wire(Array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchGroup:
    """Group whose offsets are requested: all its partitions if ``topics`` is None."""

    group_id: str = wire(String())
    member_id: str | None = wire(String(), since=9, nullable_since=9, default=None, ignorable=True)
    member_epoch: int = wire(INT32, since=9, default=-1, ignorable=True)
    topics: tuple[OffsetFetchTopic, ...] | None = wire(Array(Struct(OffsetFetchTopic)), nullable_since=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest:
    """Ask for committed offsets; ``for_group`` makes the request.

    With ``require_stable`` a broker answers UNSTABLE_OFFSET_COMMIT for a partition while a transaction
    that commits its offset is open.
    """

    group_id: str = wire(String(), until=7, default="", ignorable=True)
    topics: tuple[OffsetFetchTopic, ...] | None = wire(
        Array(Struct(OffsetFetchTopic)), until=7, nullable_since=2, default=(), ignorable=True
    )
    groups: tuple[OffsetFetchGroup, ...] = wire(
        Array(Struct(OffsetFetchGroup)), since=8, default=(), ignorable=True
    )
    require_stable: bool = wire(BOOL, since=STABLE_SINCE, default=False)

    @classmethod
    def for_group(
        cls, group_id: str, topics: tuple[OffsetFetchTopic, ...] | None, *, require_stable: bool = False
    ) -> OffsetFetchRequest:
        """The request that any version can carry; all topics (None) need version 2."""
        group = OffsetFetchGroup(group_id=group_id, topics=topics)
        return cls(group_id=group_id, topics=topics, groups=(group,), require_stable=require_stable)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchPartitionResponse:
    """A partition's committed offset; ``NO_OFFSET`` if the group has committed none."""

    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, since=5, default=-1)
    metadata: str | None = wire(String(), nullable_since=0, default=None)
    error_code: int = wire(INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchTopicResponse:
    """Committed offsets of one topic."""

    name: str = wire(String(), until=TOPIC_NAMES_UNTIL, default="")
    topic_id: uuid.UUID = wire(UUID, since=TOPIC_NAMES_UNTIL + 1, default=NO_TOPIC_ID)
    partitions: tuple[OffsetFetchPartitionResponse, ...] = wire(Array(Struct(OffsetFetchPartitionResponse)))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchGroupResponse:
    """Committed offsets of one group."""

    group_id: str = wire(String())
    topics: tuple[OffsetFetchTopicResponse, ...] = wire(Array(Struct(OffsetFetchTopicResponse)))
    error_code: int = wire(INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse:
    """Offsets of one group in the fields of the response itself, or ``groups`` from version 8 on."""

    throttle_time_ms: int = wire(INT32, since=3, default=0)
    topics: tuple[OffsetFetchTopicResponse, ...] = wire(
        Array(Struct(OffsetFetchTopicResponse)), until=7, default=()
    )
    error_code: int = wire(INT16, since=2, until=7, default=0)
    groups: tuple[OffsetFetchGroupResponse, ...] | None = wire(
        Array(Struct(OffsetFetchGroupResponse)), since=8, default=None
    )

    def group_of(
        self, group_id: str, asked: tuple[OffsetFetchTopic, ...] | None = None
    ) -> OffsetFetchGroupResponse:
        """The response for a requested group, in any version; its topics have the names of those ``asked``
        for."""
        if self.groups is None:
            return OffsetFetchGroupResponse(group_id=group_id, topics=self.topics, error_code=self.error_code)
        group = next(group for group in self.groups if group.group_id == group_id)
        return replace(group, topics=tuple(with_names(group.topics, asked or ())))


def _fetch_faults(request: OffsetFetchRequest, response: OffsetFetchResponse, _version: int) -> Faults:
    if response.groups is None:
        if not response.error_code:
            yield from _topic_faults(request.topics, response.topics)
        return
    asked = {group.group_id: group for group in request.groups}
    yield from unlike(asked, (group.group_id for group in response.groups))
    for group in response.groups:
        if not group.error_code:
            topics = asked[group.group_id].topics
            yield from _topic_faults(topics, with_names(group.topics, topics or ()))


def _topic_faults(
    asked: tuple[OffsetFetchTopic, ...] | None, topics: Sequence[OffsetFetchTopicResponse]
) -> Faults:
    came = partitions_of(topics)
    if asked is None:
        yield from find_repeated(came)
        yield from not_topics(topic.name for topic in topics)
    else:
        yield from unlike([(topic.name, index) for topic in asked for index in topic.partition_indexes], came)
    for topic in topics:
        for partition in topic.partitions:
            yield from below(0, "partition", partition.partition_index, topic.name)
            yield from below(NO_OFFSET, "committed offset", partition.committed_offset, topic.name)


def _fetch_version_max(request: OffsetFetchRequest) -> int:
    # A response about all topics has ids that the client need not know.
    named = all(group.topics is not None and have_ids(group.topics) for group in request.groups)
    return VERSION_MAX if named else TOPIC_NAMES_UNTIL


OFFSET_FETCH: Final = declare(
    OffsetFetchRequest, OffsetFetchResponse, response_bytes_max, _fetch_faults, version_max=_fetch_version_max
)
