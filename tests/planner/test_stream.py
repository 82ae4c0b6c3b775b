"""Streams: what a poll plans, its offsets, losses, key order, and idle polls."""

from __future__ import annotations

import itertools
import json
import re
import uuid
from collections.abc import Mapping
from itertools import count
from math import lcm
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import (
    Generation,
    OffsetRange,
    PartitionBounds,
    TopicPartition,
)
from spark_kafkawire.options import StreamLimits, StreamOptions, TopicLayouts
from spark_kafkawire.options.selection import PARTITION_SYNTAX
from spark_kafkawire.planner.stream import POLL_INTERVAL_S, StreamPlanner, hold, idle_s
from spark_kafkawire.planner.stream_offsets import (
    ID_MARK,
    UNPINNED,
    Position,
    from_json,
    ids_from_json,
    limit_bounds,
    losses,
    must_wait,
    next_offsets,
    offsets_behind,
    ranges_between,
    to_json,
)
from tests.support.cases import for_each
from tests.support.fake_cluster import TOPIC, FakeCluster

A, B, C = (TopicPartition("t", number) for number in range(3))
OLD = TopicPartition("t", 1, broker=0)


def bounds(*ends: PartitionBounds) -> dict[TopicPartition, PartitionBounds]:
    return {item.topic_partition: item for item in ends}


def test_without_a_limit_a_batch_ends_at_the_latest_offsets() -> None:
    result = bounds(PartitionBounds(A, 2, 10), PartitionBounds(B, 0, 0))
    assert next_offsets({A: 5, B: 0}, result) == {A: 10, B: 0}


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
    result = bounds(
        *(PartitionBounds(tp, 0, 1000 + size) for tp, size in zip(partitions, behind, strict=True))
    )
    ends = next_offsets(dict.fromkeys(partitions, 1000), result, size_max)
    assert [ends[tp] - 1000 for tp in partitions] == sizes


def test_a_new_partition_begins_at_its_earliest_offset() -> None:
    result = bounds(PartitionBounds(A, 0, 10), PartitionBounds(B, 40, 50))
    assert next_offsets({A: 0}, result, 10) == {A: 5, B: 45}


def test_a_partition_without_a_start_is_pinned_where_it_ends_and_nothing_of_it_is_read() -> None:
    result = bounds(PartitionBounds(A, 0, 10), PartitionBounds(B, 0, 100), PartitionBounds(C, 0, 9))
    start = {A: UNPINNED, B: 50}
    end = next_offsets(start, result, 10)
    assert end == {A: 10, B: 60}  # C is new, and the next batch's: else its rows would be pinned away
    assert ranges_between(start, end, {}) == ((OffsetRange(B, 50, 60),), ())
    assert next_offsets(end, result, 10) == {A: 10, B: 68, C: 1}


@pytest.mark.parametrize(
    ("limit", "end"), [(1, 400), (399, 400), (400, 400), (699, 400), (700, 700), (999, 700), (1000, 1000)]
)
def test_a_batch_of_bytes_ends_where_a_segment_or_the_log_does(limit: int, end: int) -> None:
    result = bounds(PartitionBounds(OLD, 0, 1000, (0, 400, 700)))
    assert next_offsets({OLD: 0}, result, limit) == {OLD: end}


def test_a_batch_waits_for_enough_records_but_not_for_ever() -> None:
    result, limits = bounds(PartitionBounds(A, 0, 10), PartitionBounds(B, 3, 5)), StreamLimits(None, 10, 60.0)
    assert not must_wait({A: 2}, result, limits, waited_s=0)  # 8 of A, and 2 of B, which is new
    assert must_wait({A: 3}, result, limits, waited_s=59.9)
    assert not must_wait({A: 3}, result, limits, waited_s=60.0)
    assert not must_wait({A: UNPINNED}, result, limits, waited_s=0)
    assert not must_wait({A: 10, B: 5}, result, StreamLimits(), waited_s=0)


def test_a_bounded_query_sees_nothing_that_came_later() -> None:
    result = bounds(PartitionBounds(A, 0, 10), PartitionBounds(B, 0, 5), PartitionBounds(C, 0, 5))
    assert next_offsets({A: 0}, limit_bounds(result, {A: 7, B: 9})) == {A: 7, B: 5}


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


def test_ignore_a_range_that_runs_backwards() -> None:
    assert ranges_between({A: 9, B: 1}, {A: 5, B: 1}, {}) == ((), ())


