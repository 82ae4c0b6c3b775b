"""TxnOffsetCommit: offsets of a group that count once the transaction is committed.

Versions of TxnOffsetCommit::

    0       offsets of a group (KIP-98)
    1       throttled replies come at once, and the client waits (KIP-219)
    2       epochs of leaders (KIP-320)
    3       flexible (KIP-482); the member that commits (KIP-447)
    4       TRANSACTION_ABORTABLE may come (KIP-890)
    5       of the second protocol: the group joins the transaction by it (KIP-890)
    6       not spoken: topics by id (KIP-848)

Source: Apache Kafka's TxnOffsetCommitRequest.json and TxnOffsetCommitResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api import VERSION_MAX, Api, VersionRange
from ..primitives import INT16, INT32, INT64, Array, String
from ..replies import Faults, unlike
from ..schema import Struct, wire
from . import names
from .limits import reply_bytes_max

#: First version of the second protocol of transactions (see ``end_txn``).
_SECOND_PROTOCOL_SINCE: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitPartition:
    """The offset of a partition, and a text beside it."""

    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, since=2, default=-1, ignorable=True)
    committed_metadata: str | None = wire(String(), nullable_since=0, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitTopic:
    """Offsets of one topic's partitions."""

    name: str = wire(String())
    partitions: tuple[TxnOffsetCommitPartition, ...] = wire(Array(Struct(TxnOffsetCommitPartition)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequest:
    """Commit offsets with the transaction; the defaults are those of a client that is no member of the
    group."""

    transactional_id: str = wire(String())
    group_id: str = wire(String())
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    generation_id: int = wire(INT32, since=3, default=-1)
    member_id: str = wire(String(), since=3, default="")
    group_instance_id: str | None = wire(String(), since=3, nullable_since=3, default=None)
    topics: tuple[TxnOffsetCommitTopic, ...] = wire(Array(Struct(TxnOffsetCommitTopic)))
    transaction_version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitPartitionReply:
    """Whether a partition's offset is in the transaction."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitTopicReply:
    """Outcomes of one topic's partitions."""

    name: str = wire(String())
    partitions: tuple[TxnOffsetCommitPartitionReply, ...] = wire(Array(Struct(TxnOffsetCommitPartitionReply)))


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitReply:
    """What became of each partition's offset."""

    throttle_time_ms: int = wire(INT32)
    topics: tuple[TxnOffsetCommitTopicReply, ...] = wire(Array(Struct(TxnOffsetCommitTopicReply)))


def _version_max(request: TxnOffsetCommitRequest) -> int:
    return _SECOND_PROTOCOL_SINCE - 1 if request.transaction_version == 1 else VERSION_MAX


def _version_min(request: TxnOffsetCommitRequest) -> int:
    return 0 if request.transaction_version == 1 else _SECOND_PROTOCOL_SINCE


def _faults(request: TxnOffsetCommitRequest, reply: TxnOffsetCommitReply, _version: int) -> Faults:
    return unlike(
        [(topic.name, part.partition_index) for topic in request.topics for part in topic.partitions],
        [(topic.name, part.partition_index) for topic in reply.topics for part in topic.partitions],
    )


TXN_OFFSET_COMMIT: Final = Api(
    *names.TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequest,
    TxnOffsetCommitReply,
    reply_bytes_max,
    faults=_faults,
    versions=VersionRange(0, 5),
    flexible_since=3,
    throttles_since=1,
    version_max=_version_max,
    version_min=_version_min,
)
