"""Packs of small ranges: their ranges, their sizes, and the line that names the option."""

from __future__ import annotations

import logging
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.clients.reading.task import FetchTask
from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import Broker, Leader, OffsetRange, TopicPartition
from spark_kafkawire.options import ReadOptions, StreamOptions
from spark_kafkawire.planner.packs import HINTED_COUNT, RANGES_COUNT_MAX, hint, packs, spark_partitions
from tests.support.golden import CORPUS

MODERN = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
V07 = {"zookeeper.connect": "h:1", "subscribe": "t"}


def task(partition: int, size: int, broker: int = 0, start: int = 0) -> FetchTask:
    part = OffsetRange(TopicPartition("t", partition), start, start + size)
    return FetchTask(part, Leader(Broker(broker, "h", 1 + broker)))


def options(**given: str) -> ReadOptions:
    return ReadOptions.parse({**MODERN, "packSmallPartitions": "true", **given})


def test_without_the_option_each_range_is_a_spark_partition() -> None:
    tasks = [task(partition, 10) for partition in range(3)]
    assert spark_partitions(tasks, ReadOptions.parse(MODERN)) == [(each,) for each in tasks]
    assert spark_partitions([], options()) == []


def test_small_ranges_of_a_leader_become_one_spark_partition_and_large_ones_stay_alone() -> None:
    tasks = [task(0, 10), task(1, 1001), task(2, 1000, broker=1), task(3, 1), task(4, 5, broker=1)]
    assert spark_partitions(tasks, options()) == [
        (tasks[1],),
        (tasks[0], tasks[3]),
        (tasks[2], tasks[4]),
    ]


def test_ranges_of_07_are_small_by_their_bytes() -> None:
    tasks = [task(0, 1 << 20), task(1, (1 << 20) + 1), task(2, 10)]
    found = spark_partitions(tasks, ReadOptions.parse({**V07, "packSmallPartitions": "true"}))
    assert found == [(tasks[1],), (tasks[0], tasks[2])]


def test_a_pack_has_one_range_of_a_partition() -> None:
    tasks = [task(0, 10), task(0, 10, start=10), task(1, 10), task(2, 10)]
    assert packs(tasks, 10, 100) == [(tasks[0],), (tasks[1],), (tasks[2], tasks[3])]


def test_packs_of_a_leader_are_about_equally_large() -> None:
    tasks = [task(partition, 10) for partition in range(RANGES_COUNT_MAX + 2)]
    assert [len(pack) for pack in packs(tasks, 10, 1 << 30)] == [RANGES_COUNT_MAX // 2 + 1] * 2


def test_the_largest_spark_partition_is_the_largest_pack() -> None:
    tasks = [task(partition, 10) for partition in range(10)]
    found = spark_partitions(tasks, options(maxRecordsPerPartition="35"))
    assert [len(pack) for pack in found] == [3, 3, 3, 1]


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
    found = packs(tasks, small_max, pack_max)
    assert Counter(each.range for pack in found for each in pack) == Counter(each.range for each in tasks)
    for pack in found:
        assert len({each.leader for each in pack}) == 1
        assert len({each.range.topic_partition for each in pack}) == len(pack)
        assert len(pack) == 1 or sum(each.range.size for each in pack) <= pack_max


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
