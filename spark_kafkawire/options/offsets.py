"""Options that name partitions, offsets and timestamps, most of them as JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from ..errors import OptionError, quoted
from ..model import Generation, TopicPartition
from .raw import BLANKS, RawOptions, bad_value, word
from .strict_json import NotAnObject, RepeatedKey, json_object
from .values import COMMITTED, EARLIEST, LATEST, LimitKind, OffsetLimit, OffsetLimits

#: The one spelling of the number of a partition or a broker: "00" beside "0" would name one log twice.
_NUMBER: Final = "0|[1-9][0-9]{0,8}"


@dataclass(frozen=True, slots=True)
class LogSyntax:
    """How the JSON of options names the logs of a topic, with examples for errors.

    ``assigned`` and ``keyed`` read an element of ``assign`` and a key of the offsets; None where it
    is not the name of a log.
    """

    assign_example: str
    key_example: str
    assigned: Callable[[str, Any], TopicPartition | None]
    keyed: Callable[[str, str], TopicPartition | None]


def _broker_partition(topic: str, name: Any) -> TopicPartition | None:
    match = re.fullmatch(rf"({_NUMBER})-({_NUMBER})", name) if isinstance(name, str) else None
    return TopicPartition(topic, int(match[2]), int(match[1])) if match and topic else None


def _partition(topic: str, name: str) -> TopicPartition | None:
    return TopicPartition(topic, int(name)) if re.fullmatch(_NUMBER, name) and topic else None


def _partition_number(topic: str, number: Any) -> TopicPartition | None:
    is_number = isinstance(number, int) and not isinstance(number, bool)
    return _partition(topic, str(number)) if is_number else None


#: 0.7 names a log by its broker, too.
LOG_SYNTAX: Final[Mapping[Generation, LogSyntax]] = MappingProxyType(
    {
        Generation.V07: LogSyntax(
            '{"t":["0-0","1-2"]} (broker-partition)', "0-1", _broker_partition, _broker_partition
        ),
        Generation.MODERN: LogSyntax('{"topicA":[0,1],"topicB":[0,1]}', "0", _partition_number, _partition),
    }
)


def parse_assign(text: str, syntax: LogSyntax) -> tuple[TopicPartition, ...]:
    logs = set()
    for topic, names in json_option("assign", text, syntax.assign_example).items():
        if not isinstance(names, list) or not names:
            raise bad_value("assign", text, f"of the form {syntax.assign_example}")
        for name in names:
            log = syntax.assigned(topic, name)
            if log is None:
                raise bad_value("assign", text, f"of the form {syntax.assign_example}")
            logs.add(log)
    return tuple(sorted(logs))


def parse_limits(
    options: RawOptions, end: str, forbidden: OffsetLimit | None, syntax: LogSyntax
) -> OffsetLimits:
    """One end of all logs. ``forbidden`` is where a batch read cannot start or end; None for a stream, which
    starts at the latest offsets unless it is told where."""
    by_order = (f"{end}Timestamp", f"{end}OffsetsByTimestamp", f"{end}Offsets")
    name = next(iter(options.given(*by_order)), None)
    if name is None and forbidden is None:
        return OffsetLimits(f"{end}Offsets", for_all=LATEST)
    name = name or f"{end}Offsets"
    text = (options.get(name) or "").strip(BLANKS)
    if name.endswith("OffsetsByTimestamp"):
        example = f'{{"t":{{"{syntax.key_example}":1700000000000}}}}'
        by_log = _by_log(name, text, example, syntax)
        if bad := [str(log) for log, value in by_log.items() if value < 0]:
            raise OptionError(f"option {name}: the timestamp of {bad[0]} is negative")
        return OffsetLimits(
            name, by_log={log: OffsetLimit(LimitKind.TIMESTAMP, ms) for log, ms in by_log.items()}
        )
    if name.endswith("Timestamp"):
        value = options.count(name, 0, (1 << 63) - 1)
        assert value is not None
        return OffsetLimits(name, for_all=OffsetLimit(LimitKind.TIMESTAMP, value))
    return _offsets(name, text, forbidden, syntax)


def _offsets(name: str, text: str, forbidden: OffsetLimit | None, syntax: LogSyntax) -> OffsetLimits:
    allowed = LATEST if forbidden is EARLIEST else EARLIEST
    words = f"{allowed.kind.value} or" if forbidden else "earliest, latest or"
    example = f'{words} {{"t":{{"{syntax.key_example}":123}}}}'
    given = word(text)
    if forbidden is not None and given == forbidden.kind.value:
        raise OptionError(
            f"option {name}: {quoted(text)}: {name.removesuffix('Offsets')} offset can't be {given} for "
            f"batch queries on Kafka; give {example}"
        )
    known = (LATEST,) if allowed is LATEST else (EARLIEST, LATEST, COMMITTED)
    if for_all := next((limit for limit in known if given == limit.kind.value), None):
        return OffsetLimits(name, for_all=for_all)
    by_log = _by_log(name, text, example, syntax)
    return OffsetLimits(
        name, by_log={log: _offset(name, log, value, forbidden, allowed) for log, value in by_log.items()}
    )


def _offset(
    name: str, log: TopicPartition, value: int, forbidden: OffsetLimit | None, allowed: OffsetLimit
) -> OffsetLimit:
    """The limit of one log, where -2 is earliest and -1 latest."""
    limit = {-2: EARLIEST, -1: LATEST}.get(value, OffsetLimit(LimitKind.OFFSET, value))
    if limit is forbidden or value < -2:
        meaning = limit.kind.value if limit is forbidden else "negative"
        raise OptionError(
            f"option {name}: {name.removesuffix('Offsets')} offset for {log} can't be {meaning} ({value})"
            f"{' for batch queries on Kafka' if forbidden else ''}; give an offset or {allowed.kind.value}"
        )
    return limit


def _by_log(name: str, text: str, example: str, syntax: LogSyntax) -> dict[TopicPartition, int]:
    values = {}
    for topic, partitions in json_option(name, text, example).items():
        if not isinstance(partitions, dict) or not partitions:
            raise bad_value(name, text, f"of the form {example}")
        for key, value in partitions.items():
            log = syntax.keyed(topic, key)
            if (
                log is None
                or not isinstance(value, int)
                or isinstance(value, bool)
                or value.bit_length() > 63
            ):
                raise bad_value(name, text, f"of the form {example}")
            values[log] = value
    return values


def json_option(name: str, text: str, example: str) -> dict[str, Any]:
    """The object that the option of that name holds, not empty. Raises ``OptionError`` (fatal)."""
    try:
        value = json_object(text)
    except RepeatedKey as error:
        raise OptionError(f"option {name}: {quoted(error.key)} is there twice in {quoted(text)}") from None
    except NotAnObject:
        value = {}
    if not value or not all(map(_is_text, value)):
        raise bad_value(name, text, f"of the form {example}")
    return value


def _is_text(name: str) -> bool:
    """Not so where JSON's escapes make half of a surrogate pair."""
    return name.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in name)
