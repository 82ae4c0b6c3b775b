"""Ranges of offsets: their parts, packs and limits."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, overload

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.clients.reading.task import FetchTask
from spark_kafkawire.errors import DataLossError, OptionError
from spark_kafkawire.model import (
    Broker,
    Leader,
    OffsetRange,
    PartitionBounds,
    TopicPartition,
)
from spark_kafkawire.options import (
    COMMITTED,
    EARLIEST,
    LATEST,
    LimitKind,
    OffsetLimit,
    OffsetLimits,
    ReadOptions,
    StreamOptions,
)
from spark_kafkawire.planner.batch import HINTED_COUNT, RANGES_COUNT_MAX, hint, packs, spark_partitions
from spark_kafkawire.planner.limits import (
    End,
    check_names,
    end_of,
    range_between,
    start_of,
)
from spark_kafkawire.planner.ranges import split
from tests.support.cases import for_each
from tests.support.golden import CORPUS

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
    result = [
        [(part.start_offset, part.stop_offset) for part in parts if part.topic_partition.partition == n]
        for n in range(len(ranges))
    ]
    assert result == expected


@pytest.mark.parametrize(("min_partitions", "ranges", "expected"), SKEWED)
def test_a_range_above_twice_the_mean_is_split_however_many_ranges_there_are(
    min_partitions: int, ranges: Bounds, expected: list[Bounds]
) -> None:
    parts = split(named(ranges), min_partitions, None)
    result = [
        [(part.start_offset, part.stop_offset) for part in parts if part.topic_partition.partition == n]
        for n in range(len(ranges))
    ]
    assert result == expected
    assert split(named(ranges), None, None) == tuple(item for item in named(ranges) if item.size)


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
    filled = [item for item in ranges if item.size]
    assert list(by_partition) == [item.topic_partition for item in filled]
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
        result: list[tuple[OffsetRange, ...]] = []
        calls = calls_of(lambda: result.append(split(ranges, 200, 10**9, cut_points)))
        hot_parts = [part for part in result[0] if part.topic_partition == hot]
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


PARTITION = TopicPartition("t", 1, 0)
OTHER = TopicPartition("t", 2, 0)
FOUND = PartitionBounds(PARTITION, earliest=100, latest=1000, segment_starts=(100, 400, 700))

AT = OffsetLimits("startingTimestamp", for_all=OffsetLimit(LimitKind.TIMESTAMP, 5_500))
UNTIL = OffsetLimits("endingTimestamp", for_all=OffsetLimit(LimitKind.TIMESTAMP, 5_500))


def start(reported: int | None, *, latest_if_no_match: bool = False) -> int:
    return start_of(AT, FOUND, {PARTITION: reported}, latest_if_no_match=latest_if_no_match).offset


def test_earliest_and_latest_are_the_partitions_bounds() -> None:
    whole = OffsetLimits("startingOffsets", for_all=EARLIEST)
    assert start_of(whole, FOUND, {}, latest_if_no_match=False) == End(100)
    assert end_of(OffsetLimits("endingOffsets", for_all=LATEST), FOUND, {}) == End(1000)


def test_an_offset_keeps_the_name_of_its_option() -> None:
    limits = OffsetLimits("startingOffsets", by_partition={PARTITION: OffsetLimit(LimitKind.OFFSET, 123)})
    assert start_of(limits, FOUND, {}, latest_if_no_match=False) == End(123, "startingOffsets")


def test_a_start_by_timestamp_is_what_the_cluster_tells() -> None:
    assert start(400) == 400


def test_a_start_after_the_last_message_is_an_error_or_latest() -> None:
    with pytest.raises(
        OptionError,
        match=r"startingTimestamp: no offset matched from request: t 0-1 has no message at or after 5500",
    ):
        start(None)
    assert start(None, latest_if_no_match=True) == 1000


@pytest.mark.parametrize(("reported", "expected"), [(400, 400), (None, 1000)])
def test_an_end_by_timestamp_is_what_the_cluster_tells_or_latest(reported: int | None, expected: int) -> None:
    assert end_of(UNTIL, FOUND, {PARTITION: reported}).offset == expected


def test_a_committed_start_is_checked_as_an_offset_that_the_user_gave() -> None:
    limits = OffsetLimits("startingOffsets", for_all=COMMITTED)
    assert start_of(limits, FOUND, {PARTITION: 7}, latest_if_no_match=False) == End(7, "startingOffsets")


def test_a_group_without_a_commit_is_an_error_that_says_what_to_do() -> None:
    limits = OffsetLimits("startingOffsets", for_all=COMMITTED)
    with pytest.raises(OptionError, match=r"no offset for t 0-1; commit one, or give offsets as \{"):
        start_of(limits, FOUND, {PARTITION: None}, latest_if_no_match=True)


def test_offsets_by_partition_must_name_the_partitions_that_are_read() -> None:
    limits = OffsetLimits("startingOffsets", by_partition={PARTITION: EARLIEST})
    check_names(limits, [PARTITION])
    with pytest.raises(OptionError, match=r"startingOffsets must name exactly .*: t 0-2 is missing"):
        check_names(limits, [PARTITION, OTHER])
    with pytest.raises(OptionError, match="t 0-1 is not read, t 0-2 is missing"):
        check_names(limits, [OTHER])


def test_a_range_inside_the_log_is_taken_as_it_is() -> None:
    ends = End(100, "startingOffsets"), End(1000)
    assert range_between(*ends, FOUND, fail_on_data_loss=True) == (OffsetRange(PARTITION, 100, 1000), *ends)


def test_a_range_that_runs_backwards_names_its_options() -> None:
    with pytest.raises(
        OptionError, match=r"startingOffsets and endingOffsets: t 0-1 would start at 500 and end at 400"
    ):
        range_between(End(500, "startingOffsets"), End(400, "endingOffsets"), FOUND, fail_on_data_loss=False)


@pytest.mark.parametrize("offset", [0, 99, 1001])
def test_an_offset_outside_of_the_log_is_a_data_loss(offset: int) -> None:
    with pytest.raises(
        DataLossError, match=rf"startingOffsets: offset {offset} is not in t 0-1, which holds \[100, 1000\)"
    ):
        range_between(
            End(offset, "startingOffsets"), End(max(offset, 1000) + 1), FOUND, fail_on_data_loss=True
        )


@pytest.mark.parametrize(("offset", "taken"), [(0, 100), (99, 100), (500, 500), (1001, 1000), (2**62, 1000)])
def test_a_range_without_offsets_loses_nothing_wherever_it_lies(offset: int, taken: int) -> None:
    ends = End(offset, "startingOffsets"), End(offset, "endingOffsets")
    offset_range, _, _ = range_between(*ends, FOUND, fail_on_data_loss=True)
    assert offset_range == OffsetRange(PARTITION, taken, taken)


def test_without_fail_on_data_loss_what_survives_is_read_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        ranges = range_between(
            End(7, "startingOffsets"), End(2000, "endingOffsets"), FOUND, fail_on_data_loss=False
        )
    assert ranges == (OffsetRange(PARTITION, 100, 1000), End(100), End(1000))
    assert ["offset 7 is not in" in caplog.text, "offset 2000 is not in" in caplog.text] == [True, True]


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
@pytest.mark.parametrize(
    ("option", "start_offset", "end_offset"),
    [("endingOffsets", 500, 1200), ("startingOffsets", 1100, 1200), ("startingOffsets", 1100, 1000)],
)
def test_what_a_transaction_still_holds_back_is_no_data_loss(
    fail_on_data_loss: bool, option: str, start_offset: int, end_offset: int
) -> None:
    ends = End(start_offset, "startingOffsets"), End(end_offset, "endingOffsets")
    offset = end_offset if option == "endingOffsets" else start_offset
    with pytest.raises(
        OptionError,
        match=rf"^option {option}: offset {offset} of t 0-1 is after 1000, the last stable offset: "
        r"a transaction is open there; end the range at that offset, wait until the transaction has ended, "
        r"or set kafka.isolation.level=read_uncommitted$",
    ):
        range_between(*ends, FOUND, fail_on_data_loss=fail_on_data_loss, high_watermark=1200)
    with pytest.raises((DataLossError, OptionError), match=r"is not in t 0-1|would start at"):
        range_between(*ends, FOUND, fail_on_data_loss=True, high_watermark=1050)


def test_a_range_that_is_gone_as_a_whole_is_empty() -> None:
    offset_range, _, _ = range_between(
        End(7, "startingOffsets"), End(50, "endingOffsets"), FOUND, fail_on_data_loss=False
    )
    assert offset_range.size == 0


MODERN = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
V07 = {"zookeeper.connect": "h:1", "subscribe": "t"}


def task(partition: int, size: int, broker: int = 0, start: int = 0) -> FetchTask:
    part = OffsetRange(TopicPartition("t", partition), start, start + size)
    return FetchTask(part, Leader(Broker(broker, "h", 1 + broker)))


def options(**given: str) -> ReadOptions:
    return ReadOptions.parse({**MODERN, "packSmallPartitions": "true", **given})


def test_without_the_option_each_range_is_a_spark_partition() -> None:
    tasks = [task(partition, 10) for partition in range(3)]
    assert spark_partitions(tasks, ReadOptions.parse(MODERN)) == [(item,) for item in tasks]
    assert spark_partitions([], options()) == []


def test_small_ranges_of_a_leader_become_one_spark_partition_and_large_ones_stay_alone() -> None:
    tasks = [task(0, 10), task(1, 1001), task(2, 1000, broker=1), task(3, 1), task(4, 5, broker=1)]
    assert spark_partitions(tasks, options()) == [(tasks[1],), (tasks[0], tasks[3]), (tasks[2], tasks[4])]


def test_ranges_of_07_are_small_by_their_bytes() -> None:
    tasks = [task(0, 1 << 20), task(1, (1 << 20) + 1), task(2, 10)]
    result = spark_partitions(tasks, ReadOptions.parse({**V07, "packSmallPartitions": "true"}))
    assert result == [(tasks[1],), (tasks[0], tasks[2])]


def test_a_pack_has_one_range_of_a_partition() -> None:
    tasks = [task(0, 10), task(0, 10, start=10), task(1, 10), task(2, 10)]
    assert packs(tasks, 10, 100) == [(tasks[0],), (tasks[1],), (tasks[2], tasks[3])]


def test_packs_of_a_leader_are_about_equally_large() -> None:
    tasks = [task(partition, 10) for partition in range(RANGES_COUNT_MAX + 2)]
    assert [len(pack) for pack in packs(tasks, 10, 1 << 30)] == [RANGES_COUNT_MAX // 2 + 1] * 2


def test_the_largest_spark_partition_is_the_largest_pack() -> None:
    tasks = [task(partition, 10) for partition in range(10)]
    result = spark_partitions(tasks, options(maxRecordsPerPartition="35"))
    assert [len(pack) for pack in result] == [3, 3, 3, 1]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 30), st.integers(0, 2)), max_size=60),
    st.integers(1, 30),
    st.integers(1, 100),
)
def test_no_range_is_lost_or_split(drawn: list[tuple[int, int, int]], small_max: int, pack_max: int) -> None:
    tasks = [
        task(partition, size, broker, start=100 * number)
        for number, (partition, size, broker) in enumerate(drawn)
    ]
    result = packs(tasks, small_max, pack_max)
    assert Counter(item.range for pack in result for item in pack) == Counter(item.range for item in tasks)
    for pack in result:
        assert len({item.leader for item in pack}) == 1
        assert len({item.range.topic_partition for item in pack}) == len(pack)
        assert len(pack) == 1 or sum(item.range.size for item in pack) <= pack_max


def test_a_plan_of_many_small_ranges_names_the_option_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    tasks = [task(partition, 10) for partition in range(HINTED_COUNT + 1)]
    plain = ReadOptions.parse(MODERN)
    assert not hint(tasks[1:], plain)
    assert not hint([*tasks[1:], task(1 << 20, 1001)], plain)
    assert not hint(tasks, options())
    assert not hint(tasks, ReadOptions.parse({**MODERN, "minPartitions": "3"}))
    assert not caplog.messages
    assert hint(tasks, plain)
    assert caplog.messages == [
        "the plan has 2001 small ranges, each a Spark task: packSmallPartitions=true reads many in one task"
    ]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({**MODERN, "minPartitions": "8"}, "and minPartitions more: leave out one of them"),
        (
            {**MODERN, "keyOrder": "true", "partitionLayouts": '{"t":[{"partitions":1}]}'},
            "and keyOrder chains them: leave out one of them",
        ),
        (
            {"path": str(CORPUS / "broker0"), "subscribe": "debian-plain"},
            "log directories need none: leave it out",
        ),
        ({**V07, "wireFormat": "proposal"}, "wireFormat=proposal, whose fetches have no size"),
    ],
)
def test_options_that_contradict_it_are_refused_in_one_line(raw: dict[str, str], message: str) -> None:
    ReadOptions.parse({**raw, "packSmallPartitions": "false"})
    with pytest.raises(OptionError, match=f"^option packSmallPartitions=true .*{message}"):
        ReadOptions.parse({**raw, "packSmallPartitions": "true"})


def test_streams_take_it() -> None:
    assert StreamOptions.parse({**MODERN, "packSmallPartitions": "true"}).read.packs_small
