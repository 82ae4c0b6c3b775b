"""``make bench``: all measures, one JSON line each.

python -m tests.benchmarks --only read write --rounds 3
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .batch_codec import batch_codec
from .clients import clients
from .codec import codec
from .directories import directories
from .measure import Figure, say
from .modern import read_modern, write_modern
from .reading import large_log, read
from .session import spark_session
from .tasks import planning, task_cost
from .wire_formats import wire_formats
from .writing import write

# The large log comes first: its worker's idle size is that of a worker that has read nothing else.
_WITH_SPARK: Final = {
    "large-log": large_log,
    "read": read,
    "write": write,
    "tasks": task_cost,
    "read-modern": read_modern,
    "write-modern": write_modern,
    "directories": directories,
}
_WITHOUT_SPARK: Final = {
    "codec": codec,
    "batch-codec": batch_codec,
    "planning": planning,
    "clients": clients,
    "wire-formats": wire_formats,
}

#: Where the lines are kept.
FIGURES: Final = Path("build/figures.jsonl")


def main() -> None:
    """Run what the arguments name."""
    parser = argparse.ArgumentParser(prog="make bench", description="Measure kafkawire against its ceilings.")
    names = [*_WITHOUT_SPARK, *_WITH_SPARK]
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="measure only these")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each, side by side; the median counts")
    parser.add_argument("--output", type=Path, default=FIGURES, help=f"a file for the lines ({FIGURES})")
    arguments = parser.parse_args()
    lines = []
    for figure in _figures(arguments.only, arguments.rounds):
        lines.append(figure.line())
        print(lines[-1], flush=True)
        say(_summary(figure))
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text("".join(f"{line}\n" for line in lines))


def _figures(names: list[str], rounds: int) -> Iterator[Figure]:
    for name in names:
        if name in _WITHOUT_SPARK:
            yield from _WITHOUT_SPARK[name](rounds)
    if not set(names).isdisjoint(_WITH_SPARK):
        with spark_session() as spark:
            for name in names:
                if name in _WITH_SPARK:
                    yield from _WITH_SPARK[name](spark, rounds)


def _summary(figure: Figure) -> str:
    what = [str(figure.details[name]) for name in ("value_size", "compression") if name in figure.details]
    wanted = (
        "" if figure.target is None else f", {'at most' if figure.at_most else 'at least'} {figure.target}"
    )
    return f"  {figure.name} {' '.join(what)}: {figure.value:.3f} {figure.unit}{wanted}"


if __name__ == "__main__":
    main()
