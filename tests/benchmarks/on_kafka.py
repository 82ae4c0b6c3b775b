"""A benchmark on Apache Kafka's own broker: its arguments, and how what they name is measured and told.

parser = arguments("make bench-x", "Measure x.", ("a", "b"))
parser.add_argument("--records", type=int, default=1_000_000)
asked = parser.parse_args()
run(asked, {"a": (measure_a, asked.records), "b": (measure_b, 7)}, Path("build/x.jsonl"))
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

from pyspark.sql import SparkSession

from .kafka import kafka
from .measure import Figure
from .session import spark_session
from .tables import report

#: Of the broker's address, the rounds, and a count that is the measure's own.
Measure = Callable[[SparkSession, str, int, int], Iterable[Figure]]


def arguments(prog: str, description: str, measures: Sequence[str]) -> argparse.ArgumentParser:
    """The arguments of every such benchmark."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--only", nargs="+", choices=measures, default=measures, help="measure only these")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each, in turns; the median counts")
    return parser


def run(
    asked: argparse.Namespace,
    measures: Mapping[str, tuple[Measure, int]],
    file: Path,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> NoReturn:
    """Measure what was asked for, in a Spark of these settings, and keep the lines of the figures.

    Exits with 1 where something is missed.
    """
    figures: list[Figure] = []
    with kafka() as servers, spark_session(settings) as spark:
        for name, (measure, count) in measures.items():
            if name in asked.only:
                figures += measure(spark, servers, asked.rounds, count)
    report(figures, file)
    sys.exit(any(figure.reached is False for figure in figures))
