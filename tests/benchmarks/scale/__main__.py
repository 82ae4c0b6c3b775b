"""``make bench-scale``: processor time of the client by partitions and by brokers, on a fake cluster.

    python -m tests.benchmarks.scale --max 100000 --brokers-max 1000 --only "idle poll"

The tables are Markdown. It exits with 1 where the time of a measure grows faster than the work.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from tests.support.fake_cluster import FakeCluster

from .curves import EXPONENT_MAX, HEAD, Curve, Point
from .measures import MEASURES, least

#: Brokers of the clusters with more and more partitions, and the most partitions of those with more brokers.
_BROKERS: Final = 10
_PARTITIONS_MAX: Final = 10_000
#: A small run of each measure, unmeasured: it imports, and loads compiled kernels.
_WARM_PARTITIONS: Final = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments name; 1 if a curve is too steep."""
    parser = argparse.ArgumentParser("make bench-scale", description="Measure how cost grows.")
    parser.add_argument("--max", type=int, default=100_000, help="partitions of the largest cluster")
    parser.add_argument("--brokers-max", type=int, default=1_000, help="brokers of the largest cluster, or 0")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of each measure; the least time counts")
    parser.add_argument(
        "--only", nargs="+", default=list(MEASURES), choices=list(MEASURES), metavar="MEASURE"
    )
    asked = parser.parse_args(arguments)
    _measured(asked.only, [(_WARM_PARTITIONS, 1)], 1)
    curves = list(_by_partitions(asked.only, asked.max, asked.rounds))
    curves += _by_brokers(asked.only, min(asked.max, _PARTITIONS_MAX), asked.brokers_max, asked.rounds)
    print(HEAD)
    for row in (row for curve in curves for row in curve.rows()):
        print(row)
    steep = [curve for curve in curves if curve.is_steep]
    for curve in steep:
        power = f"{curve.exponent:.2f}, and at most {EXPONENT_MAX} is linear"
        print(f"{curve.name}: the time grows as the number of {curve.unit} to the power of {power}")
    return int(bool(steep))


def _by_partitions(names: Sequence[str], largest: int, rounds: int) -> Iterator[Curve]:
    clusters = [(count, _BROKERS) for count in _powers(10, largest)]
    for name, points in _measured(names, clusters, rounds).items():
        # Larger clusters than a measure has work for would give a second point at the same work.
        different = {point.work: point for point in reversed(points)}
        yield Curve(name, MEASURES[name].unit, list(different.values())[::-1])


def _by_brokers(names: Sequence[str], partitions: int, largest: int, rounds: int) -> Iterator[Curve]:
    clusters = [(partitions, count) for count in _powers(1, largest)]
    for name, points in _measured(names, clusters, rounds).items():
        by_brokers = [
            Point(brokers, point.seconds) for (_, brokers), point in zip(clusters, points, strict=True)
        ]
        if by_brokers:
            yield Curve(f"{name}, {partitions:,} partitions", "brokers", by_brokers)


def _powers(least_count: int, largest: int) -> list[int]:
    """Powers of ten between two, and the greater one itself."""
    counts = []
    while least_count < largest:
        counts.append(least_count)
        least_count *= 10
    return [*counts, largest] if largest else []


def _measured(
    names: Sequence[str], clusters: Sequence[tuple[int, int]], rounds: int
) -> dict[str, list[Point]]:
    """Points of each measure, one for each cluster, given as partitions and brokers."""
    points: dict[str, list[Point]] = {name: [] for name in names}
    for partitions, brokers in clusters:
        with FakeCluster(partitions=partitions, brokers=brokers) as cluster:
            for name in names:
                points[name].append(least(MEASURES[name], cluster, rounds))
    return points


if __name__ == "__main__":
    sys.exit(main())
