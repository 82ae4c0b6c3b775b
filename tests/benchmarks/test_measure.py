"""``make bench``: how subjects are chosen, what counts of their runs, and what is made of it."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_cluster import FakeCluster

from . import bars
from .bars import Curve, Point
from .measure import Figure, Kind, Took, side_by_side
from .processes import EXECUTOR, WORKER, Look, peaks
from .turns import Ended, Measured, Pair, pairs_of_runs, session


@pytest.mark.jvm
def test_a_name_chooses_its_subject_or_else_those_that_begin_with_it() -> None:
    from .__main__ import _chosen

    assert _chosen("read") == ["read"]
    assert _chosen("stream") == ["stream-catch-up", "stream-micro-batch"]
    assert _chosen("strea") == []


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


# --- The table of ``--only peer``, with rows per second, and its bars ---

ROWS = 1_000_000
WRITE = "write: kafkawire, less the rows, to Spark's connector, less the rows"


def took(**changed: float) -> dict[str, Took]:
    """A second each, but for some kinds (by the name of their constant)."""
    kinds = ("READY", "READY_VALUES", "THEIRS", "THEIR_VALUES", "OURS", "OUR_VALUES", "CONFLUENT")
    writes = ("ROWS_ALONE", "COUNTED", "THEIR_WRITE", "OUR_WRITE")
    cpu_ns = {"jvm": 100, "worker": 20, "other": 3, "broker": 4, "planner": 1}
    return bars.with_differences(
        {getattr(bars, name): Took(ROWS, changed.get(name, 1.0), cpu_ns) for name in (*kinds, *writes)}
    )


def figure(name: str, measured: Mapping[str, Took], value_size: int = 100) -> Figure:
    [found] = [each for each in bars.bars(value_size, measured) if each.name == f"{value_size} B, {name}"]
    return found


def test_a_read_is_held_against_ready_made_batches_of_all_columns() -> None:
    name = "read: kafkawire, to ready-made batches"
    assert figure(name, took(OURS=1.25)).value == pytest.approx(0.8)
    assert not figure(name, took(OURS=1.12)).reached
    assert figure(name, took(OURS=1.11)).reached
    assert figure(name, took(OURS=1.17), 1024).reached
    assert not figure(name, took(OURS=1.18), 1024).reached


def test_a_write_is_held_against_the_connectors_with_the_cost_of_the_rows_off() -> None:
    def reached(seconds: float, value_size: int) -> bool | None:
        return figure(WRITE, took(ROWS_ALONE=1.0, THEIR_WRITE=5.0, OUR_WRITE=seconds), value_size).reached

    assert figure(WRITE, took(ROWS_ALONE=1.0, THEIR_WRITE=5.0, OUR_WRITE=2.0)).value == pytest.approx(4.0)
    assert (reached(3.0, 100), reached(3.1, 100)) == (True, False)
    assert (reached(3.6, 1024), reached(3.7, 1024)) == (True, False)


def test_the_cost_of_rows_is_taken_off_by_the_row() -> None:
    write, rows_alone = Took(ROWS // 2, 3.0, {}), Took(ROWS, 2.0, {})
    assert bars.less(write, rows_alone).seconds == pytest.approx(2.0)
    assert bars.less(write, rows_alone).rows_per_s == pytest.approx(ROWS / 4)


def test_a_write_that_takes_no_longer_than_its_rows_reaches_nothing() -> None:
    found = figure(WRITE, took(OUR_WRITE=1.0, THEIR_WRITE=5.0))
    assert math.isnan(found.value)
    assert found.reached is False


# --- The figures of ``--only large-topic`` from samples of the memory of an executor and its worker ---


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


# --- ``--only scale``: the curves, and a short run of each measure ---


def curve(power: float, fixed_s: float = 0.0) -> Curve:
    works = (10, 100, 1_000, 10_000, 100_000)
    return Curve("m", "partitions", [Point(work, fixed_s + 1e-4 * work**power) for work in works])


def test_the_exponent_is_that_of_the_growth() -> None:
    assert abs(curve(1.0).exponent - 1) < 0.01
    assert abs(curve(2.0).exponent - 2) < 0.01
    assert curve(1.2).figure().reached is False
    assert curve(1.0).figure().reached


def test_fixed_costs_of_small_sizes_do_not_hide_a_quadratic_curve() -> None:
    assert curve(2.0, fixed_s=0.5).figure().reached is False


@pytest.mark.jvm
def test_each_measure_does_its_work_on_a_small_cluster() -> None:
    from .scale import MEASURES

    # Each checks what it has read, written or planned; an idle stream is an idle poll again and again.
    with FakeCluster(partitions=20, brokers=2) as cluster:
        works = {
            name: measure.least(cluster, 1).work
            for name, measure in MEASURES.items()
            if name != "idle-stream"
        }
    assert all(20 <= work <= 40 for work in works.values()), works


# --- ``make bench --before``: who works when, and what is made of what both trees tell ---

#: A tree's ``measure`` and ``__main__``, with one measure of two runs that write down when they work.
MEASURE = "def interleaved(runs, rounds): raise AssertionError('this one does not hand over')\n"
MAIN = """
import time
from collections import namedtuple
from pathlib import Path
from .measure import interleaved

COMPRESSIONS = ("none", "gzip")
Figure = namedtuple("Figure", "name value at_most details line")
TREE = Path.cwd()

