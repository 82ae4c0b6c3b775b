"""Splitting offset ranges into Spark partitions. Pure.

Where offsets count records, a range may be cut anywhere, and the cuts are those of Spark's own
Kafka connector. Where they count bytes (0.7), the only known message boundaries are the starts of
segment files, so cuts are moved there and parts may come out larger or fewer than asked for.

Source of the proportions: Spark's KafkaOffsetRangeCalculator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from ..errors import OptionError
from ..model import OffsetRange, TopicPartition

#: Ranges of one read: each is a Spark task, and takes a kilobyte of the driver. As many can be asked for
#: by ``minPartitions``.
RANGES_COUNT_MAX: Final = 1_000_000
#: Per log, the ascending offsets at which it may be cut; None where it may be cut anywhere.
CutPoints = Mapping[TopicPartition, Sequence[int]] | None


def split(
    ranges: Sequence[OffsetRange],
    min_partitions: int | None,
    size_max: int | None,
    cut_points: CutPoints = None,
) -> tuple[OffsetRange, ...]:
    """The ranges, empty ones left out, split so that none is larger than ``size_max`` and there are
    at least ``min_partitions`` of them, as far as ``cut_points`` allow it.

    Raises ``OptionError`` (fatal) where ``size_max`` asks for more than ``RANGES_COUNT_MAX``.
    """
    parts = tuple(log_range for log_range in ranges if log_range.size > 0)
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
            f"option maxRecordsPerPartition: parts of {size_max} records would be {count} Spark partitions, "
            f"at most {RANGES_COUNT_MAX} are planned; raise it"
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
    """How many parts each range gets. Ranges whose share is at most one part stay whole, and the
    others share what is left."""
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
    return (OffsetRange(whole.log, start, stop) for start, stop in pairwise(ends) if start < stop)


def _inner(whole: OffsetRange, cut_points: Mapping[TopicPartition, Sequence[int]]) -> list[int]:
    """The cut points strictly inside the range."""
    return [
        point for point in cut_points.get(whole.log, ()) if whole.start_offset < point < whole.stop_offset
    ]


def _nearest(points: Sequence[int], offset: int) -> int:
    return min(points, key=lambda point: abs(point - offset))


def _round(value: float) -> int:
    """Java's Math.round: halves go up."""
    return int(value + 0.5)
