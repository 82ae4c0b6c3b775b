"""``make bench-peer``: reads and writes beside Spark's own connector, and beside ceilings, on Apache Kafka.

    python -m tests.benchmarks.peer --rounds 3
    python -m tests.benchmarks.peer --only scaling
    python -m tests.benchmarks.peer --only large-topic --gib 20

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
from .large_topic import large_topic
from .scaling import scaling
from .speed import speed

#: Where the lines of the figures are kept.
FIGURES: Final = Path("build/peer.jsonl")


def main() -> None:
    """Run what the arguments name."""
    names = ("speed", "scaling", "large-topic")
    parser = on_kafka.arguments("make bench-peer", "Measure beside others, and beside more cores.", names)
    parser.set_defaults(only=("speed",))
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of a read of values of 100 B")
    parser.add_argument("--gib", type=int, default=20, help="GiB of values of the large topic")
    asked = parser.parse_args()
    settings = {"spark.jars": ",".join(map(str, connector_jars()))}
    measures = {
        "speed": (speed, asked.rows),
        "scaling": (scaling, asked.rows),
        "large-topic": (large_topic, asked.gib),
    }
    on_kafka.run(asked, measures, FIGURES, settings)


if __name__ == "__main__":
    main()