@st.composite
def watched(draw: st.DrawFn) -> tuple[dict[TopicPartition, int], dict[TopicPartition, PartitionBounds]]:
    """Positions of a query in some logs, and the bounds that the cluster gives, also of partitions
    that are new."""
    start, result = {}, {}
    segmented = draw(st.booleans())
    for number in range(draw(st.integers(1, 8))):
        partition = TopicPartition("t", number, 0 if segmented else None)
        marks = sorted(draw(st.sets(st.integers(0, 10**6), min_size=2, max_size=6)))
        result[partition] = PartitionBounds(
            partition, marks[0], marks[-1], tuple(marks[:-1]) if segmented else None
        )
        if draw(st.booleans()):
            start[partition] = draw(st.sampled_from(marks) if segmented else st.integers(marks[0], marks[-1]))
    return start, result


@given(watched(), st.integers(1, 10**7))
def test_limited_batches_get_on_and_read_each_offset_once(
    cluster: tuple[dict[TopicPartition, int], dict[TopicPartition, PartitionBounds]], size_max: int
) -> None:
    start, result = cluster
    size_max = max(size_max, 20_000)  # so that some dozen batches do
    earliest = {tp: item.earliest for tp, item in result.items()}
    first = {tp: start.get(tp, item.earliest) for tp, item in result.items()}
    reached: Mapping[TopicPartition, int] = start
    for number in count():
        end = next_offsets(reached, result, size_max)
        ranges, gone = ranges_between({**earliest, **reached}, end, earliest)
        if end == reached:
            break
        assert not gone
        assert number < 1000
        for item in ranges:
            assert item.start_offset == (first if number == 0 else reached)[item.topic_partition]
            assert item.stop_offset <= result[item.topic_partition].latest
            cuts = result[item.topic_partition].segment_starts
            assert cuts is None or item.stop_offset in {*cuts, result[item.topic_partition].latest}
        if not any(item.segment_starts for item in result.values()):
            behind = len(ranges)
            assert sum(item.size for item in ranges) <= size_max + behind
        reached = end
    assert reached == {tp: item.latest for tp, item in result.items()}


@given(watched(), st.integers(1, 10**7))
def test_a_batch_is_the_same_when_it_is_run_again(
    cluster: tuple[dict[TopicPartition, int], dict[TopicPartition, PartitionBounds]], size_max: int
) -> None:
    start, result = cluster
    end = next_offsets(start, result, size_max)
    earliest = {tp: item.earliest for tp, item in result.items()}
    later = {tp: PartitionBounds(tp, item.earliest, item.latest + 5) for tp, item in result.items()}
    assert ranges_between(start, end, earliest) == ranges_between(start, dict(end), earliest)
    again = next_offsets(end, later)
    assert all(again[tp] >= end[tp] for tp in end)


MODERN, V07 = PARTITION_SYNTAX[Generation.MODERN], PARTITION_SYNTAX[Generation.V07]
#: What Spark's own connector wrote.
TEXTS: list[str] = json.loads(
    (Path(__file__).parents[1] / "golden/spark-kafka-4.2.0/offsets.json").read_text("utf-8")
)


def text_of(offsets: dict[TopicPartition, int]) -> str:
    return json.dumps(to_json(offsets), separators=(",", ":"), ensure_ascii=False)


@for_each("text", TEXTS, ids=range(len(TEXTS)))
def test_offsets_are_written_as_sparks_connector_writes_them(text: str) -> None:
    assert text_of(from_json(json.loads(text), MODERN)) == text


def test_some_recorded_texts_are_in_no_order_of_their_names() -> None:
    assert sum(list(json.loads(text)) != sorted(json.loads(text)) for text in TEXTS) >= 5


@pytest.mark.parametrize("names", [("orders", "returns"), ("events", "users"), ("events", "views")])
def test_topics_at_one_place_of_scalas_table_go_by_their_signed_hashes(names: tuple[str, str]) -> None:
    """As the ``mutable.HashMap`` of Spark 4.3's Scala has them, whichever is put in first."""
    assert list(to_json({TopicPartition(name, 0): 1 for name in names})) == list(names)


