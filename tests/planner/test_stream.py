"""Ends of batches of a stream: Spark's own numbers, limits of partitions, and batches that run again."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.model import OffsetRange, PartitionBounds, TopicPartition
from spark_kafkawire.options import StreamLimits
from spark_kafkawire.planner.stream import (
    must_wait,
    next_offsets,
    offsets_behind,
    ranges_between,
    until,
)
from spark_kafkawire.planner.stream_offsets import UNPINNED
from tests.support.cases import for_each

A, B, C = (TopicPartition("t", number) for number in range(3))
OLD = TopicPartition("t", 1, broker=0)


def bounds(*ends: PartitionBounds) -> dict[TopicPartition, PartitionBounds]:
    return {each.topic_partition: each for each in ends}


def test_without_a_limit_a_batch_ends_at_the_latest_offsets() -> None:
    found = bounds(PartitionBounds(A, 2, 10), PartitionBounds(B, 0, 0))
    assert next_offsets({A: 5, B: 0}, found) == {A: 10, B: 0}


@for_each(
    ("size_max", "behind", "sizes"),
    [
        (15, [10, 10], [7, 7]),  # as Spark's own connector did
        (15, [3, 3], [3, 3]),
        (10, [80, 19, 1], [8, 1, 1]),
        (1, [100, 100, 100], [1, 1, 1]),
        (100, [1000, 1], [99, 1]),
        (100, [0, 300, 100], [0, 75, 25]),
        ((1 << 63) - 1, [5, 7], [5, 7]),
        (29, [29, 71], [8, 20]),  # 29 * 0.29 and 29 * 0.71, cut off
    ],
)
def test_max_offsets_per_trigger_is_shared_by_lag_as_spark_shares_it(
    size_max: int, behind: list[int], sizes: list[int]
) -> None:
    partitions = [TopicPartition("t", number) for number in range(len(behind))]
    found = bounds(
        *(PartitionBounds(tp, 0, 1000 + size) for tp, size in zip(partitions, behind, strict=True))
    )
    ends = next_offsets(dict.fromkeys(partitions, 1000), found, size_max)
    assert [ends[tp] - 1000 for tp in partitions] == sizes


def test_a_new_partition_begins_at_its_earliest_offset() -> None:
    found = bounds(PartitionBounds(A, 0, 10), PartitionBounds(B, 40, 50))
    assert next_offsets({A: 0}, found, 10) == {A: 5, B: 45}


def test_a_partition_without_a_start_is_pinned_where_it_ends_and_nothing_of_it_is_read() -> None:
    found = bounds(PartitionBounds(A, 0, 10), PartitionBounds(B, 0, 100), PartitionBounds(C, 0, 9))
    start = {A: UNPINNED, B: 50}
    end = next_offsets(start, found, 10)
    assert end == {A: 10, B: 60}  # C is new, and the next batch's: else its rows would be pinned away
    assert ranges_between(start, end, {}) == ((OffsetRange(B, 50, 60),), ())
    assert next_offsets(end, found, 10) == {A: 10, B: 68, C: 1}


@pytest.mark.parametrize(
    ("limit", "end"), [(1, 400), (399, 400), (400, 400), (699, 400), (700, 700), (999, 700), (1000, 1000)]
)
def test_a_batch_of_bytes_ends_where_a_segment_or_the_log_does(limit: int, end: int) -> None:
    found = bounds(PartitionBounds(OLD, 0, 1000, (0, 400, 700)))
    assert next_offsets({OLD: 0}, found, limit) == {OLD: end}


def test_a_batch_waits_for_enough_records_but_not_for_ever() -> None:
    found, limits = bounds(PartitionBounds(A, 0, 10), PartitionBounds(B, 3, 5)), StreamLimits(None, 10, 60.0)
    assert not must_wait({A: 2}, found, limits, waited_s=0)  # 8 of A, and 2 of B, which is new
    assert must_wait({A: 3}, found, limits, waited_s=59.9)
    assert not must_wait({A: 3}, found, limits, waited_s=60.0)
    assert not must_wait({A: UNPINNED}, found, limits, waited_s=0)
    assert not must_wait({A: 10, B: 5}, found, StreamLimits(), waited_s=0)


def test_a_bounded_query_sees_nothing_that_came_later() -> None:
    found = bounds(PartitionBounds(A, 0, 10), PartitionBounds(B, 0, 5), PartitionBounds(C, 0, 5))
    assert next_offsets({A: 0}, until(found, {A: 7, B: 9})) == {A: 7, B: 5}


def test_lag_has_the_names_of_the_metrics_of_sparks_own_source_and_its_arithmetic() -> None:
    assert offsets_behind({A: 3, B: 10}, {A: 10, B: 10, C: 2}) == {
        "minOffsetsBehindLatest": 0,
        "maxOffsetsBehindLatest": 7,
        "avgOffsetsBehindLatest": 3.0,
    }
    assert offsets_behind({A: 3}, {}) == {}


def test_the_start_of_a_new_partition_that_is_gone_is_lost() -> None:
    assert ranges_between({}, {A: 10, B: 5}, {A: 3, B: 8}) == (
        (OffsetRange(A, 3, 10),),
        (OffsetRange(A, 0, 3), OffsetRange(B, 0, 5)),
    )


def test_a_range_that_runs_backwards_is_none() -> None:
    assert ranges_between({A: 9, B: 1}, {A: 5, B: 1}, {}) == ((), ())


@st.composite
def watched(draw: st.DrawFn) -> tuple[dict[TopicPartition, int], dict[TopicPartition, PartitionBounds]]:
    """Positions of a query in some logs, and the bounds that the cluster gives, also of partitions
    that are new."""
    start, found = {}, {}
    segmented = draw(st.booleans())
    for number in range(draw(st.integers(1, 8))):
        partition = TopicPartition("t", number, 0 if segmented else None)
        marks = sorted(draw(st.sets(st.integers(0, 10**6), min_size=2, max_size=6)))
        found[partition] = PartitionBounds(
            partition, marks[0], marks[-1], tuple(marks[:-1]) if segmented else None
        )
        if draw(st.booleans()):
            start[partition] = draw(st.sampled_from(marks) if segmented else st.integers(marks[0], marks[-1]))
    return start, found


@given(watched(), st.integers(1, 10**7))
def test_limited_batches_get_on_and_read_each_offset_once(
    cluster: tuple[dict[TopicPartition, int], dict[TopicPartition, PartitionBounds]], size_max: int
) -> None:
    start, found = cluster
    size_max = max(size_max, 20_000)  # so that some dozen batches do
    earliest = {tp: each.earliest for tp, each in found.items()}
    first = {tp: start.get(tp, each.earliest) for tp, each in found.items()}
    reached: Mapping[TopicPartition, int] = start
    for number in count():
        end = next_offsets(reached, found, size_max)
        ranges, gone = ranges_between({**earliest, **reached}, end, earliest)
        if end == reached:
            break
        assert not gone
        assert number < 1000
        for each in ranges:
            assert each.start_offset == (first if number == 0 else reached)[each.topic_partition]
            assert each.stop_offset <= found[each.topic_partition].latest
            cuts = found[each.topic_partition].segment_starts
            assert cuts is None or each.stop_offset in {*cuts, found[each.topic_partition].latest}
        if not any(each.segment_starts for each in found.values()):
            behind = len(ranges)
            assert sum(each.size for each in ranges) <= size_max + behind
        reached = end
    assert reached == {tp: each.latest for tp, each in found.items()}


@given(watched(), st.integers(1, 10**7))
def test_a_batch_is_the_same_when_it_is_run_again(
    cluster: tuple[dict[TopicPartition, int], dict[TopicPartition, PartitionBounds]], size_max: int
) -> None:
    start, found = cluster
    end = next_offsets(start, found, size_max)
    earliest = {tp: each.earliest for tp, each in found.items()}
    later = {tp: PartitionBounds(tp, each.earliest, each.latest + 5) for tp, each in found.items()}
    assert ranges_between(start, end, earliest) == ranges_between(start, dict(end), earliest)
    again = next_offsets(end, later)
    assert all(again[tp] >= end[tp] for tp in end)
