"""OffsetCommit (Kafka 0.8.2 and later): sets the committed offsets of a consumer group.

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
    9       not spoken: members of groups that brokers coordinate (KIP-848)
    10      not spoken: topics by id (KIP-848)

Source: Apache Kafka's OffsetCommitRequest.json and OffsetCommitResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api import Api, VersionRange
from ..primitives import INT16, INT32, INT64, Array, String
from ..responses import Faults, unlike
from ..schema import Struct, wire
from . import names
from .limits import response_bytes_max


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitPartition:
    """The offset of the next record that the group wants to read."""

    partition_index: int = wire(INT32)
    """Index of the partition."""
    committed_offset: int = wire(INT64)
    """Offset to commit: that of the next record to read."""
    committed_leader_epoch: int = wire(INT32, since=6, default=-1, ignorable=True)
    """Leader epoch of the last record that was read; -1 for none (KIP-320)."""
    commit_timestamp: int = wire(INT64, since=1, until=1, default=-1)
    """Time of the commit, ms; -1 for the broker's time."""
    committed_metadata: str | None = wire(String(), nullable_since=0, default=None)
    """Text that is stored with the offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitTopic:
    """Offsets of one topic's partitions."""

    name: str = wire(String())
    """Name of the topic."""
    partitions: tuple[OffsetCommitPartition, ...] = wire(Array(Struct(OffsetCommitPartition)))
    """Offset of each partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest:
    """Commit offsets; the defaults are for a client that is not a member of the group."""

    group_id: str = wire(String())
    """Id of the group."""
    generation_id_or_member_epoch: int = wire(INT32, default=-1)
    """Generation of the group, or epoch of the member; -1 for no member."""
    member_id: str = wire(String(), default="")
    """Id of the member; empty for no member."""
    group_instance_id: str | None = wire(String(), since=7, nullable_since=7, default=None)
    """``group.instance.id`` of a static member; None for others (KIP-345)."""
    retention_time_ms: int = wire(INT64, since=2, until=4, default=-1, ignorable=True)
    """Time for which the offsets are kept, ms; -1 for the broker's setting (removed by KIP-211)."""
    topics: tuple[OffsetCommitTopic, ...] = wire(Array(Struct(OffsetCommitTopic)))
    """Offsets of each topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitPartitionResponse:
    """Outcome of committing a partition's offset."""

    partition_index: int = wire(INT32)
    """Index of the partition."""
    error_code: int = wire(INT16)
    """Error code; 0 if there was no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitTopicResponse:
    """Outcomes of one topic's partitions."""

    name: str = wire(String())
    """Name of the topic."""
    partitions: tuple[OffsetCommitPartitionResponse, ...] = wire(Array(Struct(OffsetCommitPartitionResponse)))
    """Outcome for each partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse:
    """Outcome for each partition."""

    throttle_time_ms: int = wire(INT32, since=3, default=0)
    """Throttle time because of a quota, ms; 0 if no quota was exceeded (KIP-13)."""
    topics: tuple[OffsetCommitTopicResponse, ...] = wire(Array(Struct(OffsetCommitTopicResponse)))
    """Outcome for each topic."""


def _faults(request: OffsetCommitRequest, response: OffsetCommitResponse, _version: int) -> Faults:
    return unlike(
        [(topic.name, part.partition_index) for topic in request.topics for part in topic.partitions],
        [(topic.name, part.partition_index) for topic in response.topics for part in topic.partitions],
    )


OFFSET_COMMIT: Final = Api(
    *names.OFFSET_COMMIT,
    OffsetCommitRequest,
    OffsetCommitResponse,
    response_bytes_max,
    faults=_faults,
    versions=VersionRange(1, 8),
    flexible_since=8,
    throttles_since=4,
)