def test_offsets_of_07_name_broker_and_partition_in_their_order() -> None:
    partitions = {TopicPartition("t", partition, broker): 7 for broker in (0, 2, 10) for partition in (1, 0)}
    written = '{"t":{"0-0":7,"0-1":7,"2-0":7,"2-1":7,"10-0":7,"10-1":7}}'
    assert text_of(partitions) == written
    assert from_json(json.loads(written), V07) == partitions


PARTITIONS = st.dictionaries(
    st.builds(TopicPartition, st.text("tö-9._😀", min_size=1, max_size=12), st.integers(0, 10**6), st.none()),
    st.integers(0, (1 << 63) - 1),
    max_size=40,
)


@given(PARTITIONS, st.randoms())
def test_offsets_come_back_and_their_order_depends_on_names_alone(
    offsets: dict[TopicPartition, int], random: Any
) -> None:
    text = text_of(offsets)
    shuffled = list(offsets.items())
    random.shuffle(shuffled)
    assert text_of(dict(shuffled)) == text
    assert from_json(json.loads(text), MODERN) == offsets
    assert json.loads(text_of(dict.fromkeys(offsets, 0))).keys() == json.loads(text).keys()


@for_each(
    "written",
    [
        None,
        [],
        "latest",
        5,
        {"t": 5},
        {"t": {"0": "5"}},
        {"t": {"0": True}},
        {"t": {"0": 1.5}},
        {"t": {"0": -2}},
        {"t": {"00": 5}},
        {"t": {"x": 5}},
        {"t": {"0": 1 << 63}},
        {"offset": {"0": None}},
    ],
)
def test_report_a_checkpoint_of_another_source(written: Any) -> None:
    with pytest.raises(
        OptionError, match=r"^checkpointLocation: .* another source wrote this checkpoint; set"
    ):
        from_json(written, MODERN, unpinned=True)


@pytest.mark.parametrize(
    ("written", "syntax", "name"), [({"t": {"0-1": 5}}, MODERN, "0-1"), ({"t": {"1": 5}}, V07, "1")]
)
def test_report_a_checkpoint_of_the_other_dialect(written: Any, syntax: Any, name: str) -> None:
    with pytest.raises(OptionError, match=re.escape(f"of partition '{name}'") + r".*another kind of Kafka"):
        from_json(written, syntax)


def test_only_a_first_start_may_be_unpinned() -> None:
    unpinned = {TopicPartition("t", 0): UNPINNED}
    assert from_json(to_json(unpinned), MODERN, unpinned=True) == unpinned
    with pytest.raises(OptionError, match="checkpointLocation"):
        from_json(to_json(unpinned), MODERN)


def test_ids_of_topics_follow_the_offsets_and_are_no_partitions() -> None:
    ids = {"t": uuid.UUID(int=7), "a": uuid.UUID(bytes=b"\xff" * 16)}
    offsets = {TopicPartition("t", 0): 5, TopicPartition("a", 0): 6}
    written = to_json(offsets, None, ids)
    assert list(written)[-2:] == [
        "topic id kept by kafkawire: a _____________________w",
        "topic id kept by kafkawire: t AAAAAAAAAAAAAAAAAAAABw",
    ]
    assert from_json(written, MODERN) == offsets
    assert ids_from_json(json.loads(json.dumps(written))) == ids
    assert ids_from_json({"t": {"0": 5}}) == {}


@pytest.mark.parametrize(
    "damaged", ["t", "t AAAA", "t !AAAAAAAAAAAAAAAAAAABw", "t AAAAAAAAAAAAAAAAAAAABw=x", ""]
)
def test_a_damaged_id_is_an_error(damaged: str) -> None:
    with pytest.raises(OptionError, match=r"^checkpointLocation: .* holds no topic id"):
        ids_from_json({"t": {"0": 5}, f"{ID_MARK}{damaged}": {}})


ONE, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)


def test_report_a_loss_with_both_offsets() -> None:
    lost = losses(Position({A: 5, B: 7, C: UNPINNED}), Position({B: 3}))
    assert str(lost) == (
        "t 0 at offset 5 no longer exists; the end of t 1 was changed from 7 to 3: a topic was deleted "
        "or recreated, or a partition lost its end"
    )
    assert not losses(Position({A: 5, B: UNPINNED}), Position({A: 5}))
    assert losses(Position({A: 5}), Position({A: 4})).shorter == ((A, 5, 4),)


