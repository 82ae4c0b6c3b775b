"""``make bench-exactly-once``: exactly once beside the idempotent write, on Apache Kafka.

    python -m tests.benchmarks.exactly_once --tasks 1000 --rounds 3

One broker with full JIT shares the machine's cores with Spark's JVM and the Python workers. Both kinds of
write take turns, to new topics. The tables are Markdown; it exits with 1 where something that was asked for
is missed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from ..kafka import kafka
from ..measure import Figure
from ..session import spark_session
from ..tables import tell
from .tasks import tasks
from .throughput import throughput

#: Where the lines of the figures are kept.
FIGURES: Final = Path("build/exactly-once.jsonl")
_MEASURES: Final = ("tasks", "throughput")


def main() -> None:
    """Run what the arguments name."""
    parser = argparse.ArgumentParser(prog="make bench-exactly-once", description="Measure exactly once.")
    parser.add_argument("--only", nargs="+", choices=_MEASURES, default=_MEASURES, help="measure only these")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, in turns; the median counts")
    parser.add_argument("--tasks", type=int, default=1_000, help="tasks of a write with few rows")
    parser.add_argument("--records", type=int, default=6_000_000, help="records of a write with many")
    asked = parser.parse_args()
    figures: list[Figure] = []
    with kafka() as servers, spark_session({"spark.ui.retainedTasks": "100"}) as spark:
        if "tasks" in asked.only:
            figures += tasks(spark, servers, asked.rounds, asked.tasks)
        if "throughput" in asked.only:
            figures += throughput(spark, servers, asked.rounds, asked.records)
    tell(figures, FIGURES)
    sys.exit(any(figure.reached is False for figure in figures))


if __name__ == "__main__":
    main()
