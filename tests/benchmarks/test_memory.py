"""The figures of ``--only large-topic`` from samples of the memory of an executor and its worker."""

from __future__ import annotations

import pytest

from .memory import EXECUTOR, WORKER, Look, peaks


def look(executor: float, worker: float, *, worker_pid: int = 3) -> Look:
    """A daemon (2) and its worker."""
    return {EXECUTOR: {1: executor}, WORKER: {2: 50.0, worker_pid: worker}}


def test_growth_is_the_most_of_the_second_half_to_the_most_of_the_first() -> None:
    found = peaks(look(200, 100), [look(300, 150), look(250, 200), look(280, 210), look(600, 220)])
    assert found[WORKER].before == 100
    assert found[WORKER].growth == pytest.approx(1.1)
    assert (found[EXECUTOR].first_half, found[EXECUTOR].second_half) == (300, 600)


def test_a_worker_that_was_replaced_is_told() -> None:
    with pytest.raises(AssertionError, match="its Python worker was replaced"):
        peaks(look(200, 100), [look(200, 100), look(200, 100, worker_pid=4)])


def test_an_executor_that_has_ended_is_told() -> None:
    with pytest.raises(AssertionError, match="the executor's JVM was replaced"):
        peaks(look(200, 100), [look(200, 100), {EXECUTOR: {}, WORKER: {}}])
