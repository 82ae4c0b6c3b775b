"""AddPartitionsToTxn and AddOffsetsToTxn: what a transaction is about to write to, in its first protocol.

In the second protocol (see ``end_txn``) a partition joins by being written to, and a group by
TxnOffsetCommit.

Versions of AddPartitionsToTxn::

    0       partitions of one transaction (KIP-98)
    1       throttled replies come at once, and the client waits (KIP-219)
    2       PRODUCER_FENCED may come (KIP-588)
    3       flexible (KIP-482)
    4       not spoken: of brokers, for several transactions (KIP-890)
    5       not spoken: of brokers, TRANSACTION_ABORTABLE may come (KIP-890)

Versions of AddOffsetsToTxn::

    0       a group whose offsets are committed in the transaction (KIP-98)
    1       throttled replies come at once, and the client waits (KIP-219)
    2       PRODUCER_FENCED may come (KIP-588)
    3       flexible (KIP-482)
    4       TRANSACTION_ABORTABLE may come (KIP-890)

Source: Apache Kafka's AddPartitionsToTxn*.json and AddOffsetsToTxn*.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api import Api, VersionRange
from ..primitives import INT16, INT32, INT64, Array, String
from ..replies import Faults, nothing_to_compare, unlike
from ..schema import Struct, wire
from . import names
from .limits import reply_bytes_max, small_reply_bytes_max


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnTopic:
    """Partitions of one topic."""

    name: str = wire(String())
    partitions: tuple[int, ...] = wire(Array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnRequest:
    """Tell the coordinator which partitions the transaction will write to; it begins with that."""

    v3_and_below_transactional_id: str = wire(String())
    v3_and_below_producer_id: int = wire(INT64)
    v3_and_below_producer_epoch: int = wire(INT16)
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...] = wire(Array(Struct(AddPartitionsToTxnTopic)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnPartitionReply:
    """Whether a partition is in the transaction."""

    partition_index: int = wire(INT32)
    partition_error_code: int = wire(INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnTopicReply:
    """Outcomes of one topic's partitions."""

    name: str = wire(String())
    results_by_partition: tuple[AddPartitionsToTxnPartitionReply, ...] = wire(
        Array(Struct(AddPartitionsToTxnPartitionReply))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnReply:
    """What became of each partition: all are in the transaction, or none is."""

    throttle_time_ms: int = wire(INT32)
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicReply, ...] = wire(
        Array(Struct(AddPartitionsToTxnTopicReply))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOffsetsToTxnRequest:
    """Tell the coordinator that the transaction will commit offsets of a group."""

    transactional_id: str = wire(String())
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    group_id: str = wire(String())


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOffsetsToTxnReply:
    """Whether the group is in the transaction."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)


def _partition_faults(
    request: AddPartitionsToTxnRequest, reply: AddPartitionsToTxnReply, _version: int
) -> Faults:
    return unlike(
        [(topic.name, index) for topic in request.v3_and_below_topics for index in topic.partitions],
        [
            (topic.name, partition.partition_index)
            for topic in reply.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        ],
    )


ADD_PARTITIONS_TO_TXN: Final = Api(
    *names.ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnReply,
    reply_bytes_max,
    faults=_partition_faults,
    versions=VersionRange(0, 3),
    flexible_since=3,
    throttles_since=1,
)

ADD_OFFSETS_TO_TXN: Final = Api(
    *names.ADD_OFFSETS_TO_TXN,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnReply,
    small_reply_bytes_max,
    faults=nothing_to_compare,
    versions=VersionRange(0, 4),
    flexible_since=3,
    throttles_since=1,
)
