"""What a read asks of its membership in a consumer group that shares partitions itself, as those of 0.7 do.

member = join(options)
claims = member.hold()                    # nobody else has these logs until they are let go
member.commit({log: (offset, claims[log])})
member.close()
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from ..model import TopicPartition
from ..options import ReadOptions
from .claim import Claim


class Member(Protocol):
    """One consumer of a group."""

    def hold(self) -> dict[TopicPartition, Claim]:
        """What it owns, as the group is now; it stays so until ``let_go``, or the next call.

        Raises ``DiscoveryError``, or ``OptionError`` for a group that cannot be joined (both fatal)."""

    def let_go(self, logs: Collection[TopicPartition] | None = None) -> None:
        """These logs, or all, may be given up from now on."""

    @property
    def others(self) -> dict[TopicPartition, str]:
        """What it shall own, and the threads that have not given it up yet."""

    @property
    def unregistered(self) -> list[str]:
        """Its topics of which no broker had a partition at the last look."""

    def commit(self, offsets: Mapping[TopicPartition, tuple[int, Claim]]) -> list[TopicPartition]:
        """Let the group stand at these offsets of logs as they were claimed; those that were lost meanwhile
        are left alone, and returned. Raises as ``hold`` does."""

    def close(self) -> None:
        """Leave the group: what it owned is free at once."""


def join(options: ReadOptions) -> Member:
    """Join the group of the options, which say that it is to be joined (``groupMembership``)."""
    # A process that joins none imports no client of ZooKeeper.
    from .v07.member import Member as Joined

    membership = options.membership
    assert membership is not None
    return Joined(
        options.discovery,
        membership.group,
        options.selection.subscribe,
        membership.thread_count,
        options.planning_retry,
        options.net.discovery_timeout_s,
    )
