"""``make bench-plot``: draws the figures of the last ``make bench`` to one PNG.

python -m tests.benchmarks.plot build/figures.jsonl docs/images/performance.png
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

#: What is drawn: name, unit of the value, title.
_PANELS: Final = (
    ("read", "ratio", "0.7, read: rows/s over ready-made batches"),
    ("write", "ratio", "0.7, write, acks=1: rows/s over counting them"),
    ("codec decode", "times_the_limit", "0.7, decode: time over one copy and one CRC"),
    ("read modern", "ratio", "today's Kafka, read"),
    ("write modern", "ratio", "today's Kafka, write"),
    ("codec decode magic 2", "times_the_limit", "today's Kafka, decode"),
)
_COLUMNS: Final = 3
_COLOURS: Final = {
    "none": "#4878a8",
    "snappy": "#8cb369",
    "gzip": "#d98e4a",
    "lz4": "#b5779b",
    "zstd": "#7f7f7f",
}
#: What the bars of one value size take of the way to the next one.
_GROUP_WIDTH: Final = 0.8
#: Bars that grow above this many times the smallest are drawn on a logarithmic axis.
_LINEAR_SPAN_MAX: Final = 30.0


def draw(lines: list[Line], path: Path) -> None:
    """Bars for each value size and compression, and a black mark where a target is."""
    drawn = [line for line in lines if line.get("compression") in _COLOURS]
    panels = [panel for panel in _PANELS if any(line["name"] == panel[0] for line in drawn)]
    rows = -(-len(panels) // _COLUMNS)
    figure, axes = pyplot.subplots(
        rows, _COLUMNS, figsize=(13, 3.3 * rows), layout="constrained", squeeze=False
    )
    for place, (name, unit, title) in zip(axes.flat, panels, strict=False):
        _panel(place, [line for line in drawn if line["name"] == name], unit)
        place.set_title(title, fontsize=10)
    for place in axes.flat[len(panels) :]:
        place.set_axis_off()
    figure.suptitle(f"{lines[0]['machine']}; black: what is asked for", fontsize=9)
    figure.savefig(path, dpi=90)


def _panel(axes: Axes, lines: list[Line], unit: str) -> None:
    sizes = sorted({line["value_size"] for line in lines})
    compressions = [name for name in _COLOURS if any(line["compression"] == name for line in lines)]
    width = _GROUP_WIDTH / len(compressions)
    for line in lines:
        name = line["compression"]
        shift = (compressions.index(name) - (len(compressions) - 1) / 2) * width
        place = sizes.index(line["value_size"]) + shift
        label = name if line["value_size"] == sizes[0] else None
        axes.bar(place, line[unit], width, color=_COLOURS[name], label=label)
        if "target" in line:
            axes.hlines(line["target"], place - width / 2, place + width / 2, "black", linewidth=2)
    heights = [line[unit] for line in lines]
    if max(heights) > _LINEAR_SPAN_MAX * min(heights):
        axes.set_yscale("log")
    axes.set_xticks(range(len(sizes)), [f"{size} B" for size in sizes])
    axes.legend(fontsize=7)
    axes.grid(axis="y", linewidth=0.4)
    axes.set_axisbelow(True)


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    draw([json.loads(line) for line in source.read_text().splitlines()], target)
