"""Where the rows of a write can go, whatever generation the brokers are of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from ...model import Generation, TopicPartition
from ...options import WriteOptions

if TYPE_CHECKING:
    from .rows import Rows
    from .sender import Sender


class Targets(Protocol):
    """The logs that rows may go to, as the driver saw the cluster once for the whole write. It
    travels to the tasks, and opens there the connections that it needs."""

    @staticmethod
    def topic_fault(topic: str) -> str | None:
        """What is wrong with a topic name, or None."""

    @classmethod
    def discover(cls, options: WriteOptions) -> Targets:
        """The targets in the cluster that the options name.

        Raises ``DiscoveryError``, ``TransportError`` (fatal).
        """

    @staticmethod
    def planned(options: WriteOptions) -> WriteOptions:
        """The options with what the brokers offer now: they must offer it to the tasks, too.

        Raises ``TransportError`` (fatal).
        """

    def of_topic(self, topic: str) -> Targets:
        """The targets of one topic alone, with all that can be known of it. Raises as ``choices``."""

    def choices(self, topic: str) -> tuple[TopicPartition, ...]:
        """The logs that strategies pick from, in the order by which they count them.

        Raises ``DiscoveryError`` (fatal) for a topic that is not there and is not made.
        """

    def led(self, topic: str) -> tuple[TopicPartition, ...]:
        """Those of the choices that had a leader when they were asked for; all where none had. Raises as
        ``choices``."""

    def nameable(self, topic: str) -> tuple[TopicPartition, ...]:
        """The logs that a row may name by its columns."""

    def check(self, rows: Rows, options: WriteOptions) -> None:
        """Refuse rows that the brokers would not store. Raises ``RowError`` (fatal)."""

    def sender(self, options: WriteOptions) -> Sender:
        """What sends the rows of one task."""


def _v07_targets() -> type[Targets]:
    from . import v07

    return v07.Targets


def _modern_targets() -> type[Targets]:
    from . import modern

    return modern.Targets


# A process writes to brokers of one generation, and imports no other.
_TYPES: Final[Mapping[Generation, Callable[[], type[Targets]]]] = MappingProxyType(
    {Generation.V07: _v07_targets, Generation.MODERN: _modern_targets}
)


def targets_type(options: WriteOptions) -> type[Targets]:
    """The targets of the generation that the discovery option chose."""
    return _TYPES[options.discovery.generation]()
