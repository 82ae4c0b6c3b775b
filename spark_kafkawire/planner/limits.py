"""Start and end of the ranges of a read, for both generations: options compared with bounds of partitions.
Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..errors import LOG, DataLossError, OptionError, list_some
from ..model import OffsetRange, PartitionBounds, TopicPartition
from ..options import LimitKind, OffsetLimit, OffsetLimits

#: Offsets that only the cluster can resolve: of timestamps, and committed ones. None without a match.
ResolvedOffsets = Mapping[TopicPartition, int | None]


@dataclass(frozen=True, slots=True)
class End:
    """An end of a range; ``option`` is set if the user gave the offset itself."""

    offset: int
    option: str | None = None


def limit_of(limits: OffsetLimits, partition: TopicPartition) -> OffsetLimit:
    """The limit of one partition in the options; ``check_names`` ensures that it exists."""
    return limits.for_all if limits.for_all is not None else limits.by_partition[partition]


def at_time(limits: OffsetLimits, now_ms: int) -> OffsetLimits:
    """The limits with timestamps in place of times before now (ms since 1970)."""

    def fixed(limit: OffsetLimit) -> OffsetLimit:
        if limit.kind is not LimitKind.AGE:
            return limit
        return OffsetLimit(LimitKind.TIMESTAMP, max(now_ms + limit.value, 0))

    for_all = None if limits.for_all is None else fixed(limits.for_all)
    return replace(
        limits, for_all=for_all, by_partition={tp: fixed(item) for tp, item in limits.by_partition.items()}
    )


#: Ends that depend on when a read is planned, and that no other line tells.
_RESOLVED: Final = (LimitKind.AGE, LimitKind.FROM_END)


def log_resolved(limits: OffsetLimits, found: Mapping[TopicPartition, End], now_ms: int) -> None:
    """Log what times before now, or offsets before the end, have become."""
    resolved = [tp for tp in found if limit_of(limits, tp).kind in _RESOLVED]
    if resolved:
        now = dt.datetime.fromtimestamp(now_ms / 1000, dt.timezone.utc).isoformat(timespec="milliseconds")
        LOG.info(
            "option %s, resolved at %s: %s",
            limits.option,
            now,
            list_some(resolved, 3, lambda tp: f"{tp} at {found[tp].offset}"),
        )


def check_names(limits: OffsetLimits, partitions: Sequence[TopicPartition]) -> None:
    """Check that offsets by partition name exactly the partitions that are read. Raises ``OptionError``."""
    if limits.for_all is not None or set(limits.by_partition) == set(partitions):
        return
    extra = sorted(set(limits.by_partition) - set(partitions))
    missing = sorted(set(partitions) - set(limits.by_partition))
    problems = [f"{list_some(extra, 3)} is not read"] if extra else []
    problems += [f"{list_some(missing, 3)} is missing"] if missing else []
    raise OptionError(
        f"option {limits.option} must name exactly the partitions that are read: {', '.join(problems)}"
    )


def start_of(
    limits: OffsetLimits, bounds: PartitionBounds, resolved: ResolvedOffsets, *, latest_if_no_match: bool
) -> End:
    """The start of the range of a partition.

    Raises ``OptionError`` if no offset matches a timestamp, or the group has no committed offset.
    """
    limit = limit_of(limits, bounds.topic_partition)
    if limit.kind is LimitKind.OFFSET:
        return End(limit.value, limits.option)
    if limit.kind is LimitKind.EARLIEST:
        return End(bounds.earliest)
    if limit.kind is LimitKind.LATEST:
        return End(bounds.latest)
    if limit.kind is LimitKind.FROM_END:
        return End(_inside(bounds.latest - limit.value, bounds))
    offset = resolved[bounds.topic_partition]
    if offset is not None and limit.kind is LimitKind.COMMITTED:
        return End(offset, limits.option)
    if offset is not None:
        return End(_inside(offset, bounds))
    if limit.kind is LimitKind.COMMITTED:
        raise OptionError(
            f"option {limits.option}: the group has committed no offset for {bounds.topic_partition}; "
            'commit one, or give offsets as {"topic":{"0":-2}}'
        )
    if latest_if_no_match:
        return End(bounds.latest)
    raise OptionError(
        f"option {limits.option}: no offset matched from request: {bounds.topic_partition} has no message "
        f"at or after {limit.value}; startingOffsetsByTimestampStrategy=latest reads nothing there instead"
    )


def end_of(limits: OffsetLimits, bounds: PartitionBounds, resolved: ResolvedOffsets) -> End:
    """The end of the range of a partition."""
    limit = limit_of(limits, bounds.topic_partition)
    if limit.kind is LimitKind.OFFSET:
        return End(limit.value, limits.option)
    if limit.kind is LimitKind.EARLIEST:
        return End(bounds.earliest)
    offset = resolved[bounds.topic_partition] if limit.kind is LimitKind.TIMESTAMP else None
    return End(bounds.latest if offset is None else _inside(offset, bounds))


def _inside(offset: int, bounds: PartitionBounds) -> int:
    """The offset, limited to the bounds: messages are added and deleted while a read is planned."""
    return min(max(offset, bounds.earliest), bounds.latest)


def range_between(
    start: End,
    end: End,
    bounds: PartitionBounds,
    *,
    fail_on_data_loss: bool,
    high_watermark: int | None = None,
) -> tuple[OffsetRange, End, End]:
    """The range between two ends, inside the bounds of the partition.

    Raises ``OptionError`` if the start is after the end, ``DataLossError`` if the partition does not contain
    the whole range; with ``fail_on_data_loss`` false this is a warning, and the ends move. An empty range
    loses nothing, even outside of the bounds. Up to the ``high_watermark`` the partition has records that are
    not committed and cannot be read yet, so an end there raises ``OptionError``.
    """
    if start.offset != end.offset and high_watermark is not None:
        for limit in (start, end):
            if limit.option is not None and bounds.latest < limit.offset <= high_watermark:
                raise OptionError(
                    f"option {limit.option}: offset {limit.offset} of {bounds.topic_partition} is after "
                    f"{bounds.latest}, the last stable offset: a transaction is open there; end the range at "
                    "that offset, wait until the transaction has ended, or set "
                    "kafka.isolation.level=read_uncommitted"
                )
    if start.offset > end.offset:
        named = " and ".join(end.option for end in (start, end) if end.option)
        options = f"option {named}: " if named else ""
        raise OptionError(
            f"{options}{bounds.topic_partition} would start at {start.offset} and end at {end.offset}; "
            "correct one of them"
        )
    if start.offset == end.offset:
        nowhere = End(_inside(start.offset, bounds))
        return OffsetRange(bounds.topic_partition, nowhere.offset, nowhere.offset), nowhere, nowhere
    first, last = (_clamp(limit, bounds, fail_on_data_loss) for limit in (start, end))
    return OffsetRange(bounds.topic_partition, first.offset, last.offset), first, last


def _clamp(end: End, bounds: PartitionBounds, fail_on_data_loss: bool) -> End:
    if bounds.earliest <= end.offset <= bounds.latest:
        return end
    loss = (
        f"option {end.option}: offset {end.offset} is not in {bounds.topic_partition}, "
        f"which holds [{bounds.earliest}, {bounds.latest})"
    )
    if fail_on_data_loss:
        raise DataLossError(f"{loss}; to read what is left, set failOnDataLoss=false")
    LOG.warning("%s; reading on because failOnDataLoss=false", loss)
    return End(_inside(end.offset, bounds))
