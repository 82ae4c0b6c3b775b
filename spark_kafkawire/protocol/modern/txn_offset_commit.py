"""TxnOffsetCommit (Kafka 0.11 and later): commits offsets of a group as part of a transaction.

Versions of TxnOffsetCommit::

    0       offsets of a group (KIP-98)
    1       throttled responses come at once, and the client waits (KIP-219)
    2       epochs of leaders (KIP-320)
    3       flexible (KIP-482); the member that commits (KIP-447)
    4       TRANSACTION_ABORTABLE may come (KIP-890)
    5       of the second protocol: the group joins the transaction with this request (KIP-890)
    6       not spoken: topics by id (KIP-848)

Source: Apache Kafka's TxnOffsetCommitRequest.json and TxnOffsetCommitResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api import VERSION_MAX, Api, VersionRange
from ..primitives import INT16, INT32, INT64, Array, String
from ..responses import Faults, unlike
from ..schema import Struct, wire
from . import names
from .limits import response_bytes_max

#: First version of the second protocol of transactions (see ``end_txn``).
_SECOND_PROTOCOL_SINCE: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitPartition:
    """The offset of a partition, and the text that is stored with it."""

    partition_index: int = wire(INT32)
    """Index of the partition."""
    committed_offset: int = wire(INT64)
    """Offset to commit: that of the next record to read."""
    committed_leader_epoch: int = wire(INT32, since=2, default=-1, ignorable=True)
    """Leader epoch of the last record that was read; -1 for none (KIP-320)."""
    committed_metadata: str | None = wire(String(), nullable_since=0, default=None)
    """Text that is stored with the offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitTopic:
    """Offsets of one topic's partitions."""

    name: str = wire(String())
    """Name of the topic."""
    partitions: tuple[TxnOffsetCommitPartition, ...] = wire(Array(Struct(TxnOffsetCommitPartition)))
    """Offset of each partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitRequest:
    """Commit offsets with the transaction; the defaults are for a client outside of the group."""

    transactional_id: str = wire(String())
    """Transactional id of the producer."""
    group_id: str = wire(String())
    """Id of the group."""
    producer_id: int = wire(INT64)
    """Id of the producer."""
    producer_epoch: int = wire(INT16)
    """Epoch of the producer."""
    generation_id: int = wire(INT32, since=3, default=-1)
    """Generation of the group; -1 for no member (KIP-447)."""
    member_id: str = wire(String(), since=3, default="")
    """Id of the member; empty for no member (KIP-447)."""
    group_instance_id: str | None = wire(String(), since=3, nullable_since=3, default=None)
    """``group.instance.id`` of a static member; None for others (KIP-447)."""
    topics: tuple[TxnOffsetCommitTopic, ...] = wire(Array(Struct(TxnOffsetCommitTopic)))
    """Offsets of each topic."""
    transaction_version: int = 1
    """Protocol of the transaction: 1, or 2 (KIP-890). Not sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitPartitionResponse:
    """Outcome of adding a partition's offset to the transaction."""

    partition_index: int = wire(INT32)
    """Index of the partition."""
    error_code: int = wire(INT16)
    """Error code; 0 if there was no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitTopicResponse:
    """Outcomes of one topic's partitions."""

    name: str = wire(String())
    """Name of the topic."""
    partitions: tuple[TxnOffsetCommitPartitionResponse, ...] = wire(
        Array(Struct(TxnOffsetCommitPartitionResponse))
    )
    """Outcome for each partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommitResponse:
    """Outcome for each partition."""

    throttle_time_ms: int = wire(INT32)
    """Throttle time because of a quota, ms; 0 if no quota was exceeded (KIP-13)."""
    topics: tuple[TxnOffsetCommitTopicResponse, ...] = wire(Array(Struct(TxnOffsetCommitTopicResponse)))
    """Outcome for each topic."""


def _version_max(request: TxnOffsetCommitRequest) -> int:
    return _SECOND_PROTOCOL_SINCE - 1 if request.transaction_version == 1 else VERSION_MAX


def _version_min(request: TxnOffsetCommitRequest) -> int:
    return 0 if request.transaction_version == 1 else _SECOND_PROTOCOL_SINCE


def _faults(request: TxnOffsetCommitRequest, response: TxnOffsetCommitResponse, _version: int) -> Faults:
    return unlike(
        [(topic.name, part.partition_index) for topic in request.topics for part in topic.partitions],
        [(topic.name, part.partition_index) for topic in response.topics for part in topic.partitions],
    )


TXN_OFFSET_COMMIT: Final = Api(
    *names.TXN_OFFSET_COMMIT,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    response_bytes_max,
    faults=_faults,
    versions=VersionRange(0, 5),
    flexible_since=3,
    throttles_since=1,
    version_max=_version_max,
    version_min=_version_min,
)
