"""Runs side by side, and one JSON line for each figure."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

_VERSIONS_OF: Final = ("pyspark", "pyarrow", "numpy", "numba", "isal", "python-snappy")


@dataclass(frozen=True, slots=True)
class Figure:
    """One measure: a value in its unit, and what it is held against.

    ``target`` is the least (with ``at_most``, the most) that was asked for, None where nothing
    was. ``details`` are added to the line.
    """

    name: str
    unit: str
    value: float
    target: float | None = None
    at_most: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reached(self) -> bool | None:
        """True if the value reaches the target; None without a target."""
        if self.target is None:
            return None
        return self.value <= self.target if self.at_most else self.value >= self.target

    def line(self) -> str:
        """The figure as a line of JSON, with machine and versions."""
        wanted = {} if self.target is None else {"target": self.target, "reached": self.reached}
        value = {self.unit: round(self.value, 3)}
        where = {"load": round(os.getloadavg()[0], 1), "machine": _machine(), "versions": _versions()}
        return json.dumps({"name": self.name, **self.details, **value, **wanted, **where})


def interleaved(
    runs: Mapping[str, Callable[[], None]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of each run in each round. All run once before, unmeasured; their order alternates."""
    names = list(runs)
    for name in names:
        runs[name]()
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 == 0 else names[::-1]:
            began_s = clock()
            runs[name]()
            seconds[name].append(clock() - began_s)
    return seconds


def one_after_the_other(*runs: Callable[[], None]) -> Callable[[], None]:
    """One run that makes all these runs in order."""

    def run() -> None:
        for each in runs:
            each()

    return run


def throughput(seconds: list[float], *, rows: int, size: int) -> dict[str, Any]:
    """Fields of a result line for runs that moved ``rows`` with ``size`` bytes of values."""
    median_s = statistics.median(seconds)
    return {
        "rows": rows,
        "bytes": size,
        "seconds": round(median_s, 4),
        "seconds_min": round(min(seconds), 4),
        "seconds_max": round(max(seconds), 4),
        "rounds": len(seconds),
        "rows_per_s": round(rows / median_s),
        "mb_per_s": round(size / median_s / 1e6, 1),
    }


def say(text: str) -> None:
    """Tell the person who waits."""
    print(text, file=sys.stderr, flush=True)


@cache
def _machine() -> str:
    with open("/proc/cpuinfo") as file:
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return f"{os.cpu_count()} x {models[0] if models else platform.machine()}"


@cache
def _versions() -> dict[str, str]:
    versions = {name: importlib.metadata.version(name) for name in _VERSIONS_OF}
    return {"python": platform.python_version(), **versions}
