"""A report as tables that fit a terminal. Names and titles fold, numbers and times do not.

Columns that a line has no room for are in another table below, which begins with the same key columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final, TextIO

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from spark_kafkawire.tables import Row

from .report import NONE_TEXT, ClusterReport, GroupTotal, count_text, number_text, printable, size_text

#: Most partitions that are listed; for a larger cluster the report lists topics.
PARTITIONS_LISTED_MAX: Final = 200
#: Most exactly-once writes that are listed: every write without a name of the user gets a new one.
WRITES_LISTED_MAX: Final = 10
#: Width of a line that goes to a file or a pipe: more than any line needs.
_FILE_WIDTH: Final = 10_000

#: The text of a column for a row.
Cell = Callable[[Row], str]


def print_report(report: ClusterReport, out: TextIO) -> None:
    """Print the report: a line for each partition, or for each topic if there are many partitions."""
    console = console_on(out)
    brokers = ", ".join(map(str, report.brokers))
    for line in (
        printable(report.place),
        printable(brokers),
        _totals(report),
        *_groups(report),
        *_writes(report),
    ):
        console.print(Text(line), soft_wrap=True)
    lists_partitions = len(report.logs) <= PARTITIONS_LISTED_MAX
    rows = report.logs if lists_partitions else report.topics
    name, partition, *units = _units(report, rows)
    print_folded(console, [*name, *partition], units)
    if not lists_partitions:
        note = f"There are {len(report.logs):,} partitions: --html and --json list each of them."
        console.print(Text(note), soft_wrap=True)


def console_on(out: TextIO) -> Console:
    """A console for tables; it shows names verbatim, without rich's markup."""
    return Console(file=out, width=None if out.isatty() else _FILE_WIDTH, highlight=False, emoji=False)


def _totals(report: ClusterReport) -> str:
    counts = f"{count_text(len(report.topics), 'topic')}, {count_text(len(report.logs), 'partition')}"
    return f"{counts}, {size_text(report.size, report.generation)} {report.wording.in_partitions}"


def _groups(report: ClusterReport) -> Iterator[str]:
    for group in report.groups:
        total = report.group(group)
        lag = f"lag {size_text(total.lag, report.generation)}" if total.partition_count else "no offset"
        where = f"{total.partition_count:,} of {count_text(len(report.logs), 'partition')} with an offset"
        lost = [f"{size_text(total.lost, report.generation)} lost"] if total.lost else []
        beyond = [f"{total.beyond_count:,} beyond the end"] if total.beyond_count else []
        unknown = len(report.unknown_of(group))
        away = [f"{count_text(unknown, 'offset')} in partitions that are not there"] if unknown else []
        yield ", ".join([f"group {printable(group)}: {lag}", where, *lost, *beyond, *away])


def _writes(report: ClusterReport) -> Iterator[str]:
    for name, groups in islice(report.writes.items(), WRITES_LISTED_MAX):
        count = count_text(len(groups), "group")
        yield f"exactly-once write {printable(name)}: {count} with its records, no consumers"
    if (left := len(report.writes) - WRITES_LISTED_MAX) > 0:
        yield f"{count_text(left, 'more exactly-once write')}: --html and --json list each of them"


def _units(report: ClusterReport, rows: Sequence[Row]) -> Iterator[list[FoldedColumn]]:
    """The columns, those of one table in each list. The first is the topic, the second the partition."""

    def columns(*titled: tuple[str, Cell]) -> list[FoldedColumn]:
        return [FoldedColumn(title, tuple(map(cell, rows))) for title, cell in titled]

    def value(name: str, text: Callable[[int | None], str] = number_text) -> Cell:
        return lambda row: text(row[name]) if name in row else ""

    def partition(row: Row) -> str:
        return f"{len(row['logs']):,}" if "logs" in row else report.partition_of(row).name

    def leader(row: Row) -> str:
        return "" if "logs" in row else NONE_TEXT if row["broker"] is None else f"{row['broker']}"

    yield [FoldedColumn("topic", tuple(printable(row["topic"]) for row in rows), is_name=True)]
    yield columns(("partition", partition))
    if not report.generation.has_partitions_of_brokers:
        yield columns(("leader", leader))
    for name in ("earliest", "latest", report.wording.size):
        yield columns((name, value(name)))
    for name, (title, text) in report.wording.more.items():
        yield columns((title, value(name, text)))
    for group in report.groups:
        yield columns(*_group_cells(group))


def _group_cells(group: str) -> tuple[tuple[str, Cell], tuple[str, Cell]]:
    def offset(row: Row) -> str:
        return "" if "logs" in row else number_text(row["groups"][group]["offset"])

    def lag(row: Row) -> str:
        total = GroupTotal.of(row.get("logs", [row]), group)
        is_unserved = "logs" not in row and total.partition_count and total.lag is None
        sign = "!" if total.lost or total.beyond_count or is_unserved else ""
        return f"{sign}{number_text(total.lag)}"

    return (printable(f"{group}: offset"), offset), ("lag", lag)


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
