"""All options, as their groups have them.

The tables of ``docs/options.md`` and ``docs/streaming.md`` have a row for each, and unknown names are
compared with these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from ..errors import OptionError, printable
from ..secrecy import keep_secret
from ..version import VERSION
from .connection import Directories, Discovery, NetOptions
from .delivery import DeliveryOptions, TransactionOptions
from .fetch import FetchOptions
from .key_order import KeyOrder
from .option import (
    TYPING_ERROR,
    Group,
    Option,
    RawOptions,
    hint,
    is_kafka_property,
    pass_over,
    warn_once,
    without_prefix,
)
from .security import Layers, Registry, Tokens
from .selection import Selection
from .stream import GroupMembershipOptions, StreamLimits
from .typed import TypedOptions

#: Spark's own option of each streaming query.
_CHECKPOINT: Final = "checkpointLocation"
#: Options whose texts may have ``${`` as a part of another language: patterns and schemas.
_WITHOUT_REFERENCES: Final = frozenset(
    (Selection.topic_pattern, TypedOptions.value_schema, TypedOptions.key_schema)
)
#: Options of Spark's files, which Spark's own Kafka connector ignores.
_OF_FILES: Final = frozenset(
    {"delimiter", "encoding", "escape", "header", "inferschema", "mergeschema", "multiline", "quote", "sep"}
)
#: Likeness to a known name from which an option counts as that, misspelled.
_LIKELY: Final = 0.75
_PAGE: Final = f"https://github.com/spark-kafkawire/spark-kafkawire/blob/v{VERSION}/docs/options.md"
#: The argument of ``load()``, as Spark passes it.
_PATHS: Final = frozenset(("path", "paths"))
#: The option that a write goes by, and those that a read selects by, in lower case.
_TOPIC: Final = "topic"
_SELECTIONS: Final = frozenset({"subscribe", "subscribepattern", "assign"})


def list_options(*groups: type[Group]) -> tuple[Option[Any], ...]:
    """The options of the groups in their order, each once."""
    return tuple(dict.fromkeys(option for group in groups for option in group.options()))


OPTIONS: Final = list_options(
    *(Discovery, Directories, NetOptions, Tokens, Layers, TypedOptions, Registry),
    *(Selection, FetchOptions, KeyOrder, DeliveryOptions, TransactionOptions),
)
#: Options that only streams take: limits of one batch, commits to a group, and new fields of schemas. Batch
#: reads ignore them with a warning, as they do those of Spark's own connector. One that is in ``OPTIONS``,
#: too, means something else to streams.
STREAM_OPTIONS: Final = list_options(StreamLimits, GroupMembershipOptions)
#: Names that batch reads do not know, by their lower case: Spark hands names on in small letters.
OF_STREAMS_ALONE: Final = {
    option.name.lower(): option.name
    for option in STREAM_OPTIONS
    if option.name.lower() not in {item.name.lower() for item in OPTIONS}
}
#: Options whose texts have secrets, by their names in lower case.
_SECRET: Final = {option.name.lower(): option for option in OPTIONS if option.secrets is not None}


def keep_secrets(raw: Mapping[str, str]) -> None:
    """Hide the secrets of options in all later messages: the text of any other option may repeat one.
    References in their place are shown."""
    _keep_secrets({name: text for name, text in raw.items() if "${" not in text})


def _keep_secrets(texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        option = _SECRET.get(name.lower())
        if option is not None and option.secrets is not None:
            for secret in option.secrets(text):
                keep_secret(secret, secret.strip())


@contextmanager
def raw_options(raw: Mapping[str, str], *, read: bool, stream: bool = False) -> Iterator[RawOptions]:
    """The user's strings by their documented names, with the values of references such as ``${env:NAME}``,
    for the time in which they are read: an error that shows such a value gets the reference in its place.
    Raises ``OptionError`` (fatal) for unknown names and for references without a value."""
    keep_secrets(raw)
    known = {option.name.lower(): option for option in _list_known(read, stream)}
    names = [option.name for option in known.values()]
    values: dict[str, str] = {}
    passed_over: list[str] = []
    ignored: list[str] = []
    _check_names(raw)
    for name, value in raw.items():
        _check_text(name, value)
        option = known.get(name.lower())
        if option is not None:
            values[option.name] = value
        elif is_kafka_property(name):
            pass_over(name, hint(name, names, TYPING_ERROR), read=read)
            passed_over.append(name)
        elif read and name.lower() in OF_STREAMS_ALONE:
            here = "option %s is for readStream and has no effect in a batch read"
            warn_once(here, OF_STREAMS_ALONE[name.lower()])
            passed_over.append(name)
        elif reason := find_why_ignored(name, names, read, stream):
            warn_once("option %s %s", printable(reason[0]), reason[1])
            ignored.append(reason[0])
        else:
            raise _unknown(name, read, stream)
    literal = {option.name for option in _WITHOUT_REFERENCES}
    referring = {name: text for name, text in values.items() if "${" in text and name not in literal}
    if not referring:
        yield RawOptions(values, known.values(), passed_over, ignored)
        return
    from .references import resolve_references

    result: dict[str, str] = {}
    try:
        with resolve_references(referring) as result:
            for name, value in result.items():
                _check_text(name, value)
            yield RawOptions({**values, **result}, known.values(), passed_over, ignored)
    finally:  # until here errors have a reference in the place of its value
        _keep_secrets(result)


def drop_other_side(raw: Mapping[str, str], *, read: bool) -> dict[str, str]:
    """The options without those of the other side. A view of SQL has options of both sides, for SELECT and
    for INSERT."""
    names = {name.lower() for name in raw}
    if _TOPIC not in names or _SELECTIONS.isdisjoint(names):
        return dict(raw)
    both = (*OPTIONS, *STREAM_OPTIONS)
    own = [item for item in both if (item.sides.read if read else item.sides.write)]
    others = {item.name.lower() for item in both if item not in own}
    return {name: value for name, value in raw.items() if name.lower() not in others}


def reading_options(writing: Mapping[str, str]) -> dict[str, str]:
    """The options of a write that a read of the same cluster takes, too."""
    only_writing = {option.name.lower() for option in OPTIONS if not option.sides.read}
    return {name: value for name, value in writing.items() if name.lower() not in only_writing}


def _check_names(raw: Mapping[str, str]) -> None:
    """Refuse two spellings of one name: names are case-insensitive, as Spark's are."""
    spellings: dict[str, str] = {}
    for name in raw:
        other = spellings.setdefault(name.lower(), name)
        if other != name:
            raise OptionError(
                f"options {printable(other)} and {printable(name)} are the same one; set it once"
            )


