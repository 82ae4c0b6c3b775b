"""Range splitting: Spark's own vectors, and cuts that must stay at segment starts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, overload

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import OffsetRange, TopicPartition
from spark_kafkawire.planner.ranges import split
from tests.support.cases import for_each

Bounds = list[tuple[int, int]]

#: (minPartitions, maxRecordsPerPartition, ranges, parts per range), the numbers of Spark's
#: KafkaOffsetRangeCalculatorSuite.
VECTORS: list[tuple[int | None, int | None, Bounds, list[Bounds]]] = [
    (4, None, [(1, 5)], [[(1, 2), (2, 3), (3, 4), (4, 5)]]),
    (4, None, [(1, 5), (1, 21)], [[(1, 5)], [(1, 7), (7, 14), (14, 21)]]),
    (4, None, [(1, 1), (1, 21)], [[], [(1, 6), (6, 11), (11, 16), (16, 21)]]),
    (4, None, [(1, 2), (1, 1001)], [[(1, 2)], [(1, 334), (334, 667), (667, 1001)]]),
    (1, None, [(1, 5), (1, 21)], [[(1, 5)], [(1, 21)]]),
    (3, None, [(1, 11)], [[(1, 4), (4, 7), (7, 11)]]),
    (6, None, [(0, 10), (0, 10), (0, 1)], [[(0, 3), (3, 6), (6, 10)], [(0, 3), (3, 6), (6, 10)], [(0, 1)]]),
    (
        9,
        None,
        [(0, 10000), (0, 15000), (0, 20000)],
        [[(n, n + 5000) for n in range(0, top, 5000)] for top in (10000, 15000, 20000)],
    ),
    (
        6,
        None,
        [(0, 500), (0, 12000), (0, 15001)],
        [[(0, 500)], [(0, 6000), (6000, 12000)], [(0, 5000), (5000, 10000), (10000, 15001)]],
    ),
    (
        6,
        None,
        [(0, 1), (0, 1), (0, 10000)],
        [[(0, 1)], [(0, 1)], [(n, n + 2500) for n in range(0, 10000, 2500)]],
    ),
    (None, 4, [(1, 5)], [[(1, 5)]]),
    (None, 4, [(1, 6)], [[(1, 3), (3, 6)]]),
    (
        None,
        20,
        [(1, 40), (1, 50), (1, 60)],
        [[(1, 20), (20, 40)], [(1, 17), (17, 33), (33, 50)], [(1, 20), (20, 40), (40, 60)]],
    ),
    (1, 20, [(1, 40)], [[(1, 20), (20, 40)]]),
    (4, 20, [(1, 40)], [[(1, 10), (10, 20), (20, 30), (30, 40)]]),
]
#: The same where Spark's connector leaves a range larger than twice the mean: first its own parts, then ours.
SKEWED: list[tuple[int, Bounds, list[Bounds]]] = [
    (3, [(0, 1), (0, 1), (0, 1000)], [[(0, 1)], [(0, 1)], [(0, 500), (500, 1000)]]),
    (1, [(0, 4), (0, 4), (0, 4), (0, 48)], [[(0, 4)], [(0, 4)], [(0, 4)], [(0, 24), (24, 48)]]),
    (4, [(5, 6), (0, 0), (5, 6), (0, 9)], [[(5, 6)], [], [(5, 6)], [(0, 4), (4, 9)]]),
    (2, [(0, 10), (0, 20), (0, 30)], [[(0, 10)], [(0, 20)], [(0, 30)]]),
]


def named(bounds: Bounds) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition("t", number), *ends) for number, ends in enumerate(bounds)]


@for_each(("min_partitions", "size_max", "ranges", "expected"), VECTORS)
def test_records_are_split_as_sparks_connector_splits_them(
    min_partitions: int | None, size_max: int | None, ranges: Bounds, expected: list[Bounds]
) -> None:
    parts = split(named(ranges), min_partitions, size_max)
    found = [
        [(part.start_offset, part.stop_offset) for part in parts if part.topic_partition.partition == n]
        for n in range(len(ranges))
    ]
    assert found == expected


@pytest.mark.parametrize(("min_partitions", "ranges", "expected"), SKEWED)
def test_a_range_above_twice_the_mean_is_split_however_many_ranges_there_are(
    min_partitions: int, ranges: Bounds, expected: list[Bounds]
) -> None:
    parts = split(named(ranges), min_partitions, None)
    found = [
        [(part.start_offset, part.stop_offset) for part in parts if part.topic_partition.partition == n]
        for n in range(len(ranges))
    ]
    assert found == expected
    assert split(named(ranges), None, None) == tuple(each for each in named(ranges) if each.size)


#: Sizes of ranges, with some that are a thousand times as large as others.
SIZES = st.lists(st.integers(0, 40) | st.integers(0, 40_000), max_size=30)
SIZE_MAX = st.none() | st.integers(1, 20_000)


@given(SIZES, st.integers(1, 80), SIZE_MAX)
def test_no_part_of_records_is_larger_than_three_times_the_mean(
    sizes: list[int], min_partitions: int, size_max: int | None
) -> None:
    ranges = named([(7, 7 + size) for size in sizes])
    parts = split(ranges, min_partitions, size_max)
    check_cover(ranges, parts)
    before = split(ranges, None, size_max)
    most = max(len(before), min_partitions)
    # Rounding of proportions gives half of a part more for each range, and the last step half as many again.
    assert len(parts) <= 1.75 * (most + len(before) / 2)
    total = sum(part.size for part in parts)
    assert all(part.size * len(parts) <= 3 * total for part in parts)
    assert size_max is None or all(part.size <= size_max for part in parts)


#: Sizes of the segments of one partition: of many small ones, or a few.
SEGMENTS = st.lists(st.integers(1, 60) | st.integers(1, 6000), max_size=30) | st.just([1])


@given(st.lists(SEGMENTS, min_size=3, max_size=8), st.integers(1, 12), SIZE_MAX)
def test_no_part_of_several_segments_is_larger_than_three_times_the_mean(
    logs: list[list[int]], min_partitions: int, size_max: int | None
) -> None:
    ranges, cut_points = [], {}
    for number, segments in enumerate(logs):
        partition = TopicPartition("t", number, 0)
        starts = [*accumulate(segments, initial=100)]
        ranges.append(OffsetRange(partition, starts[0], starts[-1]))
        cut_points[partition] = starts
    parts = split(ranges, min_partitions, size_max, cut_points)
    check_cover(ranges, parts)
    total = sum(part.size for part in parts)
    for part in parts:
        points = cut_points[part.topic_partition]
        assert {part.start_offset, part.stop_offset} <= set(points)
        if any(part.start_offset < point < part.stop_offset for point in points):
            assert part.size * len(parts) <= 3 * total


def test_segments_are_packed_again_if_large_ones_have_made_the_mean_small() -> None:
    """Ten partitions of a byte, and one with five segments of 93 bytes and 535 of a byte. Parts of at most
    183 bytes are 18, and the largest has 3.3 times their mean."""
    hot = TopicPartition("t", 10, 0)
    starts = [*accumulate([93] * 5 + [1] * 535, initial=0)]
    ranges = [*(OffsetRange(TopicPartition("t", n, 0), 0, 1) for n in range(10)), OffsetRange(hot, 0, 1000)]
    parts = split(ranges, 1, None, {hot: starts})
    assert [part.size for part in parts] == [1] * 10 + [93] * 4 + [112, 71] * 3 + [79]


def check_cover(ranges: list[OffsetRange], parts: tuple[OffsetRange, ...]) -> None:
    """Check that parts cover the ranges exactly, in their order, and that none is empty."""
    by_partition: dict[TopicPartition, list[OffsetRange]] = {}
    for part in parts:
        assert part.size > 0
        by_partition.setdefault(part.topic_partition, []).append(part)
    filled = [each for each in ranges if each.size]
    assert list(by_partition) == [each.topic_partition for each in filled]
    for whole in filled:
        own = by_partition[whole.topic_partition]
        assert (own[0].start_offset, own[-1].stop_offset) == (whole.start_offset, whole.stop_offset)
        assert all(left.stop_offset == right.start_offset for left, right in pairwise(own))


def calls_of(run: Callable[[], object]) -> int:
    """Number of calls of Python functions and of functions in C: a measure of work without a clock."""
    count = 0

    def seen(_: Any, event: str, __: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count


class Points(Sequence[int]):
    """Cut points of which each look is a call."""

    def __init__(self, points: Sequence[int]) -> None:
        self._points = points

    def __len__(self) -> int:
        return len(self._points)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        return self._points[index]


@pytest.mark.parametrize("has_segments", [False, True])
def test_the_work_grows_with_the_ranges(has_segments: bool) -> None:
    """Ten thousand partitions of which one has 99 % of the data. With bytes it has a segment for each other
    partition, and the search for cuts was quadratic."""

    def work(count: int) -> int:
        sizes = [100] * (count - 1) + [99 * 100 * (count - 1)]
        ranges = [OffsetRange(TopicPartition("t", n, 0), 0, size) for n, size in enumerate(sizes)]
        hot = ranges[-1].topic_partition
        cut_points = {hot: Points(range(0, sizes[-1], 9900))} if has_segments else None
        found: list[tuple[OffsetRange, ...]] = []
        calls = calls_of(lambda: found.append(split(ranges, 200, 10**9, cut_points)))
        hot_parts = [part for part in found[0] if part.topic_partition == hot]
        assert 0.4 * count <= len(hot_parts) <= 0.8 * count
        return calls

    assert work(10_000) <= 12 * work(1_000)


@pytest.mark.slow
def test_more_parts_than_a_driver_can_hold_are_an_error() -> None:
    ranges = [OffsetRange(TopicPartition("t", number), 0, 500_000) for number in range(2)]
    assert len(split(ranges, None, 1)) == 1_000_000
    with pytest.raises(
        OptionError,
        match=r"maxRecordsPerPartition: parts of 7 records would be 1317624\d+ .*, at most 1000000 ",
    ):
        split([*ranges, OffsetRange(TopicPartition("t", 2), 0, 2**63 - 1)], None, 7)
    partition = TopicPartition("t", 3, 0)
    assert len(split([OffsetRange(partition, 0, 2**62)], None, 7, {partition: (100,)})) == 2


def test_byte_ranges_are_cut_at_the_nearest_segment_start() -> None:
    partition = TopicPartition("t", 0, 0)
    parts = split([OffsetRange(partition, 10, 1000)], 2, None, {partition: [0, 300, 480, 900]})
    assert [(part.start_offset, part.stop_offset) for part in parts] == [(10, 480), (480, 1000)]


def test_a_byte_range_without_a_segment_start_inside_stays_whole() -> None:
    partition = TopicPartition("t", 0, 0)
    parts = split([OffsetRange(partition, 10, 1000)], 40, 5, {partition: [0, 10, 1000]})
    assert [(part.start_offset, part.stop_offset) for part in parts] == [(10, 1000)]


def test_segments_are_packed_up_to_the_size() -> None:
    partition = TopicPartition("t", 0, 0)
    parts = split([OffsetRange(partition, 0, 1000)], None, 500, {partition: [0, 200, 400, 600, 950]})
    assert [(part.start_offset, part.stop_offset) for part in parts] == [(0, 400), (400, 600), (600, 1000)]


@given(
    st.lists(st.integers(0, 5000), min_size=2, max_size=12, unique=True).map(sorted),
    st.one_of(st.none(), st.integers(1, 60)),
    st.one_of(st.none(), st.integers(1, 3000)),
)
def test_parts_cover_the_range_and_begin_at_segment_starts(
    points: list[int], min_partitions: int | None, size_max: int | None
) -> None:
    partition = TopicPartition("t", 0, 0)
    parts = split(
        [OffsetRange(partition, points[0], points[-1])], min_partitions, size_max, {partition: points}
    )
    assert parts[0].start_offset == points[0]
    assert parts[-1].stop_offset == points[-1]
    assert all(left.stop_offset == right.start_offset for left, right in pairwise(parts))
    assert {part.start_offset for part in parts} <= set(points)
    if size_max is not None:
        ends = dict(pairwise(points))
        assert all(part.size <= size_max or part.stop_offset == ends[part.start_offset] for part in parts)
