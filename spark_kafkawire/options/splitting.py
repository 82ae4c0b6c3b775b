"""Options of the planning of a read: its split into Spark partitions, its consumer group, and its retries."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ..net.retry import RetryPolicy
from .option import (
    INT64_MAX,
    MODERN,
    READ,
    V07,
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
    generation=V07,
    meaning="split ranges larger than this",
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


def parse_partition_size(options: RawOptions) -> int | None:
    """The size from which a range is split: bytes in 0.7, offsets later."""
    return options[MAX_BYTES_PER_PARTITION] or options[MAX_RECORDS_PER_PARTITION]


def parse_planning_retry(options: RawOptions, default: RetryPolicy) -> RetryPolicy:
    """Retries of planning."""
    retries, backoff_s = options[PLANNING_RETRIES], options[PLANNING_BACKOFF]
    return replace(
        default,
        retries=default.retries if retries is None else retries,
        backoff_s=default.backoff_s if backoff_s is None else backoff_s,
    )
