"""DescribeLogDirs (Kafka 1.0 and later): the log directories of a broker, and the size of each replica there.

Versions of DescribeLogDirs::

    0       not spoken: Kafka 1.0 and 1.1 alone have no later one
    1       throttled responses come at once, and the client waits (KIP-219)
    2       flexible (KIP-482)
    3       an error of the whole response (KIP-784)
    4       size and free space of the volume (KIP-827)
    5       directories that take no new partitions (KIP-1066)

A user without the right Describe on the cluster gets an empty list before version 3.

Source: Apache Kafka's DescribeLogDirsRequest.json and DescribeLogDirsResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api import Api, VersionRange
from ..primitives import BOOL, INT16, INT32, INT64, Array, String
from ..responses import Faults, below, not_topics, repeated
from ..schema import Struct, wire
from . import names
from .limits import response_bytes_max


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribableLogDirTopic:
    """Partitions of a topic to describe."""

    topic: str = wire(String())
    """Name of the topic."""
    partitions: tuple[int, ...] = wire(Array(INT32))
    """Indexes of the partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsRequest:
    """Ask a broker for its log directories, with some topics or with all."""

    topics: tuple[DescribableLogDirTopic, ...] | None = wire(
        Array(Struct(DescribableLogDirTopic)), nullable_since=0
    )
    """Topics to describe; None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirPartition:
    """A replica in a log directory."""

    partition_index: int = wire(INT32)
    """Index of the partition."""
    partition_size: int = wire(INT64)
    """Size of the segments, bytes."""
    offset_lag: int = wire(INT64)
    """Offsets that the replica lacks."""
    is_future_key: bool = wire(BOOL)
    """True if the replica is being moved into this directory from another one of the broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirTopic:
    """Replicas of one topic."""

    name: str = wire(String())
    """Name of the topic."""
    partitions: tuple[LogDirPartition, ...] = wire(Array(Struct(LogDirPartition)))
    """Replicas in the directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    """A log directory; its disk failed if it has an error."""

    error_code: int = wire(INT16)
    """Error code; 0 if there was no error."""
    log_dir: str = wire(String())
    """Path of the directory."""
    topics: tuple[LogDirTopic, ...] = wire(Array(Struct(LogDirTopic)))
    """Topics with replicas in the directory."""
    total_bytes: int = wire(INT64, since=4, default=-1)
    """Size of the volume, bytes; -1 if unknown (KIP-827)."""
    usable_bytes: int = wire(INT64, since=4, default=-1)
    """Free space of the volume, bytes; -1 if unknown (KIP-827)."""
    is_cordoned: bool = wire(BOOL, since=5, default=False)
    """True if the directory takes no new partitions (KIP-1066)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeLogDirsResponse:
    """The log directories of one broker."""

    throttle_time_ms: int = wire(INT32, default=0)
    """Throttle time because of a quota, ms; 0 if no quota was exceeded (KIP-13)."""
    error_code: int = wire(INT16, since=3, default=0)
    """Error code; 0 if there was no error (KIP-784)."""
    results: tuple[LogDir, ...] = wire(Array(Struct(LogDir)))
    """Log directories of the broker."""


def _faults(_request: DescribeLogDirsRequest, response: DescribeLogDirsResponse, _version: int) -> Faults:
    yield from repeated(each.log_dir for each in response.results)
    replicas = [
        (topic.name, replica)
        for each in response.results
        for topic in each.topics
        for replica in topic.partitions
    ]
    # A replica that moves is in two directories.
    yield from repeated((name, replica.partition_index, replica.is_future_key) for name, replica in replicas)
    for name, replica in replicas:
        yield from below(0, "partition", replica.partition_index, name)
        yield from below(0, "size", replica.partition_size, (name, replica.partition_index))
    # noida-db (0.2) returns all replicas where some were requested, which does no harm.
    yield from not_topics(dict.fromkeys(name for name, _ in replicas))


DESCRIBE_LOG_DIRS: Final = Api(
    *names.DESCRIBE_LOG_DIRS,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    response_bytes_max,
    faults=_faults,
    versions=VersionRange(1, 5),
    flexible_since=2,
    throttles_since=1,
)
