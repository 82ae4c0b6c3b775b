"""In which order logs get rows that choose none."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.clients.writing.turns import RUN_BYTES_MIN, Ids, Turns

#: 99.9 % of the sums of squares that chance makes are below, by degrees of freedom.
CHI_SQUARE_MAX = {2: 13.82, 11: 31.26}


def turns_of(logs: int, seed: int = 0, run_bytes_max: int = 1 << 20) -> Turns:
    return Turns(range(logs), run_bytes_max, random.Random(seed))


def sizes(count: int, size: int) -> Ids:
    return np.full(count, size, np.int64)


def chi_square(counts: Counter[int], logs: int) -> float:
    """How far the counts are from equal ones."""
    expected = sum(counts.values()) / logs
    return sum((counts[log] - expected) ** 2 / expected for log in range(logs))


@pytest.mark.parametrize("logs", [3, 12])
def test_many_small_writes_are_spread_as_chance_would_have_it(logs: int) -> None:
    counts = Counter(int(turns_of(logs, seed).by_size(sizes(10, 100))[0]) for seed in range(3000))
    assert 0 < chi_square(counts, logs) < CHI_SQUARE_MAX[logs - 1]


@pytest.mark.parametrize("place", [1, 2])
def test_so_are_the_logs_that_come_next(place: int) -> None:
    rows = sizes(3, RUN_BYTES_MIN)
    counts = Counter(int(turns_of(3, seed).by_size(rows)[place]) for seed in range(3000))
    assert chi_square(counts, 3) < CHI_SQUARE_MAX[2]


@pytest.mark.parametrize("total", [1 << 20, 20 << 20, 200 << 20])
def test_one_write_gives_each_log_as_much_but_for_a_run(total: int) -> None:
    rows = sizes(total // 1000, 1000)
    counts = np.bincount(turns_of(3).by_size(rows))
    assert counts.max() - counts.min() <= max(RUN_BYTES_MIN, min(total // 16, 1 << 20)) / 1000 + 1


def test_a_run_is_16_kib_first_and_a_batch_at_last() -> None:
    logs = turns_of(3).by_size(sizes(100_000, 1024))
    runs = np.diff(np.flatnonzero(np.diff(logs))).tolist()
    assert runs[:10] == [16] * 10
    assert runs == sorted(runs)
    assert set(runs[-20:]) == {1024}


def test_rows_are_spread_by_their_bytes_whatever_batches_they_come_in() -> None:
    rng = np.random.default_rng(0)
    drawn = rng.integers(1, 40_000, 5000)
    whole = turns_of(5).by_size(drawn)
    turns, parts = turns_of(5), np.split(drawn, np.sort(rng.integers(0, 5000, 300)))
    assert np.concatenate([turns.by_size(part) for part in parts]).tolist() == whole.tolist()
    by_log = [int(drawn[whole == log].sum()) for log in range(5)]
    assert max(by_log) - min(by_log) <= (1 << 20) + 40_000


@given(st.lists(st.integers(1, 1 << 22), max_size=60), st.integers(1, 5), st.integers(1, 1 << 21))
def test_no_run_is_larger_than_it_may_be_but_for_one_row(drawn: list[int], logs: int, most: int) -> None:
    turns = Turns(range(logs), most, random.Random(1))
    found = turns.by_size(np.array(drawn, np.int64))
    assert len(found) == len(drawn)
    run: list[int] = []
    for position, (log, size) in enumerate(zip(found.tolist(), drawn, strict=True)):
        is_next = position > 0 and log != found[position - 1]
        run = [size] if is_next else [*run, size]
        assert logs == 1 or len(run) == 1 or sum(run) <= max(most, RUN_BYTES_MIN)


def test_one_by_one_each_row_goes_to_the_next_log() -> None:
    turns = turns_of(3)
    first, second = turns.one_by_one(4).tolist(), turns.one_by_one(4).tolist()
    assert sorted(first[:3]) == [0, 1, 2]
    assert first + second == (first[:3] * 3)[:8]


def test_a_seed_draws_the_same_order_and_others_another_one() -> None:
    orders = {seed: tuple(turns_of(12, seed).one_by_one(12).tolist()) for seed in range(4)}
    assert orders[0] == tuple(turns_of(12, 0).one_by_one(12).tolist())
    assert len(set(orders.values())) == 4