def _check_text(name: str, value: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise OptionError(
            f"option {printable(name)}: its value, which is not shown, holds half of a surrogate pair, which "
            "is no character: remove it"
        ) from None


def _list_known(read: bool, stream: bool) -> list[Option[Any]]:
    if not read:
        return [option for option in OPTIONS if option.sides.write]
    if not stream:
        return [option for option in OPTIONS if option.sides.read]
    both = (*OPTIONS, *STREAM_OPTIONS)
    return list({item.name: item for item in both if item.sides.read and item.sides.stream}.values())


def find_why_ignored(name: str, names: list[str], read: bool, stream: bool) -> tuple[str, str] | None:
    """The name of an option that Spark's own connector ignores, and the rest of the sentence that says what
    takes effect; None for one that is refused."""
    lower, side = name.lower(), "stream" if stream else "read" if read else "write"
    here = f"has no effect in a {side} and is ignored"
    there = next((item for item in (*OPTIONS, *STREAM_OPTIONS) if item.name.lower() == lower), None)
    if lower in _PATHS:
        return None
    if there is not None:  # a stream refuses those of batch reads
        refused = there.sides.read if read else there.sides.write
        return None if refused else (there.name, f"is for {'writing' if read else 'reading'}, {here}")
    if read and lower == _CHECKPOINT.lower():
        return _CHECKPOINT, f"is for writeStream, {here}: set it there"
    if lower in _OF_FILES:
        columns = (
            f"; {NetOptions.include_headers}=true adds the headers of records" if lower == "header" else ""
        )
        return name, f"is for files, {here}{columns}"
    advice = without_prefix(name, names)
    return None if advice is None else (name, f"{here}: {advice}")


def _unknown(name: str, read: bool, stream: bool) -> OptionError:
    names = [option.name for option in _list_known(read, stream)]
    side = "stream" if stream else "read" if read else "write"
    if stream and name.lower() in _PATHS:
        return OptionError(
            f"option {name.lower()}: a stream reads from brokers, not from log directories, which have an "
            "end: use spark.read, or leave the path out"
        )
    if name.lower() in _PATHS:
        return OptionError(
            f"option {name.lower()} is for reading, not for a write: call save() and start() without a "
            "path, and set the option topic"
        )
    if there := [option.name for option in OPTIONS if option.name.lower() == name.lower()]:
        return OptionError(
            f"option {there[0]} is for log directories, and a stream reads from brokers: leave it out"
        )
    if name.lower() == _CHECKPOINT.lower():
        return OptionError(f"option {_CHECKPOINT} is for writeStream, not for a {side}; leave it out")
    # Spark asks for columns before it says if the read is a batch or a stream.
    meant = hint(name, [*names, *(option.name for option in STREAM_OPTIONS)] if read else names, _LIKELY)
    return OptionError(
        f"unknown option {printable(name)} for a {side}{meant or '; leave it out.'} See {_PAGE}"
    )
