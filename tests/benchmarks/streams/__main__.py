"""``make bench-stream``: streams beside batch reads, and beside Spark's own connector, on Apache Kafka.

    python -m tests.benchmarks.streams --rounds 3

One broker with full JIT serves everybody from the page cache. It shares the machine's cores with Spark's JVM
and the Python workers, whoever reads: nothing is pinned, all sides take turns, and the tables tell what each
process spent. They are Markdown; it exits with 1 where something that was asked for is missed. A
BrokenPipeError on stderr is of a Python worker that Spark ended because nobody asked it for a minute.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from tests.interop.jars import connector_jars

from ..kafka import kafka
from ..measure import Figure
from ..session import spark_session
from ..tables import tell
from .catch_up import catch_up
from .micro_batch import micro_batch
from .queries import WARM_COUNT

#: Where the lines of the figures are kept.
FIGURES: Final = Path("build/streams.jsonl")
_MEASURES: Final = ("catch-up", "micro-batch")


def main() -> None:
    """Run what the arguments name."""
    parser = argparse.ArgumentParser(prog="make bench-stream", description="Measure streaming queries.")
    parser.add_argument("--only", nargs="+", choices=_MEASURES, default=_MEASURES, help="measure only these")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, side by side; the median counts")
    parser.add_argument("--records", type=int, default=10_000_000, help="records to catch up with")
    parser.add_argument(
        "--micro-batches",
        type=int,
        default=40,
        help=f"micro-batches of a query; the first {WARM_COUNT} are for warming up",
    )
    asked = parser.parse_args()
    settings = {
        "spark.jars": ",".join(map(str, connector_jars())),
        # All micro-batches of a query, not the last hundred.
        "spark.sql.streaming.numRecentProgressUpdates": str(asked.micro_batches + 1),
    }
    figures: list[Figure] = []
    with kafka() as servers, spark_session(settings) as spark:
        if "catch-up" in asked.only:
            figures += catch_up(spark, servers, asked.rounds, asked.records)
        if "micro-batch" in asked.only:
            figures += micro_batch(spark, servers, asked.rounds, asked.micro_batches)
    tell(figures, FIGURES)
    sys.exit(any(figure.reached is False for figure in figures))


if __name__ == "__main__":
    main()
