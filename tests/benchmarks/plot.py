"""The picture of the first table of ``docs/performance.md``, which ``--only peer`` measured."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import matplotlib

matplotlib.use("Agg")  # no window

from matplotlib import pyplot

_PAGE, _PICTURE = Path("docs/performance.md"), Path("docs/images/performance.png")
_MARK: Final = "<!-- figures of --only peer -->"
_READS: Final = ("read: Spark's connector", "read: kafkawire", "read: ready-made batches")
#: The groups of bars: a name, and the rows of the table that are the connector, kafkawire and the ceiling.
_GROUPS: Final = {
    "read all columns": _READS,
    "read value alone": tuple(f"{item}, value alone" for item in _READS),
    "write": ("write: Spark's connector", "write: kafkawire", "write: a writer that only counts"),
}
#: Who is drawn, in the order of the rows above: the name in the legend, the colour.
_DRAWN: Final = {
    "Spark's own connector": "#b0b7c3",
    "kafkawire": "#3567a8",
    "ceiling: a Python source or writer that does nothing else": "#e3d3b4",
}
_BAR: Final = 0.26


def rates_of(page: str) -> dict[str, dict[str, float]]:
    """The rates of the rows in the table of a page, by the size of a value, whose first column they are."""
    table = page.partition(_MARK)[2].partition("\n|")[2].partition("\n\n")[0]
    head, _, *rows = [
        [cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in table.splitlines()
    ]
    columns = {
        cell.partition(":")[0]: location for location, cell in enumerate(head) if cell.endswith("rows/s")
    }
    return {size: {row[0]: float(row[location]) for row in rows} for size, location in columns.items()}


def draw() -> None:
    """A panel for each size of a value."""
    rates = rates_of(_PAGE.read_text("utf-8"))
    figure, panels = pyplot.subplots(len(rates), 1, figsize=(7, 3.4 * len(rates)), layout="constrained")
    for panel, (size, of_size) in zip(panels, rates.items(), strict=True):
        for number, (name, colour) in enumerate(_DRAWN.items()):
            places = [group + (number - 1) * _BAR for group in range(len(_GROUPS))]
            values = [of_size[rows[number]] for rows in _GROUPS.values()]
            bars = panel.barh(places, values, _BAR * 0.92, color=colour, label=name)
            panel.bar_label(bars, fmt="%.2f", padding=3, fontsize=11)
        panel.set_yticks(range(len(_GROUPS)), list(_GROUPS), fontsize=12)
        panel.invert_yaxis()
        panel.margins(x=0.12)
        panel.tick_params(axis="x", labelsize=11)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="x", linewidth=0.4)
        panel.set_axisbelow(True)
        panel.set_title(f"values of {size}", fontsize=12, loc="left")
    panels[-1].set_xlabel("million rows per second (longer is faster)", fontsize=12)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", fontsize=11, frameon=False)
    figure.suptitle("Rows per second on two cores, Kafka 4.1 beside Spark", fontsize=14, fontweight="bold")
    figure.savefig(_PICTURE, dpi=150)
