"""Fetch (Kafka 0.8 and later): reads records of several partitions, in the batches that the log has.

Versions of Fetch::

    0       topics by name; records in magic 0
    1       throttle time
    2       records in magic 1: timestamps (KIP-32)
    3       a limit for the whole response; the first batch comes whole even if it is longer (KIP-74)
    4       records in magic 2: headers; isolation level and aborted transactions (KIP-82, KIP-98)
    5       log start offset (KIP-107)
    6       KAFKA_STORAGE_ERROR may come (KIP-112)
    7       incremental fetch sessions (KIP-227)
    8       throttled responses come at once, and the client waits (KIP-219)
    9       epochs of leaders (KIP-320)
    10      records in zstd (KIP-110)
    11      the consumer's rack, and a replica that is nearer (KIP-392)
    12      flexible (KIP-482); diverging epochs, and the current leader (KIP-595)
    13      topics by id (KIP-516)
    14      OFFSET_MOVED_TO_TIERED_STORAGE may come to replicas (KIP-405)
    15      ``replica_state`` in place of ``replica_id`` (KIP-903)
    16      the addresses of new leaders (KIP-951)
    17      a replica's directory (KIP-853)
    18      a replica's high watermark (KIP-1166)
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final

from ..api import VERSION_MAX
from ..primitives import BYTES, INT8, INT16, INT32, INT64, UUID, Array, Buffer, String
from ..responses import Faults, below, unlike
from ..schema import Struct, wire
from . import declare
from .limits import (
    BATCH_BYTES_MAX,
    FETCH_PARTITION_BYTES_MAX,
    NO_TOPIC_ID,
    READ_UNCOMMITTED,
    SMALL_RESPONSE_BYTES_MAX,
)

#: Last version that names topics; later ones have their ids.
TOPIC_NAMES_UNTIL: Final = 12
#: First version in which a leader may name a nearer replica.
RACKS_SINCE: Final = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPartition:
    """Records from ``fetch_offset`` on, about ``partition_max_bytes`` of them."""

    partition: int = wire(INT32)
    current_leader_epoch: int = wire(INT32, since=9, default=-1, ignorable=True)
    fetch_offset: int = wire(INT64)
    last_fetched_epoch: int = wire(INT32, since=12, default=-1)
    """Epoch of the last record that a replica fetched; -1 for none (KIP-595)."""
    log_start_offset: int = wire(INT64, since=5, default=-1, ignorable=True)
    """First offset of a replica's log; -1 for consumers (KIP-107)."""
    partition_max_bytes: int = wire(INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchTopic:
    """Partitions of one topic. Both name and id are set; the version decides which one is sent."""

    topic: str = wire(String(), until=TOPIC_NAMES_UNTIL, default="", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, since=TOPIC_NAMES_UNTIL + 1, default=NO_TOPIC_ID, ignorable=True)
    partitions: tuple[FetchPartition, ...] = wire(Array(Struct(FetchPartition)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenTopic:
    """Partitions that leave an incremental fetch session."""

    topic: str = wire(String(), since=7, until=TOPIC_NAMES_UNTIL, default="", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, since=TOPIC_NAMES_UNTIL + 1, default=NO_TOPIC_ID, ignorable=True)
    partitions: tuple[int, ...] = wire(Array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """Records of partitions that the broker leads, in the order of the request.

    The broker waits up to ``max_wait_ms`` for ``min_bytes``. ``max_bytes`` and the partitions'
    own limits are approximate: from version 3 on the first batch of a response comes whole even if it is
    longer, and in earlier versions a batch may be cut. Two fields are not sent: the client refuses a response
    whose first batch is longer than ``batch_bytes_max``, and believes less if it ``is_to_follower``.
    """

    replica_id: int = wire(INT32, until=14, default=-1)
    max_wait_ms: int = wire(INT32)
    min_bytes: int = wire(INT32)
    max_bytes: int = wire(INT32, since=3, default=0x7FFFFFFF, ignorable=True)
    # Brokers without it have no transactions: all their records are committed.
    isolation_level: int = wire(INT8, since=4, default=READ_UNCOMMITTED, ignorable=True)
    session_id: int = wire(INT32, since=7, default=0, ignorable=True)
    session_epoch: int = wire(INT32, since=7, default=-1, ignorable=True)
    topics: tuple[FetchTopic, ...] = wire(Array(Struct(FetchTopic)))
    forgotten_topics_data: tuple[ForgottenTopic, ...] = wire(
        Array(Struct(ForgottenTopic)), since=7, default=()
    )
    rack_id: str = wire(String(), since=11, default="", ignorable=True)
    batch_bytes_max: int = BATCH_BYTES_MAX
    is_to_follower: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransaction:
    """Records of an aborted transaction: the producer's, from ``first_offset`` to its next abort marker."""

    producer_id: int = wire(INT64)
    first_offset: int = wire(INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPartitionResponse:
    """Records of one partition, a view of the frame.

    They may begin before the requested offset, with the batch that holds it, and end inside a
    batch. Offsets end at ``high_watermark``, with READ_COMMITTED at ``last_stable_offset``. A
    field that the version lacks is -1.
    """

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    high_watermark: int = wire(INT64)
    """High watermark of the partition: the end of the records that all in-sync replicas have."""
    last_stable_offset: int = wire(INT64, since=4, default=-1)
    """Last stable offset: no open transaction begins before it (KIP-98)."""
    log_start_offset: int = wire(INT64, since=5, default=-1)
    aborted_transactions: tuple[AbortedTransaction, ...] | None = wire(
        Array(Struct(AbortedTransaction)), since=4, nullable_since=4, default=None
    )
    """Aborted transactions in the records; None for ``READ_UNCOMMITTED`` (KIP-98)."""
    preferred_read_replica: int = wire(INT32, since=11, default=-1)
    """Replica to read from instead; -1 for none (KIP-392)."""
    records: Buffer | None = wire(BYTES, nullable_since=0, shown=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchTopicResponse:
    """Partitions of one topic, by name or by id as the version has it."""

    topic: str = wire(String(), until=TOPIC_NAMES_UNTIL, default="")
    topic_id: uuid.UUID = wire(UUID, since=TOPIC_NAMES_UNTIL + 1, default=NO_TOPIC_ID)
    partitions: tuple[FetchPartitionResponse, ...] = wire(Array(Struct(FetchPartitionResponse)))


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    """Records of each requested partition. ``error_code`` is that of the whole fetch session."""

    throttle_time_ms: int = wire(INT32, since=1, default=0)
    error_code: int = wire(INT16, since=7, default=0)
    session_id: int = wire(INT32, since=7, default=0)
    responses: tuple[FetchTopicResponse, ...] = wire(Array(Struct(FetchTopicResponse)))


def _response_bytes_max(request: FetchRequest) -> int:
    # Only the partitions' limits, because versions before 3 have no limit for the whole response.
    limits = [partition.partition_max_bytes for topic in request.topics for partition in topic.partitions]
    around = SMALL_RESPONSE_BYTES_MAX + len(limits) * FETCH_PARTITION_BYTES_MAX
    return sum(limits) + request.batch_bytes_max + around


def _version_max(request: FetchRequest) -> int:
    named_only = any(topic.topic_id == NO_TOPIC_ID for topic in request.topics)
    return TOPIC_NAMES_UNTIL if named_only else VERSION_MAX


def _faults(request: FetchRequest, response: FetchResponse, version: int) -> Faults:
    if not response.responses and (response.error_code or response.throttle_time_ms):
        # Brokers send no topics for a session that they do not have, and from 2.0 on to a client that
        # they throttle (KIP-219).
        return
    by_name = version <= TOPIC_NAMES_UNTIL
    yield from unlike(
        [(t.topic if by_name else t.topic_id, p.partition) for t in request.topics for p in t.partitions],
        [
            (t.topic if by_name else t.topic_id, p.partition_index)
            for t in response.responses
            for p in t.partitions
        ],
    )
    for topic in response.responses:
        for partition in topic.partitions:
            yield from _partition_faults(partition)


def _partition_faults(partition: FetchPartitionResponse) -> Faults:
    # A leader that was just elected does not know its high watermark.
    yield from below(-1, "high watermark", partition.high_watermark)
    yield from below(-1, "last stable offset", partition.last_stable_offset)
    yield from below(-1, "log start offset", partition.log_start_offset)
    yield from below(-1, "preferred read replica", partition.preferred_read_replica)
    for aborted in partition.aborted_transactions or ():
        yield from below(0, "producer id of an aborted transaction", aborted.producer_id)
        yield from below(0, "first offset of an aborted transaction", aborted.first_offset)


FETCH: Final = declare(FetchRequest, FetchResponse, _response_bytes_max, _faults, version_max=_version_max)
