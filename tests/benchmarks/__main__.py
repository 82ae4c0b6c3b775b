"""``make bench``: all measures, one program.

    python -m tests.benchmarks --only read write --rounds 3
    python -m tests.benchmarks --only stream --size 1000000

``--only stream`` measures all subjects whose names begin with ``stream-``. Without ``--only`` it measures
what needs neither Maven nor Apache Kafka. Tables are Markdown; a file keeps the lines of the figures. It
exits with 1 where something that was asked for is missed. A BrokenPipeError on stderr is of a Python worker
that Spark ended because nobody asked it for a minute.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.interop.jars import avro_jars, connector_jars

from . import scale
from .codec import codec, wire_formats
from .first import first
from .measure import Figure, print_table, say
from .near import near_replica
from .peer import clients, scaling, speed
from .reading import directories, read, read_modern, write, write_modern
from .session import Bench, kafka, spark_session
from .stream import catch_up, latency, metrics_cost, micro_batch, tasks, throughput
from .tasks import large_log, large_topic, packs, planning, task_cost
from .typed import changes_of_debezium, values

#: Where the lines are kept.
FIGURES: Final = Path("build/figures.jsonl")


@dataclass(frozen=True, slots=True)
class Subject:
    """Something to measure, in how many rounds where nobody says so, and ``size``, the number that its
    ``unit`` counts."""

    measure: Callable[[Bench], Iterable[Figure]]
    rounds: int = 5
    size: int = 0
    unit: str = ""
    is_default: bool = True
    on_kafka: bool = False


def _on_kafka(measure: Callable[[Bench], Iterable[Figure]], size: int, unit: str) -> Subject:
    return Subject(measure, 3, size, unit, is_default=False, on_kafka=True)


# The large log comes first of those with Spark: its worker's idle size is that of a worker that has read
# nothing else.
SUBJECTS: Final = {
    "codec": Subject(codec),
    "planning": Subject(planning),
    "clients": Subject(clients),
    "wire-formats": Subject(wire_formats),
    "large-log": Subject(large_log),
    "read": Subject(read),
    "write": Subject(write),
    "tasks": Subject(task_cost),
    "read-modern": Subject(read_modern),
    "write-modern": Subject(write_modern),
    "directories": Subject(directories),
    "packs": Subject(packs, 1, 10_000, "partitions", is_default=False),
    **{
        f"scale-{name}": Subject(measure, 2, 100_000, "partitions", is_default=False)
        for name, measure in scale.MEASURES.items()
    },
    "connections": Subject(scale.connections, 1, 200, "brokers", is_default=False),
    "peer": _on_kafka(speed, 10_000_000, "rows of 100 B"),
    "scaling": _on_kafka(scaling, 10_000_000, "rows"),
    "near-replica": Subject(near_replica, 20, 5_000_000, "rows of 100 B", is_default=False, on_kafka=True),
    "large-topic": _on_kafka(large_topic, 20, "GiB"),
    "stream-catch-up": _on_kafka(catch_up, 10_000_000, "records"),
    "stream-micro-batch": _on_kafka(micro_batch, 40, "micro-batches"),
    "stream-latency": _on_kafka(latency, 2_000, "records"),
    "metrics": _on_kafka(metrics_cost, 12, "micro-batches"),
    "exactly-once-tasks": _on_kafka(tasks, 1_000, "tasks"),
    "exactly-once-throughput": _on_kafka(throughput, 6_000_000, "records"),
    "values": _on_kafka(values, 2_000_000, "messages"),
    "changes": _on_kafka(changes_of_debezium, 1_000_000, "changes"),
    "first": _on_kafka(first, 0, "busy processes beside"),
}


def main() -> int:
    """Measure what the arguments name; 1 where something is missed."""
    asked = _arguments()
    if asked.draw:
        # It needs matplotlib, which measuring does not.
        from .plot import draw

        draw()
        return 0
    _narrow("VALUE_SIZES", asked.value_sizes)
    _narrow("COMPRESSIONS", asked.compressions)
    figures = []
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    with asked.output.open("w") as file:
        for figure in _figures(asked.only, asked.rounds, asked.size):
            figures.append(figure)
            print(figure.line(), file=file, flush=True)
            say("  " + " ".join(figure.cells()))
    print_table(["figure", "measured", "asked", ""], [figure.cells() for figure in figures])
    return int(any(figure.reached is False for figure in figures))


def _figures(names: Sequence[str], rounds: int | None, size: int | None) -> Iterator[Figure]:
    """All figures of these subjects."""
    settings = _with_kafka() if any(SUBJECTS[name].on_kafka for name in names) else {}
    with ExitStack() as run:
        get_session = cache(lambda: run.enter_context(spark_session(settings)))
        for subject in map(SUBJECTS.__getitem__, names):
            with ExitStack() as own:
                get_servers = cache(lambda own=own: own.enter_context(kafka()))
                wanted = subject.size if size is None else size
                yield from subject.measure(Bench(rounds or subject.rounds, wanted, get_session, get_servers))


def _narrow(name: str, wanted: Sequence[object]) -> None:
    """Measure these alone: modules of subjects go through constants of such names."""
    for module in [item for key, item in sys.modules.items() if key.startswith("tests.benchmarks.")]:
        for constant, given in list(vars(module).items()):
            if wanted and constant.endswith(name):
                setattr(module, constant, tuple(item for item in given if item in wanted))


def _with_kafka() -> dict[str, str]:
    """Settings of the Spark that runs Spark's own connector, and keeps few of many tasks."""
    jars = ",".join(map(str, [*connector_jars(), *avro_jars()]))
    return {"spark.jars": jars, "spark.ui.retainedTasks": "100"}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench",
        description="Measure kafkawire against ceilings and other clients.",
        epilog=_listed(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = [name for name, subject in SUBJECTS.items() if subject.is_default]
    parser.add_argument("--only", nargs="+", default=default, metavar="SUBJECT", help="measure only these")
    parser.add_argument("--rounds", type=int, help="runs of each, side by side; the median counts")
    parser.add_argument("--size", type=int, help="of the subjects that have one")
    parser.add_argument("--value-sizes", type=int, nargs="+", default=[], help="only values of these bytes")
    parser.add_argument("--compressions", nargs="+", default=[], help="only these; read needs none")
    parser.add_argument("--output", type=Path, default=FIGURES, help=f"a file for the lines ({FIGURES})")
    parser.add_argument("--draw", action="store_true", help="draw the first table of docs/performance.md")
    asked = parser.parse_args()
    unknown = [name for name in asked.only if not _chosen(name)]
    if unknown:
        parser.error(f"no such subject: {', '.join(unknown)}")
    asked.only = [name for name in SUBJECTS if any(name in _chosen(item) for item in asked.only)]
    return asked


def _chosen(asked: str) -> list[str]:
    """The subject of this name, or else those whose names begin with it."""
    return [asked] if asked in SUBJECTS else [name for name in SUBJECTS if name.startswith(f"{asked}-")]


def _listed() -> str:
    lines = ["subjects, those that are measured by default first:"]
    for name, subject in SUBJECTS.items():
        size = f", {subject.size:,} {subject.unit}" if subject.unit else ""
        needs = ", with Apache Kafka, which Maven gets the first time" if subject.on_kafka else ""
        lines.append(f"  {name}: {subject.rounds} rounds{size}{needs}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
