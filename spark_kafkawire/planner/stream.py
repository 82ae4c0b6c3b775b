"""How far a streaming query goes next, and what a batch of it reads. Pure.

    start ── next_offsets(start, bounds, limits) ──► end          (into the checkpoint, by Spark)
    start, end ── ranges_between(start, end, earliest) ──► what the batch reads, now and when it is run again

``start`` is where the batch before ended. A log that is not in it is new, and begins at its earliest
offset; one that stands at ``UNPINNED`` begins where this batch ends, so that the checkpoint knows the
start of the query before any of its rows was read. ``earliest`` is asked for new logs alone.

Source of the limits: Spark's KafkaMicroBatchStream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..model import LogBounds, OffsetRange, TopicPartition
from ..options import StreamLimits
from .shares import limited
from .stream_offsets import UNPINNED, Offsets

#: What the cluster says of each log.
Bounds = Mapping[TopicPartition, LogBounds]
#: No limit holds: the trigger Once, or no option that sets one.
UNLIMITED = StreamLimits()


def next_offsets(start: Offsets, bounds: Bounds, size_max: int | None = None) -> dict[TopicPartition, int]:
    """Where the next batch ends: the latest offsets, or as far as ``size_max`` reaches.

    A batch that pins a start takes in no new logs: they are those of the batch after it.
    """
    if UNPINNED in start.values():
        bounds = {log: found for log, found in bounds.items() if log in start}
    ends = {log: found.latest for log, found in bounds.items()}
    ranges = [
        OffsetRange(log, begin, ends[log])
        for log, found in bounds.items()
        if (begin := _begin(start, found)) < ends[log]
    ]
    if size_max is not None:
        ends.update((each.log, each.stop_offset) for each in limited(ranges, size_max, bounds))
    return ends


def must_wait(start: Offsets, bounds: Bounds, limits: StreamLimits, waited_s: float) -> bool:
    """Whether a batch would be too small yet. ``waited_s`` is how long ago the last one was not."""
    if limits.size_min is None or waited_s >= limits.delay_max_s or UNPINNED in start.values():
        return False
    return sum(max(found.latest - _begin(start, found), 0) for found in bounds.values()) < limits.size_min


def _begin(start: Offsets, bounds: LogBounds) -> int:
    offset = start.get(bounds.log, bounds.earliest)
    return bounds.latest if offset == UNPINNED else offset


def until(bounds: Bounds, ends: Offsets) -> dict[TopicPartition, LogBounds]:
    """The bounds as if the logs had ended where they did when the ends were asked for; logs that came later
    are not there."""
    return {
        log: replace(found, latest=min(found.latest, ends[log]))
        for log, found in bounds.items()
        if log in ends
    }


@dataclass(frozen=True, slots=True)
class Losses:
    """Why a batch cannot be what it should: ``vanished`` logs are not there any more, in which the query
    stands at an offset, and of the ``shorter`` ones the end is before what was read."""

    vanished: tuple[tuple[TopicPartition, int], ...] = ()
    shorter: tuple[tuple[TopicPartition, int, int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.vanished or self.shorter)

    def __str__(self) -> str:
        told = [*_some("is not there any more", self.vanished)]
        told += [f"the end of {log} was changed from {old} to {new}" for log, old, new in self.shorter[:3]]
        more = f", and {len(self.shorter) - 3} more" if len(self.shorter) > 3 else ""
        return "; ".join(told) + more + ": a topic was deleted or made anew, or a log lost its end"


def _some(what: str, places: tuple[tuple[TopicPartition, int], ...]) -> Iterable[str]:
    if places:
        told = ", ".join(f"{log} at offset {offset}" for log, offset in places[:3])
        more = f" and {len(places) - 3} more" if len(places) > 3 else ""
        yield f"{told}{more} {what}"


def losses(start: Offsets, ends: Offsets) -> Losses:
    """What is gone between where a query stands and ``ends``: the latest offsets, or a batch's."""
    return Losses(
        vanished=tuple(
            (log, start[log]) for log in sorted(start) if log not in ends and start[log] != UNPINNED
        ),
        shorter=tuple(
            (log, start[log], ends[log]) for log in sorted(start) if log in ends and ends[log] < start[log]
        ),
    )


def offsets_behind(end: Offsets, latest: Offsets) -> dict[str, float]:
    """How far a query is behind, by partition, under the names of the metrics of Spark's own source; empty
    where there is no partition. One that the query has not got yet counts from 0, as there.

    Source: Spark's KafkaMicroBatchStream.metrics.
    """
    behind = [offset - end.get(log, 0) for log, offset in latest.items()]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": min(behind),
        "maxOffsetsBehindLatest": max(behind),
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
    }


def ranges_between(
    start: Offsets, end: Offsets, earliest: Offsets
) -> tuple[tuple[OffsetRange, ...], tuple[OffsetRange, ...]]:
    """What a batch reads, and what of new logs it cannot read because that is gone.

    ``earliest`` are the first offsets of the logs that are new. Empty ranges are left out.
    """
    ranges, gone = [], []
    for log, stop in end.items():
        begin = start.get(log, 0)
        if begin == UNPINNED:
            continue
        if log not in start and (first := min(earliest[log], stop)) > 0:
            gone.append(OffsetRange(log, 0, first))
            begin = first
        if begin < stop:
            ranges.append(OffsetRange(log, begin, stop))
    return tuple(ranges), tuple(gone)
