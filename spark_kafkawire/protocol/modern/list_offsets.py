"""ListOffsets (Kafka 0.8 and later): the start and end of a partition, and the offset of a timestamp.

Versions of ListOffsets::

    0       starts of segments, up to ``max_num_offsets``
    1       one offset, and the timestamp of its record (KIP-79)
    2       isolation level; throttle time (KIP-98)
    3       throttled responses come at once, and the client waits (KIP-219)
    4       epochs of leaders (KIP-320)
    5       OFFSET_NOT_AVAILABLE may come (KIP-207)
    6       flexible (KIP-482)
    7       ``MAX_TIMESTAMP`` (KIP-734)
    8       ``EARLIEST_LOCAL_TIMESTAMP`` (KIP-405)
    9       the last offset in tiered storage (KIP-1005)
    10      a timeout for looking into tiered storage (KIP-1075)
    11      the first offset that is not uploaded yet (KIP-1023)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spark_kafkawire.errors import counted

from ..primitives import INT8, INT16, INT32, INT64, Array, String
from ..responses import Faults, Key, below, partitions_of, show_key, unlike
from ..schema import Struct, wire
from . import declare
from .limits import response_bytes_max

#: ``timestamp`` that asks for the end of the log: the offset of the next record.
LATEST_TIMESTAMP: Final = -1
#: ``timestamp`` that asks for the first offset of the log.
EARLIEST_TIMESTAMP: Final = -2
#: ``timestamp`` that asks for the record with the highest timestamp.
MAX_TIMESTAMP: Final = -3
#: First version that knows it. Source: KIP-734.
MAX_TIMESTAMP_SINCE: Final = 7
#: ``timestamp`` that asks for the first offset on the broker's own disk. From version 8 on.
EARLIEST_LOCAL_TIMESTAMP: Final = -4
#: First version that knows it: earlier brokers have no tiered storage. Source: KIP-405.
EARLIEST_LOCAL_SINCE: Final = 8
#: ``offset`` if all records are older than ``timestamp``.
NO_OFFSET: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsPartition:
    """Ask for the first offset whose record is not older than ``timestamp``, ms.

    Version 0 knows the time of segments only: it returns up to ``max_num_offsets`` starts of
    older segments, newest first.
    """

    partition_index: int = wire(INT32)
    current_leader_epoch: int = wire(INT32, since=4, default=-1, ignorable=True)
    timestamp: int = wire(INT64)
    """Timestamp to look up, ms; or one of the constants above."""
    max_num_offsets: int = wire(INT32, until=0, default=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsTopic:
    """Partitions of one topic."""

    name: str = wire(String())
    partitions: tuple[ListOffsetsPartition, ...] = wire(Array(Struct(ListOffsetsPartition)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsRequest:
    """Ask for one offset of each partition; the broker must lead them."""

    replica_id: int = wire(INT32, default=-1)
    # Brokers without it have no transactions: all their records are committed.
    isolation_level: int = wire(INT8, since=2, default=0, ignorable=True)
    topics: tuple[ListOffsetsTopic, ...] = wire(Array(Struct(ListOffsetsTopic)))
    timeout_ms: int = wire(INT32, since=10, default=0, ignorable=True)
    """Longest look into tiered storage, ms (KIP-1075)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsPartitionResponse:
    """``offset`` and the timestamp of its record, ms; both -1 if no record was found.

    Version 0 returns ``old_style_offsets`` instead.
    """

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    old_style_offsets: tuple[int, ...] = wire(Array(INT64), until=0, default=())
    """Offsets that were found, newest first."""
    timestamp: int = wire(INT64, since=1, default=-1)
    offset: int = wire(INT64, since=1, default=NO_OFFSET)
    leader_epoch: int = wire(INT32, since=4, default=-1)

    @property
    def found_offset(self) -> int:
        """The offset in any version; ``NO_OFFSET`` if none was found."""
        return self.old_style_offsets[0] if self.old_style_offsets else self.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsTopicResponse:
    """Offsets of one topic's partitions."""

    name: str = wire(String())
    partitions: tuple[ListOffsetsPartitionResponse, ...] = wire(Array(Struct(ListOffsetsPartitionResponse)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsResponse:
    """The requested offsets."""

    throttle_time_ms: int = wire(INT32, since=2, default=0)
    topics: tuple[ListOffsetsTopicResponse, ...] = wire(Array(Struct(ListOffsetsTopicResponse)))


def _faults(request: ListOffsetsRequest, response: ListOffsetsResponse, _version: int) -> Faults:
    asked = {
        (topic.name, part.partition_index): part for topic in request.topics for part in topic.partitions
    }
    came = {
        (topic.name, part.partition_index): part for topic in response.topics for part in topic.partitions
    }
    yield from unlike(asked, partitions_of(response.topics))
    for key, partition in came.items():
        if not partition.error_code:
            yield from _partition_faults(key, asked[key], partition)


def _partition_faults(key: Key, asked: ListOffsetsPartition, came: ListOffsetsPartitionResponse) -> Faults:
    # Every log has a start and an end, even an empty one.
    is_bound = asked.timestamp in (LATEST_TIMESTAMP, EARLIEST_TIMESTAMP)
    yield from below(0 if is_bound else NO_OFFSET, "offset", came.found_offset, key)
    yield from below(-1, "timestamp", came.timestamp, key)
    yield from below(-1, "leader epoch", came.leader_epoch, key)
    if len(came.old_style_offsets) > asked.max_num_offsets:
        count = len(came.old_style_offsets)
        given = counted(count, "offset")
        yield f"it gives {given} of {show_key(key)}, but {asked.max_num_offsets} was requested"


LIST_OFFSETS: Final = declare(
    ListOffsetsRequest, ListOffsetsResponse, response_bytes_max, _faults, is_polled=True
)
