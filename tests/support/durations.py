"""A plugin that prints where a test run spends its time: seconds of each folder, and the slowest tests.

Seconds are wall time in the processes that share the tests: with two processes up to twice the time of the
run. ``setup`` of a test has the fixtures that it is the first to use, such as a Spark session.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import pytest

#: Rows of the table of tests, as in the durations of pytest itself.
SLOWEST: Final = 40
_PHASES: Final = ("setup", "call", "teardown")


class Durations:
    """Collects the reports of all tests, by phase. Register it in the process with the terminal."""

    def __init__(self) -> None:
        self._seconds: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(_PHASES, 0.0))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the duration of a phase of a test. Reports of subtests are parts of their test."""
        if type(report) is pytest.TestReport:
            self._seconds[report.nodeid][report.when] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print both tables, unless only a few tests ran."""
        if len(self._seconds) > SLOWEST:
            terminalreporter.section("seconds of folders and of the slowest tests")
            terminalreporter.write_line("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """The rows of both tables: ``setup call teardown tests name``, the largest sums first."""
        folders: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys((*_PHASES, "tests"), 0.0))
        for name, phases in self._seconds.items():
            folder = folders[_folder(name)]
            folder["tests"] += 1
            for phase in _PHASES:
                folder[phase] += phases[phase]
        by_sum = sorted(folders.items(), key=lambda item: -sum(item[1][phase] for phase in _PHASES))
        slowest = sorted(self._seconds.items(), key=lambda item: -sum(item[1].values()))[:SLOWEST]
        head = f"{'setup':>8} {'call':>8} {'teardown':>8} {'tests':>6}"
        return [
            head,
            *(f"{_times(phases)} {phases['tests']:6.0f} {name}" for name, phases in by_sum),
            head,
            *(f"{_times(phases)} {1:6} {name}" for name, phases in slowest),
        ]


def _folder(name: str) -> str:
    """The folder below ``tests`` of a test, or its file if it is in ``tests`` itself."""
    parts = name.partition("::")[0].split("/")
    return "/".join(parts[: min(3, len(parts) - 1)]) if len(parts) > 2 else parts[-1]


def _times(phases: dict[str, float]) -> str:
    return " ".join(f"{phases[phase]:8.1f}" for phase in _PHASES)
