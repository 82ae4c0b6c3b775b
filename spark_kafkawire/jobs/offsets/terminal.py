"""A report as a table on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TextIO

from rich.console import Console
from rich.text import Text

from .folding import FoldedColumn, print_folded
from .report import ClusterReport, GroupTotal, PartitionReport, Standing, TopicReport
from .wording import NONE_TEXT, WORDINGS, count_text, number_text, printable, size_text, time_text

#: Most partitions that are listed; for a larger cluster the report lists topics.
PARTITIONS_LISTED_MAX: Final = 200
#: Most exactly-once writes that are listed: every write without a name of the user gets a new one.
WRITES_LISTED_MAX: Final = 10
#: Width of a line that goes to a file or a pipe: more than any line needs.
_FILE_WIDTH: Final = 10_000

Row = PartitionReport | TopicReport
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
    lists_partitions = len(report.partitions) <= PARTITIONS_LISTED_MAX
    rows = report.partitions if lists_partitions else report.topics
    name, partition, *units = _units(report, rows)
    print_folded(console, [*name, *partition], units)
    if not lists_partitions:
        note = f"There are {len(report.partitions):,} partitions: --html and --json list each of them."
        console.print(Text(note), soft_wrap=True)


def console_on(out: TextIO) -> Console:
    """A console for tables; it shows names verbatim, without rich's markup."""
    return Console(file=out, width=None if out.isatty() else _FILE_WIDTH, highlight=False, emoji=False)


def _totals(report: ClusterReport) -> str:
    counts = f"{count_text(len(report.topics), 'topic')}, {count_text(len(report.partitions), 'partition')}"
    return (
        f"{counts}, {size_text(report.size, report.generation)} {WORDINGS[report.generation].in_partitions}"
    )


def _groups(report: ClusterReport) -> Iterator[str]:
    for index, group in enumerate(report.groups):
        total = report.group(index)
        lag = f"lag {size_text(total.lag, report.generation)}" if total.partition_count else "no offset"
        where = (
            f"{total.partition_count:,} of {count_text(len(report.partitions), 'partition')} with an offset"
        )
        lost = [f"{size_text(total.lost, report.generation)} lost"] if total.lost else []
        beyond = [f"{total.beyond_count:,} beyond the end"] if total.beyond_count else []
        unknown = len(report.unknown_of(index))
        away = [f"{count_text(unknown, 'offset')} in partitions that are not there"] if unknown else []
        yield ", ".join([f"group {printable(group)}: {lag}", where, *lost, *beyond, *away])


def _writes(report: ClusterReport) -> Iterator[str]:
    for write in report.writes[:WRITES_LISTED_MAX]:
        groups = count_text(len(write.groups), "group")
        yield f"exactly-once write {printable(write.name)}: {groups} with its records, no consumers"
    if (left := len(report.writes) - WRITES_LISTED_MAX) > 0:
        yield f"{count_text(left, 'more exactly-once write')}: --html and --json list each of them"


def _units(report: ClusterReport, rows: Sequence[Row]) -> Iterator[list[FoldedColumn]]:
    """The columns, those of one table in each list. The first is the topic, the second the partition."""

    def columns(*titled: tuple[str, Cell]) -> list[FoldedColumn]:
        return [FoldedColumn(title, tuple(map(cell, rows))) for title, cell in titled]

    wording = WORDINGS[report.generation]
    yield [FoldedColumn("topic", tuple(map(_topic, rows)), is_name=True)]
    yield columns(("partition", _partition))
    if not report.generation.has_partitions_of_brokers:
        yield columns(("leader", _leader))
    yield columns(("earliest", lambda row: _bound(row, "earliest")))
    yield columns(("latest", lambda row: _bound(row, "latest")))
    yield columns((wording.size, _size))
    if wording.has_segments:
        yield columns(("segments", lambda row: number_text(row.segment_count)))
    if wording.has_times:
        yield columns(("first record", lambda row: time_text(row.first_time_ms)))
        yield columns(("youngest record", lambda row: time_text(row.max_time_ms)))
    for index, group in enumerate(report.groups):
        yield columns(*_of_group(index, group))


def _topic(row: Row) -> str:
    return printable(row.topic_partition.topic if isinstance(row, PartitionReport) else row.name)


def _partition(row: Row) -> str:
    return row.topic_partition.name if isinstance(row, PartitionReport) else f"{len(row.partitions):,}"


def _leader(row: Row) -> str:
    if isinstance(row, TopicReport):
        return ""
    return f"{row.leader.id}" if row.leader else NONE_TEXT


def _bound(row: Row, end: str) -> str:
    if isinstance(row, TopicReport):
        return ""
    return number_text(getattr(row.bounds, end)) if row.bounds else NONE_TEXT


def _size(row: Row) -> str:
    is_unserved = isinstance(row, PartitionReport) and row.bounds is None
    return number_text(None if is_unserved else row.size)


def _of_group(index: int, group: str) -> tuple[tuple[str, Cell], tuple[str, Cell]]:
    def offset(row: Row) -> str:
        return number_text(row.committed[index]) if isinstance(row, PartitionReport) else ""

    def lag(row: Row) -> str:
        total = row.group(index) if isinstance(row, TopicReport) else GroupTotal.of([row.positions[index]])
        standing = row.positions[index].standing if isinstance(row, PartitionReport) else Standing.WITHIN
        sign = "!" if total.lost or total.beyond_count or standing is Standing.UNKNOWN else ""
        return f"{sign}{number_text(total.lag)}"

    return (printable(f"{group}: offset"), offset), ("lag", lag)
