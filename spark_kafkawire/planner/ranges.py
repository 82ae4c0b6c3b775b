"""Splitting of offset ranges into Spark partitions (option ``minPartitions`` and others), and their shares
in a limit of a stream's batch. Pure.

Splitting leaves empty ranges out, and then:

1. A range larger than ``maxRecordsPerPartition`` (in 0.7 ``maxBytesPerPartition``) is split.
2. If there are fewer ranges than ``minPartitions``, ranges are split in proportion to their sizes, with the
   counts and the cuts of Spark's own Kafka connector.
3. With ``minPartitions``, whatever its value, a range larger than twice the mean is split into equal ones
   that are not. So the largest is at most three times the mean of the result: L = 2 T / n (total size T, n
   ranges) adds fewer than T / L ranges, half of n, or three quarters at most if L is rounded down. Spark's
   connector does nothing here: where a topic has more partitions than ``minPartitions``, the one with most of
   the data stays one task.

In modern Kafka offsets count records: a range can be cut anywhere. In 0.7 offsets count bytes, and the
only known message boundaries are the starts of segment files. So cuts are moved there, and there may be
fewer and larger parts than requested: a single segment is never split. Step 3 packs segments up to L.
This may add more ranges, which make the mean smaller, so the step is repeated until ranges of several
segments are at most three times the mean. Each repetition follows on half as many ranges again, so
there are few of them.

Work grows with the number of ranges, of parts and of cut points.

Shares of partitions in a limit of a stream's batch (``maxOffsetsPerTrigger``; bytes in 0.7) are in
proportion to what they have.

Source of the proportions: Spark's KafkaOffsetRangeCalculator, and KafkaMicroBatchStream.rateLimit.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from ..errors import OptionError, counted
from ..model import OffsetRange, PartitionBounds, TopicPartition

#: Bounds of each partition, from the cluster.
Bounds = Mapping[TopicPartition, PartitionBounds]
#: Most ranges of one read: each is a Spark task, and takes a kilobyte on the driver. ``minPartitions`` has
#: the same limit.
RANGES_COUNT_MAX: Final = 1_000_000
#: Offsets by partition at which it may be cut, ascending; None if it may be cut anywhere.
CutPoints = Mapping[TopicPartition, Sequence[int]] | None


def split(
    ranges: Sequence[OffsetRange],
    min_partitions: int | None,
    size_max: int | None,
    cut_points: CutPoints = None,
) -> tuple[OffsetRange, ...]:
    """Split ranges so that none is larger than ``size_max``, there are at least ``min_partitions``, and with
    ``min_partitions`` none is larger than three times the mean, as far as ``cut_points`` allow it. Empty
    ranges are left out.

    Raises ``OptionError`` (fatal) if ``size_max`` requires more than ``RANGES_COUNT_MAX``.
    """
    parts = tuple(offset_range for offset_range in ranges if offset_range.size > 0)
    if size_max is not None:
        _check_count(parts, size_max, cut_points)
        parts = tuple(part for whole in parts for part in _split_by_size(whole, size_max, cut_points))
    if min_partitions is not None and min_partitions > len(parts):
        counts = _proportional_counts([part.size for part in parts], min_partitions)
        parts = tuple(
            part
            for whole, count in zip(parts, counts, strict=True)
            for part in _split_evenly(whole, count, cut_points)
        )
    return parts if min_partitions is None else _level_parts(parts, cut_points)


def _level_parts(parts: tuple[OffsetRange, ...], cut_points: CutPoints) -> tuple[OffsetRange, ...]:
    """Parts of at most three times their mean, as far as ``cut_points`` allow it (step 3)."""
    total = sum(part.size for part in parts)
    while parts:
        size_max = 2 * total // len(parts)
        parts = tuple(piece for part in parts for piece in _split_by_size(part, size_max, cut_points))
        if size_max * len(parts) <= 3 * total:
            break
    return parts


def _check_count(parts: Sequence[OffsetRange], size_max: int, cut_points: CutPoints) -> None:
    count = sum(-(-part.size // size_max) for part in parts) if cut_points is None else 0
    if count > RANGES_COUNT_MAX:
        raise OptionError(
            f"option maxRecordsPerPartition: parts of {counted(size_max, 'record')} would be {count} "
            f"Spark partitions, at most {RANGES_COUNT_MAX} are planned; raise it"
        )


def _split_by_size(whole: OffsetRange, size_max: int, cut_points: CutPoints) -> Iterable[OffsetRange]:
    if whole.size <= size_max:
        return (whole,)
    if cut_points is None:
        return _split_evenly(whole, -(-whole.size // size_max), None)
    cuts, last = [], whole.start_offset
    points = [*_inner(whole, cut_points), whole.stop_offset]
    for point, following in pairwise(points):
        if following - last > size_max:
            cuts.append(point)
            last = point
    return _pieces(whole, cuts)


def _proportional_counts(sizes: Sequence[int], min_partitions: int) -> list[int]:
    """Number of parts of each range. Ranges with a share of at most one part stay whole, and the others
    divide the remaining parts."""
    total = sum(sizes)
    whole = [_round(size / total * min_partitions) <= 1 for size in sizes]
    split_total = sum(size for size, stays in zip(sizes, whole, strict=True) if not stays)
    left = min_partitions - sum(whole)
    return [
        1 if stays else max(1, _round(size / split_total * left))
        for size, stays in zip(sizes, whole, strict=True)
    ]


def _split_evenly(whole: OffsetRange, count: int, cut_points: CutPoints) -> Iterable[OffsetRange]:
    cuts, last = [], whole.start_offset
    for index in range(count - 1):
        last += (whole.stop_offset - last) // (count - index)
        cuts.append(last)
    if cut_points is not None:
        allowed = _inner(whole, cut_points)
        cuts = sorted({_nearest(allowed, cut) for cut in cuts}) if allowed else []
    return _pieces(whole, cuts)


def _pieces(whole: OffsetRange, cuts: Sequence[int]) -> Iterable[OffsetRange]:
    ends = [whole.start_offset, *cuts, whole.stop_offset]
    return (OffsetRange(whole.topic_partition, start, stop) for start, stop in pairwise(ends) if start < stop)


def _inner(whole: OffsetRange, cut_points: Mapping[TopicPartition, Sequence[int]]) -> Sequence[int]:
    """Cut points strictly inside the range."""
    points = cut_points.get(whole.topic_partition, ())
    return points[bisect_right(points, whole.start_offset) : bisect_left(points, whole.stop_offset)]


def _nearest(points: Sequence[int], offset: int) -> int:
    """The point at the least distance; the lower one of two."""
    index = bisect_left(points, offset)
    return min(points[max(index - 1, 0) : index + 1], key=lambda point: abs(point - offset))


def _round(value: float) -> int:
    """Round as Java's Math.round: halves go up."""
    return int(value + 0.5)


def limit_ranges(ranges: Sequence[OffsetRange], size_max: int, bounds: Bounds) -> tuple[OffsetRange, ...]:
    """The first ``size_max`` offsets of the ranges, in proportion to the size of each range.

    Each partition gets at least one offset, so that small partitions are not starved; so the total may be
    larger. In 0.7 a range can only end where a segment ends: at the last segment end within its share, or at
    the first one after its share, so that each partition makes progress.
    """
    total = sum(item.size for item in ranges)
    # The order of the operations is that of Spark, so that both round alike.
    return tuple(
        _first(item, size_max * (item.size / total), bounds[item.topic_partition]) if item.size else item
        for item in ranges
    )


def _first(whole: OffsetRange, share: float, bounds: PartitionBounds) -> OffsetRange:
    size = math.ceil(share) if share < 1 else math.floor(share)
    stop_offset = min(whole.start_offset + size, whole.stop_offset)
    if bounds.segment_starts is not None:
        starts = (start for start in bounds.segment_starts if whole.start_offset < start < whole.stop_offset)
        places = [*starts, whole.stop_offset]
        stop_offset = places[max(bisect_right(places, stop_offset) - 1, 0)]
    return replace(whole, stop_offset=stop_offset)
