"""Runs through Spark beside their ceiling, and what the processes spent on each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final

from .measure import Figure, interleaved, throughput
from .processes import CpuMeter, forget_peaks, peaks_mib

_CEILING: Final = "ceiling"

Run = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Moving:
    """A run, and the rows and bytes of values that it moves."""

    run: Run
    rows: int
    size: int


def against_ceiling(
    name: str,
    value_size: int,
    ceiling: Moving,
    runs: Mapping[str, Moving],
    targets: Mapping[tuple[int, str], float],
    rounds: int,
) -> Iterator[Figure]:
    """The rows/s of each run over those of the ceiling, all side by side; ``runs`` by compression."""
    meter = CpuMeter()
    forget_peaks()
    metered = {each: meter.metered(each, moving.run) for each, moving in {_CEILING: ceiling, **runs}.items()}
    seconds = interleaved(metered, rounds)
    ceiling_rows_per_s = ceiling.rows / median(seconds[_CEILING])
    for compression, moving in runs.items():
        yield Figure(
            name,
            "ratio",
            moving.rows / median(seconds[compression]) / ceiling_rows_per_s,
            targets.get((value_size, compression)),
            details={
                "value_size": value_size,
                "compression": compression,
                **throughput(seconds[compression], rows=moving.rows, size=moving.size),
                "ceiling_rows_per_s": round(ceiling_rows_per_s),
                "cpu_ns_per_row": meter.ns_per_row(compression, moving.rows),
                "ceiling_cpu_ns_per_row": meter.ns_per_row(_CEILING, ceiling.rows),
                "worker_peak_mib": round(max(peaks_mib().values())),
            },
        )
