"""Options of what a read selects, for both generations: topics and partitions, its start and end (offsets,
timestamps), its split into Spark partitions, its consumer group, and the retries of its planning.
"""

from __future__ import annotations

import datetime as dt
import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from ..errors import OptionError, close_matches, printable, quote
from ..model import Generation, TopicPartition
from ..net.retry import RetryPolicy
from .connection import Discovery
from .option import (
    BLANKS,
    INT64_MAX,
    MODERN,
    READ,
    V07,
    Group,
    NotAnObject,
    Option,
    RawOptions,
    RepeatedKey,
    age_ms,
    bad_value,
    choice,
    count,
    json_object,
    map_words,
    option,
    parse_string,
    seconds,
    size,
    word,
)

#: The tables of log directories, and all tables, as ``tables`` has them.
DIRECTORY_TABLES: Final = ("segments", "batches")
TABLES: Final = (
    *("brokers", "topics", "partitions", "groups", "group_members", "group_offsets", "configs"),
    *("transactions", "producers", *DIRECTORY_TABLES),
)

#: A pattern that every name of a topic matches.
_ANY: Final = "."


def group_name(name: str, given: str) -> str:
    """The name of a consumer group."""
    if not given.strip():
        raise bad_value(name, given, "the name of a consumer group")
    return given


def _topics(name: str, text: str) -> tuple[str, ...]:
    topics = tuple(sorted({topic.strip() for topic in text.split(",")} - {""}))
    if not topics:
        raise bad_value(name, text.strip(), "a topic or a list of topics, a,b")
    return topics


def _pattern(name: str, text: str) -> str:
    from .java_pattern import JavaPattern, PatternError

    text = text.strip()
    if not text:
        raise bad_value(name, text, "a regular expression; give one like orders-.*")
    try:
        JavaPattern(text)
    except PatternError as error:
        raise OptionError(
            f"option {name}: {quote(text)} is not a supported Java regular expression: {printable(error)}"
        ) from error
    return text