def test_many_places_are_counted() -> None:
    partitions = [TopicPartition("t", number) for number in range(9)]
    assert str(losses(Position(dict.fromkeys(partitions, 9)), Position({}))).startswith(
        "t 0 at offset 9, t 1 at offset 9, t 2 at offset 9 and 6 more partitions no longer exist: "
    )
    assert str(
        losses(Position(dict.fromkeys(partitions[:4], 9)), Position(dict.fromkeys(partitions, 2)))
    ).startswith(
        "the end of t 0 was changed from 9 to 2; the end of t 1 was changed from 9 to 2; the end of t 2 was "
        "changed from 9 to 2; 1 more partition: "
    )


def test_another_id_is_another_topic_whatever_it_holds() -> None:
    for end in (3, 5, 7):
        lost = losses(Position({A: 5, B: 2}, {"t": ONE}), Position({A: end}, {"t": OTHER}))
        assert (lost.recreated, lost.vanished, lost.shorter) == ((("t", ONE, OTHER),), (), ())
        assert not lost.unproven
    assert str(lost) == (
        "the topic t was deleted and recreated: its id was AAAAAAAAAAAAAAAAAAAAAQ, and is "
        "AAAAAAAAAAAAAAAAAAAAAg"
    )
    for before, now in (({}, {"t": ONE}), ({"t": ONE}, {}), ({"t": ONE}, {"t": ONE})):
        assert not losses(Position({A: 5}, before), Position({A: 5}, now))


def test_an_end_that_fell_and_a_partition_that_its_topic_lacks_are_unproven() -> None:
    both = losses(Position({A: 5, B: 7}), Position({A: 3}))
    assert both.unproven == (B, A)
    assert not losses(Position({A: 5, B: 7}), Position({})).unproven  # the whole topic is gone
    assert not losses(Position({OLD: 5}), Position({OLD: 3})).unproven  # its broker alone has the log


Offsets = dict[TopicPartition, int]


def partition(number: int) -> TopicPartition:
    return TopicPartition("t", number)


def topic(counts: list[int], *boundaries: dict[int, int]) -> TopicLayouts:
    lists = tuple(tuple(map(partition, range(count))) for count in counts)
    return TopicLayouts(
        lists, tuple({partition(at): offset for at, offset in held.items()} for held in boundaries)
    )


def bounds_of(latest: dict[int, int], earliest: int = 0) -> dict[TopicPartition, PartitionBounds]:
    return {
        partition(at): PartitionBounds(partition(at), min(earliest, end), end) for at, end in latest.items()
    }


@st.composite
def grown(draw: st.DrawFn) -> tuple[TopicLayouts, dict[TopicPartition, PartitionBounds]]:
    """A topic that grew up to three times, what it has in each layout drawn."""
    counts = sorted(draw(st.lists(st.integers(1, 8), min_size=1, max_size=4, unique=True)))
    stood = dict.fromkeys(range(counts[-1]), 0)
    boundaries = []
    for size in counts:
        stood |= {at: stood[at] + draw(st.integers(0, 5)) for at in range(size)}
        boundaries.append({at: stood[at] for at in range(size)})
    return topic(counts, *boundaries[:-1]), bounds_of(stood)


def layout_of(layouts: TopicLayouts, of: TopicPartition, offset: int) -> int:
    first = layouts.first(of)
    return first + sum(offset >= held[of] for held in (layouts.boundaries or ())[first:])


@given(grown(), st.one_of(st.none(), st.integers(1, 20)))
def test_no_record_is_read_before_a_batch_that_reads_what_its_key_may_have_had_before(
    given_topic: tuple[TopicLayouts, dict[TopicPartition, PartitionBounds]], size_max: int | None
) -> None:
    layouts, bounds = given_topic
    start: Offsets = {}
    batch_of: dict[tuple[TopicPartition, int], int] = {}
    latest = {item: result.latest for item, result in bounds.items()}
    for number in range(sum(latest.values()) + 2):
        end = hold(start, next_offsets(start, bounds, size_max), bounds, layouts)
        for item, stop in end.items():
            assert start.get(item, 0) <= stop <= latest[item]
            batch_of |= {(item, offset): number for offset in range(start.get(item, 0), stop)}
        if start == end:
            break
        start = end
    assert start == latest
    before = ancestors(layouts)
    for (child, offset), number in batch_of.items():
        for parent, held in before.get((layout_of(layouts, child, offset), child), ()):
            assert all(batch_of[parent, item] <= number for item in range(held))


