"""OffsetFetch (Kafka 0.8.2 and later): the committed offsets of a consumer group.

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
    9       not spoken: members of groups that brokers coordinate (KIP-848)
    10      not spoken: topics by id (KIP-848)

Source: Apache Kafka's OffsetFetchRequest.json and OffsetFetchResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api import Api, VersionRange
from ..primitives import BOOL, INT16, INT32, INT64, Array, String
from ..responses import Faults, below, not_topics, repeated, unlike
from ..schema import Struct, wire
from . import names
from .limits import response_bytes_max

#: First version with ``require_stable``.
STABLE_SINCE: Final = 7
#: ``committed_offset`` of a partition for which the group has committed none.
NO_OFFSET: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchTopic:
    """Partitions of one topic."""

    name: str = wire(String())
    """Name of the topic."""
    partition_indexes: tuple[int, ...] = wire(Array(INT32))
    """Indexes of the partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchGroup:
    """Group whose offsets are requested: all its partitions if ``topics`` is None."""

    group_id: str = wire(String())
    """Id of the group."""
    topics: tuple[OffsetFetchTopic, ...] | None = wire(Array(Struct(OffsetFetchTopic)), nullable_since=0)
    """Topics to return; None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest:
    """Ask for committed offsets; ``for_group`` makes the request.

    With ``require_stable`` a broker answers UNSTABLE_OFFSET_COMMIT for a partition while a transaction
    that commits its offset is open.
    """

    group_id: str = wire(String(), until=7, default="", ignorable=True)
    """Id of the group."""
    topics: tuple[OffsetFetchTopic, ...] | None = wire(
        Array(Struct(OffsetFetchTopic)), until=7, nullable_since=2, default=(), ignorable=True
    )
    """Topics to return; None for all."""
    groups: tuple[OffsetFetchGroup, ...] = wire(
        Array(Struct(OffsetFetchGroup)), since=8, default=(), ignorable=True
    )
    """Groups to return (KIP-709)."""
    require_stable: bool = wire(BOOL, since=STABLE_SINCE, default=False)
    """True to refuse offsets that an open transaction may change (KIP-447)."""

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
    """Index of the partition."""
    committed_offset: int = wire(INT64)
    """Committed offset; ``NO_OFFSET`` for none."""
    committed_leader_epoch: int = wire(INT32, since=5, default=-1)
    """Leader epoch of the last record that was read; -1 for none (KIP-320)."""
    metadata: str | None = wire(String(), nullable_since=0, default=None)
    """Text that is stored with the offset."""
    error_code: int = wire(INT16)
    """Error code; 0 if there was no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchTopicResponse:
    """Committed offsets of one topic."""

    name: str = wire(String())
    """Name of the topic."""
    partitions: tuple[OffsetFetchPartitionResponse, ...] = wire(Array(Struct(OffsetFetchPartitionResponse)))
    """Offset of each partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchGroupResponse:
    """Committed offsets of one group."""

    group_id: str = wire(String())
    """Id of the group."""
    topics: tuple[OffsetFetchTopicResponse, ...] = wire(Array(Struct(OffsetFetchTopicResponse)))
    """Offsets of each topic."""
    error_code: int = wire(INT16)
    """Error code; 0 if there was no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse:
    """Offsets of one group in the fields of the response itself, or ``groups`` from version 8 on."""

    throttle_time_ms: int = wire(INT32, since=3, default=0)
    """Throttle time because of a quota, ms; 0 if no quota was exceeded (KIP-13)."""
    topics: tuple[OffsetFetchTopicResponse, ...] = wire(
        Array(Struct(OffsetFetchTopicResponse)), until=7, default=()
    )
    """Offsets of each topic."""
    error_code: int = wire(INT16, since=2, until=7, default=0)
    """Error code; 0 if there was no error."""
    groups: tuple[OffsetFetchGroupResponse, ...] | None = wire(
        Array(Struct(OffsetFetchGroupResponse)), since=8, default=None
    )
    """Offsets of each group; None before version 8 (KIP-709)."""

    def group_of(self, group_id: str) -> OffsetFetchGroupResponse:
        """The response for a requested group, in any version."""
        if self.groups is None:
            return OffsetFetchGroupResponse(group_id=group_id, topics=self.topics, error_code=self.error_code)
        return next(group for group in self.groups if group.group_id == group_id)


def _faults(request: OffsetFetchRequest, response: OffsetFetchResponse, _version: int) -> Faults:
    if response.groups is None:
        if not response.error_code:
            yield from _topic_faults(request.topics, response.topics)
        return
    asked = {group.group_id: group for group in request.groups}
    yield from unlike(asked, (group.group_id for group in response.groups))
    for group in response.groups:
        if not group.error_code:
            yield from _topic_faults(asked[group.group_id].topics, group.topics)


def _topic_faults(
    asked: tuple[OffsetFetchTopic, ...] | None, topics: tuple[OffsetFetchTopicResponse, ...]
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
    OffsetFetchResponse,
    response_bytes_max,
    faults=_faults,
    versions=VersionRange(1, 8),
    flexible_since=6,
    throttles_since=4,
)