class LimitKind(enum.Enum):
    """Kinds of ends of a range."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"
    AGE = "a time before now"
    COMMITTED = "committed"
    FROM_END = "offsets before the end"


@dataclass(frozen=True, slots=True)
class OffsetLimit:
    """An end of one partition's range. ``value``: an offset, milliseconds since 1970 or, of an ``AGE``, since
    the time of planning, or the number of offsets before the end of the partition."""

    kind: LimitKind
    value: int = 0


EARLIEST: Final = OffsetLimit(LimitKind.EARLIEST)
LATEST: Final = OffsetLimit(LimitKind.LATEST)
COMMITTED: Final = OffsetLimit(LimitKind.COMMITTED)
#: Numbers that are neither an offset nor a timestamp, as requests for offsets have them.
_SPECIAL: Final = {-2: EARLIEST, -1: LATEST}


_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
#: The forms of a timestamp, for errors.
_MOMENTS: Final = (
    "milliseconds since 1970, like 1767225600000, a time with its zone, like 2026-01-31T00:00:00Z, a time "
    "before now, like -10 minutes, or -1 for latest, -2 for earliest"
)


def iso_time(text: str) -> dt.datetime | None:
    """The time of a text in ISO 8601; None for other texts."""
    try:
        # Python 3.10 does not read the Z.
        return dt.datetime.fromisoformat(re.sub("(:.*)[Zz]$", r"\1+00:00", text))
    except ValueError:
        return None


def epoch_ms(time: dt.datetime) -> int:
    """Whole milliseconds since 1970, 0 for earlier times: no record is older."""
    return max((time - _EPOCH) // dt.timedelta(milliseconds=1), 0)


def _moment(given: Any) -> OffsetLimit | None:
    """The limit that a text or a number means; None for all that is no time."""
    text = str(given).strip(BLANKS) if type(given) in (int, str) else ""
    if re.fullmatch(r"-[12]|[0-9]{1,19}", text):
        limit = _SPECIAL.get(int(text), OffsetLimit(LimitKind.TIMESTAMP, int(text)))
        return limit if int(text) <= INT64_MAX else None
    if (age := age_ms(text)) is not None:
        return OffsetLimit(LimitKind.AGE, -age)
    if (time := iso_time(text)) is not None and time.tzinfo is not None:
        return OffsetLimit(LimitKind.TIMESTAMP, epoch_ms(time))
    return None


def _timestamp(name: str, text: str) -> OffsetLimit:
    if (limit := _moment(text)) is None:
        raise bad_value(name, text.strip(BLANKS), _MOMENTS)
    return limit


@dataclass(frozen=True)
class Selection(Group, sides=READ):
    """The partitions to read: exactly one field is set. The options are those of topics, partitions and
    their two ends, of the split into Spark partitions, of the group, and of the retries of planning."""

    subscribe: tuple[str, ...] = ()
    pattern: str | None = None
    assign: tuple[TopicPartition, ...] = ()
    topics = option("subscribe", _topics).means("topics, `a,b`")
    topic_pattern = option("subscribePattern", _pattern).means(
        "a Java regular expression: selects the topics whose names contain a match"
    )
    partitions = option("assign", parse_string).means(
        '`{"t":[0,1]}`: partitions; in 0.7 `{"t":["0-0","1-2"]}`: broker-partitions'
    )
    table = option("table", choice(*TABLES)).means(
        "reads a [table of the cluster](tables.md), or of log directories, in place of records: "
        + ", ".join(f"`{name}`" for name in TABLES)
    )
    starting_offsets = option("startingOffsets", parse_string, "earliest").means(
        '`earliest`, `committed` (the offsets of `kafka.group.id`), or `{"t":{"0":23}}`, '
        'in 0.7 `{"t":{"0-1":123}}`; -2 is earliest'
    )
    ending_offsets = option("endingOffsets", parse_string, "latest").means(
        '`latest` or `{"t":{"0":42}}`, in 0.7 `{"t":{"0-1":456}}`; -1 is latest; in a stream only offsets'
    )
    starting_timestamp = option("startingTimestamp", _timestamp).means(
        "milliseconds since 1970, `2026-01-31T00:00:00Z`, or a [time before now](reading-and-writing.md#"
        "start-ten-minutes-ago), `-10 minutes`; overrides startingOffsetsByTimestamp and startingOffsets; -1 "
        "is latest, -2 is earliest"
    )
    ending_timestamp = option("endingTimestamp", _timestamp).means(
        "the same forms; overrides endingOffsetsByTimestamp and endingOffsets; in a [stream](streaming.md#"
        "streams-that-end) only times that do not move"
    )
    starting_by_timestamp = option("startingOffsetsByTimestamp", parse_string).means(
        '`{"t":{"0":1700000000000,"1":"-10 minutes"}}`, the same forms; overrides startingOffsets'
    )
    ending_by_timestamp = option("endingOffsetsByTimestamp", parse_string).means(
        '`{"t":{"0":1700000000000}}`, the forms of endingTimestamp; overrides endingOffsets'
    )
    latest_if_no_match = option(
        "startingOffsetsByTimestampStrategy", map_words({"error": False, "latest": True}), "error"
    ).means(
        "the start if no record has this timestamp or a later one: `error` or `latest`; the default for "
        "times before now is `latest`"
    )
    starting_from_end = option("startingOffsetsFromEnd", parse_string, generation=MODERN).means(
        '`1000` or `{"t":{"0":100}}`: start so many offsets before the end of each partition; in place of '
        "the other options of the start"
    )
    min_partitions = option("minPartitions", count(1, 1_000_000)).means(
        "the least number of Spark partitions; large ranges are split"
    )
    partition_bytes = option("maxBytesPerPartition", size(1, 1 << 62)).means(
        "split ranges larger than this; for Kafka 0.7, and for log directories"
    )
    partition_records = option("maxRecordsPerPartition", count(1, INT64_MAX), generation=MODERN).means(
        "split ranges of more offsets than this"
    )
    group_id = option("kafka.group.id", group_name, generation=MODERN).means(
        "the group of `startingOffsets=committed`; no group is joined"
    )
    group_id_prefix = option("groupIdPrefix", parse_string, generation=MODERN).means(
        "ignored: no group is joined"
    )
    planning_retries = option("fetchOffset.numRetries", count(0, 1000), generation=MODERN).means(
        "the value of `retries` for planning"
    )
    planning_backoff = option("fetchOffset.retryIntervalMs", seconds(), generation=MODERN).means(
        "the value of `retryBackoff` for planning"
    )


def chooses_table(raw: Mapping[str, str]) -> bool:
    """True if the user's options choose a table of the cluster."""
    return any(name.lower() == Selection.table.name for name in raw)


def refuse_table(options: RawOptions) -> None:
    """Raise ``OptionError`` (fatal) for a table where records are read."""
    if (table := options[Selection.table]) is not None:
        raise OptionError(
            f"option table={quote(table)} is for spark.read: a table of the cluster is a snapshot, not a "
            "stream, and no job reads it; leave it out"
        )


