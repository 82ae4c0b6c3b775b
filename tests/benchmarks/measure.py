"""Runs side by side, the figures that are made of them, and tables for the documentation."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final

from .processes import cpu_seconds, spent_seconds

_VERSIONS_OF: Final = ("pyspark", "pyarrow", "numpy", "numba", "isal", "python-snappy")
#: Whose CPU time a row's is: Spark's JVM, the Python that runs in its tasks or beside Spark, the broker.
_PARTS: Final = {"JVM": ("jvm", "executor"), "Python": ("worker", "other"), "broker": ("broker",)}

Run = Callable[[], object]


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
        load = {"load": round(os.getloadavg()[0], 1)}
        return json.dumps({"name": self.name, **self.details, **value, **wanted, **load, **_where()})

    def cells(self) -> list[str]:
        """A row of the table of figures."""
        what = [
            str(self.details[name]) for name in ("kafka", "value_size", "compression") if name in self.details
        ]
        asked = "" if self.target is None else f"{'at most' if self.at_most else 'at least'} {self.target:g}"
        verdict = {True: "reached", False: "**missed**", None: ""}[self.reached]
        return [", ".join((self.name, *what)), f"{self.value:.2f} {self.unit}", asked, verdict]


@dataclass(frozen=True, slots=True)
class Kind:
    """A run, and the rows and bytes of values that it moves. It may return the seconds that count. What
    comes before each run and after its turn is not measured."""

    run: Run
    rows: int
    size: int = 0
    before: Run = lambda: None
    after: Run = lambda: None


@dataclass(frozen=True, slots=True)
class Took:
    """Medians of the runs of a kind: the seconds that count, CPU nanoseconds per row by role, the seconds of
    the whole run; and fields of a result line."""

    rows: int
    seconds: float
    cpu_ns: Mapping[str, int] = field(default_factory=dict)
    whole_s: float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows_per_s(self) -> float:
        """Infinite where nothing is left of the seconds."""
        return self.rows / self.seconds if self.seconds > 0 else float("inf")

    @property
    def parts_ns(self) -> dict[str, int]:
        """CPU nanoseconds per row of Spark's JVM, of Python and of the broker."""
        return {part: sum(self.cpu_ns.get(role, 0) for role in roles) for part, roles in _PARTS.items()}


def interleaved(
    runs: Mapping[str, Run], rounds: int, clock: Callable[[], float] = time.perf_counter
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


def side_by_side(kinds: Mapping[str, Kind], rounds: int, *, twice: bool = False) -> dict[str, Took]:
    """Costs of each kind, in turns.

    ``twice`` is for other readers in the same Spark: each run is made twice and the second one counts. Spark
    ends Python workers that nobody asked for a minute, and new ones import all they need; and after another
    kind of run the JVM compiles its part again, which is up to a third of a read's CPU time.
    """
    spent: dict[str, list[tuple[float, float, dict[str, float]]]] = {name: [] for name in kinds}

    def turn(name: str, kind: Kind) -> None:
        for _ in range(1 + twice):
            kind.before()
            before, began_s = cpu_seconds(), time.perf_counter()
            counted_s = kind.run()
            whole_s = time.perf_counter() - began_s
            last = counted_s if isinstance(counted_s, float) else whole_s, whole_s
        spent[name].append((*last, spent_seconds(before, cpu_seconds())))
        kind.after()

    interleaved({name: partial(turn, name, kind) for name, kind in kinds.items()}, rounds)
    # The first turn is for warming up.
    return {name: _took(kind, spent[name][1:]) for name, kind in kinds.items()}


def _took(kind: Kind, runs: Sequence[tuple[float, float, dict[str, float]]]) -> Took:
    seconds, whole_s, cpu_s = zip(*runs, strict=True)
    roles = sorted({role for item in cpu_s for role in item})
    medians = {role: statistics.median(item.get(role, 0.0) for item in cpu_s) for role in roles}
    cpu_ns = {role: round(1e9 * item / kind.rows) for role, item in medians.items() if item}
    details = throughput(seconds, rows=kind.rows, size=kind.size)
    return Took(kind.rows, statistics.median(seconds), cpu_ns, statistics.median(whole_s), details)


def throughput(seconds: Sequence[float], *, rows: int, size: int) -> dict[str, Any]:
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


def print_took(what: str, took: Mapping[str, Took]) -> None:
    """A table with a row for each kind."""
    rows = []
    for name, item in took.items():
        parts_ns = item.parts_ns
        busy = sum(parts_ns.values()) * item.rows / 1e9 / item.whole_s
        seconds = [f"{item.seconds:.2f}", f"{item.whole_s:.2f}", f"{item.rows_per_s / 1e6:.2f}"]
        rows.append([name, *seconds, *map(str, parts_ns.values()), f"{busy:.2f}"])
    cpu = [f"CPU ns/row: {part}" for part in _PARTS]
    print_table([what, "s", "s with the start", "million rows/s", *cpu, "cores busy"], rows)


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print it as Markdown; all columns but the first are numbers."""
    marks = ["---"] + ["--:"] * (len(header) - 1)
    print()
    for row in (header, marks, *rows):
        print(f"| {' | '.join(row)} |", flush=True)


def say(text: str) -> None:
    """Tell the person who waits."""
    print(text, file=sys.stderr, flush=True)


@cache
def _where() -> dict[str, Any]:
    """The machine and the versions."""
    with open("/proc/cpuinfo") as file:
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    versions = {name: importlib.metadata.version(name) for name in _VERSIONS_OF}
    return {
        "machine": f"{os.cpu_count()} x {models[0] if models else platform.machine()}",
        "versions": {"python": platform.python_version(), **versions},
    }
