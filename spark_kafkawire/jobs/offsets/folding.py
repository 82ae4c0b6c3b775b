"""Tables that fit a terminal. Names and titles fold, numbers and times do not.

Columns that a line has no room for are in another table below, which begins with the same key columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

#: A name, and a title, fold where they are longer and the line has no room.
_NAME_WIDTH: Final = 24
_TITLE_WIDTH: Final = 16
#: Blanks between two columns.
_GAP: Final = 2


@dataclass(frozen=True)
class FoldedColumn:
    """A title, and a cell for each row; those of names fold."""

    title: str
    cells: tuple[str, ...]
    is_name: bool = False

    @cached_property
    def widest(self) -> int:
        """The width of a line that holds each cell and the title."""
        return max(self._cells_width, cell_len(self.title))

    @cached_property
    def narrowest(self) -> int:
        """The minimum width of a readable column."""
        cells = min(self._cells_width, _NAME_WIDTH) if self.is_name else self._cells_width
        return max(cells, min(cell_len(self.title), _TITLE_WIDTH))

    @cached_property
    def _cells_width(self) -> int:
        return max(map(cell_len, self.cells), default=0)


def print_folded(
    console: Console, keys: Sequence[FoldedColumn], units: Sequence[Sequence[FoldedColumn]]
) -> None:
    """Print the columns. A terminal that has no room for the keys and one unit wraps the lines itself."""
    for columns in _blocks(keys, units, console.width):
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
        widths = _widths(columns, console.width)
        for column, width in zip(columns, widths, strict=True):
            title = Text(column.title, style="bold")
            table.add_column(
                title, justify="left" if column.is_name else "right", width=width, overflow="fold"
            )
        for row in zip(*(column.cells for column in columns), strict=True):
            table.add_row(*map(Text, row))
        console.width = max(console.width, _line_width(widths))
        console.print()
        console.print(table)
    console.print()


def _blocks(
    keys: Sequence[FoldedColumn], units: Sequence[Sequence[FoldedColumn]], width: int
) -> Iterator[list[FoldedColumn]]:
    """The columns of each table: the keys, and as many units as a line has room for, one at least."""
    block = list(keys)
    for unit in units:
        has_unit = len(block) > len(keys)
        if has_unit and _line_width([column.narrowest for column in (*block, *unit)]) > width:
            yield block
            block = list(keys)
        block += unit
    yield block


def _widths(columns: Sequence[FoldedColumn], width: int) -> list[int]:
    """The width of each column. The columns that lack the fewest characters get the rest of the line."""
    widths = [column.narrowest for column in columns]
    left = width - _line_width(widths)
    lacking = [column.widest - column.narrowest for column in columns]
    for index in sorted(range(len(columns)), key=lacking.__getitem__):
        more = max(0, min(lacking[index], left))
        widths[index] += more
        left -= more
    return widths


def _line_width(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)
