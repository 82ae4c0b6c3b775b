"""Tables for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from .measure import Figure


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print it as Markdown; all columns but the first are numbers."""
    marks = ["---"] + ["--:"] * (len(header) - 1)
    print()
    for row in (header, marks, *rows):
        print(f"| {' | '.join(row)} |", flush=True)


def report(figures: Sequence[Figure], file: Path) -> None:
    """All figures, to the reader and as lines of JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{figure.line()}\n" for figure in figures))
    words = {True: "reached", False: "**missed**", None: ""}
    rows = []
    for figure in figures:
        bound = "at most" if figure.at_most else "at least"
        asked = "" if figure.target is None else f"{bound} {figure.target:g}"
        rows.append([figure.name, f"{figure.value:.2f}", asked, words[figure.reached]])
    print_table(["figure", "measured", "asked", ""], rows)
