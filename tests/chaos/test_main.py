"""``make chaos`` itself: a short one of a broker that needs no Java, and failures of all kinds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from . import __main__ as chaos
from .operation import Operation
from .worker import Work


@pytest.mark.slow
def test_a_short_run_counts_what_came_of_its_operations() -> None:
    command = [sys.executable, "-m", "tests.chaos", "--only", "noida-db", "--count", "12", "--workers", "2"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    # On a busy machine lines before it tell how far it is.
    [reported] = [line for line in lines if ", the longest took " in line]
    assert "0 failures" in reported
    counts = [each.split() for each in reported.partition(": ")[2].partition(";")[0].split(", ")]
    assert [sum(int(each[0]) for each in counts if each[1] == what) for what in ("reads", "writes")] == [8, 4]
    assert lines[-1] == "chaos, seed 1: 0 failures"


@contextmanager
def failing(_seed: int, _index: int) -> Iterator[Operation]:
    """A part whose operations are right, wrong, foreign errors, and the end of their process."""

    def operation(number: int) -> Counter[str]:
        assert number % 4 != 1, "rows are doubled"
        if number % 4 == 2:
            raise KeyError("oh")
        if number % 4 == 3:
            os._exit(9)
        return Counter(exact=1)

    yield operation


@pytest.mark.slow
def test_a_failure_is_told_with_the_command_that_does_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(chaos.PARTS, "damage", failing)
    assert chaos.main(["--only", "damage", "--workers", "1", "--count", "8"]) == 1
    lines = capsys.readouterr().out.splitlines()
    again = 'again: make chaos ARGS="--seed 1 --only damage --operation'
    assert lines[0] == f'FAILED damage operation 1: rows are doubled; {again} 1"'
    assert lines[1].startswith("FAILED damage operation 2: KeyError is no error of ours: ")
    assert lines[2] == (
        f'FAILED damage operation 3: its process ended with 9: it hung, or died (see above); {again} 3"'
    )
    assert lines[3].startswith("damage: 1 exact; 3 failures, ")
    assert lines[4] == "chaos, seed 1: 3 failures"


def test_every_operation_is_done_once_by_some_worker() -> None:
    numbers = [number for index in range(4) for number in Work(1, index, 4, float("inf"), 30).numbers()]
    assert sorted(numbers) == list(range(30))
    late = [number for index in range(4) for number in Work(1, index, 4, 0.0, 1 << 62).numbers()]
    assert sorted(late) == list(range(12))
    assert [*Work(1, 0, 1, float("inf"), 30, only=(4711,)).numbers()] == [4711]
