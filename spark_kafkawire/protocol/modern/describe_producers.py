"""DescribeProducers (Kafka 2.8 and later): the producers whose state the leader of a partition keeps.

Versions of DescribeProducers::

    0       flexible (KIP-482); producers (KIP-664); throttled responses come at once (KIP-219)

Source: Apache Kafka's DescribeProducersRequest.json and DescribeProducersResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api import Api, VersionRange
from ..primitives import INT16, INT32, INT64, Array, String
from ..responses import Faults, below, repeated, unlike
from ..schema import Struct, wire
from . import names
from .limits import response_bytes_max

#: ``current_txn_start_offset`` of a producer without an open transaction in the partition.
NO_TRANSACTION: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducersTopic:
    """Partitions of a topic to describe."""

    name: str = wire(String())
    """Name of the topic."""
    partition_indexes: tuple[int, ...] = wire(Array(INT32))
    """Indexes of the partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersRequest:
    """Ask a broker for the producers of partitions that it leads. The user needs the right READ for the
    topics."""

    topics: tuple[ProducersTopic, ...] = wire(Array(Struct(ProducersTopic)))
    """Topics to describe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """A producer of a partition."""

    producer_id: int = wire(INT64)
    """Id of the producer."""
    producer_epoch: int = wire(INT32)
    """Epoch of the producer; -1 if unknown."""
    last_sequence: int = wire(INT32, default=-1)
    """Sequence number of its last record; -1 if unknown."""
    last_timestamp: int = wire(INT64, default=-1)
    """Timestamp of its last batch, ms since 1970; -1 if unknown."""
    coordinator_epoch: int = wire(INT32)
    """Epoch of the coordinator that wrote its last marker; -1 without a marker."""
    current_txn_start_offset: int = wire(INT64, default=NO_TRANSACTION)
    """First offset of its open transaction; -1 if none is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProducers:
    """Producers of one partition."""

    partition_index: int = wire(INT32)
    """Index of the partition."""
    error_code: int = wire(INT16)
    """Error code; 0 if there was no error."""
    error_message: str | None = wire(String(), nullable_since=0, default=None)
    """Text of the error; None if the broker gives none."""
    active_producers: tuple[ProducerState, ...] = wire(Array(Struct(ProducerState)))
    """Producers of the partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProducers:
    """Producers of the partitions of one topic."""

    name: str = wire(String())
    """Name of the topic."""
    partitions: tuple[PartitionProducers, ...] = wire(Array(Struct(PartitionProducers)))
    """Partitions of the topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersResponse:
    """The producers of the requested partitions."""

    throttle_time_ms: int = wire(INT32)
    """Throttle time because of a quota, ms; 0 if no quota was exceeded (KIP-13)."""
    topics: tuple[TopicProducers, ...] = wire(Array(Struct(TopicProducers)))
    """Topics that were requested."""


def _faults(
    request: DescribeProducersRequest,
    response: DescribeProducersResponse,
    _version: int,
) -> Faults:
    asked = [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    came = [
        ((topic.name, each.partition_index), each) for topic in response.topics for each in topic.partitions
    ]
    yield from unlike(asked, (key for key, _ in came))
    for key, partition in came:
        yield from repeated((*key, state.producer_id) for state in partition.active_producers)
        for state in partition.active_producers:
            yield from below(0, "producer id", state.producer_id, key)
            yield from below(-1, "producer epoch", state.producer_epoch, key)
            yield from below(-1, "last sequence", state.last_sequence, key)
            yield from below(-1, "start of a transaction", state.current_txn_start_offset, key)


DESCRIBE_PRODUCERS: Final = Api(
    *names.DESCRIBE_PRODUCERS,
    DescribeProducersRequest,
    DescribeProducersResponse,
    response_bytes_max,
    faults=_faults,
    versions=VersionRange(0, 0),
    flexible_since=0,
    throttles_since=0,
)
