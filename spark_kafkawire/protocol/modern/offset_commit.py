"""OffsetCommit: sets the committed offsets of a consumer group.

Versions of OffsetCommit::

    0       not spoken: ZooKeeper keeps the offsets
    1       the brokers keep them; each with its time
    2       one retention time in place of those times
    3       throttle time
    4       throttled replies come at once, and the client waits (KIP-219)
    5       no retention time any more (KIP-211)
    6       epochs of leaders (KIP-320)
    7       static members (KIP-345)
    8       flexible (KIP-482)
    9       not spoken: members of groups that brokers coordinate (KIP-848)
    10      not spoken: topics by id (KIP-848)

Source: Apache Kafka's OffsetCommitRequest.json and OffsetCommitResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api import Api, VersionRange
from ..primitives import INT16, INT32, INT64, Array, String
from ..replies import Faults, unlike
from ..schema import Struct, wire
from . import names
from .limits import reply_bytes_max


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitPartition:
    """The offset of the next record that the group wants to read."""

    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, since=6, default=-1, ignorable=True)
    commit_timestamp: int = wire(INT64, since=1, until=1, default=-1)
    committed_metadata: str | None = wire(String(), nullable_since=0, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitTopic:
    """Offsets of one topic's partitions."""

    name: str = wire(String())
    partitions: tuple[OffsetCommitPartition, ...] = wire(Array(Struct(OffsetCommitPartition)))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest:
    """Commit offsets; the defaults are those of a client that is no member of the group."""

    group_id: str = wire(String())
    generation_id_or_member_epoch: int = wire(INT32, default=-1)
    member_id: str = wire(String(), default="")
    group_instance_id: str | None = wire(String(), since=7, nullable_since=7, default=None)
    retention_time_ms: int = wire(INT64, since=2, until=4, default=-1, ignorable=True)
    topics: tuple[OffsetCommitTopic, ...] = wire(Array(Struct(OffsetCommitTopic)))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitPartitionReply:
    """Whether a partition's offset was committed."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitTopicReply:
    """Outcomes of one topic's partitions."""

    name: str = wire(String())
    partitions: tuple[OffsetCommitPartitionReply, ...] = wire(Array(Struct(OffsetCommitPartitionReply)))


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitReply:
    """What became of each partition's offset."""

    throttle_time_ms: int = wire(INT32, since=3, default=0)
    topics: tuple[OffsetCommitTopicReply, ...] = wire(Array(Struct(OffsetCommitTopicReply)))


def _faults(request: OffsetCommitRequest, reply: OffsetCommitReply, _version: int) -> Faults:
    return unlike(
        [(topic.name, part.partition_index) for topic in request.topics for part in topic.partitions],
        [(topic.name, part.partition_index) for topic in reply.topics for part in topic.partitions],
    )


OFFSET_COMMIT: Final = Api(
    *names.OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitReply,
    reply_bytes_max,
    faults=_faults,
    versions=VersionRange(1, 8),
    flexible_since=8,
    throttles_since=4,
)
