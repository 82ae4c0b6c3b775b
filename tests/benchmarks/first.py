"""The first queries of a session, beside Spark's own connector, on Apache Kafka.

Each side has sessions of its own, which take turns, of a user who has set nothing: pyspark as pip installed
it, no Python process forked from one that has imported anything.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.local_spark import home_with_byte_code

from .first_session import INTO, TOPIC, Query
from .measure import Figure, print_table, say
from .nothing import ROWS
from .session import Bench

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

    def run(self, servers: str) -> None:
        """Take the queries of a fresh session. Raises ``CalledProcessError``."""
        environment = dict(os.environ)
        # Another Spark, and what tests and images set, would be measured instead.
        for name in ("SPARK_HOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
            environment.pop(name, None)
        if self.home is not None:
            environment["SPARK_HOME"] = self.home
        command = [sys.executable, "-m", f"{__package__}.first_session", self.format, servers]
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=DEADLINE_S
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        self.taken += [Query(**json.loads(line)) for line in lines]

    def seconds(self, name: str) -> float:
        """Of that query, in the median."""
        return median(each.seconds for each in self.taken if each.name == name)

    def cpu_s(self, name: str, role: str) -> float:
        """CPU seconds of the processes of a role in that query, in the median."""
        return median(each.cpu_s.get(role, 0.0) for each in self.taken if each.name == name)


def first(bench: Bench) -> Iterator[Figure]:
    """Reads and writes of each side, beside ``size`` busy processes."""
    servers = bench.servers
    sides = {_THEIRS: Side("kafka"), _OURS: Side("kafkawire"), _FLOOR: Side("nothing")}
    if not bench.size:  # beside which each session takes five times as long
        prepared = home_with_byte_code()
        sides[_OURS + _PREPARED] = Side("kafkawire", prepared)
        sides[_FLOOR + _PREPARED] = Side("nothing", prepared)
    for topic in (TOPIC, INTO):
        librdkafka.create_topic(servers, 1, topic)
    librdkafka.produce(servers, TOPIC, [Record(b"value")] * ROWS)
    sides[_THEIRS].run(servers)  # jars and libraries come from the disk once
    sides[_THEIRS].taken.clear()
    with _busy(bench.size):
        for number in range(bench.rounds):
            for name in list(sides)[:: -1 if number % 2 else 1]:
                say(f"round {number + 1} of {bench.rounds}: {name}")
                sides[name].run(servers)
    _print(sides)
    yield from _figures(sides)


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
    compared = [name for name in sides if name != _THEIRS]
    for name in compared:
        for query in _QUERIES:
            ratio = sides[name].seconds(query) / sides[_THEIRS].seconds(query)
            target = _ASKED[query] if name == _OURS else None
            yield Figure(f"{query}: {name}, to {_THEIRS}", "times_the_time", ratio, target, at_most=True)
    for query in _QUERIES:
        ratio = sides[_OURS].seconds(query) / sides[_FLOOR].seconds(query)
        yield Figure(f"{query}: {_OURS}, to {_FLOOR}", "times_the_time", ratio, None, at_most=True)
