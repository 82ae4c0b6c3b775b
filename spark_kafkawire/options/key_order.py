"""Options of the order in which tasks read the records of many partitions: ``keyOrder`` with the layouts of a
topic, and the pack of small ranges in one Spark partition, with what contradicts each.

A topic has one layout for each number of partitions:

    layout 0: 2 partitions   ──►  layout 1: 4 partitions   ──►  layout 2: 6 partitions
    hash % 2                     hash % 4                     hash % 6

A producer picks the partition of a key from a list, at the place ``hash % count``. Each layout has its own
list. In modern Kafka it is the partitions 0 to count - 1. In 0.7 it is those of all brokers, sorted by broker
and partition, so a broker that grows moves the partitions of the brokers after it.

A hash can be at place ``i`` of ``n`` and at place ``j`` of ``m`` exactly if ``i`` and ``j`` have the same
remainder modulo the greatest common divisor of ``n`` and ``m``. So two lists show between which partitions
keys have moved (``parents``).

Source: KIP-253; Kafka's DefaultPartitioner, and its ancestor of 0.7.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import gcd
from typing import Any, Final

from ..errors import OptionError, counted, printable
from ..model import Generation, TopicPartition, WireFormat
from .connection import Discovery, NetOptions
from .option import (
    BLANKS,
    MODERN,
    READ,
    V07,
    Group,
    RawOptions,
    bad_value,
    flag,
    map_words,
    option,
    parse_string,
)
from .selection import PARTITION_SYNTAX, Selection, json_option

Partitions = tuple[TopicPartition, ...]
#: End offset of each partition of a layout's list when the next layout began: its next record has that
#: offset.
Boundaries = Mapping[TopicPartition, int]


# No slots: values that follow from the lists are cached.
@dataclass(frozen=True)
class TopicLayouts:
    """The list of a topic's partitions in each layout, oldest first; each contains all partitions of the one
    before.

    ``boundaries`` has one element fewer: the end offset of each partition when the list was extended. It is
    None if moments define the boundaries, or if no caller needs them.
    """

    lists: tuple[Partitions, ...]
    boundaries: tuple[Boundaries, ...] | None = None

    def __post_init__(self) -> None:
        held = self.boundaries
        grows = all(set(old) < set(new) for old, new in pairwise(self.lists))
        fits = held is None or [set(item) for item in held] == [set(item) for item in self.lists[:-1]]
        if not (self.lists and self.lists[0] and grows and fits):
            raise AssertionError("no layouts of one topic")

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Number of partitions of each layout."""
        return tuple(map(len, self.lists))

    @cached_property
    def _places(self) -> tuple[dict[TopicPartition, int], ...]:
        return tuple({tp: location for location, tp in enumerate(partitions)} for partitions in self.lists)

    def first(self, partition: TopicPartition) -> int:
        """The layout that brought the log."""
        return next(layout for layout, places in enumerate(self._places) if partition in places)

    def common(self, layout: int) -> int:
        """The number by which places in the lists of ``layout`` and the one before leave the same remainder
        where some key has been at both."""
        return gcd(*self.counts[layout - 1 : layout + 1])

    def parents(self, layout: int, partition: TopicPartition) -> Partitions:
        """The other partitions, of the layout before, that held keys which are in this partition since
        ``layout``."""
        location, common = self._places[layout][partition], self.common(layout)
        return tuple(old for old in self.lists[layout - 1][location % common :: common] if old != partition)

    @cached_property
    def is_in_turn(self) -> bool:
        """True if keys move only to new partitions, for example if each count is a multiple of the one before
        and new partitions come after the old ones. Then a new partition has one parent."""
        return not any(
            self.parents(layout, tp) for layout in range(1, len(self.lists)) for tp in self.lists[layout - 1]
        )

    def family(self, partition: TopicPartition) -> TopicPartition:
        """The partition of the first layout that once held all keys of this one, where that
        ``is_in_turn``."""
        while layout := self.first(partition):
            [partition] = self.parents(layout, partition)
        return partition


#: Partitions in all layouts of an option together, far more than a cluster has: each takes some memory.
_PARTITIONS_MAX: Final = 1_000_000
_COUNT: Final = re.compile("[1-9][0-9]{0,6}")
_OFFSET_MAX: Final = (1 << 63) - 1


