"""``make bench-first``: what the first query of a session takes, beside Spark's own connector.

    python -m tests.benchmarks.first --rounds 3 --minutes 8
    python -m tests.benchmarks.first --busy 8

Each side has sessions of its own, which take turns, of a user who has set nothing: pyspark as pip installed
it, no Python process forked from one that has imported anything. One broker with full JIT serves all. A round
that would not end in time is not begun, but the first one. It exits with 1 where something that was asked for
is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Final

from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.local_spark import home_with_byte_code

from ..kafka import kafka
from ..measure import Figure, say
from ..tables import print_table, report
from .nothing import ROWS
from .session import Query

#: Where the lines of the figures are kept.
FIGURES: Final = Path("build/first.jsonl")
#: What no session takes, seconds.
DEADLINE_S: Final = 900.0
_OURS, _THEIRS, _FLOOR = "kafkawire", "Spark's connector", "a source that does nothing"
_PREPARED: Final = ", without pyspark.zip"
_QUERIES: Final = ("first read", "warm read", "first write", "warm write")
#: How many times the connector's time is allowed.
_ASKED: Final[Mapping[str, float | None]] = {
    "first read": 1.5,
    "warm read": 0.5,
    "first write": 1.5,
    "warm write": 1.5,
}
_ROLES: Final = ("jvm", "planner", "worker")


@dataclass(slots=True)
class Side:
    """A connector under measurement: its format, the home of its Spark (None: the one of pip),
    and its queries."""

    format: str
    home: str | None = None
    taken: list[Query] = field(default_factory=list)

    def run(self, *arguments: str) -> Iterator[Query]:
        """A fresh session's queries. Raises ``CalledProcessError``."""
        environment = dict(os.environ)
        # Another Spark, and what tests and images set, would be measured instead.
        for name in ("SPARK_HOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
            environment.pop(name, None)
        if self.home is not None:
            environment["SPARK_HOME"] = self.home
        command = [sys.executable, "-m", f"{__package__}.session", self.format, *arguments]
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=DEADLINE_S
        )
        return (Query(**json.loads(line)) for line in done.stdout.splitlines() if line.startswith("{"))

    def seconds(self, name: str) -> float:
        """Of that query, in the median."""
        return median(each.seconds for each in self.taken if each.name == name)

    def cpu_s(self, name: str, role: str) -> float:
        """CPU seconds of the processes of a role in that query, in the median."""
        return median(each.cpu_s.get(role, 0.0) for each in self.taken if each.name == name)


def main() -> None:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(prog="make bench-first", description="Measure first queries.")
    parser.add_argument("--rounds", type=int, default=3, help="sessions of each side; the median counts")
    parser.add_argument("--minutes", type=float, default=8.0, help="of which none more than fit in this time")
    parser.add_argument("--warm", type=int, default=6, help="queries of each kind after the first one")
    parser.add_argument("--busy", type=int, default=0, help="processes that do nothing but turn beside it")
    asked = parser.parse_args()
    ends_s = monotonic() + 60 * asked.minutes
    sides = {_THEIRS: Side("kafka"), _OURS: Side("kafkawire"), _FLOOR: Side("nothing")}
    if not asked.busy:  # beside which each session takes five times as long
        prepared = home_with_byte_code()
        sides[_OURS + _PREPARED] = Side("kafkawire", prepared)
        sides[_FLOOR + _PREPARED] = Side("nothing", prepared)
    with kafka() as servers:
        for topic in ("first", "into"):
            librdkafka.create_topic(servers, 1, topic)
        librdkafka.produce(servers, "first", [Record(b"value")] * ROWS)
        arguments = (servers, "first", "into", str(asked.warm))
        list(sides[_THEIRS].run(*arguments))  # jars and libraries come from the disk once
        with _busy(asked.busy):
            _measure(sides, asked.rounds, ends_s, *arguments)
    _print(sides)
    figures = list(_figures(sides))
    report(figures, FIGURES)
    sys.exit(any(figure.reached is False for figure in figures))


def _measure(sides: Mapping[str, Side], rounds: int, ends_s: float, *arguments: str) -> None:
    names = list(sides)
    longest_s = 0.0
    for number in range(rounds):
        began_s = monotonic()
        if number and began_s + longest_s > ends_s:
            say(f"round {number + 1} of {rounds} would take too long")
            break
        for name in names if number % 2 == 0 else names[::-1]:
            say(f"round {number + 1} of {rounds}: {name}")
            sides[name].taken += sides[name].run(*arguments)
        longest_s = max(longest_s, monotonic() - began_s)


@contextmanager
def _busy(count: int) -> Iterator[None]:
    """So many processes beside, each of which would have a core for itself."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _print(sides: Mapping[str, Side]) -> None:
    rows = [[f"{name}, s", *(f"{side.seconds(name):.2f}" for side in sides.values())] for name in _QUERIES]
    for name in _QUERIES[::2]:
        for role in _ROLES:
            cpu = (f"{side.cpu_s(name, role):.2f}" for side in sides.values())
            rows.append([f"{name}, CPU s: {role}", *cpu])
    print_table(["query", *sides], rows)
    loads = [each.load for side in sides.values() for each in side.taken]
    print(f"\nLoad of the machine: {min(loads):.1f} to {max(loads):.1f}.", flush=True)


def _figures(sides: Mapping[str, Side]) -> Iterator[Figure]:
    compared: Sequence[str] = [name for name in sides if name != _THEIRS]
    for name in compared:
        for query in _QUERIES:
            ratio = sides[name].seconds(query) / sides[_THEIRS].seconds(query)
            target = _ASKED[query] if name == _OURS else None
            yield Figure(f"{query}: {name}, to {_THEIRS}", "times_the_time", ratio, target, at_most=True)
    for query in _QUERIES:
        ratio = sides[_OURS].seconds(query) / sides[_FLOOR].seconds(query)
        yield Figure(f"{query}: {_OURS}, to {_FLOOR}", "times_the_time", ratio, None, at_most=True)


if __name__ == "__main__":
    main()
