"""``make chaos`` itself: a short one of a broker that needs no Java, and failures of all kinds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from spark_kafkawire.clients.reading.damaged_records import DamagedRecords
from spark_kafkawire.clients.reading.modern.record_batch_reader import RecordBatchReader
from tests.support.short_and_long import short_and_long

from . import __main__ as chaos
from .__main__ import PARTS
from .operation import EXACT, Operation, Work, counted


@pytest.mark.slow
def test_a_short_run_counts_what_came_of_its_operations() -> None:
    command = [sys.executable, "-m", "tests.chaos", "--only", "noida-db", "--count", "6", "--workers", "1"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    # On a busy machine lines before it tell how far it is.
    [reported] = [line for line in lines if ", the longest took " in line]
    assert "0 failures" in reported
    counts = [item.split() for item in reported.partition(": ")[2].partition(";")[0].split(", ")]
    assert [sum(int(item[0]) for item in counts if item[1] == what) for what in ("reads", "writes")] == [4, 2]
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
def test_a_failure_is_reported_with_the_command_that_does_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(chaos.PARTS, "damage", failing)
    monkeypatch.setattr(chaos, "_PROGRESS_S", 600.0)
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


# --- Each part ends in exact rows or in errors of ours, and finds a defect that is planted in the package ---

SEED: Final = 1


def _believe_the_first_fetch(damaged: DamagedRecords, result: Any) -> None:
    list(result)
    damaged.is_expected = True


def _believe_the_follower(reader: RecordBatchReader, response: Any, result: Any) -> None:
    reader._take(response, result)


class Case(NamedTuple):
    """Counts of operations, of the short test and the long one, the outcomes that each has on average, a
    defect and where in the clients it is planted, and the failure that names it."""

    counts: tuple[int, int]
    least: dict[str, float]
    defect: object
    place: str
    reported: str


CASES: Final = {
    "damage": Case((20, 1000), {EXACT: 0.95, "faults flip": 0.1, "faults break": 0.1, "faults move": 0.1},
                   _believe_the_first_fetch, "reading.damaged_records.DamagedRecords.confirm", "instead of"),
    "near": Case((40, 2000), {EXACT: 1, "faults flip": 0.1, "follower lags": 0.02},
                 _believe_the_follower,
                 "reading.modern.record_batch_reader.RecordBatchReader._take_of_follower", "instead of"),
    "fencing": Case((2, 200), {EXACT: 1, "died": 0.5},
                    1, "writing.modern.transactional.requests.FENCED_TIMEOUT_MS", "refused, as replication"),
}  # fmt: skip


@short_and_long("length", short=0, long=1)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.timeout(1800)
def test_operations_end_in_exact_rows_or_errors_of_ours(name: str, length: int) -> None:
    count = CASES[name].counts[length]
    with PARTS[name](SEED, 0) as operation:
        ended = counted(operation, count)
    assert all(ended[outcome] >= least * count for outcome, least in CASES[name].least.items()), ended


@pytest.mark.parametrize("name", CASES)
def test_a_planted_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    monkeypatch.setattr(f"spark_kafkawire.clients.{case.place}", case.defect)
    with PARTS[name](SEED, 0) as operation, pytest.raises(AssertionError, match=case.reported):
        counted(operation, 60)
