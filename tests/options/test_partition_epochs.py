"""Which logs held the keys of which others before: by the lists alone, and by trying all hashes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options.partition_epochs import TopicEpochs


def modern(*counts: int) -> TopicEpochs:
    return TopicEpochs(tuple(tuple(TopicPartition("t", number) for number in range(each)) for each in counts))


def v07(*brokers: dict[int, int]) -> TopicEpochs:
    """Each epoch's partitions by broker."""
    return TopicEpochs(
        tuple(
            tuple(
                TopicPartition("t", number, broker)
                for broker in sorted(each)
                for number in range(each[broker])
            )
            for each in brokers
        )
    )


#: Topics that grew up to three times, from later on and from 0.7.
GROWN = st.one_of(
    st.lists(st.integers(1, 12), min_size=1, max_size=4, unique=True).map(
        lambda counts: modern(*sorted(counts))
    ),
    st.lists(st.dictionaries(st.integers(0, 3), st.integers(1, 3), min_size=1), min_size=1, max_size=4).map(
        lambda steps: v07(*_growing(steps))
    ),
)


def _growing(steps: list[dict[int, int]]) -> list[dict[int, int]]:
    """What each broker has after each step, steps that bring nothing left out."""
    found: list[dict[int, int]] = []
    for step in steps:
        held = found[-1] if found else {}
        grown = {broker: max(held.get(broker, 0), step.get(broker, 0)) for broker in held | step}
        if grown != held:
            found.append(grown)
    return found


def hashes(epochs: TopicEpochs) -> range:
    """One of each kind: what a hash does follows from its remainder by the product of all counts."""
    product = 1
    for count in epochs.counts:
        product *= count
    return range(product)


@given(GROWN)
def test_parents_are_the_logs_from_which_some_hash_moves(epochs: TopicEpochs) -> None:
    for epoch in range(1, len(epochs.lists)):
        old, new = epochs.lists[epoch - 1 : epoch + 1]
        moved = {(old[h % len(old)], new[h % len(new)]) for h in range(len(old) * len(new))}
        for log in new:
            assert set(epochs.parents(epoch, log)) == {a for a, b in moved if b == log and a != b}


@given(GROWN.filter(lambda epochs: epochs.is_in_turn))
def test_in_turn_every_hash_goes_up_the_logs_of_one_family(epochs: TopicEpochs) -> None:
    for h in hashes(epochs):
        way = [logs[h % len(logs)] for logs in epochs.lists]
        assert [epochs.first(log) for log in way] == sorted(map(epochs.first, way))
        assert all(a == b or epochs.first(a) < epochs.first(b) for a, b in pairwise(way))
        assert {epochs.family(log) for log in way} == {way[0]}


@given(GROWN.filter(lambda epochs: not epochs.is_in_turn))
def test_out_of_turn_some_hash_moves_to_a_log_that_was_there_before(epochs: TopicEpochs) -> None:
    ways = ([logs[h % len(logs)] for logs in epochs.lists] for h in hashes(epochs))
    assert any(
        way[epoch] != way[epoch - 1] and epochs.first(way[epoch]) < epoch
        for way in ways
        for epoch in range(1, len(way))
    )


@pytest.mark.parametrize(
    ("epochs", "in_turn"),
    [
        (modern(6), True),
        (modern(2, 4, 8), True),
        (modern(2, 4, 6), False),
        (modern(2, 3), False),
        (v07({0: 2}, {0: 2, 1: 2}), True),
        (v07({1: 1}, {0: 1, 1: 1}), True),  # what is at place 0 moves to a new log, and the rest stays
        (v07({0: 1, 1: 1}, {0: 2, 1: 2}), False),  # the logs of broker 0 move those of broker 1
    ],
)
def test_keys_go_on_to_new_logs_alone_where_counts_are_multiples_and_logs_keep_their_places(
    epochs: TopicEpochs, in_turn: bool
) -> None:
    assert epochs.is_in_turn == in_turn


def test_a_merged_partition_has_all_its_parents() -> None:
    epochs = modern(4, 6)
    assert [log.partition for log in epochs.parents(1, TopicPartition("t", 0))] == [2]
    assert [log.partition for log in epochs.parents(1, TopicPartition("t", 4))] == [0, 2]
    assert [epochs.first(TopicPartition("t", number)) for number in range(6)] == [0, 0, 0, 0, 1, 1]
