"""Options of the planning of a read: its split into Spark partitions, its consumer group, and its retries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from ..errors import OptionError
from ..model import Generation
from ..net.retry import RetryPolicy
from .discovery import Discovery
from .option import (
    INT64_MAX,
    MODERN,
    READ,
    Option,
    bad_value,
    count,
    option,
    seconds,
    size,
    string,
)
from .raw import RawOptions

MIN_PARTITIONS: Final = option(
    "minPartitions",
    count(1, 1_000_000),
    sides=READ,
    meaning="the least number of Spark partitions; large ranges are split",
)
MAX_BYTES_PER_PARTITION: Final = option(
    "maxBytesPerPartition",
    size(1, 1 << 62),
    sides=READ,
    meaning="split ranges larger than this; for Kafka 0.7, and for log directories",
)
MAX_RECORDS_PER_PARTITION: Final = option(
    "maxRecordsPerPartition",
    count(1, INT64_MAX),
    sides=READ,
    generation=MODERN,
    meaning="split ranges of more offsets than this",
)


def group_name(name: str, given: str) -> str:
    """The name of a consumer group."""
    if not given.strip():
        raise bad_value(name, given, "the name of a consumer group")
    return given


GROUP_ID: Final = option(
    "kafka.group.id",
    group_name,
    sides=READ,
    generation=MODERN,
    meaning="the group of `startingOffsets=committed`; no group is joined",
)
GROUP_ID_PREFIX: Final = option(
    "groupIdPrefix", string, sides=READ, generation=MODERN, meaning="ignored: no group is joined"
)
PLANNING_RETRIES: Final = option(
    "fetchOffset.numRetries",
    count(0, 1000),
    sides=READ,
    generation=MODERN,
    meaning="the value of `retries` for planning",
)
PLANNING_BACKOFF: Final = option(
    "fetchOffset.retryIntervalMs",
    seconds(),
    sides=READ,
    generation=MODERN,
    meaning="the value of `retryBackoff` for planning",
)


#: The option that has the size of a range in the unit of offsets.
_SIZES: Final[Mapping[Generation, Option[int | None]]] = MappingProxyType(
    {Generation.V07: MAX_BYTES_PER_PARTITION, MODERN: MAX_RECORDS_PER_PARTITION}
)


def parse_partition_size(options: RawOptions, discovery: Discovery) -> int | None:
    """The size from which a range is split: bytes in 0.7, offsets later."""
    return options[_SIZES[discovery.generation]]


def parse_partition_bytes(options: RawOptions, discovery: Discovery) -> int | None:
    """The bytes from which a range of offsets is split, which only files can tell.

    Raises ``OptionError`` (fatal) for brokers whose offsets count records.
    """
    size = _SIZES[discovery.generation]
    if size is MAX_BYTES_PER_PARTITION or not options.given(MAX_BYTES_PER_PARTITION):
        return None
    if discovery.directories is None:
        raise OptionError(
            f"option {MAX_BYTES_PER_PARTITION.name} does not apply to brokers of Kafka "
            f"{discovery.generation.value}, whose offsets count records; set {MAX_RECORDS_PER_PARTITION.name}"
        )
    return options[MAX_BYTES_PER_PARTITION]


def parse_planning_retry(options: RawOptions, default: RetryPolicy) -> RetryPolicy:
    """Retries of planning."""
    retries, backoff_s = options[PLANNING_RETRIES], options[PLANNING_BACKOFF]
    return replace(
        default,
        retries=default.retries if retries is None else retries,
        backoff_s=default.backoff_s if backoff_s is None else backoff_s,
    )
