"""Ends of batches if partitions wait for others: children after their parents, and all in the end."""

from __future__ import annotations

from math import lcm

from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.model import PartitionBounds, TopicPartition
from spark_kafkawire.options import TopicLayouts
from spark_kafkawire.planner.stream import next_offsets
from spark_kafkawire.planner.stream_key_order import hold
from spark_kafkawire.planner.stream_offsets import UNPINNED

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
    for count in counts:
        stood |= {at: stood[at] + draw(st.integers(0, 5)) for at in range(count)}
        boundaries.append({at: stood[at] for at in range(count)})
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
    latest = {each: found.latest for each, found in bounds.items()}
    for number in range(sum(latest.values()) + 2):
        end = hold(start, next_offsets(start, bounds, size_max), bounds, layouts)
        for each, stop in end.items():
            assert start.get(each, 0) <= stop <= latest[each]
            batch_of |= {(each, offset): number for offset in range(start.get(each, 0), stop)}
        if start == end:
            break
        start = end
    assert start == latest
    before = ancestors(layouts)
    for (child, offset), number in batch_of.items():
        for parent, held in before.get((layout_of(layouts, child, offset), child), ()):
            assert all(batch_of[parent, each] <= number for each in range(held))


def ancestors(
    layouts: TopicLayouts,
) -> dict[tuple[int, TopicPartition], set[tuple[TopicPartition, int]]]:
    """For each log in each layout, where keys of it may have been before, and up to which offset: by all
    hashes that there are."""
    found: dict[tuple[int, TopicPartition], set[tuple[TopicPartition, int]]] = {}
    for hash_ in range(lcm(*layouts.counts)):
        way = [partitions[hash_ % len(partitions)] for partitions in layouts.lists]
        for layout, child in enumerate(way):
            older = {(each, (layouts.boundaries or ())[at][each]) for at, each in enumerate(way[:layout])}
            found.setdefault((layout, child), set()).update(each for each in older if each[0] != child)
    return found


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