class PartitionerCheck(enum.Enum):
    """Check of the partition of a key: none, a column, or an error if the key never belonged there."""

    NONE = "false"
    REPORT = "true"
    STRICT = "strict"


def _moments(name: str, text: str) -> tuple[int, ...]:
    parts = [part.strip(BLANKS) for part in text.split(",")]
    if not all(re.fullmatch("[0-9]{1,18}", part) for part in parts):
        raise bad_value(name, text, "milliseconds since 1970, several as 1700000000000,1700000500000")
    moments_ms = tuple(map(int, parts))
    if any(second <= first for first, second in pairwise(moments_ms)):
        raise bad_value(name, text, "in the order of time; sort the moments, each one once")
    return moments_ms


@dataclass(frozen=True)
class KeyOrder(Group, sides=READ):
    """Layouts of the topics of a read in the order of its keys; no ``topics`` if the records show them.

    ``moments_ms`` are the times when topics without boundaries of their layouts grew, one for each such
    topic.
    """

    is_set = option("keyOrder", flag, "false").means(
        "`true`: give all records of a key in the order in which they were produced, also if partitions "
        "were added; see [Key order](key-order.md)"
    )
    layouts = option("partitionLayouts", parse_string).means(
        'for `keyOrder`: `{"t":[{"partitions":2},{"partitions":4,"boundaries":{"0":70,"1":65}}]}`, the '
        "numbers of partitions, and the end of each old one when some were added; in 0.7 partitions by "
        'broker, `{"partitions":{"0":2}}`'
    )
    expansion = option("expansionTimestamp", _moments, generation=MODERN).means(
        "for `keyOrder`, instead of boundaries: when partitions were added, milliseconds since 1970; "
        "several as `a,b`; a batch read without `partitionLayouts` finds the numbers of partitions, too"
    )
    verifies = option(
        "verifyPartitioner",
        map_words({item.value: item for item in PartitionerCheck}),
        "strict",
        generation=MODERN,
    ).means(
        "for `keyOrder`: a key in a partition where murmur2 never puts it is an error; `true`: a column "
        "`misplaced` marks it; `false`: keys are not checked"
    )
    packs_small = option("packSmallPartitions", flag, "false").means(
        "`true`: read small ranges of many partitions in one Spark partition, with one request"
    )

    topics: Mapping[str, TopicLayouts] = field(default_factory=dict)
    moments_ms: tuple[int, ...] = ()
    check: PartitionerCheck = PartitionerCheck.NONE

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """All partitions that are named."""
        return tuple(tp for layouts in self.topics.values() for tp in layouts.lists[-1])


def parse_key_order(options: RawOptions, generation: Generation) -> KeyOrder | None:
    """Read the options of key order; None without ``keyOrder=true``. Raises ``OptionError`` (fatal)."""
    if not options[KeyOrder.is_set]:
        if given := options.given(KeyOrder.layouts, KeyOrder.expansion, KeyOrder.verifies):
            raise OptionError(f"option {given[0]} is for keyOrder=true: set that, too, or leave it out")
        return None
    _check_others(options)
    moments_ms = options[KeyOrder.expansion] or ()
    # Messages of 0.7 have no keys.
    check = PartitionerCheck.NONE if generation is V07 else options[KeyOrder.verifies]
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
    text = options[KeyOrder.layouts]
    if text is None:
        return {}
    listed = json_option("partitionLayouts", text.strip(BLANKS), _SYNTAX[generation].example)
    return {topic: _LayoutReader(generation, topic, text).layouts(given) for topic, given in listed.items()}