def ancestors(layouts: TopicLayouts) -> dict[tuple[int, TopicPartition], set[tuple[TopicPartition, int]]]:
    """For each log in each layout, where keys of it may have been before, and up to which offset: by all
    hashes that there are."""
    result: dict[tuple[int, TopicPartition], set[tuple[TopicPartition, int]]] = {}
    for hash_ in range(lcm(*layouts.counts)):
        way = [partitions[hash_ % len(partitions)] for partitions in layouts.lists]
        for layout, child in enumerate(way):
            older = {(item, (layouts.boundaries or ())[at][item]) for at, item in enumerate(way[:layout])}
            result.setdefault((layout, child), set()).update(item for item in older if item[0] != child)
    return result


def test_a_new_partition_waits_until_its_parent_is_read_up_to_the_boundary() -> None:
    layouts, bounds = topic([1, 2], {0: 10}), bounds_of({0: 12, 1: 5})
    assert hold({}, {partition(0): 9, partition(1): 4}, bounds, layouts) == {partition(0): 9, partition(1): 0}
    assert hold({}, {partition(0): 10, partition(1): 4}, bounds, layouts) == {
        partition(0): 10,
        partition(1): 4,
    }


def test_grandparents_are_waited_for_as_well() -> None:
    layouts, bounds = topic([1, 2, 4], {0: 10}, {0: 10, 1: 0}), bounds_of({0: 10, 1: 0, 2: 3, 3: 3})
    desired = {partition(0): 9, partition(1): 0, partition(2): 3, partition(3): 3}
    # The log 1 had nothing: what the log 3 got may have been in the log 0 the last time.
    assert hold({}, desired, bounds, layouts) == {**desired, partition(2): 0, partition(3): 0}
    assert hold({}, {**desired, partition(0): 10}, bounds, layouts) == {**desired, partition(0): 10}


def test_a_partition_that_lost_its_start_waits_at_the_start_that_it_has() -> None:
    layouts, bounds = topic([1, 2], {0: 10}), bounds_of({0: 12, 1: 5}, earliest=3)
    assert hold({}, {partition(0): 9, partition(1): 5}, bounds, layouts)[partition(1)] == 3


def test_starts_that_are_pinned_do_not_wait() -> None:
    layouts, bounds = topic([1, 2], {0: 10}), bounds_of({0: 12, 1: 5})
    start = dict.fromkeys((partition(0), partition(1)), UNPINNED)
    assert hold(start, {partition(0): 9, partition(1): 5}, bounds, layouts) == {
        partition(0): 9,
        partition(1): 5,
    }


@pytest.mark.parametrize(
    ("request_s", "interval_s"), [(0.0, 0.1), (0.003, 0.1), (0.02, 0.6), (0.04, 1.0), (7.0, 1.0)]
)
def test_an_idle_query_asks_less_often_where_asking_takes_longer(request_s: float, interval_s: float) -> None:
    assert idle_s(request_s) == pytest.approx(interval_s)


@pytest.mark.slow
@pytest.mark.parametrize(("offset", "request_count"), [(0, 1), (UNPINNED, 2)])
def test_starts_are_asked_for_as_long_as_a_position_is_not_pinned(offset: int, request_count: int) -> None:
    """A start by committed offsets must not be checked against the start of an earlier poll."""
    with FakeCluster(partitions=4, brokers=1) as fake:
        options = {"kafka.bootstrap.servers": fake.bootstrap, "subscribe": TOPIC}
        planner = StreamPlanner(StreamOptions.parse(options), sleep=lambda _: None)
        start = Position({TopicPartition(TOPIC, number): offset for number in range(4)})
        for _ in range(2):
            planner.next(start)
        fake.requests()
        planner.next(start)
        assert fake.requests()["ListOffsets"] == request_count


@pytest.mark.slow
def test_the_interval_follows_the_work_of_a_poll() -> None:
    ticks, slept = itertools.count(), list[float]()
    with FakeCluster(partitions=4, brokers=1) as fake:
        options = {"kafka.bootstrap.servers": fake.bootstrap, "subscribe": TOPIC}
        planner = StreamPlanner(
            StreamOptions.parse(options), clock=lambda: 0.01 * next(ticks), sleep=slept.append
        )
        start = Position({TopicPartition(TOPIC, number): 0 for number in range(4)})
        for _ in range(3):
            planner.next(start)
    assert slept[-1] > POLL_INTERVAL_S
