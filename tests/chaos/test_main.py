"""``make chaos`` itself: a short one of a broker that needs neither Java nor Maven."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .faults import FaultKind
from .operation import EXACT, Outcome
from .report import Tally, table


@pytest.mark.slow
def test_a_short_run_counts_what_came_of_its_operations() -> None:
    command = [sys.executable, "-m", "tests.chaos", "--only", "noida-db", "--reads", "8", "--writes", "4"]
    done = subprocess.run(
        [*command, "--workers", "2"], cwd=Path(__file__).parents[2], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    # On a busy machine lines before it tell how far it is.
    [reported] = [line for line in lines if "; the longest took " in line]
    assert reported.startswith("noida-db: 8 reads, 4 writes, ")
    assert lines[-1] == "chaos, seed 1: 0 failures"


def test_a_failure_is_told_with_the_command_that_does_it_again() -> None:
    tally = Tally("kafka-4.1")
    tally.add(Outcome(4, "read", EXACT, made=3, seconds=1.5), "again")
    tally.add(Outcome(6, "read", "ConnectionLost", made=2), "again")
    tally.broken[FaultKind.CUT] = 2
    tally.add(Outcome(5, "write", EXACT, failure="rows are doubled"), "make chaos")
    assert tally.failures == ["kafka-4.1 operation 5, a write: rows are doubled; again: make chaos"]
    reported = table([tally, Tally("kafka-3.9", skipped="no Java")])
    assert "2 reads, 1 writes, 2 of 5 connections broken, 1 failures" in reported
    assert "1 exact, 1 ConnectionLost" in reported
    assert "0 exact, 1 FAILED" in reported
    assert "the longest took 1.5 s" in reported
    assert "kafka-3.9  skipped: no Java" in reported
