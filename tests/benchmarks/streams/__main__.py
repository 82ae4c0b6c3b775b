"""``make bench-stream``: streams beside batch reads, and beside Spark's own connector, on Apache Kafka.

    python -m tests.benchmarks.streams --rounds 3

One broker with full JIT serves everybody from the page cache. It shares the machine's cores with Spark's JVM
and the Python workers, whoever reads: nothing is pinned, all sides take turns, and the tables tell what each
process spent. They are Markdown; it exits with 1 where something that was asked for is missed. A
BrokenPipeError on stderr is of a Python worker that Spark ended because nobody asked it for a minute.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.interop.jars import connector_jars

from .. import on_kafka
from .catch_up import catch_up
from .micro_batch import micro_batch
from .queries import WARM_COUNT

#: Where the lines of the figures are kept.
FIGURES: Final = Path("build/streams.jsonl")


def main() -> None:
    """Run what the arguments name."""
    names = ("catch-up", "micro-batch")
    parser = on_kafka.arguments("make bench-stream", "Measure streaming queries.", names)
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
    measures = {"catch-up": (catch_up, asked.records), "micro-batch": (micro_batch, asked.micro_batches)}
    on_kafka.run(asked, measures, FIGURES, settings)


if __name__ == "__main__":
    main()
