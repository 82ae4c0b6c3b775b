"""Plain lines of a table with aligned columns. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from spark_kafkawire.errors import one_line


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row; all rows have the same number of cells. Cells that begin with a digit are aligned
    right."""
    rows = [list(map(one_line, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
