"""How far batches go where logs wait for others: nothing before its parents, and all in the end."""

from __future__ import annotations

from math import lcm

from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.model import LogBounds, TopicPartition
from spark_kafkawire.options import TopicEpochs
from spark_kafkawire.planner.stream import next_offsets
from spark_kafkawire.planner.stream_key_order import hold
from spark_kafkawire.planner.stream_offsets import UNPINNED

Offsets = dict[TopicPartition, int]


def log(number: int) -> TopicPartition:
    return TopicPartition("t", number)


def topic(counts: list[int], *boundaries: dict[int, int]) -> TopicEpochs:
    lists = tuple(tuple(map(log, range(count))) for count in counts)
    return TopicEpochs(lists, tuple({log(at): offset for at, offset in held.items()} for held in boundaries))


def bounds_of(latest: dict[int, int], earliest: int = 0) -> dict[TopicPartition, LogBounds]:
    return {log(at): LogBounds(log(at), min(earliest, end), end) for at, end in latest.items()}


@st.composite
def grown(draw: st.DrawFn) -> tuple[TopicEpochs, dict[TopicPartition, LogBounds]]:
    """A topic that grew up to three times, what it has in each epoch drawn."""
    counts = sorted(draw(st.lists(st.integers(1, 8), min_size=1, max_size=4, unique=True)))
    stood = dict.fromkeys(range(counts[-1]), 0)
    boundaries = []
    for count in counts:
        stood |= {at: stood[at] + draw(st.integers(0, 5)) for at in range(count)}
        boundaries.append({at: stood[at] for at in range(count)})
    return topic(counts, *boundaries[:-1]), bounds_of(stood)


def epoch_of(epochs: TopicEpochs, of: TopicPartition, offset: int) -> int:
    first = epochs.first(of)
    return first + sum(offset >= held[of] for held in (epochs.boundaries or ())[first:])


@given(grown(), st.one_of(st.none(), st.integers(1, 20)))
def test_no_record_is_read_before_a_batch_that_reads_what_its_key_may_have_had_before(
    given_topic: tuple[TopicEpochs, dict[TopicPartition, LogBounds]], size_max: int | None
) -> None:
    epochs, bounds = given_topic
    start: Offsets = {}
    batch_of: dict[tuple[TopicPartition, int], int] = {}
    latest = {each: found.latest for each, found in bounds.items()}
    for number in range(sum(latest.values()) + 2):
        end = hold(start, next_offsets(start, bounds, size_max), bounds, epochs)
        for each, stop in end.items():
            assert start.get(each, 0) <= stop <= latest[each]
            batch_of |= {(each, offset): number for offset in range(start.get(each, 0), stop)}
        if start == end:
            break
        start = end
    assert start == latest
    before = ancestors(epochs)
    for (child, offset), number in batch_of.items():
        for parent, held in before.get((epoch_of(epochs, child, offset), child), ()):
            assert all(batch_of[parent, each] <= number for each in range(held))


def ancestors(
    epochs: TopicEpochs,
) -> dict[tuple[int, TopicPartition], set[tuple[TopicPartition, int]]]:
    """For each log in each epoch, where keys of it may have been before, and up to which offset: by all
    hashes that there are."""
    found: dict[tuple[int, TopicPartition], set[tuple[TopicPartition, int]]] = {}
    for hash_ in range(lcm(*epochs.counts)):
        way = [logs[hash_ % len(logs)] for logs in epochs.lists]
        for epoch, child in enumerate(way):
            older = {(each, (epochs.boundaries or ())[at][each]) for at, each in enumerate(way[:epoch])}
            found.setdefault((epoch, child), set()).update(each for each in older if each[0] != child)
    return found


def test_a_new_log_waits_until_its_parent_is_read_up_to_the_boundary() -> None:
    epochs, bounds = topic([1, 2], {0: 10}), bounds_of({0: 12, 1: 5})
    assert hold({}, {log(0): 9, log(1): 4}, bounds, epochs) == {log(0): 9, log(1): 0}
    assert hold({}, {log(0): 10, log(1): 4}, bounds, epochs) == {log(0): 10, log(1): 4}


def test_grandparents_are_waited_for_as_well() -> None:
    epochs, bounds = topic([1, 2, 4], {0: 10}, {0: 10, 1: 0}), bounds_of({0: 10, 1: 0, 2: 3, 3: 3})
    desired = {log(0): 9, log(1): 0, log(2): 3, log(3): 3}
    # The log 1 had nothing: what the log 3 got may have been in the log 0 the last time.
    assert hold({}, desired, bounds, epochs) == {**desired, log(2): 0, log(3): 0}
    assert hold({}, {**desired, log(0): 10}, bounds, epochs) == {**desired, log(0): 10}


def test_a_log_that_lost_its_start_waits_at_the_start_that_it_has() -> None:
    epochs, bounds = topic([1, 2], {0: 10}), bounds_of({0: 12, 1: 5}, earliest=3)
    assert hold({}, {log(0): 9, log(1): 5}, bounds, epochs)[log(1)] == 3


def test_starts_that_are_pinned_do_not_wait() -> None:
    epochs, bounds = topic([1, 2], {0: 10}), bounds_of({0: 12, 1: 5})
    start = dict.fromkeys((log(0), log(1)), UNPINNED)
    assert hold(start, {log(0): 9, log(1): 5}, bounds, epochs) == {log(0): 9, log(1): 5}
