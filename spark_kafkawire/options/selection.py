"""Options that select the topics and partitions to read, for both generations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..errors import OptionError, printable, quoted
from ..model import TopicPartition
from .offsets import PartitionSyntax, parse_assign
from .option import READ, bad_value, choice, option, string
from .raw import RawOptions

SUBSCRIBE: Final = option("subscribe", string, sides=READ, meaning="topics, `a,b`")
SUBSCRIBE_PATTERN: Final = option(
    "subscribePattern",
    string,
    sides=READ,
    meaning="a Java regular expression: selects the topics whose names contain a match",
)
ASSIGN: Final = option(
    "assign",
    string,
    sides=READ,
    meaning='`{"t":[0,1]}`: partitions; in 0.7 `{"t":["0-0","1-2"]}`: broker-partitions',
)
#: The tables of log directories, and all tables, as ``tables`` has them.
DIRECTORY_TABLES: Final = ("segments", "batches")
TABLES: Final = (
    "brokers",
    "topics",
    "partitions",
    "groups",
    "group_members",
    "group_offsets",
    "configs",
    "transactions",
    "producers",
    *DIRECTORY_TABLES,
)
TABLE: Final = option(
    "table",
    choice(*TABLES),
    sides=READ,
    meaning="reads a [table of the cluster](tables.md), or of log directories, in place of records: "
    + ", ".join(f"`{name}`" for name in TABLES),
)

#: A pattern that every name of a topic matches.
_ANY: Final = "."


@dataclass(frozen=True, slots=True)
class Selection:
    """The partitions to read: exactly one field is set."""

    subscribe: tuple[str, ...] = ()
    pattern: str | None = None
    assign: tuple[TopicPartition, ...] = ()


def chooses_table(raw: Mapping[str, str]) -> bool:
    """True if the user's options choose a table of the cluster."""
    return any(name.lower() == TABLE.name for name in raw)


def refuse_table(options: RawOptions) -> None:
    """Raise ``OptionError`` (fatal) for a table where records are read."""
    if (table := options[TABLE]) is not None:
        raise OptionError(
            f"option table={quoted(table)} is for spark.read: a table of the cluster is a snapshot, not a "
            "stream, and no job reads it; leave it out"
        )


def parse_selection(options: RawOptions, syntax: PartitionSyntax, *, may_be_all: bool = False) -> Selection:
    """The partitions that the user selects: all topics without a choice if it ``may_be_all``. Raises
    ``OptionError`` (fatal)."""
    given = options.given(SUBSCRIBE, SUBSCRIBE_PATTERN, ASSIGN)
    if not given and may_be_all:
        return Selection(pattern=_ANY)
    if len(given) != 1:
        problem = "none is set" if not given else " and ".join(given) + " are set"
        raise OptionError(f"set exactly one of the options subscribe, subscribePattern and assign: {problem}")
    if (topics := options[SUBSCRIBE]) is not None:
        return Selection(subscribe=_topics(topics))
    if (assigned := options[ASSIGN]) is not None:
        return Selection(assign=parse_assign(assigned.strip(), syntax))
    return Selection(pattern=_pattern((options[SUBSCRIBE_PATTERN] or "").strip()))


def _topics(text: str) -> tuple[str, ...]:
    topics = tuple(sorted({name.strip() for name in text.split(",")} - {""}))
    if not topics:
        raise bad_value(SUBSCRIBE.name, text.strip(), "a topic or a list of topics, a,b")
    return topics


def _pattern(text: str) -> str:
    """The pattern, checked before its first use."""
    from .java_pattern import JavaPattern, PatternError

    if not text:
        raise bad_value(SUBSCRIBE_PATTERN.name, text, "a regular expression; give one like orders-.*")
    try:
        JavaPattern(text)
    except PatternError as error:
        raise OptionError(
            f"option subscribePattern: {quoted(text)} is not a supported Java regular "
            f"expression: {printable(error)}"
        ) from error
    return text
