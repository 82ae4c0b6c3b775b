"""What a read asks of its membership in a consumer group that shares partitions itself, as those of 0.7 do.

member = join(options)
claims = member.hold()                    # nobody else has these logs until they are let go
member.commit({log: (offset, claims[log])})
member.close()
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from ..model import TopicPartition
from ..options import ReadOptions


@dataclass(frozen=True, slots=True)
class Claim:
    """A log that a member owns.

    ``number`` is another one for each time that it was claimed: in between, others may have read it.
    ``offset`` is where the group stood then, None where it has never read the log.
    """

    log: TopicPartition
    number: int
    offset: int | None


class Member(Protocol):
    """One consumer of a group."""

    def hold(self) -> dict[TopicPartition, Claim]: ...

    def let_go(self, logs: Collection[TopicPartition] | None = None) -> None: ...

    @property
    def others(self) -> dict[TopicPartition, str]: ...

    def commit(self, offsets: Mapping[TopicPartition, tuple[int, Claim]]) -> list[TopicPartition]: ...

    def close(self) -> None: ...


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
