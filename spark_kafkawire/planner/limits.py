"""Where a range begins and ends: option values against what a log holds. Pure."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import DataLossError, OptionError
from ..model import LogBounds, OffsetRange, TopicPartition
from ..options import LimitKind, OffsetLimit, OffsetLimits

_log = logging.getLogger("spark_kafkawire")

#: The offsets of limits that only the cluster can resolve: timestamps and a group's positions. None where
#: nothing fits.
ResolvedOffsets = Mapping[TopicPartition, int | None]


@dataclass(frozen=True, slots=True)
class End:
    """One end of a log's range; ``option`` is set where the user gave the offset itself."""

    offset: int
    option: str | None = None


def limit_of(limits: OffsetLimits, log: TopicPartition) -> OffsetLimit:
    """The limit that the options give one log; ``check_names`` has made sure that there is one."""
    return limits.for_all if limits.for_all is not None else limits.by_log[log]


def check_names(limits: OffsetLimits, logs: Sequence[TopicPartition]) -> None:
    """Offsets by log must name exactly the logs that are read. Raises ``OptionError``."""
    if limits.for_all is not None or set(limits.by_log) == set(logs):
        return
    extra = sorted(set(limits.by_log) - set(logs))
    missing = sorted(set(logs) - set(limits.by_log))
    problems = [f"{_names(extra)} is not read"] * bool(extra) + [f"{_names(missing)} is missing"] * bool(
        missing
    )
    raise OptionError(
        f"option {limits.option} must name exactly the partitions that are read: {', '.join(problems)}"
    )


def start_of(
    limits: OffsetLimits, bounds: LogBounds, resolved: ResolvedOffsets, *, latest_if_no_match: bool
) -> End:
    """Where the range of a log starts.

    Raises ``OptionError`` where a timestamp matches nothing, or the group has committed nothing.
    """
    limit = limit_of(limits, bounds.log)
    if limit.kind is LimitKind.OFFSET:
        return End(limit.value, limits.option)
    if limit.kind is LimitKind.EARLIEST:
        return End(bounds.earliest)
    offset = resolved[bounds.log]
    if offset is not None and limit.kind is LimitKind.COMMITTED:
        return End(offset, limits.option)
    if offset is not None:
        return End(_inside(offset, bounds))
    if limit.kind is LimitKind.COMMITTED:
        raise OptionError(
            f"option {limits.option}: the group has committed no offset for {bounds.log}; commit one, or "
            'give offsets as {"topic":{"0":-2}}'
        )
    if latest_if_no_match:
        return End(bounds.latest)
    raise OptionError(
        f"option {limits.option}: no offset matched from request: {bounds.log} has no message at or after "
        f"{limit.value}; startingOffsetsByTimestampStrategy=latest reads nothing there instead"
    )


def end_of(limits: OffsetLimits, bounds: LogBounds, resolved: ResolvedOffsets) -> End:
    """Where the range of a log ends."""
    limit = limit_of(limits, bounds.log)
    if limit.kind is LimitKind.OFFSET:
        return End(limit.value, limits.option)
    offset = resolved[bounds.log] if limit.kind is LimitKind.TIMESTAMP else None
    return End(bounds.latest if offset is None else _inside(offset, bounds))


def _inside(offset: int, bounds: LogBounds) -> int:
    """The offset, or the bound that it is beyond: messages come and go while a read is planned."""
    return min(max(offset, bounds.earliest), bounds.latest)


def range_between(
    start: End,
    end: End,
    bounds: LogBounds,
    *,
    fail_on_data_loss: bool,
    high_watermark: int | None = None,
) -> tuple[OffsetRange, End, End]:
    """The range between two ends, inside what the log holds.

    Raises ``OptionError`` where it runs backwards, ``DataLossError`` where the log does not hold
    all of it; with ``fail_on_data_loss`` false that is a warning, and the ends move. Of a range
    without any offset nothing can be lost, wherever it lies. Up to the ``high_watermark`` the log has
    records that are not committed: nobody may read them yet, so ``OptionError``.
    """
    if start.offset != end.offset and high_watermark is not None:
        for limit in (start, end):
            _check_below_stable_offset(limit, bounds, high_watermark)
    if start.offset > end.offset:
        named = " and ".join(end.option for end in (start, end) if end.option)
        options = f"option {named}: " if named else ""
        raise OptionError(f"{options}{bounds.log} would start at {start.offset} and end at {end.offset}")
    if start.offset == end.offset:
        nowhere = End(_inside(start.offset, bounds))
        return OffsetRange(bounds.log, nowhere.offset, nowhere.offset), nowhere, nowhere
    first, last = (_clamped(limit, bounds, fail_on_data_loss) for limit in (start, end))
    return OffsetRange(bounds.log, first.offset, last.offset), first, last


def _check_below_stable_offset(limit: End, bounds: LogBounds, high_watermark: int) -> None:
    if limit.option is not None and bounds.latest < limit.offset <= high_watermark:
        raise OptionError(
            f"option {limit.option}: offset {limit.offset} of {bounds.log} is after {bounds.latest}, the "
            "last stable offset: a transaction is open there; end the range at that offset, wait until the "
            "transaction has ended, or set kafka.isolation.level=read_uncommitted"
        )


def _clamped(end: End, bounds: LogBounds, fail_on_data_loss: bool) -> End:
    if bounds.earliest <= end.offset <= bounds.latest:
        return end
    loss = (
        f"option {end.option}: offset {end.offset} is not in {bounds.log}, "
        f"which holds [{bounds.earliest}, {bounds.latest})"
    )
    if fail_on_data_loss:
        raise DataLossError(f"{loss}; to read what is left, set failOnDataLoss=false")
    _log.warning("%s; reading on because failOnDataLoss=false", loss)
    return End(_inside(end.offset, bounds))


def _names(logs: Sequence[TopicPartition]) -> str:
    """At most three of the names."""
    shown = ", ".join(str(log) for log in logs[:3])
    return f"{shown} and {len(logs) - 3} more" if len(logs) > 3 else shown
