"""The curve of a measure: processor time over the work, and the exponent of its growth. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from .measure import Figure

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

    @property
    def each_us(self) -> float:
        """Microseconds for each piece of the work."""
        return self.seconds / self.work * 1e6


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
        mid_x, mid_y = sum(xs) / len(xs), sum(ys) / len(ys)
        spread = sum((x - mid_x) ** 2 for x in xs)
        return sum((x - mid_x) * (y - mid_y) for x, y in zip(xs, ys, strict=True)) / spread if spread else 0.0

    def figure(self) -> Figure:
        """The growth."""
        name = f"{self.name}: growth with the {self.unit}"
        return Figure(name, "exponent", self.exponent, EXPONENT_MAX, at_most=True)

    def rows(self) -> Iterator[list[str]]:
        """Rows of the table."""
        for point in self.points:
            work = f"{point.work:,} {self.unit}"
            yield [self.name, work, f"{point.seconds:.3f}", f"{point.each_us:.1f}"]
