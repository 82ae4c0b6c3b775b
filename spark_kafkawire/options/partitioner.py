"""Options that choose the topic and the partitions of the rows of a write, for both generations."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ..errors import OptionError, quoted
from .option import (
    INT64_MAX,
    MODERN,
    WRITE,
    choice,
    count,
    flag,
    option,
    seconds,
    string,
)
from .raw import RawOptions

#: The classes of ``kafka.partitioner.class`` that are one of our partitioners.
_CLASSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "org.apache.kafka.clients.producer.internals.DefaultPartitioner": "murmur2",
        "org.apache.kafka.clients.producer.RoundRobinPartitioner": "roundrobin",
        "org.apache.kafka.clients.producer.UniformStickyPartitioner": "sticky",
    }
)


def _of_class(name: str, given: str) -> str:
    if given.strip() not in _CLASSES:
        raise OptionError(
            f"option {name}: {quoted(given.strip())} is a Java class, and no Java runs here; "
            "set the option partitioner instead, or fill a column partition"
        )
    return _CLASSES[given.strip()]


TOPIC: Final = option(
    "topic", string, sides=WRITE, meaning="the topic to write to; overrides a `topic` column"
)
PARTITIONER: Final = option(
    "partitioner",
    choice("murmur2", "consistent", "consistent_random", "roundrobin", "sticky"),
    default="murmur2",
    sides=WRITE,
    aliases=(
        option(
            "kafka.partitioner.class",
            _of_class,
            sides=WRITE,
            generation=MODERN,
            meaning="Java's name of `murmur2`, `roundrobin` or `sticky`",
        ),
    ),
    meaning="how keys choose partitions: Java's `murmur2`, librdkafka's `consistent` (null keys in one "
    "partition) and `consistent_random`; `roundrobin`, row by row, and `sticky`, run by run, ignore keys",
)
PARTITIONER_SEED: Final = option(
    "partitionerSeed",
    count(0, INT64_MAX),
    sides=WRITE,
    meaning="a whole number, the seed by which each task draws the first partition of its rows without keys, "
    "the same in each run",
)
IGNORES_KEYS: Final = option(
    "kafka.partitioner.ignore.keys",
    flag,
    default="false",
    sides=WRITE,
    generation=MODERN,
    meaning="`true`: `murmur2` becomes `sticky`",
)
ADAPTS: Final = option(
    "kafka.partitioner.adaptive.partitioning.enable",
    flag,
    default="true",
    sides=WRITE,
    generation=MODERN,
    meaning="`true`: slow brokers get fewer of the rows without keys; `false`: all brokers get the same "
    "number; not for `partitionerSeed` and `delivery=exactly-once`",
)
AVAILABILITY: Final = option(
    "kafka.partitioner.availability.timeout.ms",
    seconds(zero=True),
    default="0",
    sides=WRITE,
    generation=MODERN,
    meaning="a broker that has not answered for this time gets no rows without keys, while others answer; "
    "`0`: no limit",
)


def parse_partitioner(options: RawOptions) -> str:
    """The name of the partitioner. Raises ``OptionError`` (fatal)."""
    chosen, ignores_keys = options[PARTITIONER], options[IGNORES_KEYS]
    # As in Java: it is for the default partitioner, and others ignore it.
    return "sticky" if chosen == "murmur2" and ignores_keys else chosen


def parse_adapts(options: RawOptions) -> bool:
    """True if slow brokers get fewer of the rows without keys. Raises ``OptionError`` (fatal)."""
    if not options[ADAPTS]:
        return False
    if not options.given(PARTITIONER_SEED):
        return True
    if options.given(ADAPTS):
        raise OptionError(
            f"option {ADAPTS.name}=true makes partitions depend on the speed of brokers, and "
            "partitionerSeed makes them the same in each run; leave one of them out"
        )
    return False
