"""The nouns that every room of the package shares."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from .errors import shown


class OffsetUnit(enum.Enum):
    """What an offset counts."""

    BYTES = "bytes"
    RECORDS = "records"


class WireFormat(enum.Enum):
    """How requests and replies look: a generation's own way, or that which was proposed for what came after
    0.7, with its messages and offsets (``protocol.proposal``)."""

    V07 = "0.7"
    PROPOSAL = "proposal"
    MODERN = "0.8+"


class Generation(enum.Enum):
    """Which of Kafka's two families of protocols brokers speak: the one of 0.6 and 0.7, or the one
    that began with 0.8.

    The discovery option chooses it, once; all that differs is looked up in tables by it, or stands
    in the folders ``v07`` and ``modern``.
    """

    V07 = "0.7"
    MODERN = "0.8+"

    @property
    def offset_unit(self) -> OffsetUnit:
        """What offsets count: bytes of the log until 0.7, records since."""
        return _OFFSET_UNITS[self]

    @property
    def has_logs_of_brokers(self) -> bool:
        """Whether a log belongs to one broker, whose id is part of its name: until 0.7. Later ones move."""
        return _HAS_LOGS_OF_BROKERS[self]

    @property
    def wire_format(self) -> WireFormat:
        """What its brokers speak unless they are asked for something else."""
        return _WIRE_FORMATS[self]


_OFFSET_UNITS: Final[Mapping[Generation, OffsetUnit]] = MappingProxyType(
    {Generation.V07: OffsetUnit.BYTES, Generation.MODERN: OffsetUnit.RECORDS}
)
_HAS_LOGS_OF_BROKERS: Final[Mapping[Generation, bool]] = MappingProxyType(
    {Generation.V07: True, Generation.MODERN: False}
)
_WIRE_FORMATS: Final[Mapping[Generation, WireFormat]] = MappingProxyType(
    {Generation.V07: WireFormat.V07, Generation.MODERN: WireFormat.MODERN}
)


@dataclass(frozen=True, slots=True, order=True)
class Broker:
    """A broker's id and the address its clients connect to; a bootstrap server's id is -1."""

    id: int
    host: str
    port: int

    def __str__(self) -> str:
        name = f"broker {self.id}" if self.id >= 0 else "bootstrap server"
        return f"{name} ({shown(self.host)}:{self.port})"


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """The name of one log.

    In 0.7 a log is named by broker, topic and partition: ``debian-gzip 0-1`` is partition 1 of
    that topic on broker 0, and partition 1 on broker 1 is another log. Later brokers name a log
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
        return f"{shown(self.topic)} {self.name}"


@dataclass(frozen=True, slots=True)
class Leader:
    """The broker that serves a log, and what a request may say to be sure of that.

    ``epoch`` counts the elections of leaders, -1 where it is not known; ``topic_id`` is None where
    topics have none (before Kafka 2.8).
    """

    broker: Broker
    epoch: int = -1
    topic_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class LogBounds:
    """One log's first offset and its end, the offset of its next message.

    ``segment_starts`` are those of its segments that hold data, where only there a message is
    known to begin (0.7): they ascend and lie in ``[earliest, latest)``. None where a message
    begins at every offset.
    """

    log: TopicPartition
    earliest: int
    latest: int
    segment_starts: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class RecordTimes:
    """When a log's records were made, milliseconds since 1970: the first one and the youngest one.

    None where there is no record, or the broker does not tell.
    """

    first_ms: int | None = None
    max_ms: int | None = None


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The half-open part ``[start_offset, stop_offset)`` of one log."""

    log: TopicPartition
    start_offset: int
    stop_offset: int

    def __post_init__(self) -> None:
        if self.start_offset > self.stop_offset:
            raise AssertionError(f"range of {self.log} runs backwards")

    @property
    def size(self) -> int:
        """Offsets in the range: bytes in 0.7, records later."""
        return self.stop_offset - self.start_offset

    def __str__(self) -> str:
        return f"{self.log} [{self.start_offset}, {self.stop_offset})"


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Who is alive and who holds what, as discovery saw it at one moment.

    ``brokers`` are alive; ``logs`` are all known logs, also those whose broker is not alive.
    ``orphaned_topics`` were registered once, and no broker announces them now: those that hold them are
    missing, or they were deleted. All are sorted.
    """

    brokers: tuple[Broker, ...]
    logs: tuple[TopicPartition, ...]
    orphaned_topics: tuple[str, ...] = ()

    def broker(self, broker_id: int) -> Broker | None:
        """The live broker of that id, or None."""
        return next((broker for broker in self.brokers if broker.id == broker_id), None)

    @property
    def topics(self) -> tuple[str, ...]:
        """Names of all topics that some broker holds, sorted."""
        return tuple(sorted({log.topic for log in self.logs}))

    def logs_of(self, topic: str) -> tuple[TopicPartition, ...]:
        """The logs of one topic, sorted by partition and then broker as ``logs`` is."""
        return tuple(log for log in self.logs if log.topic == topic)
