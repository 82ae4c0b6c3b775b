"""Options of a read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ..errors import OptionError, quoted, shown
from ..model import Generation
from ..net.retry import RetryPolicy
from ..protocol.modern.isolation import READ_COMMITTED, READ_UNCOMMITTED
from .connect import parse_discovery, parse_net, parse_wire_format
from .kafka_properties import is_kafka_property
from .key_order import KeyOrder, parse_key_order
from .membership import refuse_membership
from .offsets import LOG_SYNTAX, LogSyntax, parse_assign, parse_limits
from .raw import RawOptions, bad_value
from .values import (
    EARLIEST,
    LATEST,
    Discovery,
    FetchOptions,
    GroupMembership,
    LimitKind,
    NetOptions,
    OffsetLimits,
    Selection,
)

#: A smaller fetch would only take longer.
_FETCH_BYTES_MIN: Final = 1 << 10
#: Why the proposal does not go with the sizes of fetches.
_NO_SIZE: Final = "its fetches have no size, the broker gives what one answer holds"
_ISOLATION_LEVELS: Final = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
#: The options of the size of one fetch, with the default of the first. Of 0.7's fetches several are under
#: way at once, of later ones a single one: it may be larger.
_FETCH_BYTES: Final[Mapping[Generation, Sequence[str]]] = MappingProxyType(
    {
        Generation.V07: ("fetchBytes",),
        Generation.MODERN: ("kafka.max.partition.fetch.bytes", "fetchBytes"),
    }
)
_FETCH_PATIENCE_S: Final[Mapping[Generation, Callable[[RawOptions, NetOptions], float]]] = MappingProxyType(
    {
        Generation.V07: lambda _, net: net.retry.patience_s,
        Generation.MODERN: lambda options, _: options.seconds("kafkaConsumer.pollTimeoutMs"),
    }
)


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
    fetch: FetchOptions
    planning_retry: RetryPolicy
    group_id: str | None
    include_headers: bool
    membership: GroupMembership | None = None
    key_order: KeyOrder | None = None

    @classmethod
    def parse(cls, raw: Mapping[str, str]) -> ReadOptions:
        """Read and check all options of a read. Raises ``OptionError`` (fatal)."""
        refuse_membership(raw)
        options = RawOptions(raw, read=True)
        discovery = parse_discovery(options)
        syntax = LOG_SYNTAX[discovery.generation]
        starting = parse_limits(options, "starting", forbidden=LATEST, syntax=syntax)
        ending = parse_limits(options, "ending", forbidden=EARLIEST, syntax=syntax)
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
        """The options that batch reads and streams share, around what they do not."""
        return cls(
            discovery=discovery,
            net=net,
            selection=_selection(options, LOG_SYNTAX[discovery.generation]),
            starting=starting,
            ending=ending,
            latest_if_no_match=options.choice("startingOffsetsByTimestampStrategy", "error", "latest")
            == "latest",
            min_partitions=options.count("minPartitions", 1, 1_000_000),
            partition_size_max=options.size("maxBytesPerPartition", 1, 1 << 62)
            or options.count("maxRecordsPerPartition", 1, (1 << 63) - 1),
            fetch=_fetch(options, net),
            planning_retry=_planning_retry(options, net.retry),
            group_id=_group_id(options),
            include_headers=options.flag("includeHeaders"),
            key_order=parse_key_order(options, discovery.generation),
        )


def _check_order(starting: OffsetLimits, ending: OffsetLimits) -> None:
    """Two timestamps for all logs must not run backwards; offsets are checked against each log."""
    first, last = starting.for_all or EARLIEST, ending.for_all or LATEST
    if first.kind is last.kind is LimitKind.TIMESTAMP and first.value > last.value:
        raise OptionError(f"option {starting.option}: {first.value} is after {ending.option}={last.value}")


def _fetch(options: RawOptions, net: NetOptions) -> FetchOptions:
    generation = net.connection.generation
    in_flight = options.count("fetchesInFlight", 1, 64)
    assert in_flight is not None
    name = options.one_of(*_FETCH_BYTES[generation])
    low = 0 if is_kafka_property(name) else _FETCH_BYTES_MIN  # Java takes any
    return FetchOptions(
        fetch_bytes=max(options.size_or_default(name, low), _FETCH_BYTES_MIN),
        fetches_in_flight=in_flight,
        message_bytes_max=options.size_or_default("maxMessageBytes", 1),
        decompressed_bytes_max=options.size_or_default("maxDecompressedBytes", 1),
        fail_on_data_loss=options.flag("failOnDataLoss"),
        isolation_level=_ISOLATION_LEVELS[options.choice("kafka.isolation.level", *_ISOLATION_LEVELS)],
        patience_s=_FETCH_PATIENCE_S[generation](options, net),
        # A broker that waited for longer would be taken for a silent one.
        wait_ms=int(1000 * min(options.seconds("kafka.fetch.max.wait.ms"), net.request_timeout_s / 2)),
        wire_format=parse_wire_format(options, dict.fromkeys(("fetchBytes", "fetchesInFlight"), _NO_SIZE)),
    )


def _planning_retry(options: RawOptions, default: RetryPolicy) -> RetryPolicy:
    """How planning tries again."""
    retries = options.count("fetchOffset.numRetries", 0, 1000)
    interval = options.given("fetchOffset.retryIntervalMs")
    return RetryPolicy(
        default.retries if retries is None else retries,
        options.seconds(interval[0]) if interval else default.backoff_s,
        default.patience_s,
    )


def _group_id(options: RawOptions) -> str | None:
    group_id = options.get("kafka.group.id")
    if group_id is not None and not group_id.strip():
        raise bad_value("kafka.group.id", group_id, "the name of a consumer group")
    return group_id


def _selection(options: RawOptions, syntax: LogSyntax) -> Selection:
    given = options.given("subscribe", "subscribePattern", "assign")
    if len(given) != 1:
        problem = "none is set" if not given else " and ".join(given) + " are set"
        raise OptionError(f"set exactly one of the options subscribe, subscribePattern and assign: {problem}")
    text = (options.get(given[0]) or "").strip()
    if given == ["subscribe"]:
        topics = tuple(sorted({name.strip() for name in text.split(",")} - {""}))
        if not topics:
            raise bad_value("subscribe", text, "a topic or a list of topics, a,b")
        return Selection(subscribe=topics)
    if given == ["assign"]:
        return Selection(assign=parse_assign(text, syntax))
    return Selection(pattern=_pattern(text))


def _pattern(text: str) -> str:
    """``subscribePattern``, which is known to be one that can be looked for."""
    from .java_pattern import JavaPattern, PatternError

    if not text:
        raise bad_value("subscribePattern", text, "a regular expression")
    try:
        JavaPattern(text)
    except PatternError as error:
        raise OptionError(
            f"option subscribePattern: {quoted(text)} is not a regular expression of Java's that is read "
            f"here: {shown(error)}"
        ) from error
    return text
