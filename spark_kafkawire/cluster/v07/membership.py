"""Membership of a read in a consumer group of Kafka 0.7 (``groupMembership=join``): the interface.

member = join(options)
owned = member.hold()                     # no other member has these partitions until they are let go
member.commit({partition: (offset, owned[partition])})
member.close()
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import ReadOptions

from .owned_partition import OwnedPartition


class GroupMembership(Protocol):
    """Membership of one consumer, whose id in the group is ``id``."""

    id: str

    def hold(self) -> dict[TopicPartition, OwnedPartition]:
        """Partitions that it owns by the current state of the group, and keeps until ``let_go`` or the next
        call.

        Raises ``DiscoveryError``, or ``OptionError`` for a group that cannot be joined (both fatal)."""

    def let_go(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Allow these partitions, or all, to be given up from now on."""

    @property
    def others(self) -> dict[TopicPartition, str]:
        """Partitions that are assigned to it, with the threads that have not given them up yet."""

    @property
    def unregistered(self) -> list[str]:
        """Topics of the consumer for which no broker had a partition at the last look."""

    @property
    def abandoned(self) -> list[str]:
        """Nodes that kept partitions from every reader at the last look, a line for each."""

    @property
    def is_asked_to_leave(self) -> bool:
        """True if the last look found a request to leave the group (``ask_to_leave``)."""

    def commit(self, offsets: Mapping[TopicPartition, tuple[int, OwnedPartition]]) -> list[TopicPartition]:
        """Commit offsets of owned partitions. Partitions that were lost meanwhile are not committed, and are
        returned. Raises as ``hold`` does."""

    def close(self) -> None:
        """Leave the group and free its partitions at once."""


def join(options: ReadOptions) -> GroupMembership:
    """Join the group of the options, which have ``groupMembership=join``."""
    # A process that joins no group does not import the ZooKeeper client.
    from .member import Member as Joined

    membership = options.membership
    assert membership is not None
    return Joined(
        options.discovery,
        membership.group,
        options.selection.subscribe,
        membership.thread_count,
        options.planning_retry,
        options.net.known.discovery_timeout_s,
    )


def ask_to_leave(options: ReadOptions, consumers: Collection[str], timeout_s: float) -> bool:
    """Ask consumers that have joined the group of the options to leave it between two batches. True once all
    have left; the request is withdrawn after ``timeout_s``. Raises ``DiscoveryError`` (fatal)."""
    from .groups import ask_to_leave as ask

    membership = options.membership
    assert membership is not None
    return ask(options.discovery, timeout_s, membership.group, consumers)
