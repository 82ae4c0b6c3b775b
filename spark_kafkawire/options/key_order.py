"""Options of a read in the order of its keys: ``keyOrder`` and what it is told of a topic's epochs."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

from ..errors import OptionError, shown
from ..model import Generation, TopicPartition
from .offsets import LOG_SYNTAX, json_option
from .partition_epochs import Boundaries, Logs, TopicEpochs
from .raw import BLANKS, RawOptions, bad_value

#: Partitions in all epochs of an option together, far more than a cluster has: each takes some memory.
_LOGS_MAX: Final = 1_000_000
_COUNT: Final = re.compile("[1-9][0-9]{0,6}")
_OFFSET_MAX: Final = (1 << 63) - 1


class PartitionerCheck(enum.Enum):
    """What is done about the partition in which a key is: nothing, a column, or an error where it never
    belonged there."""

    NONE = "false"
    REPORT = "true"
    STRICT = "strict"


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """What is known of the topics of a read in the order of its keys; no ``topics`` where their records are
    to show it.

    ``moments_ms`` are when the topics grew whose epochs have no boundaries, one for each of them.
    """

    topics: Mapping[str, TopicEpochs] = field(default_factory=dict)
    moments_ms: tuple[int, ...] = ()
    check: PartitionerCheck = PartitionerCheck.NONE

    @property
    def logs(self) -> tuple[TopicPartition, ...]:
        """All logs that are named."""
        return tuple(log for epochs in self.topics.values() for log in epochs.lists[-1])


def parse_key_order(options: RawOptions, generation: Generation) -> KeyOrder | None:
    """None without ``keyOrder=true``. Raises ``OptionError`` (fatal)."""
    if not options.flag("keyOrder"):
        if given := options.given("partitionEpochs", "expansionTimestamp", "verifyPartitioner"):
            raise OptionError(f"option {given[0]} is for keyOrder=true: set that, too, or leave it out")
        return None
    _check_others(options)
    moments_ms, check = _moments(options), _CHECKS[generation](options)
    topics = _topics(options, generation)
    for topic, epochs in topics.items():
        _check_moments(topic, epochs, moments_ms)
    if topics and moments_ms and not any(map(_takes_moments, topics.values())):
        raise OptionError(
            "option expansionTimestamp: all boundaries are in partitionEpochs: leave one of them out"
        )
    if not topics and not moments_ms:
        raise OptionError(
            "option keyOrder: no broker tells when partitions were added to a topic, for the epochs of its "
            f"leaders stay as they are then: say it as partitionEpochs={_EXAMPLES[generation]}"
        )
    if not topics and check is PartitionerCheck.NONE:
        raise OptionError(
            "option expansionTimestamp: how many partitions there were is found in the log then, and only "
            "keys prove it: give partitionEpochs, or leave verifyPartitioner=false out"
        )
    return KeyOrder(topics, moments_ms, check)


def _topics(options: RawOptions, generation: Generation) -> dict[str, TopicEpochs]:
    text = options.get("partitionEpochs")
    if text is None:
        return {}
    listed = json_option("partitionEpochs", text.strip(BLANKS), _EXAMPLES[generation])
    return {topic: _Reader(generation, topic, text).epochs(given) for topic, given in listed.items()}


def _no_check(_: RawOptions) -> PartitionerCheck:
    return PartitionerCheck.NONE  # its messages have no keys


def _check(options: RawOptions) -> PartitionerCheck:
    return PartitionerCheck(options.choice("verifyPartitioner", *(each.value for each in PartitionerCheck)))


_CHECKS: Final[Mapping[Generation, Callable[[RawOptions], PartitionerCheck]]] = MappingProxyType(
    {Generation.V07: _no_check, Generation.MODERN: _check}
)


def _check_others(options: RawOptions) -> None:
    """Refuse what would take apart what belongs together."""
    if given := options.given("minPartitions", "maxBytesPerPartition", "maxRecordsPerPartition"):
        raise OptionError(
            f"option {given[0]} splits what keyOrder=true reads one after the other: leave one of them out"
        )
    if options.given("assign"):
        raise OptionError(
            "option assign: a key may have been in any partition, and keyOrder=true reads them all: name the "
            "topics with subscribe, or leave keyOrder out"
        )


def _moments(options: RawOptions) -> tuple[int, ...]:
    text = options.get("expansionTimestamp")
    if text is None:
        return ()
    parts = [part.strip(BLANKS) for part in text.split(",")]
    if not all(re.fullmatch("[0-9]{1,18}", part) for part in parts):
        raise bad_value(
            "expansionTimestamp", text, "milliseconds since 1970, several as 1700000000000,1700000500000"
        )
    moments_ms = tuple(map(int, parts))
    if any(second <= first for first, second in pairwise(moments_ms)):
        raise bad_value(
            "expansionTimestamp", text, "in the order of time: each moment is after the one before"
        )
    return moments_ms


def _takes_moments(epochs: TopicEpochs) -> bool:
    return epochs.boundaries is None and len(epochs.lists) > 1


def _check_moments(topic: str, epochs: TopicEpochs, moments_ms: tuple[int, ...]) -> None:
    grown = len(epochs.lists) - 1
    if _takes_moments(epochs) and not moments_ms:
        raise OptionError(
            f"option partitionEpochs: {shown(topic)} grew {grown} times, and nothing says where its "
            "partitions stood then: give the boundaries of each epoch but the first, or expansionTimestamp"
        )
    if _takes_moments(epochs) and len(moments_ms) != grown:
        raise OptionError(
            f"option expansionTimestamp: {shown(topic)} grew {grown} times by partitionEpochs, and there are "
            f"{len(moments_ms)} moments: give one for each time"
        )


def _partitions(topic: str, given: Any) -> Logs | None:
    if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= _LOGS_MAX:
        return None
    return tuple(TopicPartition(topic, number) for number in range(given))


def _broker_partitions(topic: str, given: Any) -> Logs | None:
    """By broker, as ZooKeeper has it: the list from which a producer of 0.7 picks."""
    if not isinstance(given, dict) or not given:
        return None
    counts = {broker: _partitions(topic, count) for broker, count in given.items()}
    if not all(counts.values()) or not all(broker == "0" or _COUNT.fullmatch(broker) for broker in counts):
        return None
    return tuple(
        TopicPartition(topic, log.partition, broker)
        for broker, logs in sorted((int(broker), logs) for broker, logs in counts.items() if logs)
        for log in logs
    )


_LISTS: Final[Mapping[Generation, Callable[[str, Any], Logs | None]]] = MappingProxyType(
    {Generation.V07: _broker_partitions, Generation.MODERN: _partitions}
)
_EXAMPLES: Final[Mapping[Generation, str]] = MappingProxyType(
    {
        Generation.V07: '{"t":[{"partitions":{"0":1}},{"partitions":{"0":1,"1":1},"boundaries":{"0-0":9}}]}',
        Generation.MODERN: '{"t":[{"partitions":2},{"partitions":4,"boundaries":{"0":70,"1":65}}]}',
    }
)


class _Reader:
    """Reads the epochs of one topic. All methods raise ``OptionError`` (fatal)."""

    def __init__(self, generation: Generation, topic: str, text: str) -> None:
        self._list, self._keyed = _LISTS[generation], LOG_SYNTAX[generation].keyed
        self._example, self._topic, self._text = _EXAMPLES[generation], topic, text

    def epochs(self, given: Any) -> TopicEpochs:
        """The epochs that the JSON gives."""
        if not isinstance(given, list) or not given or not all(map(self._is_epoch, given)):
            raise self._malformed()
        lists: list[Logs] = []
        for each in given:
            logs = self._list(self._topic, each["partitions"])
            if logs is None or sum(map(len, lists)) + len(logs) > _LOGS_MAX:
                raise self._malformed()
            if lists and not set(lists[-1]) < set(logs):
                raise self._wrong("each epoch must have all partitions of the one before, and more")
            lists.append(logs)
        if "boundaries" in given[0]:
            raise self._wrong("nothing is before the first epoch: boundaries are of the ones after it")
        written = [each.get("boundaries") for each in given[1:]]
        if not any(each is not None for each in written):
            return TopicEpochs(tuple(lists))
        if any(each is None for each in written):
            raise self._wrong("give the boundaries of each epoch but the first, or of none")
        boundaries = tuple(self._boundaries(*each) for each in zip(written, lists, strict=False))
        for old, new in pairwise(boundaries):
            if back := next((log for log in old if new[log] < old[log]), None):
                raise self._wrong(f"the boundaries of {back} run backwards, {old[back]} and {new[back]}")
        return TopicEpochs(tuple(lists), boundaries)

    @staticmethod
    def _is_epoch(given: Any) -> bool:
        return (
            isinstance(given, dict) and "partitions" in given and given.keys() <= {"partitions", "boundaries"}
        )

    def _boundaries(self, given: Any, logs: Logs) -> Boundaries:
        if not isinstance(given, dict):
            raise self._malformed()
        found = {self._keyed(self._topic, name): offset for name, offset in given.items()}
        if any(type(offset) is not int or not 0 <= offset <= _OFFSET_MAX for offset in found.values()):
            raise self._malformed()
        named = {log: offset for log, offset in found.items() if log is not None}
        if set(found) != set(logs):
            raise self._wrong(
                f"boundaries must name the {len(logs)} partitions of the epoch before, {logs[0].name} to "
                f"{logs[-1].name}, each with the offset where it stood"
            )
        return named

    def _malformed(self) -> OptionError:
        return bad_value("partitionEpochs", self._text, f"of the form {self._example}")

    def _wrong(self, what: str) -> OptionError:
        return OptionError(f"option partitionEpochs: {shown(self._topic)}: {what}")
