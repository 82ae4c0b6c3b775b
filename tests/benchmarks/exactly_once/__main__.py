"""``make bench-exactly-once``: exactly once beside the idempotent write, on Apache Kafka.

    python -m tests.benchmarks.exactly_once --tasks 1000 --rounds 3

One broker with full JIT shares the machine's cores with Spark's JVM and the Python workers. Both kinds of
write take turns, to new topics. The tables are Markdown; it exits with 1 where something that was asked for
is missed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from .. import on_kafka
from .tasks import tasks
from .throughput import throughput

#: Where the lines of the figures are kept.
FIGURES: Final = Path("build/exactly-once.jsonl")


def main() -> None:
    """Run what the arguments name."""
    names = ("tasks", "throughput")
    parser = on_kafka.arguments("make bench-exactly-once", "Measure exactly once.", names)
    parser.add_argument("--tasks", type=int, default=1_000, help="tasks of a write with few rows")
    parser.add_argument("--records", type=int, default=6_000_000, help="records of a write with many")
    asked = parser.parse_args()
    measures = {"tasks": (tasks, asked.tasks), "throughput": (throughput, asked.records)}
    on_kafka.run(asked, measures, FIGURES, {"spark.ui.retainedTasks": "100"})


if __name__ == "__main__":
    main()
