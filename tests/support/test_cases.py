"""`cases.py`: what a run of pytest shows of cases in one item."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cases import for_each
from tests.support.pages import ROOT

FILE = """
import pytest
from hypothesis import given, strategies as st
from spark_kafkawire import secrecy
from tests.support.cases import for_each

@for_each("number", [1, 2, 3])
def test_numbers(number):
    assert number != 2, "only this one"

@for_each("a", [1, 2], ids=["one", "two"])
@for_each(("b", "c"), [(1, 2), pytest.param(3, 4, id="late")])
@pytest.mark.parametrize("way", "xy")
def test_all_combinations(a, b, c, way, tmp_path):
    assert (a, b, way) != (2, 3, "y")

@for_each("number", [0, 50])
@given(drawn=st.integers(0, 9))
def test_drawn(number, drawn):
    assert number + drawn < 20

@for_each("number", [1])
def test_skip(number):
    pytest.skip("not here")

@for_each("number", [1, 2])
@pytest.mark.timeout(1)
def test_late(number):
    while number:
        pass

@for_each("number", [1, 2])
def test_forgets(number):
    assert secrecy.without_secrets("a word of secrets") == "a word of secrets"
    secrecy.keep_secret("word of secrets")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(FILE)
    return tmp_path


@pytest.mark.parametrize("processes", [0, 1])
def test_a_failure_names_its_case_and_fails_its_item(folder: Path, processes: int) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", f"-n{processes}", "-rfs", "test_it.py"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "300"},
        capture_output=True,
        text=True,
    )
    lines = [line for line in run.stdout.splitlines() if line.startswith(("SUBFAILED", "FAILED"))]
    for name, case, summary in (
        ("test_numbers", "number=2", "1 of 3 cases: number=2"),
        ("test_all_combinations[y]", "late, two", "1 of 4 cases: late, two"),
        ("test_drawn", "number=50", "1 of 2 cases: number=50"),
        ("test_skip", "number=1", "1 of 1 cases: number=1"),
        # The timeout is that of the item: the second case does not begin.
        ("test_late", "number=1", "1 of 2 cases: number=1"),
    ):
        failures = [line for line in lines if f" test_it.py::{name} - " in line]
        assert [line.partition(" test_it.py")[0] for line in failures] == [f"SUBFAILED[{case}]", "FAILED"], (
            run.stdout
        )
        assert failures[1].endswith(f"Failed: {summary}")
    assert len(lines) == 10, run.stdout
    assert "parametrize it" in run.stdout
    assert "drawn=0" in run.stdout
    assert run.returncode == 1


def test_cases_are_those_of_their_test() -> None:
    def test(number: int) -> None:
        raise AssertionError(number)

    for names, values, error in (
        ("number", [], "no cases of"),
        ("number", [pytest.param(1, marks=pytest.mark.slow)], "with marks"),
        ("nummer", [1], "lacks an argument"),
        ("number, other", [(1, 2)], "lacks an argument"),
        ("number, other", [(1,)], "shorter"),
    ):
        with pytest.raises(ValueError, match=error):
            for_each(names, values)(test)
