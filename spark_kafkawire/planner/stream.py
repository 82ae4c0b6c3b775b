"""Offsets of the batches of a stream, for both generations: the next end, and the ranges to read. Pure.

    start ── next_offsets(start, bounds, limits) ──► end          (into the checkpoint, by Spark)
    start, end ── ranges_between(start, end, earliest) ──► ranges of the batch, also when it runs again

``start`` is the end of the previous batch. A partition that is not in it is new, and begins at its earliest
offset. A partition at ``UNPINNED`` begins where this batch ends, so that the checkpoint contains the start of
the query before any row is read. ``earliest`` is only requested for new partitions.

Source of the limits: Spark's KafkaMicroBatchStream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..model import OffsetRange, PartitionBounds, TopicPartition
from ..options import StreamLimits
from .shares import limited
from .stream_offsets import UNPINNED, Offsets

#: Bounds of each partition, from the cluster.
Bounds = Mapping[TopicPartition, PartitionBounds]
#: No limits: the trigger Once, or options without a limit.
UNLIMITED = StreamLimits()


def next_offsets(start: Offsets, bounds: Bounds, size_max: int | None = None) -> dict[TopicPartition, int]:
    """End offsets of the next batch: the latest offsets, or as far as ``size_max`` allows.

    A batch that pins a start adds no new partitions: the batch after it does.
    """
    if UNPINNED in start.values():
        bounds = {tp: found for tp, found in bounds.items() if tp in start}
    ends = {tp: found.latest for tp, found in bounds.items()}
    ranges = [
        OffsetRange(tp, begin, ends[tp])
        for tp, found in bounds.items()
        if (begin := _begin(start, found)) < ends[tp]
    ]
    if size_max is not None:
        ends.update((each.topic_partition, each.stop_offset) for each in limited(ranges, size_max, bounds))
    return ends


def must_wait(start: Offsets, bounds: Bounds, limits: StreamLimits, waited_s: float) -> bool:
    """True if a batch would be too small now. ``waited_s`` is the time since the last batch, seconds."""
    if limits.size_min is None or waited_s >= limits.delay_max_s or UNPINNED in start.values():
        return False
    return sum(max(found.latest - _begin(start, found), 0) for found in bounds.values()) < limits.size_min


def _begin(start: Offsets, bounds: PartitionBounds) -> int:
    offset = start.get(bounds.topic_partition, bounds.earliest)
    return bounds.latest if offset == UNPINNED else offset


def until(bounds: Bounds, ends: Offsets) -> dict[TopicPartition, PartitionBounds]:
    """Bounds limited to earlier ``ends``, without partitions that ``ends`` does not have."""
    return {
        tp: replace(found, latest=min(found.latest, ends[tp])) for tp, found in bounds.items() if tp in ends
    }


def offsets_behind(end: Offsets, latest: Offsets) -> dict[str, float]:
    """Metrics of the lag of a query, with the names of Spark's own source; empty without partitions. A
    partition that the query does not have yet counts from 0, as in that source.

    Source: Spark's KafkaMicroBatchStream.metrics.
    """
    behind = [offset - end.get(tp, 0) for tp, offset in latest.items()]
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
    """Ranges that a batch reads, and ranges of new partitions that were deleted before.

    ``earliest`` are the first offsets of the new partitions. Empty ranges are left out.
    """
    ranges, gone = [], []
    for partition, stop in end.items():
        begin = start.get(partition, 0)
        if begin == UNPINNED:
            continue
        if partition not in start and (first := min(earliest[partition], stop)) > 0:
            gone.append(OffsetRange(partition, 0, first))
            begin = first
        if begin < stop:
            ranges.append(OffsetRange(partition, begin, stop))
    return tuple(ranges), tuple(gone)
