"""Options of a read that joins a consumer group of Kafka 0.7, whose members share the partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..errors import OptionError, quoted
from .raw import RawOptions, bad_value
from .values import (
    EARLIEST,
    LATEST,
    Discovery,
    GroupMembership,
    OffsetLimits,
    Selection,
    is_node_name,
)

MEMBERSHIP: Final = "groupMembership"
_THREADS: Final = "groupThreads"
_THREADS_COUNT_MAX: Final = 1000


def parse_membership(
    options: RawOptions, discovery: Discovery, selection: Selection, starting: OffsetLimits
) -> GroupMembership | None:
    """The group that a read joins; None where it joins none. Raises ``OptionError`` (fatal)."""
    joins = options.choice(MEMBERSHIP, "none", "join") == "join"
    thread_count = options.count(_THREADS, 1, _THREADS_COUNT_MAX)
    assert thread_count is not None
    if not joins:
        if options.given(_THREADS):
            raise OptionError(f"option {_THREADS} is for {MEMBERSHIP}=join, which is not set")
        return None
    if discovery.zookeeper_connect is None:
        raise OptionError(
            f"option {MEMBERSHIP}: 0.7 keeps groups in ZooKeeper; set zookeeper.connect, not broker.list"
        )
    group = options.get("kafka.group.id")
    if group is None:
        raise OptionError(f"option {MEMBERSHIP}=join needs kafka.group.id, the group to join")
    if not is_node_name(group):
        raise bad_value("kafka.group.id", group, "the name of a node in ZooKeeper, which has no slash")
    _check_contradictions(options, selection, starting)
    return GroupMembership(group, thread_count)


def _check_contradictions(options: RawOptions, selection: Selection, starting: OffsetLimits) -> None:
    """Refuse what says otherwise than the group which logs are read, and from where."""
    if not selection.subscribe:
        raise OptionError(
            f"option {MEMBERSHIP}=join needs subscribe: the group gives each member its partitions, and its "
            "consumers must be told the topics by their names"
        )
    if starting.for_all not in (EARLIEST, LATEST):
        raise OptionError(
            f"option {starting.option}: with {MEMBERSHIP}=join a log is read from where the group stands; "
            "startingOffsets may say earliest or latest, for logs that the group has never read"
        )
    if options.flag("commitOffsets"):
        raise OptionError(f"option commitOffsets: {MEMBERSHIP}=join commits anyhow; leave it out")
    if options.flag("keyOrder"):
        raise OptionError(
            f"option keyOrder: with {MEMBERSHIP}=join others read some of the partitions that keys have "
            "moved between, when they like; set one of them"
        )


def refuse_membership(raw: Mapping[str, str]) -> None:
    """Raise ``OptionError`` for a batch read that is to be a member."""
    for name, value in raw.items():
        if name.lower() == MEMBERSHIP.lower():
            raise OptionError(
                f"option {MEMBERSHIP}={quoted(value)} is for streams: Spark plans a batch read in a process "
                "that ends before its rows are read, and nobody would be the member; use GroupRead of "
                "spark_kafkawire.groups, or a stream with the trigger availableNow"
            )
