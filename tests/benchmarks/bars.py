"""Figures from what was measured: the table of --only peer with its bars, and curves of growth. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import linear_regression
from typing import Final

from .measure import Figure, Took

VALUE_SIZES: Final = (100, 1024)
READY, READY_VALUES = "read: ready-made batches", "read: ready-made batches, `value` alone"
THEIRS, THEIR_VALUES = "read: Spark's connector", "read: Spark's connector, `value` alone"
OURS, OUR_VALUES = "read: kafkawire", "read: kafkawire, `value` alone"
CONFLUENT: Final = "into Arrow without Spark: confluent-kafka, one process"
ROWS_ALONE: Final = "write: the rows alone, into nothing"
COUNTED: Final = "write: a writer that only counts"
THEIR_WRITE, OUR_WRITE = "write: Spark's connector", "write: kafkawire"
LESS_ROWS: Final = ", less the rows"
#: Which kind is compared with which other one, and how many times as fast it is to be, by size of the values.
_COMPARED: Final[tuple[tuple[str, str, Mapping[int, float]], ...]] = (
    (OURS, READY, {100: 0.90, 1024: 0.85}),
    (OUR_VALUES, READY_VALUES, {}),
    (OURS, THEIRS, {}),
    (OUR_VALUES, THEIR_VALUES, {}),
    (OURS, CONFLUENT, {}),
    (OUR_WRITE + LESS_ROWS, THEIR_WRITE + LESS_ROWS, {100: 2.0, 1024: 1.5}),
    (OUR_WRITE, THEIR_WRITE, {}),
    (OUR_WRITE, COUNTED, {}),
)


def less(took: Took, other: Took) -> Took:
    """The same rows without the seconds that the other one took for as many."""
    return Took(took.rows, took.seconds - other.seconds * took.rows / other.rows)


def with_differences(took: Mapping[str, Took]) -> dict[str, Took]:
    """All kinds of one value size, and the writes once more without what it takes to make their rows."""
    writes = {
        kind + LESS_ROWS: less(took[kind], took[ROWS_ALONE]) for kind in (COUNTED, THEIR_WRITE, OUR_WRITE)
    }
    return {**took, **writes}


def table(of_sizes: Mapping[int, Mapping[str, Took]]) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of the one table: a row for each kind, and columns for each value size."""
    header, rows = [""], [[kind] for kind in next(iter(of_sizes.values()))]
    for value_size, kinds in of_sizes.items():
        header += [f"{value_size} B: million rows/s", "s", "CPU ns/row: JVM + Python + broker"]
        for row, took in zip(rows, kinds.values(), strict=True):
            cpu = " + ".join(map(str, took.parts_ns.values())) if took.cpu_ns else ""
            row += [f"{took.rows_per_s / 1e6:.2f}", f"{took.seconds:.2f}", cpu]
    return header, rows


def bars(value_size: int, took: Mapping[str, Took]) -> Iterator[Figure]:
    """Speeds of each kind relative to the kind that it is compared with; ``took`` has the differences."""
    for kind, other, targets in _COMPARED:
        speed, other_speed = took[kind].rows_per_s, took[other].rows_per_s
        # Nothing can be said of two that take no time.
        times = speed / other_speed if math.isfinite(speed) else math.nan
        yield Figure(
            f"{value_size} B, {kind}, to {other.partition(': ')[2]}",
            "times_as_fast",
            times,
            targets.get(value_size),
            details={"rows_per_s": speed, "other_rows_per_s": other_speed},
        )


#: Largest exponent that counts as growing with the work and no faster.
EXPONENT_MAX: Final = 1.1
#: The fit begins at this part of the largest work: what is smaller shows fixed costs.
_FIT_PART: Final = 0.01
#: Shorter times are not compared, seconds: noise of the clock and of caches.
_NOISE_S: Final = 0.002


@dataclass(frozen=True, slots=True)
class Point:
    """Processor time of some work."""

    work: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of one measure, whose work is ``unit``."""

    name: str
    unit: str
    points: Sequence[Point]

    @property
    def exponent(self) -> float:
        """Slope of a line through the logarithms of work and time, by least squares: 1 if the time grows with
        the work. Without two points to compare it is 0."""
        largest = max(point.work for point in self.points)
        fitted = [point for point in self.points if point.work >= largest * _FIT_PART]
        xs = [math.log(point.work) for point in fitted]
        ys = [math.log(max(point.seconds, _NOISE_S)) for point in fitted]
        return linear_regression(xs, ys).slope if len(set(xs)) > 1 else 0.0

    def figure(self) -> Figure:
        """The growth."""
        name = f"{self.name}: growth with the {self.unit}"
        return Figure(name, "exponent", self.exponent, EXPONENT_MAX, at_most=True)

    def rows(self) -> Iterator[list[str]]:
        """Rows of the table."""
        for point in self.points:
            work, each_us = f"{point.work:,} {self.unit}", point.seconds / point.work * 1e6
            yield [self.name, work, f"{point.seconds:.3f}", f"{each_us:.1f}"]
