"""``make chaos`` itself: a short one of a broker that needs no Java, and failures of all kinds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spark_kafkawire.records import checksum, compiler
from tests.support.short_and_long import short_and_long

from . import __main__ as chaos
from . import decoder_inputs
from .decoder_inputs import input_of
from .operation import Operation, Work, counted


@pytest.mark.slow
def test_a_short_run_counts_what_came_of_its_operations() -> None:
    command = [sys.executable, "-m", "tests.chaos", "--only", "noida-db", "--count", "6", "--workers", "1"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    # On a busy machine lines before it tell how far it is.
    [reported] = [line for line in lines if ", the longest took " in line]
    assert "0 failures" in reported
    counts = [each.split() for each in reported.partition(": ")[2].partition(";")[0].split(", ")]
    assert [sum(int(each[0]) for each in counts if each[1] == what) for what in ("reads", "writes")] == [4, 2]
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
    monkeypatch.setitem(chaos.PARTS, "lies", failing)
    assert chaos.main(["--only", "lies", "--workers", "1", "--count", "8"]) == 1
    lines = capsys.readouterr().out.splitlines()
    again = 'again: make chaos ARGS="--seed 1 --only lies --operation'
    assert lines[0] == f'FAILED lies operation 1: rows are doubled; {again} 1"'
    assert lines[1].startswith("FAILED lies operation 2: KeyError is no error of ours: ")
    assert lines[2] == (
        f'FAILED lies operation 3: its process ended with 9: it hung, or died (see above); {again} 3"'
    )
    assert lines[3].startswith("lies: 1 exact; 3 failures, ")
    assert lines[4] == "chaos, seed 1: 3 failures"


def test_every_operation_is_done_once_by_some_worker() -> None:
    numbers = [number for index in range(4) for number in Work(1, index, 4, float("inf"), 30).numbers()]
    assert sorted(numbers) == list(range(30))
    late = [number for index in range(4) for number in Work(1, index, 4, 0.0, 1 << 62).numbers()]
    assert sorted(late) == list(range(12))
    assert [*Work(1, 0, 1, float("inf"), 30, only=(4711,)).numbers()] == [4711]


@short_and_long("count", short=4, long=80)
@pytest.mark.timeout(1800)
def test_decoders_end_in_rows_or_errors_of_ours(count: int) -> None:
    ended = counted(partial(decoder_inputs.operation, 1), count)
    least = {"rows": 125, "CorruptDataError": 125, "LimitError": 0.5, "MarkersDisagree": 0.1}
    assert all(ended[outcome] >= each * count for outcome, each in least.items()), ended


def test_a_decoder_that_checks_nothing_when_it_is_compiled_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = checksum.first_mismatch

    def only_interpreted(*arguments: Any) -> int | None:
        return None if compiler.loaded() else honest(*arguments)

    for format in ("message_set", "legacy"):
        monkeypatch.setattr(f"spark_kafkawire.records.{format}.decoding.first_mismatch", only_interpreted)
    with pytest.raises(AssertionError, match=r"input .*CRC-32"):
        counted(partial(decoder_inputs.operation, 1), 60)


def test_an_input_is_the_same_whenever_it_is_drawn() -> None:
    assert [input_of(key) for key in range(200)] == [input_of(key) for key in range(200)]
    assert len({input_of(key).data for key in range(200)}) > 190
