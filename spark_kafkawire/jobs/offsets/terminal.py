"""A report as a table on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TextIO

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from .report import ClusterReport, GroupTotal, LogReport, Standing, TopicReport
from .wording import NONE_TEXT, WORDINGS, count_text, number_text, printable, size_text, time_text

#: Partitions that are listed; of a larger cluster the topics are.
LOGS_LISTED_MAX: Final = 200
#: A line is as long as it is where nobody looks at it: a file takes any length.
_FILE_WIDTH: Final = 10_000

Row = LogReport | TopicReport
#: A column: its title, whether it holds numbers, and its text for a row.
Column = tuple[str, bool, Callable[[Row], str]]


def print_report(report: ClusterReport, out: TextIO) -> None:
    """Print what the cluster holds; a line for each partition, or for each topic where they are many."""
    console = console_on(out)
    brokers = ", ".join(map(str, report.brokers))
    for line in (printable(report.place), printable(brokers), _totals(report), *_groups(report)):
        console.print(Text(line), soft_wrap=True)
    lists_logs = len(report.logs) <= LOGS_LISTED_MAX
    print_table(console, _table(report, report.logs if lists_logs else report.topics))
    if not lists_logs:
        note = f"There are {len(report.logs):,} partitions: --html and --json list each of them."
        console.print(Text(note), soft_wrap=True)


def console_on(out: TextIO) -> Console:
    """Where tables go; names are shown as they are, whatever rich would make of them."""
    return Console(file=out, width=None if out.isatty() else _FILE_WIDTH, highlight=False, emoji=False)


def print_table(console: Console, table: Table) -> None:
    """Print a table whole: a narrow terminal wraps its lines, and no number loses its digits."""
    width = Measurement.get(console, console.options.update(max_width=_FILE_WIDTH), table).maximum
    console.width = max(console.width, width)
    console.print(table)


def _totals(report: ClusterReport) -> str:
    counts = f"{count_text(len(report.topics), 'topic')}, {count_text(len(report.logs), 'partition')}"
    return f"{counts}, {size_text(report.size, report.generation)} {WORDINGS[report.generation].in_logs}"


def _groups(report: ClusterReport) -> Iterator[str]:
    for index, group in enumerate(report.groups):
        total = report.group(index)
        lag = f"lag {size_text(total.lag, report.generation)}" if total.log_count else "no offset"
        where = f"{total.log_count:,} of {count_text(len(report.logs), 'partition')} with an offset"
        lost = [f"{size_text(total.lost, report.generation)} lost"] if total.lost else []
        beyond = [f"{total.beyond_count:,} beyond the end"] if total.beyond_count else []
        strays = len(report.strays_of(index))
        away = [f"{count_text(strays, 'offset')} in partitions that are not there"] if strays else []
        yield ", ".join([f"group {printable(group)}: {lag}", where, *lost, *beyond, *away])


def _table(report: ClusterReport, rows: tuple[LogReport, ...] | tuple[TopicReport, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    columns = list(_columns(report))
    for title, is_number, _ in columns:
        table.add_column(
            Text(printable(title)),
            justify="right" if is_number else "left",
            overflow="fold",
            no_wrap=is_number,
        )
    for row in rows:
        table.add_row(*(Text(text(row)) for _, _, text in columns))
    return table


def _columns(report: ClusterReport) -> Iterator[Column]:
    wording = WORDINGS[report.generation]
    yield "topic", False, lambda row: printable(row.log.topic if isinstance(row, LogReport) else row.name)
    yield "partition", True, _partition
    if not report.generation.has_logs_of_brokers:
        yield "leader", True, _leader
    yield "earliest", True, lambda row: _bound(row, "earliest")
    yield "latest", True, lambda row: _bound(row, "latest")
    yield wording.size, True, _size
    if wording.has_segments:
        yield "segments", True, lambda row: number_text(row.segment_count)
    if wording.has_times:
        yield "first record", True, lambda row: time_text(row.first_time_ms)
        yield "youngest record", True, lambda row: time_text(row.max_time_ms)
    for index, group in enumerate(report.groups):
        yield from _group_columns(index, group)


def _partition(row: Row) -> str:
    return row.log.name if isinstance(row, LogReport) else f"{len(row.logs):,}"


def _leader(row: Row) -> str:
    if isinstance(row, TopicReport):
        return ""
    return f"{row.leader.id}" if row.leader else NONE_TEXT


def _bound(row: Row, end: str) -> str:
    if isinstance(row, TopicReport):
        return ""
    return number_text(getattr(row.bounds, end)) if row.bounds else NONE_TEXT


def _size(row: Row) -> str:
    is_unserved = isinstance(row, LogReport) and row.bounds is None
    return number_text(None if is_unserved else row.size)


def _group_columns(index: int, group: str) -> Iterator[Column]:
    def offset(row: Row) -> str:
        return number_text(row.committed[index]) if isinstance(row, LogReport) else ""

    def lag(row: Row) -> str:
        total = row.group(index) if isinstance(row, TopicReport) else GroupTotal.of([row.positions[index]])
        standing = row.positions[index].standing if isinstance(row, LogReport) else Standing.WITHIN
        sign = "!" if total.lost or total.beyond_count or standing is Standing.UNKNOWN else ""
        return f"{sign}{number_text(total.lag)}"

    yield f"{group}: offset", True, offset
    yield "lag", True, lag
