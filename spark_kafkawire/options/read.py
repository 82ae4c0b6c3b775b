"""All options of a batch read, for both generations, as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import OptionError
from ..net.retry import RetryPolicy
from .connect import INCLUDE_HEADERS, NetOptions, parse_net
from .discovery import Discovery, parse_discovery
from .fetch import FetchOptions, parse_fetch
from .key_order import KeyOrder, parse_key_order
from .membership import GroupMembershipOptions, refuse_membership
from .offsets import (
    EARLIEST,
    ENDING,
    LATEST,
    LATEST_IF_NO_MATCH,
    PARTITION_SYNTAX,
    STARTING,
    LimitKind,
    OffsetLimits,
    parse_limits,
)
from .packing import parse_packing
from .raw import RawOptions
from .selection import Selection, parse_selection, refuse_table
from .splitting import (
    GROUP_ID,
    MIN_PARTITIONS,
    parse_partition_bytes,
    parse_partition_size,
    parse_planning_retry,
)
from .table import raw_options
from .typed import TypedOptions, parse_typed


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """The options that a task of a read needs besides its own range. Spark sends them with each task, so
    nothing here grows with the number of topics or partitions.

    ``discovery`` names the servers of a modern cluster, which know the current leader of a partition. For 0.7
    it is empty: a partition never moves, and the task knows its broker.

    With ``delegationTokens`` the login is missing here: it travels with the ranges of each task.
    """

    discovery: Discovery
    net: NetOptions
    fetch: FetchOptions
    planning_retry: RetryPolicy


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """All options of one read."""

    discovery: Discovery
    net: NetOptions
    selection: Selection
    starting: OffsetLimits
    ending: OffsetLimits
    latest_if_no_match: bool
    min_partitions: int | None
    partition_size_max: int | None
    #: Only of log directories of Kafka 0.8 and later, whose ranges have no size in bytes.
    partition_bytes_max: int | None
    fetch: FetchOptions
    planning_retry: RetryPolicy
    group_id: str | None
    include_headers: bool
    membership: GroupMembershipOptions | None = None
    key_order: KeyOrder | None = None
    #: None if keys and values are binary.
    typed: TypedOptions | None = None
    #: True if small ranges are packed, False if they may be; None if other options rule it out.
    packs_small: bool | None = False

    @property
    def of_tasks(self) -> TaskOptions:
        """Options that the tasks of the read get."""
        return TaskOptions(
            discovery=Discovery(bootstrap_servers=self.discovery.bootstrap_servers),
            net=self.net.with_token(None) if self.net.delegates else self.net,
            fetch=self.fetch,
            planning_retry=self.planning_retry,
        )

    @classmethod
    def parse(cls, raw: Mapping[str, str]) -> ReadOptions:
        """Read and check all options of a read. Raises ``OptionError`` (fatal)."""
        refuse_membership(raw)
        with raw_options(raw, read=True) as options:
            discovery = parse_discovery(options)
            syntax = PARTITION_SYNTAX[discovery.generation]
            starting = parse_limits(options, STARTING, forbidden=LATEST, syntax=syntax)
            ending = parse_limits(options, ENDING, forbidden=EARLIEST, syntax=syntax)
            _check_order(starting, ending)
            return cls.assembled(options, discovery, parse_net(options, discovery), starting, ending)

    @classmethod
    def assembled(
        cls,
        options: RawOptions,
        discovery: Discovery,
        net: NetOptions,
        starting: OffsetLimits,
        ending: OffsetLimits,
    ) -> ReadOptions:
        """The options that batch reads and streams share, with their own options between them."""
        refuse_table(options)
        typed = parse_typed(options, net, read=True)
        fetch = parse_fetch(options, net)
        return cls(
            discovery=discovery,
            net=net,
            selection=parse_selection(
                options, PARTITION_SYNTAX[discovery.generation], may_be_all=discovery.directories is not None
            ),
            starting=starting,
            ending=ending,
            latest_if_no_match=options[LATEST_IF_NO_MATCH],
            min_partitions=options[MIN_PARTITIONS],
            partition_size_max=parse_partition_size(options, discovery),
            partition_bytes_max=parse_partition_bytes(options, discovery),
            fetch=fetch,
            planning_retry=parse_planning_retry(options, net.retry),
            group_id=options[GROUP_ID],
            include_headers=options[INCLUDE_HEADERS],
            key_order=parse_key_order(options, discovery.generation),
            typed=typed,
            packs_small=parse_packing(options, discovery, fetch.wire_format),
        )


def _check_order(starting: OffsetLimits, ending: OffsetLimits) -> None:
    """Two timestamps for all partitions must not run backwards; offsets are checked against each
    partition."""
    first, last = starting.for_all or EARLIEST, ending.for_all or LATEST
    if first.kind is last.kind is LimitKind.TIMESTAMP and first.value > last.value:
        raise OptionError(
            f"option {starting.option}: {first.value} is after {ending.option}={last.value}; exchange them"
        )
