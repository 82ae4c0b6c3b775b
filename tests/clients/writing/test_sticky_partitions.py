"""The order in which partitions get rows that choose none."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.clients.writing.sticky_partitions import RUN_BYTES_MIN, Ids, StickyPartitions

#: 99.9 % of the sums of squares that chance makes are below, by degrees of freedom.
CHI_SQUARE_MAX = {2: 13.82, 11: 31.26}


def turns_of(partitions: int, seed: int = 0, run_bytes_max: int = 1 << 20) -> StickyPartitions:
    return StickyPartitions(range(partitions), run_bytes_max, random.Random(seed))


def sizes(count: int, size: int) -> Ids:
    return np.full(count, size, np.int64)


def chi_square(counts: Counter[int], partitions: int) -> float:
    """Distance of the counts from equal ones."""
    expected = sum(counts.values()) / partitions
    return sum((counts[partition] - expected) ** 2 / expected for partition in range(partitions))


def spread(turns: StickyPartitions, batch: Ids) -> Ids:
    """The log of each row of a batch."""
    runs = turns.runs(batch)
    stops = np.array([stop for _, stop in runs])
    return np.repeat([partition for partition, _ in runs], np.diff(stops, prepend=0))


@pytest.mark.parametrize("partitions", [3, 12])
def test_many_small_writes_are_spread_as_chance_would_have_it(partitions: int) -> None:
    counts = Counter(turns_of(partitions, seed).runs(sizes(10, 100))[0][0] for seed in range(3000))
    assert 0 < chi_square(counts, partitions) < CHI_SQUARE_MAX[partitions - 1]


@pytest.mark.parametrize("place", [1, 2])
def test_so_are_the_partitions_that_come_next(place: int) -> None:
    rows = sizes(3, RUN_BYTES_MIN)
    counts = Counter(turns_of(3, seed).runs(rows)[place][0] for seed in range(3000))
    assert chi_square(counts, 3) < CHI_SQUARE_MAX[2]


@pytest.mark.parametrize("rows", [10, 10_000])
@pytest.mark.parametrize("total", [1 << 20, 20 << 20, 200 << 20])
def test_one_write_gives_each_partition_as_much_but_for_a_run(total: int, rows: int) -> None:
    turns, given = turns_of(3), np.zeros(3)
    for _ in range(total // 1000 // rows):
        given += 1000 * np.bincount(spread(turns, sizes(rows, 1000)), minlength=3)
    assert given.max() - given.min() <= max(RUN_BYTES_MIN, min(total // 16, 1 << 20))


def test_batches_of_two_sizes_in_turn_fill_logs_alike() -> None:
    turns, given = turns_of(2, run_bytes_max=RUN_BYTES_MIN), np.zeros(2)
    for number in range(1000):
        size = 8_500 if number % 2 else 16_000
        given[spread(turns, sizes(1, size))] += size
    assert given.max() - given.min() <= RUN_BYTES_MIN


def test_rows_that_fit_a_run_are_of_one_partition_as_if_they_were_cut() -> None:
    turns, others = turns_of(5), turns_of(5)
    for size in (100, 9_000, 200, 16_000, 300):
        assert turns.fits(size)
        assert turns.whole(size) == others.runs(sizes(1, size))[0][0]
    assert not turns.fits(1 << 20)


def test_a_run_is_16_kib_first_and_a_batch_at_last() -> None:
    turns = turns_of(3)
    lengths = [np.diff([0, *(stop for _, stop in turns.runs(sizes(10_000, 1024)))]) for _ in range(10)]
    assert set(lengths[0][:10].tolist()) <= {15, 16}
    assert lengths[-1].tolist() == [1000] * 10


def test_a_run_does_not_go_on_in_the_next_batch_once_it_is_about_full() -> None:
    turns = turns_of(3)
    first, second, third = (turns.runs(sizes(1, size)) for size in (7000, 2000, 100))
    assert first == second != third


@given(
    st.lists(st.lists(st.integers(1, 1 << 22), max_size=30), max_size=5),
    st.integers(1, 5),
    st.integers(1, 1 << 21),
)
def test_no_run_is_larger_than_it_may_be_but_for_one_row(
    batches: list[list[int]], partitions: int, most: int
) -> None:
    turns = StickyPartitions(range(partitions), most, random.Random(1))
    for batch in batches:
        start = 0
        for partition, stop in turns.runs(np.array(batch, np.int64)):
            assert 0 <= partition < partitions
            assert stop == start + 1 or sum(batch[start:stop]) <= max(most, RUN_BYTES_MIN)
            start = stop
        assert start == len(batch)


def test_one_by_one_each_row_goes_to_the_next_log() -> None:
    turns = turns_of(3)
    first, second = turns.one_by_one(4).tolist(), turns.one_by_one(4).tolist()
    assert sorted(first[:3]) == [0, 1, 2]
    assert first + second == (first[:3] * 3)[:8]


def test_a_seed_draws_the_same_order_and_others_another_one() -> None:
    orders = {seed: tuple(turns_of(12, seed).one_by_one(12).tolist()) for seed in range(4)}
    assert orders[0] == tuple(turns_of(12, 0).one_by_one(12).tolist())
    assert len(set(orders.values())) == 4


def given_to(turns: StickyPartitions, batches: int, rooms: Sequence[int] | None, size: int = 1000) -> Ids:
    """Bytes that each partition gets of so many batches of 100 rows, while there is always such room."""
    given = np.zeros(len(rooms or [0] * 3), np.int64)
    for _ in range(batches):
        turns.update_load(rooms)
        given += size * np.bincount(spread(turns, sizes(100, size)), minlength=len(given))
    return given


@pytest.mark.parametrize("rooms", [[5, 5, 1], [1, 3, 2, 4], [100, 0, 50], [0, 0, 7]])
def test_logs_get_as_much_as_their_brokers_have_room(rooms: list[int]) -> None:
    rooms = [room << 20 for room in rooms]
    given = given_to(turns_of(len(rooms)), 2000, rooms)
    shares = given / given.sum() - np.array(rooms) / sum(rooms)
    assert abs(shares).max() < 0.03
    assert not given[np.array(rooms) == 0].any()


@pytest.mark.parametrize("rooms", [None, [0, 0, 0], [1 << 20] * 3])
def test_without_a_difference_nothing_is_different(rooms: list[int] | None) -> None:
    turns, others = turns_of(3), turns_of(3)
    for rows in (10, 1000, 7, 5000, 100_000):
        turns.update_load(rooms)
        assert turns.runs(sizes(rows, 100)) == others.runs(sizes(rows, 100))


def test_a_partition_that_had_no_room_makes_up_for_nothing_later() -> None:
    turns = turns_of(3)
    given_to(turns, 100, [1 << 20, 0, 1 << 20])
    later = given_to(turns, 600, None)
    assert later.max() - later.min() <= 2 << 20


def test_a_slow_log_gets_its_part_again_once_it_is_not_slow() -> None:
    turns = turns_of(3)
    slow = given_to(turns, 300, [8 << 20, 1 << 20, 8 << 20])
    assert slow[1] < slow.min(initial=slow.max(), where=np.array([True, False, True])) / 4
    later = given_to(turns, 1000, None)
    # It still owes what its last run cost, which is the room of the fastest at most, and each has had a run.
    assert later.max() - later.min() <= (8 << 20) + (1 << 20)


def test_a_run_is_no_longer_than_the_room_of_its_log() -> None:
    turns = turns_of(2)
    turns.runs(sizes(1000, 20_000))  # its runs are of 1 MiB now
    turns.update_load([4 << 20, 100_000])
    runs = turns.runs(sizes(2000, 10_000))
    starts = [0, *(stop for _, stop in runs)]
    lengths = [stop - start for (partition, stop), start in zip(runs, starts, strict=False) if partition == 1]
    assert lengths
    assert max(lengths[1:]) <= 10


def test_a_run_ends_once_its_log_has_no_room() -> None:
    turns = turns_of(2)
    first = turns.whole(100)
    assert turns.whole(100) == first
    turns.update_load([int(partition != first) for partition in range(2)])
    assert turns.whole(100) != first
