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
#: The queries, and how many times the connector's time is allowed.
_ASKED: Final = {"first read": 1.5, "warm read": 0.5, "first write": 1.5, "warm write": 1.5}


@dataclass(slots=True)
class Side:
    """A connector under measurement: its format, the home of its Spark (None: the one of pip),
    and its queries."""

    format: str
    home: str | None = None
    taken: list[Query] = field(default_factory=list)

    def run(self, servers: str) -> None:
        """Take the queries of a fresh session. Raises ``CalledProcessError``."""
        # Another Spark, and what tests and images set, would be measured instead.
        others = ("SPARK_HOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
        environment = {name: value for name, value in os.environ.items() if name not in others}
        if self.home is not None:
            environment["SPARK_HOME"] = self.home
        command = [sys.executable, "-m", f"{__package__}.first_session", self.format, servers]
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=DEADLINE_S
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        self.taken += [Query(**json.loads(line)) for line in lines]

    def seconds(self, name: str, role: str = "") -> float:
        """Of that query, or CPU seconds of the processes of a role in it, in the median."""
        taken = [item for item in self.taken if item.name == name]
        return median(item.cpu_s.get(role, 0.0) if role else item.seconds for item in taken)


def first(bench: Bench) -> Iterator[Figure]:
    """Reads and writes of each side, beside ``size`` busy processes."""
    servers = bench.servers
    sides = {_THEIRS: Side("kafka"), _OURS: Side("kafkawire"), _FLOOR: Side("nothing")}
    if not bench.size:  # beside which each session takes five times as long
        prepared = home_with_byte_code()
        sides |= {
            f"{name}, without pyspark.zip": Side(sides[name].format, prepared) for name in (_OURS, _FLOOR)
        }
    for topic in (TOPIC, INTO):
        librdkafka.create_topic(servers, 1, topic)
    librdkafka.produce(servers, TOPIC, [Record(b"value")] * ROWS)
    sides[_THEIRS].run(servers)  # jars and libraries come from the disk once
    sides[_THEIRS].taken.clear()
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(bench.size)]
    try:
        for number in range(bench.rounds):
            for name in list(sides)[:: -1 if number % 2 else 1]:
                say(f"round {number + 1} of {bench.rounds}: {name}")
                sides[name].run(servers)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    _print(sides)
    for query in _ASKED:
        theirs, ours = sides[_THEIRS].seconds(query), sides[_OURS].seconds(query)
        for name in (item for item in sides if item != _THEIRS):
            ratio, target = sides[name].seconds(query) / theirs, _ASKED[query] if name == _OURS else None
            yield Figure(f"{query}: {name}, to {_THEIRS}", "times_the_time", ratio, target, at_most=True)
        ratio = ours / sides[_FLOOR].seconds(query)
        yield Figure(f"{query}: {_OURS}, to {_FLOOR}", "times_the_time", ratio, None, at_most=True)


def _print(sides: Mapping[str, Side]) -> None:
    rows = [[f"{name}, s", *(f"{side.seconds(name):.2f}" for side in sides.values())] for name in _ASKED]
    for name in ("first read", "first write"):
        for role in ("jvm", "planner", "worker"):
            cpu = (f"{side.seconds(name, role):.2f}" for side in sides.values())
            rows.append([f"{name}, CPU s: {role}", *cpu])
    print_table(["query", *sides], rows)
    loads = [item.load for side in sides.values() for item in side.taken]
    print(f"\nLoad of the machine: {min(loads):.1f} to {max(loads):.1f}.", flush=True)