def run(name):
    def work():
        with (TREE.parent / "worked").open("a") as file:
            print(TREE.name, name, "begins", file=file, flush=True)
            time.sleep(0.01)
            print(TREE.name, name, "ends", file=file, flush=True)
    return work

def _figures(names, rounds):
    assert names == ["codec"]
    seconds = interleaved({"ours": run("ours"), "limit": run("limit")}, rounds)
    assert [len(each) for each in seconds.values()] == [rounds, rounds]
    for compression in COMPRESSIONS:
        details = {"value_size": 10, "compression": compression}
        yield Figure("decode", min(seconds["ours"]), True, details, str)
"""


def asked(rounds: int, **narrowed: Any) -> dict[str, Any]:
    return {"names": ["codec"], "rounds": rounds, "size": None, "sizes": [], "compressions": [], **narrowed}


def tree(folder: Path, main: str = MAIN) -> Path:
    benchmarks = folder / "tests" / "benchmarks"
    benchmarks.mkdir(parents=True)
    (benchmarks / "measure.py").write_text(MEASURE)
    (benchmarks / "__main__.py").write_text(main)
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    return folder


def test_one_tree_works_at_a_time_and_who_begins_alternates(tmp_path: Path) -> None:
    reported = session((tree(tmp_path / "a"), tree(tmp_path / "b")), asked(rounds=4, compressions=["gzip"]))
    worked = [line.split() for line in (tmp_path / "worked").read_text().splitlines()]
    begins, ends = worked[::2], worked[1::2]
    assert [each[:2] for each in begins] == [each[:2] for each in ends]
    assert {each[2] for each in begins} == {"begins"}
    # Round 0 is for warming up; the runs of each round come in the order opposite to that of the last one.
    order = ["ours", "limit", "limit", "ours", "ours", "limit", "limit", "ours", "ours", "limit"]
    assert [each[1] for each in begins] == [name for name in order for _ in range(2)]
    assert "".join(each[0] for each in begins) == "abba baab baab abba abba".replace(" ", "")
    # In rounds 1 to 4 both come equally often after the same: after themselves, and after the other tree.
    turns = [(which, name) for which, name, _ in begins]
    transitions = Counter(pairwise(turns[3:]))
    other = {"a": "b", "b": "a"}
    for ((one, last), (then, name)), times in transitions.items():
        assert transitions[(other[one], last), (other[then], name)] == times
    assert [event["compression"] for event in reported[0] if event["what"] == "figure"] == ["gzip"]
    before, now = (Measured.of(events) for events in reported)
    named = "decode, 10 B, gzip"
    assert now.seconds.keys() == before.seconds.keys() == {(named, "ours"), (named, "limit")}
    assert [sorted(each) for each in now.seconds.values()] == [[1, 2, 3, 4], [1, 2, 3, 4]]
    assert all(took_s >= 0.01 for each in now.seconds.values() for took_s in each.values())
    assert now.figures == {}


def test_a_tree_whose_process_ends_too_early_ends_all(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    broken = tree(tmp_path / "b", MAIN.replace("namedtuple(", "nothing("))
    with pytest.raises(Ended, match="what it said is above"):
        session((tree(tmp_path / "a"), broken), asked(rounds=1))
    said = capfd.readouterr().err
    assert "NameError: name 'nothing' is not defined" in said
    assert "EOFError" not in said


def run(name: str, number: int, seconds: float) -> dict[str, Any]:
    return {"what": "run", "name": name, "round": number, "seconds": seconds}


def told_figure(
    name: str, value: float, at_most: bool = False, compression: str | None = None
) -> dict[str, Any]:
    details = {"value_size": 100, "compression": compression}
    return {"what": "figure", "name": name, "value": value, "at_most": at_most, **details}


def of_a_tree(gzip_s: tuple[float, ...], peak: float = 1.0, received: float = 1.0) -> Measured:
    runs = [run("gzip", number, seconds) for number, seconds in enumerate(gzip_s)]
    runs += [run("ceiling", number, 1.0) for number in range(len(gzip_s))]
    of_runs = [told_figure("read", 0.5, compression=each) for each in ("gzip", "none")]
    return Measured.of(
        [told_figure("peak", peak, at_most=True), *runs, *of_runs, told_figure("received", received)]
    )


def test_runs_are_compared_round_by_round_over_all_sessions() -> None:
    first = of_a_tree((9.0, 2.0, 2.2)), of_a_tree((1.0, 2.0, 2.0))
    second = of_a_tree((9.0, 1.9)), of_a_tree((1.0, 2.0))
    pairs = {pair.name: pair for pair in pairs_of_runs([first, second])}
    # What is shared by runs of several compressions is named without them.
    assert list(pairs) == ["read, 100 B: gzip", "read, 100 B: ceiling"]
    gzip = pairs["read, 100 B: gzip"]
    assert gzip.ratios == pytest.approx((1.0, 1.1, 0.95))
    assert (gzip.before, gzip.now, gzip.ratio) == (2.0, 2.0, 1.0)
    assert [pair.is_yardstick for pair in pairs.values()] == [False, True]


def test_three_per_cent_are_allowed() -> None:
    ratios = (0.5, 0.97, 2.0), (0.5, 0.96, 2.0)
    assert [Pair("read", 1.0, 1.0, each).is_below for each in ratios] == [False, True]
    assert not Pair("ceiling", 1.0, 1.0, (0.5,), is_yardstick=True).is_below
