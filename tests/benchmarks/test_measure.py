"""``make bench``: how subjects are chosen, what counts of their runs, and what is made of it."""

from __future__ import annotations

import math
import time

import pytest

from tests.support.fake_cluster import FakeCluster

from . import bars
from .bars import Curve, Point
from .measure import Figure, Kind, Took, side_by_side
from .processes import EXECUTOR, WORKER, Look, peaks


@pytest.mark.jvm
def test_a_name_chooses_its_subject_or_else_those_that_begin_with_it() -> None:
    from .__main__ import _chosen

    streams = ["stream-catch-up", "stream-micro-batch", "stream-latency"]
    chosen = {"read": ["read"], "stream": streams, "strea": []}
    assert {name: _chosen(name) for name in chosen} == chosen


@pytest.mark.jvm
def test_each_measure_of_scale_does_its_work_on_a_small_cluster() -> None:
    from .scale import MEASURES

    # Each checks what it has read, written or planned; an idle stream is an idle poll again and again.
    measures = {name: measure for name, measure in MEASURES.items() if name != "idle-stream"}
    with FakeCluster(partitions=20, brokers=2) as cluster:
        works = {name: measure.least(cluster, 1).work for name, measure in measures.items()}
    assert all(20 <= work <= 40 for work in works.values()), works


def test_the_second_run_of_a_turn_counts_and_the_first_turn_does_not() -> None:
    done: list[str] = []
    counted_s = iter((9.0, 9.0, 9.0, 2.0, 9.0, 4.0))

    def run() -> float:
        done.append("run")
        return next(counted_s)

    kind = Kind(run, 10, before=lambda: done.append("before"), after=lambda: done.append("after"))
    took = side_by_side({"a": kind, "b": Kind(lambda: time.sleep(0.02), 10)}, 2, twice=True)
    assert done == ["before", "run", "before", "run", "after"] * 3
    assert took["a"].seconds == 3.0
    assert took["a"].whole_s < 1 <= took["a"].seconds
    assert took["b"].seconds == took["b"].whole_s == pytest.approx(0.02, rel=2)


ROWS = 1_000_000
READ = "read: kafkawire, to ready-made batches"
WRITE = "write: kafkawire, less the rows, to Spark's connector, less the rows"


def figure(name: str, value_size: int = 100, **changed: float) -> Figure:
    """A figure of ``--only peer`` where each kind takes a second, but for some (by their constants)."""
    kinds = ("READY", "READY_VALUES", "THEIRS", "THEIR_VALUES", "OURS", "OUR_VALUES", "CONFLUENT")
    writes = ("ROWS_ALONE", "COUNTED", "THEIR_WRITE", "OUR_WRITE")
    took = {getattr(bars, item): Took(ROWS, changed.get(item, 1.0)) for item in (*kinds, *writes)}
    figures = bars.bars(value_size, bars.with_differences(took))
    return next(item for item in figures if item.name == f"{value_size} B, {name}")


@pytest.mark.parametrize(
    ("name", "value_size", "changed", "value", "reached"),
    [
        (READ, 100, {"OURS": 1.25}, 0.8, False),
        (READ, 100, {"OURS": 1.11}, 1 / 1.11, True),
        (READ, 1024, {"OURS": 1.17}, 1 / 1.17, True),
        (READ, 1024, {"OURS": 1.18}, 1 / 1.18, False),
        (WRITE, 100, {"THEIR_WRITE": 5.0, "OUR_WRITE": 3.0}, 2.0, True),
        (WRITE, 100, {"THEIR_WRITE": 5.0, "OUR_WRITE": 3.1}, 4 / 2.1, False),
        (WRITE, 1024, {"THEIR_WRITE": 5.0, "OUR_WRITE": 3.6}, 4 / 2.6, True),
        (WRITE, 1024, {"THEIR_WRITE": 5.0, "OUR_WRITE": 3.7}, 4 / 2.7, False),
        # A write that takes no longer than its rows reaches nothing.
        (WRITE, 100, {"THEIR_WRITE": 5.0, "OUR_WRITE": 1.0}, math.nan, False),
    ],
)
def test_reads_are_held_against_the_ceiling_and_writes_against_the_connector(
    name: str, value_size: int, changed: dict[str, float], value: float, reached: bool
) -> None:
    result = figure(name, value_size, **changed)
    assert result.value == pytest.approx(value, nan_ok=True)
    assert result.reached is reached


def test_the_cost_of_rows_is_taken_off_by_the_row() -> None:
    result = bars.less(Took(ROWS // 2, 3.0, {}), Took(ROWS, 2.0, {}))
    assert (result.seconds, result.rows_per_s) == pytest.approx((2.0, ROWS / 4))


def look(executor: float, worker: float, *, worker_pid: int = 3) -> Look:
    """A sample of the memory of an executor, a daemon (2) and its worker."""
    return {EXECUTOR: {1: executor}, WORKER: {2: 50.0, worker_pid: worker}}


def test_growth_is_the_most_of_the_second_half_to_the_most_of_the_first() -> None:
    result = peaks(look(200, 100), [look(300, 150), look(250, 200), look(280, 210), look(600, 220)])
    assert (result[WORKER].before, result[WORKER].growth) == pytest.approx((100, 1.1))
    assert (result[EXECUTOR].first_half, result[EXECUTOR].second_half) == (300, 600)
    with pytest.raises(AssertionError, match="its Python worker was replaced"):
        peaks(look(200, 100), [look(200, 100), look(200, 100, worker_pid=4)])


@pytest.mark.parametrize(
    ("power", "fixed_s", "reached"), [(1.0, 0, True), (1.2, 0, False), (2.0, 0.5, False)]
)
def test_the_exponent_is_that_of_the_growth_whatever_small_sizes_cost(
    power: float, fixed_s: float, reached: bool
) -> None:
    points = [Point(work, fixed_s + 1e-4 * work**power) for work in (10, 100, 1_000, 10_000, 100_000)]
    result = Curve("m", "partitions", points)
    assert result.figure().reached is reached
    assert fixed_s or result.exponent == pytest.approx(power, abs=0.01)
