"""Produce: append record batches.

Versions of Produce::

    0       records in magic 0
    1       throttle time
    2       records in magic 1: timestamps; the broker's time of appending (KIP-32)
    3       records in magic 2, one batch for each partition; transactional id (KIP-98)
    4       KAFKA_STORAGE_ERROR may come (KIP-112)
    5       log start offset
    6       throttled replies come at once, and the client waits (KIP-219)
    7       records in zstd (KIP-110)
    8       which records are refused, and why (KIP-467)
    9       flexible (KIP-482)
    10      who leads, and where new leaders listen (KIP-951)
    11      TRANSACTION_ABORTABLE may come (KIP-890)
    12      partitions join a transaction by being written to (KIP-890)
    13      not spoken: topics by id (KIP-516)

Source: Apache Kafka's ProduceRequest.json and ProduceResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api import VERSION_MAX, Api, VersionRange
from ..primitives import BYTES, INT16, INT32, INT64, Array, Buffer, String
from ..replies import Faults, below, unlike
from ..schema import Struct, wire
from . import names
from .acks import ACKS_NONE
from .leaders import LeaderIdAndEpoch, NodeEndpoint
from .limits import reply_bytes_max

#: Last version of a transaction whose partitions were added by AddPartitionsToTxn.
_FIRST_PROTOCOL_UNTIL: Final = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducePartition:
    """Records for one partition.

    Their format follows the version: magic 0 up to version 1, magic 1 in version 2, magic 2 from
    3 on, there exactly one batch. zstd needs version 7.
    """

    index: int = wire(INT32)
    records: Buffer | None = wire(BYTES, nullable_since=0, shown=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceTopic:
    """Records for partitions of one topic."""

    name: str = wire(String())
    partition_data: tuple[ProducePartition, ...] = wire(Array(Struct(ProducePartition)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRequest:
    """Append to partitions that the broker leads. Not answered where ``acks`` is 0.

    ``timeout_ms`` bounds how long the leader waits for its replicas. ``transaction_version`` is the
    protocol of the transaction (see ``end_txn``), where the request is of one.
    """

    transactional_id: str | None = wire(String(), since=3, nullable_since=3, default=None)
    acks: int = wire(INT16)
    timeout_ms: int = wire(INT32)
    topic_data: tuple[ProduceTopic, ...] = wire(Array(Struct(ProduceTopic)))
    transaction_version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordError:
    """A record for whose sake its batch was refused."""

    batch_index: int = wire(INT32)
    batch_index_error_message: str | None = wire(String(), nullable_since=0, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducePartitionReply:
    """``base_offset`` is the first record's offset, -1 where none was appended.

    ``log_append_time_ms`` is -1 unless the topic stamps records with the broker's time.
    """

    index: int = wire(INT32)
    error_code: int = wire(INT16)
    base_offset: int = wire(INT64)
    log_append_time_ms: int = wire(INT64, since=2, default=-1)
    log_start_offset: int = wire(INT64, since=5, default=-1)
    record_errors: tuple[RecordError, ...] = wire(Array(Struct(RecordError)), since=8, default=())
    error_message: str | None = wire(String(), since=8, nullable_since=8, default=None)
    current_leader: LeaderIdAndEpoch = wire(
        Struct(LeaderIdAndEpoch), since=10, tag=0, default=LeaderIdAndEpoch()
    )

    @property
    def reason(self) -> str | None:
        """What the broker itself says of the error, of the first record at fault where it tells."""
        of_records = (error.batch_index_error_message for error in self.record_errors)
        return next(filter(None, of_records), self.error_message)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceTopicReply:
    """Outcomes of one topic's partitions."""

    name: str = wire(String())
    partition_responses: tuple[ProducePartitionReply, ...] = wire(Array(Struct(ProducePartitionReply)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceReply:
    """What became of the records of each partition; ``node_endpoints`` as in Fetch."""

    responses: tuple[ProduceTopicReply, ...] = wire(Array(Struct(ProduceTopicReply)))
    throttle_time_ms: int = wire(INT32, since=1, default=0)
    node_endpoints: tuple[NodeEndpoint, ...] = wire(Array(Struct(NodeEndpoint)), since=10, tag=0, default=())


def _version_max(request: ProduceRequest) -> int:
    of_first_protocol = request.transactional_id is not None and request.transaction_version == 1
    return _FIRST_PROTOCOL_UNTIL if of_first_protocol else VERSION_MAX


def _version_min(request: ProduceRequest) -> int:
    of_second_protocol = request.transactional_id is not None and request.transaction_version > 1
    return _FIRST_PROTOCOL_UNTIL + 1 if of_second_protocol else 0


def _is_acknowledged(request: ProduceRequest) -> bool:
    return request.acks != ACKS_NONE


def _produce_faults(request: ProduceRequest, reply: ProduceReply, _version: int) -> Faults:
    yield from unlike(
        [(topic.name, part.index) for topic in request.topic_data for part in topic.partition_data],
        [(topic.name, part.index) for topic in reply.responses for part in topic.partition_responses],
    )
    for topic in reply.responses:
        for part in topic.partition_responses:
            # What was appended has an offset.
            yield from below(-1 if part.error_code else 0, "base offset", part.base_offset, topic.name)
            yield from below(-1, "log append time", part.log_append_time_ms, topic.name)
            yield from below(-1, "log start offset", part.log_start_offset, topic.name)


PRODUCE: Final = Api(
    *names.PRODUCE,
    ProduceRequest,
    ProduceReply,
    reply_bytes_max,
    faults=_produce_faults,
    versions=VersionRange(0, 12),
    flexible_since=9,
    throttles_since=6,
    is_answered=_is_acknowledged,
    version_max=_version_max,
    version_min=_version_min,
)
