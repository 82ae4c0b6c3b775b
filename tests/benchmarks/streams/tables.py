"""Tables for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print it as Markdown; all columns but the first are numbers."""
    marks = ["---"] + ["--:"] * (len(header) - 1)
    print()
    for row in (header, marks, *rows):
        print(f"| {' | '.join(row)} |", flush=True)
