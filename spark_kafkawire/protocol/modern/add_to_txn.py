"""AddPartitionsToTxn and AddOffsetsToTxn (Kafka 0.11 and later): partitions and groups join a transaction.

Only the first protocol of transactions needs them. In the second protocol (see ``end_txn``) a partition
joins with the first write to it, and a group with TxnOffsetCommit.

Versions of AddPartitionsToTxn::

    0       partitions of one transaction (KIP-98)
    1       throttled responses come at once, and the client waits (KIP-219)
    2       PRODUCER_FENCED may come (KIP-588)
    3       flexible (KIP-482)
    4       not spoken: of brokers, for several transactions (KIP-890)
    5       not spoken: of brokers, TRANSACTION_ABORTABLE may come (KIP-890)

Versions of AddOffsetsToTxn::

    0       a group whose offsets are committed in the transaction (KIP-98)
    1       throttled responses come at once, and the client waits (KIP-219)
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
from ..responses import Faults, nothing_to_compare, unlike
from ..schema import Struct, wire
from . import names
from .limits import response_bytes_max, small_response_bytes_max


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnTopic:
    """Partitions of one topic."""

    name: str = wire(String())
    """Name of the topic."""
    partitions: tuple[int, ...] = wire(Array(INT32))
    """Indexes of the partitions to add."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnRequest:
    """Announce the partitions that the transaction will write to; the transaction begins with that."""

    v3_and_below_transactional_id: str = wire(String())
    """Transactional id of the producer."""
    v3_and_below_producer_id: int = wire(INT64)
    """Id of the producer."""
    v3_and_below_producer_epoch: int = wire(INT16)
    """Epoch of the producer."""
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...] = wire(Array(Struct(AddPartitionsToTxnTopic)))
    """Topics whose partitions join the transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnPartitionResponse:
    """Outcome of adding one partition to the transaction."""

    partition_index: int = wire(INT32)
    """Index of the partition."""
    partition_error_code: int = wire(INT16)
    """Error code; 0 if the partition was added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnTopicResponse:
    """Outcomes of one topic's partitions."""

    name: str = wire(String())
    """Name of the topic."""
    results_by_partition: tuple[AddPartitionsToTxnPartitionResponse, ...] = wire(
        Array(Struct(AddPartitionsToTxnPartitionResponse))
    )
    """Outcome for each partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnResponse:
    """Outcome for each partition: all are in the transaction, or none is."""

    throttle_time_ms: int = wire(INT32)
    """Throttle time because of a quota, ms; 0 if no quota was exceeded (KIP-13)."""
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResponse, ...] = wire(
        Array(Struct(AddPartitionsToTxnTopicResponse))
    )
    """Outcome for each topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOffsetsToTxnRequest:
    """Announce a group whose offsets the transaction will commit."""

    transactional_id: str = wire(String())
    """Transactional id of the producer."""
    producer_id: int = wire(INT64)
    """Id of the producer."""
    producer_epoch: int = wire(INT16)
    """Epoch of the producer."""
    group_id: str = wire(String())
    """Group whose offsets the transaction will commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOffsetsToTxnResponse:
    """Outcome of adding the group to the transaction."""

    throttle_time_ms: int = wire(INT32)
    """Throttle time because of a quota, ms; 0 if no quota was exceeded (KIP-13)."""
    error_code: int = wire(INT16)
    """Error code; 0 if there was no error."""


def _partition_faults(
    request: AddPartitionsToTxnRequest, response: AddPartitionsToTxnResponse, _version: int
) -> Faults:
    return unlike(
        [(topic.name, index) for topic in request.v3_and_below_topics for index in topic.partitions],
        [
            (topic.name, partition.partition_index)
            for topic in response.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        ],
    )


ADD_PARTITIONS_TO_TXN: Final = Api(
    *names.ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    response_bytes_max,
    faults=_partition_faults,
    versions=VersionRange(0, 3),
    flexible_since=3,
    throttles_since=1,
)

ADD_OFFSETS_TO_TXN: Final = Api(
    *names.ADD_OFFSETS_TO_TXN,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    small_response_bytes_max,
    faults=nothing_to_compare,
    versions=VersionRange(0, 4),
    flexible_since=3,
    throttles_since=1,
)