def parse_selection(options: RawOptions, syntax: PartitionSyntax, *, may_be_all: bool = False) -> Selection:
    """The partitions that the user selects: all topics without a choice if it ``may_be_all``. Raises
    ``OptionError`` (fatal)."""
    given = options.given(Selection.topics, Selection.topic_pattern, Selection.partitions)
    if not given and may_be_all:
        return Selection(pattern=_ANY)
    if len(given) != 1:
        problem = "none is set" if not given else " and ".join(given) + " are set"
        if options.ignores("topic"):
            problem += "; topic is for writes"
        raise OptionError(f"set exactly one of the options subscribe, subscribePattern and assign: {problem}")
    if (topics := options[Selection.topics]) is not None:
        return Selection(subscribe=topics)
    if (assigned := options[Selection.partitions]) is not None:
        return Selection(assign=parse_assign(assigned.strip(), syntax))
    return Selection(pattern=options[Selection.topic_pattern])


#: The options of one end of all partitions: the first one that is set counts.
End = tuple[Option[OffsetLimit | None], Option[str | None], Option[str]]
STARTING: Final[End] = (
    Selection.starting_timestamp,
    Selection.starting_by_timestamp,
    Selection.starting_offsets,
)
ENDING: Final[End] = (Selection.ending_timestamp, Selection.ending_by_timestamp, Selection.ending_offsets)


@dataclass(frozen=True, slots=True)
class OffsetLimits:
    """An end of every partition's range: the same for all, or one for each partition by name.

    ``option`` is the option it came from, for messages.
    """

    option: str
    for_all: OffsetLimit | None = None
    by_partition: Mapping[TopicPartition, OffsetLimit] = field(default_factory=dict)


#: The one spelling of the number of a partition or a broker: "00" beside "0" would name one partition twice.
_NUMBER: Final = "0|[1-9][0-9]{0,8}"
#: Compiled, because an option may name 200,000 partitions.
_PARTITION: Final = re.compile(_NUMBER)
_BROKER_PARTITION: Final = re.compile(rf"({_NUMBER})-({_NUMBER})")


#: Words of other clients and systems for the ends of a partition.
SYNONYMS: Final = dict.fromkeys(
    ("beginning", "first", "oldest", "smallest", "start"), EARLIEST
) | dict.fromkeys(("end", "largest", "last", "newest", "now"), LATEST)
#: A key or a value in single quotes, as Python writes those of a dict.
_SINGLE_QUOTED: Final = re.compile(r"[{\[,:]\s*'")


@dataclass(frozen=True, slots=True)
class PartitionSyntax:
    """Syntax of the partitions of a topic in the JSON of options, with examples for errors.

    ``assigned`` and ``keyed`` read an element of ``assign`` and a key of the offsets; None if it is not the
    name of a partition.
    """

    assign_example: str
    key_example: str
    assigned: Callable[[str, Any], TopicPartition | None]
    keyed: Callable[[str, str], TopicPartition | None]

    def example(self, value: int) -> str:
        """JSON with a value for one partition."""
        note = " (broker-partition)" if "-" in self.key_example else ""
        return f'{{"t":{{"{self.key_example}":{value}}}}}{note}'


def _broker_partition(topic: str, name: Any) -> TopicPartition | None:
    match = _BROKER_PARTITION.fullmatch(name) if isinstance(name, str) else None
    return TopicPartition(topic, int(match[2]), int(match[1])) if match and topic else None


def _partition(topic: str, name: str) -> TopicPartition | None:
    return TopicPartition(topic, int(name)) if _PARTITION.fullmatch(name) and topic else None


def _partition_number(topic: str, number: Any) -> TopicPartition | None:
    is_number = isinstance(number, int) and not isinstance(number, bool)
    return _partition(topic, str(number)) if is_number else None


#: 0.7 names a partition by its broker, too.
PARTITION_SYNTAX: Final[Mapping[Generation, PartitionSyntax]] = {
    Generation.V07: PartitionSyntax(
        '{"t":["0-0","1-2"]} (broker-partition)', "0-1", _broker_partition, _broker_partition
    ),
    Generation.MODERN: PartitionSyntax('{"topicA":[0,1],"topicB":[0,1]}', "0", _partition_number, _partition),
}


def parse_assign(text: str, syntax: PartitionSyntax) -> tuple[TopicPartition, ...]:
    partitions = set()
    for topic, names in json_option("assign", text, syntax.assign_example).items():
        if not isinstance(names, list) or not names:
            raise bad_value("assign", text, f"of the form {syntax.assign_example}")
        for name in names:
            partition = syntax.assigned(topic, name)
            if partition is None:
                raise bad_value("assign", text, f"of the form {syntax.assign_example}")
            partitions.add(partition)
    return tuple(sorted(partitions))