def _check_others(options: RawOptions) -> None:
    """Refuse options that split partitions, which a read in key order keeps together."""
    if given := options.given(
        Selection.min_partitions, Selection.partition_bytes, Selection.partition_records
    ):
        raise OptionError(
            f"option {given[0]} splits what keyOrder=true reads one after the other: leave one of them out"
        )
    if options.given(Selection.partitions):
        raise OptionError(
            "option assign: a key may have been in any partition, and keyOrder=true reads them all: name the "
            "topics with subscribe, or leave keyOrder out"
        )


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

    ``example`` is a value of ``partitionLayouts``, ``meaning`` says what it has, and ``partitions_of`` reads
    the partitions of a layout.
    """

    example: str
    meaning: str
    partitions_of: Callable[[str, Any], Partitions | None]


_SYNTAX: Final = {
    Generation.V07: _Syntax(
        '{"t":[{"partitions":{"0":1}},{"partitions":{"0":1,"1":1},"boundaries":{"0-0":9}}]}',
        "partitions by broker, then the offsets at which the old ones ended",
        _broker_partitions,
    ),
    Generation.MODERN: _Syntax(
        '{"t":[{"partitions":2},{"partitions":4,"boundaries":{"0":70,"1":65}}]}',
        "the number of partitions, then the offsets at which the old ones ended",
        _partitions,
    ),
}


class _LayoutReader:
    """Reads the layouts of one topic. All methods raise ``OptionError`` (fatal)."""

    def __init__(self, generation: Generation, topic: str, text: str) -> None:
        self._syntax, self._keyed = _SYNTAX[generation], PARTITION_SYNTAX[generation].keyed
        self._topic, self._text = topic, text

    def layouts(self, given: Any) -> TopicLayouts:
        """The layouts that the JSON gives."""
        if not isinstance(given, list) or not given or not all(map(self._is_layout, given)):
            raise self._describe_malformed()
        lists: list[Partitions] = []
        for item in given:
            partitions = self._syntax.partitions_of(self._topic, item["partitions"])
            if partitions is None or sum(map(len, lists)) + len(partitions) > _PARTITIONS_MAX:
                raise self._describe_malformed()
            if lists and not set(lists[-1]) < set(partitions):
                raise self._wrong(
                    "each layout must have all partitions of the one before, and more; correct the lists"
                )
            lists.append(partitions)
        if "boundaries" in given[0]:
            raise self._wrong(
                "the first layout must have no boundaries, only those after it have; remove them there"
            )
        written = [item.get("boundaries") for item in given[1:]]
        if not any(item is not None for item in written):
            return TopicLayouts(tuple(lists))
        if any(item is None for item in written):
            raise self._wrong(
                "some layouts after the first have boundaries, the ends of the partitions before them, "
                "and others have none; give them for each of these layouts, or for none"
            )
        boundaries = tuple(self._boundaries(*item) for item in zip(written, lists, strict=False))
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
            raise self._describe_malformed()
        result = {self._keyed(self._topic, name): offset for name, offset in given.items()}
        if any(type(offset) is not int or not 0 <= offset <= _OFFSET_MAX for offset in result.values()):
            raise self._describe_malformed()
        named = {tp: offset for tp, offset in result.items() if tp is not None}
        if set(result) != set(partitions):
            raise self._wrong(
                f"boundaries must name the {counted(len(partitions), 'partition')} of the layout before, "
                f"{partitions[0].name} to {partitions[-1].name}, each with its end offset"
            )
        return named

    def _describe_malformed(self) -> OptionError:
        return bad_value(
            "partitionLayouts", self._text, f"of the form {self._syntax.example}: {self._syntax.meaning}"
        )

    def _wrong(self, what: str) -> OptionError:
        return OptionError(f"option partitionLayouts: {printable(self._topic)}: {what}")


def parse_packing(options: RawOptions, discovery: Discovery, wire_format: WireFormat | None) -> bool | None:
    """True if small ranges are packed, False if they could be; None if other options rule it out. Raises
    ``OptionError`` (fatal) for an option that contradicts it."""
    reason = _reason_against_it(options, discovery, wire_format)
    if reason is None:
        return options[KeyOrder.packs_small]
    if options[KeyOrder.packs_small]:
        raise OptionError(f"option {KeyOrder.packs_small}=true {reason}")
    return None


def _reason_against_it(
    options: RawOptions, discovery: Discovery, wire_format: WireFormat | None
) -> str | None:
    if options.given(Selection.min_partitions):
        return f"makes fewer Spark partitions, and {Selection.min_partitions} more: leave out one of them"
    if options[KeyOrder.is_set]:
        return f"packs ranges, and {KeyOrder.is_set} chains them: leave out one of them"
    if options[NetOptions.rack] is not None:
        rack = options.name_of(NetOptions.rack)
        return f"packs ranges of one leader, and {rack} reads from other replicas: leave out one of them"
    if discovery.directories is not None:
        return "packs requests to brokers, and log directories need none: leave it out"
    if wire_format is WireFormat.PROPOSAL:
        return (
            "cannot be combined with wireFormat=proposal, whose fetches have no size: leave out one of them"
        )
    return None
