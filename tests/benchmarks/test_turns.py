"""``make bench --before``: who works when, and what is made of what both trees tell."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from . import turns
from .pairs import Measured, Pair, pairs_of_figures, pairs_of_runs
from .turns import Ended, session

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


def test_measures_that_come_to_nothing_are_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without a figure the runs have no name.
    monkeypatch.setattr(turns, "ROOT", tree(tmp_path / "b"))
    monkeypatch.setattr(turns, "EVENTS", tmp_path / "turns.jsonl")
    narrowed = {"value_sizes": [], "compressions": ["zsdt"], "size": None}
    words = Namespace(before=tree(tmp_path / "a"), only=["codec"], rounds=1, sessions=1, **narrowed)
    with pytest.raises(Ended, match="nothing was measured"):
        turns.compare(words)


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


def figure(name: str, value: float, at_most: bool = False, compression: str | None = None) -> dict[str, Any]:
    details = {"value_size": 100, "compression": compression}
    return {"what": "figure", "name": name, "value": value, "at_most": at_most, **details}


def measured(gzip_s: tuple[float, ...], peak: float = 1.0, received: float = 1.0) -> Measured:
    runs = [run("gzip", number, seconds) for number, seconds in enumerate(gzip_s)]
    runs += [run("ceiling", number, 1.0) for number in range(len(gzip_s))]
    of_runs = [figure("read", 0.5, compression=each) for each in ("gzip", "none")]
    return Measured.of([figure("peak", peak, at_most=True), *runs, *of_runs, figure("received", received)])


def test_runs_are_compared_round_by_round_over_all_sessions() -> None:
    first = measured((9.0, 2.0, 2.2)), measured((1.0, 2.0, 2.0))
    second = measured((9.0, 1.9)), measured((1.0, 2.0))
    pairs = {pair.name: pair for pair in pairs_of_runs([first, second])}
    # What is shared by runs of several compressions is named without them.
    assert list(pairs) == ["read, 100 B: gzip", "read, 100 B: ceiling"]
    gzip = pairs["read, 100 B: gzip"]
    assert gzip.ratios == pytest.approx((1.0, 1.1, 0.95))
    assert (gzip.before, gzip.now, gzip.ratio) == (2.0, 2.0, 1.0)
    assert [pair.is_yardstick for pair in pairs.values()] == [False, True]


def test_figures_are_compared_where_they_are_made_of_no_runs() -> None:
    pairs = pairs_of_figures([(measured((1.0,), 200, 0.5), measured((1.0,), 250, 0.4))])
    # Of the peak less is better.
    assert {pair.name: pair.ratio for pair in pairs} == pytest.approx({"peak": 0.8, "received": 0.8})


def test_figures_of_others_are_yardsticks() -> None:
    named = ("into Arrow by kafkawire", "into Arrow by kafka-python")
    measured = Measured.of(figure(name, 1.0) for name in named)
    assert [pair.is_yardstick for pair in pairs_of_figures([(measured, measured)])] == [False, True]


def test_three_per_cent_are_allowed() -> None:
    ratios = (0.5, 0.97, 2.0), (0.5, 0.96, 2.0)
    assert [Pair("read", 1.0, 1.0, each).is_below for each in ratios] == [False, True]
    assert not Pair("ceiling", 1.0, 1.0, (0.5,), is_yardstick=True).is_below