def parse_start(options: RawOptions, forbidden: OffsetLimit | None, syntax: PartitionSyntax) -> OffsetLimits:
    """Read the start of all partitions, as ``parse_limits`` does."""
    option = Selection.starting_from_end
    if (given := options[option]) is None:
        return parse_limits(options, STARTING, forbidden, syntax)
    if others := options.given(*STARTING):
        raise OptionError(f"options {option} and {others[0]} both set the start; set one of them")
    text = given.strip(BLANKS)
    if not text.startswith("{"):
        return OffsetLimits(
            option.name, for_all=OffsetLimit(LimitKind.FROM_END, count(0, INT64_MAX)(option.name, text))
        )
    example = f"1000 or {syntax.example(100)}"
    counts = _parse_by_partition(option.name, text, example, syntax, _whole)
    if bad := [tp for tp, value in counts.items() if value < 0]:
        raise OptionError(
            f"option {option}: {counts[bad[0]]} for {bad[0]} is negative; give a number of offsets"
        )
    return OffsetLimits(
        option.name, by_partition={tp: OffsetLimit(LimitKind.FROM_END, value) for tp, value in counts.items()}
    )


def parse_stream_end(options: RawOptions, syntax: PartitionSyntax) -> OffsetLimits:
    """Read the end of a stream: latest if it has none. Raises ``OptionError`` (fatal), also for an end that
    would move when the query starts again."""
    limits = parse_limits(options, ENDING, None, syntax)
    fixed = (LimitKind.OFFSET, LimitKind.TIMESTAMP)
    ends = [limits.for_all] if limits.for_all is not None else limits.by_partition.values()
    if options.given(*ENDING) and (moving := [item for item in ends if item.kind not in fixed]):
        raise OptionError(
            f"option {limits.option}: {moving[0].kind.value} moves when the query starts again, so a stream "
            "has no such end: set endingOffsets to offsets, or endingTimestamp to a fixed time such as "
            "2026-01-31T00:00:00Z; to read to the present end, leave the option out and use the trigger "
            "availableNow"
        )
    return limits


def parse_limits(
    options: RawOptions, end: End, forbidden: OffsetLimit | None, syntax: PartitionSyntax
) -> OffsetLimits:
    """Read one end of all partitions. Raises ``OptionError`` (fatal).

    ``forbidden`` is where a batch read cannot start or end; None for a stream, which starts at the latest
    offsets unless an option says otherwise.
    """
    by_time, by_log_time, by_offset = end
    if (timestamp := options[by_time]) is not None:
        return OffsetLimits(by_time.name, for_all=timestamp)
    if (timestamps := options[by_log_time]) is not None:
        return _timestamps(by_log_time.name, timestamps.strip(BLANKS), syntax)
    if forbidden is None and not options.given(by_offset):
        return OffsetLimits(by_offset.name, for_all=LATEST)
    return _offsets(by_offset.name, options[by_offset].strip(BLANKS), forbidden, syntax)


def _timestamps(name: str, text: str, syntax: PartitionSyntax) -> OffsetLimits:
    example = syntax.example(1_700_000_000_000)
    given = _parse_by_partition(name, text, example, syntax, _whole_or_text)
    result = {tp: limit for tp, value in given.items() if (limit := _moment(value)) is not None}
    if bad := [tp for tp in given if tp not in result]:
        value = given[bad[0]]
        shown = value if isinstance(value, int) else quote(value)
        raise OptionError(f"option {name}: the timestamp of {bad[0]} is {shown}; set {_MOMENTS}")
    return OffsetLimits(name, by_partition=result)


def _offsets(name: str, text: str, forbidden: OffsetLimit | None, syntax: PartitionSyntax) -> OffsetLimits:
    allowed = LATEST if forbidden is EARLIEST else EARLIEST
    words = f"{allowed.kind.value} or " if forbidden else "earliest, latest or "
    words = "" if forbidden is None and name == Selection.ending_offsets.name else words  # of a stream
    example = words + syntax.example(123)
    given = word(text)
    if forbidden is not None and given == forbidden.kind.value:
        raise OptionError(
            f"option {name}: {quote(text)}: {name.removesuffix('Offsets')} offset can't be {given} for "
            f"batch queries on Kafka; give {example}"
        )
    known = (LATEST,) if allowed is LATEST else (EARLIEST, LATEST, COMMITTED)
    if for_all := next((limit for limit in known if given == limit.kind.value), None):
        return OffsetLimits(name, for_all=for_all)
    if hint := _meant(name, given, known, forbidden):
        raise bad_value(name, text, f"of the form {example}; {hint}")
    by_partition = _parse_by_partition(name, text, example, syntax, _whole)
    return OffsetLimits(
        name,
        by_partition={tp: _offset(name, tp, value, forbidden, allowed) for tp, value in by_partition.items()},
    )


