"""Partitions that held the keys of others before: by the layouts alone, and by trying all hashes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options.topic_layouts import TopicLayouts


def modern(*counts: int) -> TopicLayouts:
    return TopicLayouts(
        tuple(tuple(TopicPartition("t", number) for number in range(each)) for each in counts)
    )


def v07(*brokers: dict[int, int]) -> TopicLayouts:
    """Each layout's partitions by broker."""
    return TopicLayouts(
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
    """Partitions of each broker after each step, without the steps that bring nothing."""
    found: list[dict[int, int]] = []
    for step in steps:
        held = found[-1] if found else {}
        grown = {broker: max(held.get(broker, 0), step.get(broker, 0)) for broker in held | step}
        if grown != held:
            found.append(grown)
    return found


def hashes(layouts: TopicLayouts) -> range:
    """One of each kind: what a hash does follows from its remainder by the product of all counts."""
    product = 1
    for count in layouts.counts:
        product *= count
    return range(product)


@given(GROWN)
def test_parents_are_the_partitions_from_which_some_hash_moves(layouts: TopicLayouts) -> None:
    for layout in range(1, len(layouts.lists)):
        old, new = layouts.lists[layout - 1 : layout + 1]
        moved = {(old[h % len(old)], new[h % len(new)]) for h in range(len(old) * len(new))}
        for partition in new:
            assert set(layouts.parents(layout, partition)) == {
                a for a, b in moved if b == partition and a != b
            }


@given(GROWN.filter(lambda layouts: layouts.is_in_turn))
def test_in_turn_every_hash_goes_up_the_partitions_of_one_family(layouts: TopicLayouts) -> None:
    for h in hashes(layouts):
        way = [partitions[h % len(partitions)] for partitions in layouts.lists]
        assert [layouts.first(tp) for tp in way] == sorted(map(layouts.first, way))
        assert all(a == b or layouts.first(a) < layouts.first(b) for a, b in pairwise(way))
        assert {layouts.family(tp) for tp in way} == {way[0]}


@given(GROWN.filter(lambda layouts: not layouts.is_in_turn))
def test_out_of_turn_some_hash_moves_to_a_partition_that_was_there_before(layouts: TopicLayouts) -> None:
    ways = ([partitions[h % len(partitions)] for partitions in layouts.lists] for h in hashes(layouts))
    assert any(
        way[layout] != way[layout - 1] and layouts.first(way[layout]) < layout
        for way in ways
        for layout in range(1, len(way))
    )


@pytest.mark.parametrize(
    ("layouts", "in_turn"),
    [
        (modern(6), True),
        (modern(2, 4, 8), True),
        (modern(2, 4, 6), False),
        (modern(2, 3), False),
        (v07({0: 2}, {0: 2, 1: 2}), True),
        (v07({1: 1}, {0: 1, 1: 1}), True),  # what is at place 0 moves to a new partition, and the rest stays
        (v07({0: 1, 1: 1}, {0: 2, 1: 2}), False),  # the partitions of broker 0 move those of broker 1
    ],
)
def test_keys_go_on_to_new_partitions_alone_where_counts_are_multiples_and_logs_keep_their_places(
    layouts: TopicLayouts, in_turn: bool
) -> None:
    assert layouts.is_in_turn == in_turn


def test_a_merged_partition_has_all_its_parents() -> None:
    layouts = modern(4, 6)
    assert [tp.partition for tp in layouts.parents(1, TopicPartition("t", 0))] == [2]
    assert [tp.partition for tp in layouts.parents(1, TopicPartition("t", 4))] == [0, 2]
    assert [layouts.first(TopicPartition("t", number)) for number in range(6)] == [0, 0, 0, 0, 1, 1]
