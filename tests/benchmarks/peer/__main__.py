"""``make bench-peer``: reads and writes beside Spark's own connector, and beside ceilings, on Apache Kafka.

    python -m tests.benchmarks.peer --rounds 3

One broker with full JIT serves everybody from the page cache. It shares the machine's cores with Spark's JVM
and the Python workers, whoever reads and writes: nothing is pinned, all kinds take turns, and the table tells
what each process spent. The tables are Markdown; it exits with 1 where something that was asked for is
missed. A BrokenPipeError on stderr is of a Python worker that Spark ended because nobody asked it for a
minute.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.interop.jars import connector_jars

from .. import on_kafka
from .speed import speed

#: Where the lines of the figures are kept.
FIGURES: Final = Path("build/peer.jsonl")


def main() -> None:
    """Run what the arguments name."""
    parser = on_kafka.arguments("make bench-peer", "Measure beside others.", ("speed",))
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of a read of values of 100 B")
    asked = parser.parse_args()
    settings = {"spark.jars": ",".join(map(str, connector_jars()))}
    on_kafka.run(asked, {"speed": (speed, asked.rows)}, FIGURES, settings)


if __name__ == "__main__":
    main()
