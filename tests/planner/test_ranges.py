"""Range splitting: Spark's own vectors, and cuts that must stay at segment starts."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import OffsetRange, TopicPartition
from spark_kafkawire.planner.ranges import split

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


def named(bounds: Bounds) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition("t", number), *ends) for number, ends in enumerate(bounds)]


@pytest.mark.parametrize(("min_partitions", "size_max", "ranges", "expected"), VECTORS)
def test_records_are_split_as_sparks_connector_splits_them(
    min_partitions: int | None, size_max: int | None, ranges: Bounds, expected: list[Bounds]
) -> None:
    parts = split(named(ranges), min_partitions, size_max)
    found = [
        [(part.start_offset, part.stop_offset) for part in parts if part.topic_partition.partition == n]
        for n in range(len(ranges))
    ]
    assert found == expected


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
