"""OffsetFetch: tells the committed offsets of a consumer group.

Later versions ask for several groups at once, in another shape. ``OffsetFetchRequest.for_group`` fills in
both shapes, and ``OffsetFetchReply.group_of`` reads both.

Versions of OffsetFetch::

    0       not spoken: ZooKeeper keeps the offsets
    1       the brokers keep them
    2       null asks for all topics; an error of the group
    3       throttle time
    4       throttled replies come at once, and the client waits (KIP-219)
    5       epochs of leaders (KIP-320)
    6       flexible (KIP-482)
    7       only offsets that no open transaction may change (KIP-447)
    8       several groups (KIP-709)
    9       not spoken: members of groups that brokers coordinate (KIP-848)
    10      not spoken: topics by id (KIP-848)

Source: Apache Kafka's OffsetFetchRequest.json and OffsetFetchResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api import Api, VersionRange
from ..primitives import BOOL, INT16, INT32, INT64, Array, String
from ..replies import Faults, below, not_topics, repeated, unlike
from ..schema import Struct, wire
from . import names
from .limits import reply_bytes_max

#: First version that tells offsets which an open transaction may change from others.
STABLE_SINCE: Final = 7
#: ``committed_offset`` of a partition for which the group has committed none.
NO_OFFSET: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchTopic:
    """Partitions of one topic."""

    name: str = wire(String())
    partition_indexes: tuple[int, ...] = wire(Array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchGroup:
    """What to tell of a group: all its partitions where ``topics`` is None."""

    group_id: str = wire(String())
    topics: tuple[OffsetFetchTopic, ...] | None = wire(Array(Struct(OffsetFetchTopic)), nullable_since=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest:
    """Ask for committed offsets; make it with ``for_group``.

    ``require_stable`` has partitions answered with UNSTABLE_OFFSET_COMMIT while a transaction
    that commits their offset is open.
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
class OffsetFetchPartitionReply:
    """A partition's committed offset, ``NO_OFFSET`` where there is none."""

    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, since=5, default=-1)
    metadata: str | None = wire(String(), nullable_since=0, default=None)
    error_code: int = wire(INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchTopicReply:
    """Committed offsets of one topic."""

    name: str = wire(String())
    partitions: tuple[OffsetFetchPartitionReply, ...] = wire(Array(Struct(OffsetFetchPartitionReply)))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchGroupReply:
    """Committed offsets of one group."""

    group_id: str = wire(String())
    topics: tuple[OffsetFetchTopicReply, ...] = wire(Array(Struct(OffsetFetchTopicReply)))
    error_code: int = wire(INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchReply:
    """One group in the fields of its own, or ``groups`` from version 8 on."""

    throttle_time_ms: int = wire(INT32, since=3, default=0)
    topics: tuple[OffsetFetchTopicReply, ...] = wire(
        Array(Struct(OffsetFetchTopicReply)), until=7, default=()
    )
    error_code: int = wire(INT16, since=2, until=7, default=0)
    groups: tuple[OffsetFetchGroupReply, ...] | None = wire(
        Array(Struct(OffsetFetchGroupReply)), since=8, default=None
    )

    def group_of(self, group_id: str) -> OffsetFetchGroupReply:
        """The answer for a group that was asked for, in whichever version."""
        if self.groups is None:
            return OffsetFetchGroupReply(group_id=group_id, topics=self.topics, error_code=self.error_code)
        return next(group for group in self.groups if group.group_id == group_id)


def _faults(request: OffsetFetchRequest, reply: OffsetFetchReply, _version: int) -> Faults:
    if reply.groups is None:
        if not reply.error_code:
            yield from _topic_faults(request.topics, reply.topics)
        return
    asked = {group.group_id: group for group in request.groups}
    yield from unlike(asked, (group.group_id for group in reply.groups))
    for group in reply.groups:
        if not group.error_code:
            yield from _topic_faults(asked[group.group_id].topics, group.topics)


def _topic_faults(
    asked: tuple[OffsetFetchTopic, ...] | None, topics: tuple[OffsetFetchTopicReply, ...]
) -> Faults:
    came = [(topic.name, partition.partition_index) for topic in topics for partition in topic.partitions]
    if asked is None:
        yield from repeated(came)
        yield from not_topics(topic.name for topic in topics)
    else:
        yield from unlike([(topic.name, index) for topic in asked for index in topic.partition_indexes], came)
    for topic in topics:
        for partition in topic.partitions:
            yield from below(0, "partition", partition.partition_index, topic.name)
            yield from below(NO_OFFSET, "committed offset", partition.committed_offset, topic.name)


OFFSET_FETCH: Final = Api(
    *names.OFFSET_FETCH,
    OffsetFetchRequest,
    OffsetFetchReply,
    reply_bytes_max,
    faults=_faults,
    versions=VersionRange(1, 8),
    flexible_since=6,
    throttles_since=4,
)
