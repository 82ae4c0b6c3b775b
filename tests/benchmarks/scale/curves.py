"""The curve of a measure: processor time over the work, and the exponent of its growth. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

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
    """Points of one measure. ``unit`` names the work."""

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

    @property
    def is_steep(self) -> bool:
        """True if the time grows faster than the work."""
        return self.exponent > EXPONENT_MAX

    def rows(self) -> list[str]:
        """Rows of the Markdown table ``HEAD``."""
        last = len(self.points) - 1
        return [
            f"| {self.name} | {point.work:,} {self.unit} | {point.seconds:.3f} | {point.each_us:.1f} "
            f"| {f'{self.exponent:.2f}' if number == last else ''} |"
            for number, point in enumerate(self.points)
        ]


HEAD: Final = "| measure | work | CPU s | CPU us each | exponent |\n|---|--:|--:|--:|--:|"
