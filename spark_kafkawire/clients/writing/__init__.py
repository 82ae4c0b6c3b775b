"""Interface of the partitions that rows of a write may go to, and its class for each generation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from spark_kafkawire.model import Generation, TopicPartition

if TYPE_CHECKING:
    from spark_kafkawire.options import WriteOptions

    from .rows import Rows
    from .sender import Sender


class WritePartitions(Protocol):
    """Partitions that rows may go to, as the driver saw the cluster once for the whole write. They travel to
    the tasks, which open their own connections."""

    @staticmethod
    def topic_fault(topic: str) -> str | None:
        """Reason why brokers refuse a topic name; None if they accept it."""

    @classmethod
    def discover(cls, options: WriteOptions) -> WritePartitions:
        """Discover the partitions of the cluster that the options name. Raises ``DiscoveryError``,
        ``TransportError`` (fatal)."""

    @staticmethod
    def plan_versions(options: WriteOptions) -> WriteOptions:
        """Add to the options the versions that brokers serve now: no task may find older ones. Raises
        ``TransportError`` (fatal) if no broker responds."""

    def restrict_to_topic(self, topic: str) -> WritePartitions:
        """Restrict to one topic, and look up its partitions. Raises as ``selectable``."""

    def selectable(self, topic: str) -> tuple[TopicPartition, ...]:
        """Partitions that strategies select from, in the order of their index. Raises ``DiscoveryError``
        (fatal) for a topic that does not exist and is not created."""

    def available(self, topic: str) -> tuple[TopicPartition, ...]:
        """Selectable partitions that had a leader when the topic was looked up; all if none had. Raises as
        ``selectable``."""

    def addressable(self, topic: str) -> tuple[TopicPartition, ...]:
        """Partitions that a row may name by its columns."""

    def check(self, rows: Rows, options: WriteOptions) -> None:
        """Refuse rows that the brokers would not store. Raises ``RowError`` (fatal)."""

    def sender(self, options: WriteOptions) -> Sender:
        """Create the sender of one task."""


def _v07_type() -> type[WritePartitions]:
    from .v07 import V07WritePartitions

    return V07WritePartitions


def _modern_type() -> type[WritePartitions]:
    from .modern import ModernWritePartitions

    return ModernWritePartitions


# Imported on demand: a process writes to brokers of one generation.
_TYPES: Final[Mapping[Generation, Callable[[], type[WritePartitions]]]] = MappingProxyType(
    {Generation.V07: _v07_type, Generation.MODERN: _modern_type}
)


def write_partitions_type(options: WriteOptions) -> type[WritePartitions]:
    """Class for the generation that the discovery option chose."""
    return _TYPES[options.discovery.generation]()
