"""Options that only streams take, for both generations: commits to a consumer group and membership in it, the
limits of one batch, and writers that add fields while a query runs.

Members of a group of Kafka 0.7 share its partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..errors import OptionError
from .connection import Discovery, is_node_name
from .key_order import KeyOrder
from .option import (
    INT64_MAX,
    MODERN,
    READ,
    V07,
    Group,
    Option,
    RawOptions,
    bad_value,
    count,
    flag,
    map_words,
    option,
    seconds,
    size,
)
from .selection import EARLIEST, ENDING, LATEST, OffsetLimits, Selection, group_name


@dataclass(frozen=True)
class StreamLimits(Group, sides=READ):
    """Limits of one batch of a stream; None without a limit.

    A batch has at most ``size_max`` records, and ``bytes_max`` bytes, which are offsets in 0.7 and estimated
    later. One that would be smaller than ``size_min`` waits for ``delay_max_s`` at most. ``knows_trigger`` is
    true if the user says that the trigger is a processing time, which Spark before 4.2 does not tell.
    """

    size_max: Option[int | None] = option(
        "maxOffsetsPerTrigger", count(1, INT64_MAX), generation=MODERN
    ).means(
        "the largest number of records in one batch, shared by the partitions in proportion to their lags"
    )
    size_min: Option[int | None] = option(
        "minOffsetsPerTrigger", count(1, INT64_MAX), generation=MODERN
    ).means("the number of records that a batch waits for")
    # Spark's connector takes any delay; no socket waits for this one.
    delay_max_s: Option[float] = option(
        "maxTriggerDelay", seconds(high_s=3650 * 86_400.0), "15m", generation=MODERN
    ).means("the longest time that a batch waits for `minOffsetsPerTrigger`")
    bytes_max: Option[int | None] = option("maxBytesPerTrigger", size(1, INT64_MAX)).means(
        "about the largest number of bytes in one batch, [by the sizes of some "
        "records](#limit-a-batch-by-bytes); in 0.7 it ends at the end of segments or partitions: at least "
        "one segment of each partition"
    )
    knows_trigger: Option[bool] = option(
        "queryTrigger", map_words({"unknown": False, "processingtime": True}), "unknown"
    ).means(
        "`processingTime`: the query has this trigger, or none, so that [Spark 4.0 and "
        "4.1](#spark-40-and-41) can limit its batches; later ones know the trigger"
    )

    @property
    def are_set(self) -> bool:
        """True if any batch is limited."""
        return any(item is not None for item in (self.size_max, self.size_min, self.bytes_max))


def parse_stream_limits(options: RawOptions) -> StreamLimits:
    """The limits of one batch. Raises ``OptionError`` (fatal)."""
    limits = StreamLimits.parse(options)
    most, least = limits.size_max, limits.size_min
    if most is not None and least is not None and least > most:
        raise OptionError(
            f"option minOffsetsPerTrigger: {least} is more than maxOffsetsPerTrigger={most}; lower the one, "
            "or raise the other"
        )
    return limits


@dataclass(frozen=True)
class GroupMembershipOptions(Group, sides=READ):
    """The group that a read joins, and the number of consumers' threads that it counts as there. Some
    options are those of streams that commit offsets without joining, or that end on new fields."""

    group: str
    joins = option("groupMembership", map_words({"none": False, "join": True}), "none", generation=V07).means(
        "`join`: the query is a consumer of the group `kafka.group.id`, beside the JVM's; see "
        "[Kafka 0.7](kafka-0.7.md#join-a-group)"
    )
    thread_count: Option[int] = option("groupThreads", count(1, 1000), "1", generation=V07).means(
        "the number of threads that the query counts as when the group shares partitions"
    )
    commits_offsets = option("commitOffsets", flag, "false").means(
        "`true`: commit the offsets of finished batches to the group, a batch late"
    )
    group_id = option("kafka.group.id", group_name).means(
        "the group of `commitOffsets` and of `groupMembership`, in 0.7 in ZooKeeper, and of "
        "`startingOffsets=committed`; without these no group is joined"
    )
    evolution = option("avroSchemaEvolutionMode", map_words({"none": False, "restart": True}), "none").means(
        "`restart`: the query ends when a message's schema has a field that the schema of the query "
        "lacks; the next `load()` takes it"
    )


MEMBERSHIP: Final = GroupMembershipOptions.joins.name


def parse_membership(
    options: RawOptions, discovery: Discovery, selection: Selection, starting: OffsetLimits
) -> GroupMembershipOptions | None:
    """The group that a read joins; None without a group. Raises ``OptionError`` (fatal)."""
    of = GroupMembershipOptions
    joins, thread_count = options[of.joins], options[of.thread_count]
    if not joins:
        if options.given(of.thread_count):
            raise OptionError(
                f"option {of.thread_count} is for {MEMBERSHIP}=join, which is not set; set it, or leave "
                "this out"
            )
        return None
    if discovery.zookeeper_connect is None:
        raise OptionError(
            f"option {MEMBERSHIP}: 0.7 keeps groups in ZooKeeper; set zookeeper.connect, not broker.list"
        )
    group = options[of.group_id]
    if group is None:
        raise OptionError(
            f"option {MEMBERSHIP}=join needs kafka.group.id, which is not set: set it to the group to join"
        )
    if not is_node_name(group):
        raise bad_value("kafka.group.id", group, "the name of a node in ZooKeeper, which has no slash")
    _check_contradictions(options, selection, starting)
    return of(group, thread_count)


def _check_contradictions(options: RawOptions, selection: Selection, starting: OffsetLimits) -> None:
    """Refuse options that contradict the group, which decides the partitions to read and their offsets."""
    if not selection.subscribe:
        raise OptionError(
            f"option {MEMBERSHIP}=join needs the topics by name, because its consumers share their "
            "partitions: set subscribe, and leave subscribePattern and assign out"
        )
    if starting.for_all not in (EARLIEST, LATEST):
        raise OptionError(
            f"option {starting.option}: with {MEMBERSHIP}=join a partition is read from the offset of the "
            "group; leave it out, or set startingOffsets to earliest or latest, for partitions that the "
            "group has never read"
        )
    if ends := options.given(*ENDING):
        raise OptionError(
            f"option {ends[0]}: with {MEMBERSHIP}=join other consumers read some of the partitions, and "
            "a query has no end of its own; leave it out"
        )
    if options[GroupMembershipOptions.commits_offsets]:
        raise OptionError(
            f"option commitOffsets: {MEMBERSHIP}=join always commits offsets; leave commitOffsets out"
        )
    if options[KeyOrder.is_set]:
        raise OptionError(
            f"option keyOrder: with {MEMBERSHIP}=join others read some of the partitions that keys have "
            "moved between, at any time; set one of them"
        )


def refuse_membership(raw: Mapping[str, str]) -> None:
    """Raise ``OptionError`` for a batch read that is to be a member."""
    for name in raw:
        if name.lower() == MEMBERSHIP.lower():
            raise OptionError(
                f"option {MEMBERSHIP} is for streams: Spark plans a batch read in a process "
                "that ends before its rows are read, and the group would have no member; use GroupRead of "
                "spark_kafkawire.groups, or a stream with the trigger availableNow"
            )
