"""All options of a read, for both generations, as one frozen value: of a batch read, of a streaming read,
and of a read of a table of the cluster, such as ``partitions``, or of log directories, such as
``batches``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ..errors import OptionError
from ..net.retry import RetryPolicy
from .connection import Directories, Discovery, NetOptions, is_node_name, parse_discovery, parse_net
from .fetch import FetchOptions, parse_fetch
from .key_order import KeyOrder, parse_key_order, parse_packing
from .option import RawOptions, bad_value
from .security import Layers, Tokens
from .selection import (
    DIRECTORY_TABLES,
    EARLIEST,
    ENDING,
    LATEST,
    PARTITION_SYNTAX,
    LimitKind,
    OffsetLimits,
    Selection,
    parse_limits,
    parse_partition_bytes,
    parse_partition_size,
    parse_planning_retry,
    parse_selection,
    parse_start,
    parse_stream_end,
    refuse_table,
)
from .stream import (
    GroupMembershipOptions,
    StreamLimits,
    parse_membership,
    parse_stream_limits,
    refuse_membership,
)
from .table import OF_STREAMS_ALONE, OPTIONS, list_options, raw_options
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
            starting = parse_start(options, forbidden=LATEST, syntax=syntax)
            ending = parse_limits(options, ENDING, forbidden=EARLIEST, syntax=syntax)
            _check_order(starting, ending)
            return cls.assemble(options, discovery, parse_net(options, discovery), starting, ending)

    @classmethod
    def assemble(
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
            latest_if_no_match=_is_latest_if_no_match(options, starting),
            min_partitions=options[Selection.min_partitions],
            partition_size_max=parse_partition_size(options, discovery),
            partition_bytes_max=parse_partition_bytes(options, discovery),
            fetch=fetch,
            planning_retry=parse_planning_retry(options, net.retry),
            group_id=options[Selection.group_id],
            include_headers=options[NetOptions.include_headers],
            key_order=parse_key_order(options, discovery.generation),
            typed=typed,
            packs_small=parse_packing(options, discovery, fetch.wire_format),
        )


def _is_latest_if_no_match(options: RawOptions, starting: OffsetLimits) -> bool:
    """True if a partition without a record of the start's time starts at its end: a partition that has been
    quiet for ten minutes has nothing of the last ten, and that is no mistake."""
    limits = [starting.for_all] if starting.for_all is not None else starting.by_partition.values()
    is_age = all(item.kind is LimitKind.AGE for item in limits)
    strategy = Selection.latest_if_no_match
    return options[strategy] or (is_age and not options.given(strategy))


def _check_order(starting: OffsetLimits, ending: OffsetLimits) -> None:
    """Two times for all partitions must not run backwards; offsets are checked against each partition."""
    first, last = starting.for_all or EARLIEST, ending.for_all or LATEST
    is_time = first.kind is last.kind and first.kind in (LimitKind.TIMESTAMP, LimitKind.AGE)
    if is_time and first.value > last.value:
        raise OptionError(
            f"option {starting.option}: {first.value} is after {ending.option}={last.value}; exchange them"
        )


#: How long a stream waits for a broker by default, seconds: one that is away for a minute is no reason to
#: end a query that runs for months.
_RETRY_TIMEOUT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """All options of a streaming read: those of a batch read, the limits of one batch, and
    whether ``commit`` has a group follow the query."""

    read: ReadOptions
    limits: StreamLimits
    commits_offsets: bool = False

    @classmethod
    def parse(cls, raw: Mapping[str, str]) -> StreamOptions:
        """Read and check all options of a stream. Raises ``OptionError`` (fatal)."""
        with raw_options(raw, read=True, stream=True) as options:
            discovery = parse_discovery(options)
            syntax = PARTITION_SYNTAX[discovery.generation]
            starting, ending = parse_start(options, None, syntax), parse_stream_end(options, syntax)
            _check_order(starting, ending)
            net = parse_net(options, discovery)
            if not options.given(NetOptions.broker_down_timeout, NetOptions.retries):
                net = replace(net, retry=replace(net.retry, retry_timeout_s=_RETRY_TIMEOUT_S))
            read = ReadOptions.assemble(options, discovery, net, starting, ending)
            read = replace(read, membership=parse_membership(options, discovery, read.selection, starting))
            read = replace(read, typed=_check_evolution(options, read.typed))
            parsed = cls(read, parse_stream_limits(options), options[GroupMembershipOptions.commits_offsets])
            if read.key_order is not None and not read.key_order.topics:
                raise OptionError(
                    "option expansionTimestamp: a stream needs partitionLayouts, too, because the records "
                    "that show the numbers of partitions may be deleted; set it as docs/key-order.md shows"
                )
            if parsed.commits_offsets:
                parsed.check_group("commitOffsets")
            return parsed

    def check_group(self, wanted_by: str) -> None:
        """Raise ``OptionError`` without a group that ``wanted_by`` can commit to."""
        group, discovery = self.read.group_id, self.read.discovery
        if self.read.membership is not None:
            raise OptionError(
                f"{wanted_by}: groupMembership=join always commits offsets; leave one of the two out"
            )
        if group is None:
            raise OptionError(
                f"{wanted_by} needs kafka.group.id, which is not set: set it to the group to commit to"
            )
        if discovery.broker_list:
            raise OptionError(
                f"{wanted_by}: 0.7 keeps groups in ZooKeeper; set zookeeper.connect, not broker.list"
            )
        if discovery.zookeeper_connect is not None and not is_node_name(group):
            raise bad_value("kafka.group.id", group, "the name of a node in ZooKeeper, which has no slash")


def read_options_of(raw: Mapping[str, str]) -> ReadOptions:
    """The options of a read before Spark says if it is a batch or a stream.

    Options that are wrong for both are an error; the others are checked when the read begins.
    Raises ``OptionError`` (fatal).
    """
    names = {name.lower() for name in raw}
    if names & OF_STREAMS_ALONE.keys():
        return StreamOptions.parse(raw).read
    try:
        return ReadOptions.parse(raw)
    except OptionError as error:
        try:
            return StreamOptions.parse(raw).read
        except OptionError:
            raise error from None


def _check_evolution(options: RawOptions, typed: TypedOptions | None) -> TypedOptions | None:
    if not options[GroupMembershipOptions.evolution]:
        return typed
    formats = () if typed is None else (typed.key.format, typed.value.format)
    if typed is None or "avro" not in formats:
        raise OptionError(
            f"option {GroupMembershipOptions.evolution}=restart is for valueFormat=avro or keyFormat=avro, "
            "which are not set; set one of them, or leave it out"
        )
    return replace(typed, ends_on_new_fields=True)


#: Options that choose rows of a table. Each table takes some of them.
FILTERS: Final = (Selection.topics, Selection.topic_pattern, Selection.partitions, Selection.group_id)
#: Options of every table: the cluster or the directories, connections and logins, and retries.
_OF_EVERY_TABLE: Final = frozenset(
    (
        Selection.table,
        Selection.planning_retries,
        Selection.planning_backoff,
        *list_options(Discovery, Directories, NetOptions, Tokens, Layers),
    )
) - {NetOptions.include_headers, NetOptions.wire_format, NetOptions.rack, *NetOptions.rack.aliases}


@dataclass(frozen=True, slots=True)
class TableOptions:
    """All options of a read of a table. ``filters`` are the names of the options that choose rows, as
    given."""

    table: str
    discovery: Discovery
    net: NetOptions
    planning_retry: RetryPolicy
    selection: Selection | None = None
    group_id: str | None = None
    filters: tuple[str, ...] = ()

    @property
    def of_cluster(self) -> TaskOptions:
        """The options with which ``cluster.cluster_of`` finds the cluster."""
        return TaskOptions(self.discovery, self.net, FetchOptions(), self.planning_retry)

    @classmethod
    def parse(cls, raw: Mapping[str, str]) -> TableOptions:
        """Read and check the options. Raises ``OptionError`` (fatal), also for options of records."""
        with raw_options(raw, read=True) as options:
            table = options[Selection.table]
            assert table is not None
            of_records = [item for item in OPTIONS if item not in _OF_EVERY_TABLE and item not in FILTERS]
            if given := options.given(*of_records):
                raise OptionError(f"option {given[0]} has no meaning with table={table}; leave it out")
            _check_place(table, options)
            result = parse_discovery(options)
            net = parse_net(options, result)
            chooses = options.given(Selection.topics, Selection.topic_pattern, Selection.partitions)
            return cls(
                table=table,
                discovery=result,
                net=net,
                planning_retry=parse_planning_retry(options, net.retry),
                selection=parse_selection(options, PARTITION_SYNTAX[result.generation]) if chooses else None,
                group_id=options[Selection.group_id],
                filters=tuple(options.given(*FILTERS)),
            )

    def check_filters(self, taken: tuple[str, ...]) -> None:
        """Raise ``OptionError`` (fatal) for an option that chooses rows of other tables than this one."""
        for name in self.filters:
            if name not in taken:
                raise OptionError(f"option {name} has no meaning with table={self.table}; leave it out")


def _check_place(table: str, options: RawOptions) -> None:
    """Raise ``OptionError`` (fatal) for a table of a cluster with a path, or one of directories without. It
    is checked before anything below the path is read."""
    paths = options.given(Directories.path, Directories.path_list)
    if table in DIRECTORY_TABLES and not paths:
        raise OptionError(
            f"option table={table} reads log directories, and no path is set: give their path to load()"
        )
    if table not in DIRECTORY_TABLES and paths:
        tables = " and ".join(DIRECTORY_TABLES)
        raise OptionError(
            f"option table={table} is of a cluster, and {paths[0]} is read without brokers: leave {paths[0]} "
            f"out, or choose a table of log directories: {tables}"
        )