def _meant(
    name: str, given: str, known: tuple[OffsetLimit, ...], forbidden: OffsetLimit | None
) -> str | None:
    """A hint for a word that is not a known one; None without any."""
    synonym = SYNONYMS.get(given)
    if synonym is not None and synonym == forbidden:
        return f"{synonym.kind.value} is not for {name} of batch queries"
    words = [limit.kind.value for limit in known]
    close = [synonym.kind.value] if synonym in known else close_matches(given, words, 1)
    return f"did you mean {close[0]}?" if close else None


def _offset(
    name: str, partition: TopicPartition, value: int, forbidden: OffsetLimit | None, allowed: OffsetLimit
) -> OffsetLimit:
    """The limit of one partition, where -2 is earliest and -1 latest."""
    if value >= 0:
        return OffsetLimit(LimitKind.OFFSET, value)
    limit = _SPECIAL.get(value, OffsetLimit(LimitKind.OFFSET, value))
    if limit is forbidden or value < -2:
        meaning = limit.kind.value if limit is forbidden else "negative"
        raise OptionError(
            f"option {name}: {name.removesuffix('Offsets')} offset for {partition} can't be {meaning} "
            f"({value}){' for batch queries on Kafka' if forbidden else ''}; give an offset or "
            f"{allowed.kind.value}"
        )
    return limit


def _whole(value: Any) -> int | None:
    """A number of JSON, which has values of bool, too, and True is an instance of int."""
    return value if type(value) is int and value.bit_length() <= 63 else None


def _whole_or_text(value: Any) -> int | str | None:
    """A number, or a text that is not a number: JSON writes numbers without quotation marks."""
    is_text = isinstance(value, str) and not re.fullmatch(r"\s*-?[0-9]*\s*", value)
    return value if is_text else _whole(value)


T = TypeVar("T")


def _parse_by_partition(
    name: str, text: str, example: str, syntax: PartitionSyntax, read: Callable[[Any], T | None]
) -> dict[TopicPartition, T]:
    values: dict[TopicPartition, T] = {}
    for topic, partitions in json_option(name, text, example).items():
        if not isinstance(partitions, dict) or not partitions:
            raise bad_value(name, text, f"of the form {example}")
        for key, given in partitions.items():
            partition, value = syntax.keyed(topic, key), read(given)
            if partition is None or value is None:
                raise bad_value(name, text, f"of the form {example}")
            values[partition] = value
    return values


def json_option(name: str, text: str, example: str) -> dict[str, Any]:
    """The object that the option of that name holds, not empty. Raises ``OptionError`` (fatal)."""
    try:
        value = json_object(text)
    except RepeatedKey as error:
        raise OptionError(f"option {name}: {quote(error.key)} occurs twice in {quote(text)}") from None
    except NotAnObject:
        if _SINGLE_QUOTED.search(text):
            raise bad_value(
                name,
                text,
                f"JSON: JSON needs double quotes, as json.dumps gives them to a Python dict; give {example}",
            ) from None
        value = {}
    if not value or not all(map(_is_text, value)):
        raise bad_value(name, text, f"of the form {example}")
    return value


def _is_text(name: str) -> bool:
    """True unless JSON's escapes make half of a surrogate pair."""
    return name.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in name)


def parse_partition_size(options: RawOptions, discovery: Discovery) -> int | None:
    """The size from which a range is split: bytes in 0.7, offsets later."""
    is_07 = discovery.generation is V07
    return options[Selection.partition_bytes if is_07 else Selection.partition_records]


def parse_partition_bytes(options: RawOptions, discovery: Discovery) -> int | None:
    """The bytes from which a range of offsets is split, which only files can tell. Raises ``OptionError``
    (fatal) for brokers whose offsets count records."""
    if discovery.generation is V07 or not options.given(Selection.partition_bytes):
        return None
    if discovery.directories is None:
        raise OptionError(
            f"option {Selection.partition_bytes} does not apply to brokers of Kafka "
            f"{discovery.generation.value}, whose offsets count records; set {Selection.partition_records}"
        )
    return options[Selection.partition_bytes]


def parse_planning_retry(options: RawOptions, default: RetryPolicy) -> RetryPolicy:
    """Retries of planning."""
    retries, backoff_s = options[Selection.planning_retries], options[Selection.planning_backoff]
    return replace(
        default,
        retries=default.retries if retries is None else retries,
        backoff_s=default.backoff_s if backoff_s is None else backoff_s,
    )
