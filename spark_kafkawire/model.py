"""The data types that all folders of the package share."""

from __future__ import annotations

import base64
import enum
import uuid
from dataclasses import dataclass
from typing import NamedTuple

from .errors import printable


def id_text(topic_id: uuid.UUID) -> str:
    """The id of a topic as ``kafka-topics.sh --describe`` shows it. Source: Kafka's Uuid.toString."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


class OffsetUnit(enum.Enum):
    """Unit of an offset."""

    BYTES = "bytes"
    RECORDS = "records"


class WireFormat(enum.Enum):
    """Layout of requests and responses: a generation's own, or the one that was proposed as the successor of
    0.7 and keeps its messages and offsets (``protocol.proposal``)."""

    V07 = "0.7"
    PROPOSAL = "proposal"
    MODERN = "0.8+"


class Generation(enum.Enum):
    """Family of protocols that brokers speak: that of Kafka 0.6 and 0.7, or the one that began with 0.8.

    The discovery option chooses it, once. Code looks up all differences by it in tables, or they are in the
    folders ``v07`` and ``modern``. ``title`` is the name in reports and errors. Offsets count bytes of the
    log until 0.7, records since. A partition belongs to one broker, whose id is part of its name, until 0.7
    (``has_partitions_of_brokers``); later it may move to another one. Spark's own Kafka connector reads
    brokers with ``has_spark_connector``. Brokers may store headers of records since 0.11 (``has_headers``).
    ``wire_format`` is the one that brokers speak by default.
    """

    V07 = "0.7", "Kafka 0.7", OffsetUnit.BYTES, True, False, False, WireFormat.V07
    MODERN = "0.8+", "Kafka 0.8 or later", OffsetUnit.RECORDS, False, True, True, WireFormat.MODERN

    def __new__(cls, value: str, *_: object) -> Generation:
        """The member of that value, which is also the one of its pickles."""
        self = object.__new__(cls)
        self._value_ = value
        return self

    def __init__(
        self,
        _: str,
        title: str,
        offset_unit: OffsetUnit,
        has_partitions_of_brokers: bool,
        has_spark_connector: bool,
        has_headers: bool,
        wire_format: WireFormat,
    ) -> None:
        self.title, self.offset_unit, self.wire_format = title, offset_unit, wire_format
        self.has_partitions_of_brokers = has_partitions_of_brokers
        self.has_spark_connector, self.has_headers = has_spark_connector, has_headers


@dataclass(frozen=True, slots=True, order=True)
class Broker:
    """A broker's id and the address its clients connect to; a bootstrap server's id is -1."""

    id: int
    host: str
    port: int

    # One of each task: by default pickle lists the fields of a frozen dataclass for each object.
    def __reduce__(self) -> tuple[type[Broker], tuple[int, str, int]]:
        return Broker, (self.id, self.host, self.port)

    def __str__(self) -> str:
        name = f"broker {self.id}" if self.id >= 0 else "bootstrap server"
        return f"{name} ({printable(self.host)}:{self.port})"


class TopicPartition(NamedTuple):
    """The name of one partition. A tuple, because planning looks up each of them some ten times.

    In 0.7 a partition is named by broker, topic and partition: ``debian-gzip 0-1`` is partition 1 of
    that topic on broker 0, and partition 1 on broker 1 is another partition. Later brokers name a partition
    by topic and partition alone; ``broker`` is None there, for its leader may move.
    """

    topic: str
    partition: int
    broker: int | None = None

    @property
    def name(self) -> str:
        """The partition's name as offset options write it: ``0-1`` in 0.7, ``1`` later."""
        return f"{self.partition}" if self.broker is None else f"{self.broker}-{self.partition}"

    def __str__(self) -> str:
        return f"{printable(self.topic)} {self.name}"


@dataclass(frozen=True, slots=True)
class Leader:
    """The broker that serves a partition, with the epoch and topic id by which a request can verify that.

    ``epoch`` counts the elections of leaders, -1 if it is not known; ``topic_id`` is None for topics without
    an id (before Kafka 2.8). While a task reads, a leader that may name a nearer replica has the ``rack`` of
    the client, and a follower takes the leader's place (``is_follower``).
    """

    broker: Broker
    epoch: int = -1
    topic_id: uuid.UUID | None = None
    rack: str = ""
    is_follower: bool = False

    def __reduce__(self) -> tuple[type[Leader], tuple[Broker, int, uuid.UUID | None]]:
        return Leader, (self.broker, self.epoch, self.topic_id)


@dataclass(frozen=True, slots=True)
class PartitionBounds:
    """Bounds of one partition: its first offset, and its end, which is the offset of the next message.

    ``segment_starts`` are the starts of the segments that hold data: in 0.7 the only offsets where a message
    is known to begin. They ascend and lie in ``[earliest, latest)``. None if a message begins at every
    offset.
    """

    topic_partition: TopicPartition
    earliest: int
    latest: int
    segment_starts: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class RecordTimes:
    """Timestamps of a partition's first and youngest records, milliseconds since 1970.

    None if there is no record, or the broker does not report it.
    """

    first_ms: int | None = None
    max_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SizeSample:
    """Sizes of some records of a partition: ``size`` bytes of its log between ``count`` offsets."""

    size: int
    count: int


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The half-open part ``[start_offset, stop_offset)`` of one partition."""

    topic_partition: TopicPartition
    start_offset: int
    stop_offset: int

    def __post_init__(self) -> None:
        if self.start_offset > self.stop_offset:
            raise AssertionError(f"range of {self.topic_partition} runs backwards")

    def __reduce__(self) -> tuple[type[OffsetRange], tuple[TopicPartition, int, int]]:
        return OffsetRange, (self.topic_partition, self.start_offset, self.stop_offset)

    @property
    def size(self) -> int:
        """Offsets in the range: bytes in 0.7, records later."""
        return self.stop_offset - self.start_offset

    def __str__(self) -> str:
        return f"{self.topic_partition} [{self.start_offset}, {self.stop_offset})"


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Snapshot of the brokers, their topics and partitions at the time of discovery.

    ``brokers`` are alive; ``partitions`` are all known partitions, also those whose broker is not alive.
    ``orphaned_topics`` are registered, but no broker announces them: their brokers are missing, or the topics
    were deleted. All are sorted.
    """

    brokers: tuple[Broker, ...]
    partitions: tuple[TopicPartition, ...]
    orphaned_topics: tuple[str, ...] = ()

    def broker(self, broker_id: int) -> Broker | None:
        """The live broker of that id, or None."""
        return next((broker for broker in self.brokers if broker.id == broker_id), None)

    @property
    def topics(self) -> tuple[str, ...]:
        """Names of all topics that some broker holds, sorted."""
        return tuple(sorted({tp.topic for tp in self.partitions}))

    def partitions_of(self, topic: str) -> tuple[TopicPartition, ...]:
        """The partitions of one topic, sorted by partition and then broker as ``partitions`` is."""
        return tuple(tp for tp in self.partitions if tp.topic == topic)
