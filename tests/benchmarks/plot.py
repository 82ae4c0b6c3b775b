"""``make bench-plot``: draws the figures of the last ``make bench`` to one PNG.

python -m tests.benchmarks.plot build/figures.jsonl tests/benchmarks/figures.png
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import matplotlib
from matplotlib.axes import Axes

matplotlib.use("Agg")  # no window

from matplotlib import pyplot

Line = dict[str, Any]

#: What is drawn, left to right: name, unit of the value, title.
_PANELS: Final = (
    ("read", "ratio", "read: rows/s over ready-made batches"),
    ("write", "ratio", "write, acks=1: rows/s over counting them"),
    ("codec decode", "times_the_limit", "decode: time over one copy and one CRC"),
)
_COLOURS: Final = {"none": "#4878a8", "snappy": "#8cb369", "gzip": "#d98e4a"}
_BAR_WIDTH: Final = 0.26
#: Bars that grow above this many times the smallest are drawn on a logarithmic axis.
_LINEAR_SPAN_MAX: Final = 30.0


def draw(lines: list[Line], path: Path) -> None:
    """Bars for each value size and compression, and a black mark where a target is."""
    panels = [panel for panel in _PANELS if any(line["name"] == panel[0] for line in lines)]
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(4.4 * len(panels), 3.6), layout="constrained", squeeze=False
    )
    for each, (name, unit, title) in zip(axes[0], panels, strict=True):
        _panel(each, [line for line in lines if line["name"] == name], unit)
        each.set_title(title, fontsize=10)
    axes[0][0].legend(title="compression", fontsize=8, title_fontsize=8)
    figure.suptitle(f"{lines[0]['machine']}; black: what is asked for", fontsize=9)
    figure.savefig(path, dpi=110)


def _panel(axes: Axes, lines: list[Line], unit: str) -> None:
    sizes = sorted({line["value_size"] for line in lines})
    for line in lines:
        shift = (list(_COLOURS).index(line["compression"]) - 1) * _BAR_WIDTH
        place = sizes.index(line["value_size"]) + shift
        label = line["compression"] if line["value_size"] == sizes[0] else None
        axes.bar(place, line[unit], _BAR_WIDTH, color=_COLOURS[line["compression"]], label=label)
        if "target" in line:
            axes.hlines(line["target"], place - _BAR_WIDTH / 2, place + _BAR_WIDTH / 2, "black", linewidth=2)
    heights = [line[unit] for line in lines]
    if max(heights) > _LINEAR_SPAN_MAX * min(heights):
        axes.set_yscale("log")
    axes.set_xticks(range(len(sizes)), [f"{size} B" for size in sizes])
    axes.grid(axis="y", linewidth=0.4)
    axes.set_axisbelow(True)


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    draw([json.loads(line) for line in source.read_text().splitlines()], target)
