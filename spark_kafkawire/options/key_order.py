"""Options of key order, for reads of both generations: ``keyOrder`` and the layouts of a topic."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

from ..errors import OptionError, counted, printable
from ..model import Generation, TopicPartition
from .offsets import PARTITION_SYNTAX, json_option
from .option import BLANKS, MODERN, READ, bad_value, flag, mapped, option, string
from .raw import RawOptions
from .selection import ASSIGN
from .splitting import (
    MAX_BYTES_PER_PARTITION,
    MAX_RECORDS_PER_PARTITION,
    MIN_PARTITIONS,
)
from .topic_layouts import Boundaries, Partitions, TopicLayouts

#: Partitions in all layouts of an option together, far more than a cluster has: each takes some memory.
_PARTITIONS_MAX: Final = 1_000_000
_COUNT: Final = re.compile("[1-9][0-9]{0,6}")
_OFFSET_MAX: Final = (1 << 63) - 1


class PartitionerCheck(enum.Enum):
    """Check of the partition of a key: none, a column, or an error if the key never belonged there."""

    NONE = "false"
    REPORT = "true"
    STRICT = "strict"


KEY_ORDER: Final = option(
    "keyOrder",
    flag,
    default="false",
    sides=READ,
    meaning="`true`: give all records of a key in the order in which they were produced, also if partitions "
    "were added; see [Key order](key-order.md)",
)
PARTITION_LAYOUTS: Final = option(
    "partitionLayouts",
    string,
    sides=READ,
    meaning='for `keyOrder`: `{"t":[{"partitions":2},{"partitions":4,"boundaries":{"0":70,"1":65}}]}`, the '
    "numbers of partitions, and the end of each old one when some were added; in 0.7 partitions by broker, "
    '`{"partitions":{"0":2}}`',
)
EXPANSION_TIMESTAMP: Final = option(
    "expansionTimestamp",
    string,
    sides=READ,
    generation=MODERN,
    meaning="for `keyOrder`, instead of boundaries: when partitions were added, milliseconds since 1970; "
    "several as `a,b`; a batch read without `partitionLayouts` finds the numbers of partitions, too",
)
VERIFY_PARTITIONER: Final = option(
    "verifyPartitioner",
    mapped({each.value: each for each in PartitionerCheck}),
    default="strict",
    sides=READ,
    generation=MODERN,
    meaning="for `keyOrder`: a key in a partition where murmur2 never puts it is an error; `true`: a column "
    "`misplaced` marks it; `false`: keys are not checked",
)


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """Layouts of the topics of a read in the order of its keys; no ``topics`` if the records show them.

    ``moments_ms`` are the times when topics without boundaries of their layouts grew, one for each such
    topic.
    """

    topics: Mapping[str, TopicLayouts] = field(default_factory=dict)
    moments_ms: tuple[int, ...] = ()
    check: PartitionerCheck = PartitionerCheck.NONE

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """All partitions that are named."""
        return tuple(tp for layouts in self.topics.values() for tp in layouts.lists[-1])


def parse_key_order(options: RawOptions, generation: Generation) -> KeyOrder | None:
    """Read the options of key order; None without ``keyOrder=true``. Raises ``OptionError`` (fatal)."""
    if not options[KEY_ORDER]:
        if given := options.given(PARTITION_LAYOUTS, EXPANSION_TIMESTAMP, VERIFY_PARTITIONER):
            raise OptionError(f"option {given[0]} is for keyOrder=true: set that, too, or leave it out")
        return None
    _check_others(options)
    moments_ms, check = _moments(options), _SYNTAX[generation].check(options)
    topics = _topics(options, generation)
    for topic, layouts in topics.items():
        _check_moments(topic, layouts, moments_ms)
    if topics and moments_ms and not any(map(_takes_moments, topics.values())):
        raise OptionError(
            "option expansionTimestamp is set, and partitionLayouts has all boundaries: leave one of them out"
        )
    if not topics and not moments_ms:
        raise OptionError(
            "option keyOrder: brokers do not record when partitions were added to a topic: the epochs of its "
            f"leaders do not change then; give partitionLayouts={_SYNTAX[generation].example}, where "
            "boundaries are the end offsets of the old partitions at that time, or expansionTimestamp"
        )
    if not topics and check is PartitionerCheck.NONE:
        raise OptionError(
            "option expansionTimestamp: without partitionLayouts the numbers of partitions are derived from "
            "keys: give partitionLayouts, or leave verifyPartitioner=false out"
        )
    return KeyOrder(topics, moments_ms, check)


def _topics(options: RawOptions, generation: Generation) -> dict[str, TopicLayouts]:
    text = options[PARTITION_LAYOUTS]
    if text is None:
        return {}
    listed = json_option("partitionLayouts", text.strip(BLANKS), _SYNTAX[generation].example)
    return {topic: _LayoutReader(generation, topic, text).layouts(given) for topic, given in listed.items()}


def _check_others(options: RawOptions) -> None:
    """Refuse options that split partitions, which a read in key order keeps together."""
    if given := options.given(MIN_PARTITIONS, MAX_BYTES_PER_PARTITION, MAX_RECORDS_PER_PARTITION):
        raise OptionError(
            f"option {given[0]} splits what keyOrder=true reads one after the other: leave one of them out"
        )
    if options.given(ASSIGN):
        raise OptionError(
            "option assign: a key may have been in any partition, and keyOrder=true reads them all: name the "
            "topics with subscribe, or leave keyOrder out"
        )


def _moments(options: RawOptions) -> tuple[int, ...]:
    text = options[EXPANSION_TIMESTAMP]
    if text is None:
        return ()
    parts = [part.strip(BLANKS) for part in text.split(",")]
    if not all(re.fullmatch("[0-9]{1,18}", part) for part in parts):
        raise bad_value(
            "expansionTimestamp", text, "milliseconds since 1970, several as 1700000000000,1700000500000"
        )
    moments_ms = tuple(map(int, parts))
    if any(second <= first for first, second in pairwise(moments_ms)):
        raise bad_value("expansionTimestamp", text, "in the order of time; sort the moments, each one once")
    return moments_ms


def _takes_moments(layouts: TopicLayouts) -> bool:
    return layouts.boundaries is None and len(layouts.lists) > 1


def _check_moments(topic: str, layouts: TopicLayouts, moments_ms: tuple[int, ...]) -> None:
    grown = len(layouts.lists) - 1
    if _takes_moments(layouts) and not moments_ms:
        raise OptionError(
            f"option partitionLayouts: {printable(topic)} grew {counted(grown, 'time')}, and the ends of "
            "its old partitions are missing: give the boundaries of each layout but the first, or "
            "expansionTimestamp"
        )
    if _takes_moments(layouts) and len(moments_ms) != grown:
        raise OptionError(
            f"option expansionTimestamp: {printable(topic)} grew {counted(grown, 'time')} by "
            f"partitionLayouts, and {counted(len(moments_ms), 'moment is', 'moments are')} given: give one "
            "for each time"
        )


def _partitions(topic: str, given: Any) -> Partitions | None:
    if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= _PARTITIONS_MAX:
        return None
    return tuple(TopicPartition(topic, number) for number in range(given))


def _broker_partitions(topic: str, given: Any) -> Partitions | None:
    """Logs by broker, as in ZooKeeper: the list from which a producer of 0.7 picks."""
    if not isinstance(given, dict) or not given:
        return None
    counts = {broker: _partitions(topic, count) for broker, count in given.items()}
    if not all(counts.values()) or not all(broker == "0" or _COUNT.fullmatch(broker) for broker in counts):
        return None
    return tuple(
        TopicPartition(topic, tp.partition, broker)
        for broker, partitions in sorted(
            (int(broker), partitions) for broker, partitions in counts.items() if partitions
        )
        for tp in partitions
    )


@dataclass(frozen=True, slots=True)
class _Syntax:
    """Key order as the options of one generation give it.

    ``example`` is a value of ``partitionLayouts``, ``meaning`` says what it has, ``partitions_of`` reads the
    partitions of a layout, and ``check`` reads ``verifyPartitioner``.
    """

    example: str
    meaning: str
    partitions_of: Callable[[str, Any], Partitions | None]
    check: Callable[[RawOptions], PartitionerCheck]


_SYNTAX: Final[Mapping[Generation, _Syntax]] = MappingProxyType(
    {
        Generation.V07: _Syntax(
            '{"t":[{"partitions":{"0":1}},{"partitions":{"0":1,"1":1},"boundaries":{"0-0":9}}]}',
            "partitions by broker, then the offsets at which the old ones ended",
            _broker_partitions,
            lambda _: PartitionerCheck.NONE,  # its messages have no keys
        ),
        Generation.MODERN: _Syntax(
            '{"t":[{"partitions":2},{"partitions":4,"boundaries":{"0":70,"1":65}}]}',
            "the number of partitions, then the offsets at which the old ones ended",
            _partitions,
            lambda options: options[VERIFY_PARTITIONER],
        ),
    }
)


class _LayoutReader:
    """Reads the layouts of one topic. All methods raise ``OptionError`` (fatal)."""

    def __init__(self, generation: Generation, topic: str, text: str) -> None:
        self._syntax, self._keyed = _SYNTAX[generation], PARTITION_SYNTAX[generation].keyed
        self._topic, self._text = topic, text

    def layouts(self, given: Any) -> TopicLayouts:
        """The layouts that the JSON gives."""
        if not isinstance(given, list) or not given or not all(map(self._is_layout, given)):
            raise self._malformed()
        lists: list[Partitions] = []
        for each in given:
            partitions = self._syntax.partitions_of(self._topic, each["partitions"])
            if partitions is None or sum(map(len, lists)) + len(partitions) > _PARTITIONS_MAX:
                raise self._malformed()
            if lists and not set(lists[-1]) < set(partitions):
                raise self._wrong(
                    "each layout must have all partitions of the one before, and more; correct the lists"
                )
            lists.append(partitions)
        if "boundaries" in given[0]:
            raise self._wrong(
                "the first layout must have no boundaries, only those after it have; remove them there"
            )
        written = [each.get("boundaries") for each in given[1:]]
        if not any(each is not None for each in written):
            return TopicLayouts(tuple(lists))
        if any(each is None for each in written):
            raise self._wrong(
                "some layouts after the first have boundaries, the ends of the partitions before them, "
                "and others have none; give them for each of these layouts, or for none"
            )
        boundaries = tuple(self._boundaries(*each) for each in zip(written, lists, strict=False))
        for old, new in pairwise(boundaries):
            if back := next((tp for tp in old if new[tp] < old[tp]), None):
                raise self._wrong(
                    f"the boundaries of {back} run backwards, {old[back]} and {new[back]}; correct them"
                )
        return TopicLayouts(tuple(lists), boundaries)

    @staticmethod
    def _is_layout(given: Any) -> bool:
        return (
            isinstance(given, dict) and "partitions" in given and given.keys() <= {"partitions", "boundaries"}
        )

    def _boundaries(self, given: Any, partitions: Partitions) -> Boundaries:
        if not isinstance(given, dict):
            raise self._malformed()
        found = {self._keyed(self._topic, name): offset for name, offset in given.items()}
        if any(type(offset) is not int or not 0 <= offset <= _OFFSET_MAX for offset in found.values()):
            raise self._malformed()
        named = {tp: offset for tp, offset in found.items() if tp is not None}
        if set(found) != set(partitions):
            raise self._wrong(
                f"boundaries must name the {counted(len(partitions), 'partition')} of the layout before, "
                f"{partitions[0].name} to {partitions[-1].name}, each with its end offset"
            )
        return named

    def _malformed(self) -> OptionError:
        return bad_value(
            "partitionLayouts", self._text, f"of the form {self._syntax.example}: {self._syntax.meaning}"
        )

    def _wrong(self, what: str) -> OptionError:
        return OptionError(f"option partitionLayouts: {printable(self._topic)}: {what}")
