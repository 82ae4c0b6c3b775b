"""Splitting of offset ranges into Spark partitions (option ``minPartitions`` and others). Pure.

In modern Kafka offsets count records: a range can be cut anywhere, and the cuts are those of Spark's own
Kafka connector. In 0.7 offsets count bytes, and the only known message boundaries are the starts of segment
files. So cuts are moved there, and there may be fewer and larger parts than requested.

Source of the proportions: Spark's KafkaOffsetRangeCalculator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from ..errors import OptionError, counted
from ..model import OffsetRange, TopicPartition

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
    """Split ranges so that none is larger than ``size_max`` and there are at least ``min_partitions``, as far
    as ``cut_points`` allow it. Empty ranges are left out.

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
    return parts


def _check_count(parts: Sequence[OffsetRange], size_max: int, cut_points: CutPoints) -> None:
    count = sum(-(-part.size // size_max) for part in parts) if cut_points is None else 0
    if count > RANGES_COUNT_MAX:
        raise OptionError(
            f"option maxRecordsPerPartition: parts of {counted(size_max, 'record')} would be {count} "
            f"Spark partitions, at most {RANGES_COUNT_MAX} are planned; raise it"
        )


def _split_by_size(whole: OffsetRange, size_max: int, cut_points: CutPoints) -> Iterable[OffsetRange]:
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


def _inner(whole: OffsetRange, cut_points: Mapping[TopicPartition, Sequence[int]]) -> list[int]:
    """Cut points strictly inside the range."""
    return [
        point
        for point in cut_points.get(whole.topic_partition, ())
        if whole.start_offset < point < whole.stop_offset
    ]


def _nearest(points: Sequence[int], offset: int) -> int:
    return min(points, key=lambda point: abs(point - offset))


def _round(value: float) -> int:
    """Round as Java's Math.round: halves go up."""
    return int(value + 0.5)
