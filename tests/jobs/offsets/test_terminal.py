"""The table on a terminal."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from itertools import groupby

import pytest
from rich.cells import cell_len

from spark_kafkawire.jobs.offsets.report import ClusterReport, PartitionReport, WriteGroups
from spark_kafkawire.jobs.offsets.terminal import PARTITIONS_LISTED_MAX, WRITES_LISTED_MAX, print_report
from spark_kafkawire.model import TopicPartition

from .reports import partition_07, partition_modern, report_07, report_modern


def printed(report: object) -> list[list[str]]:
    """The words of each line."""
    out = io.StringIO()
    print_report(report, out)  # type: ignore[arg-type]
    return [line.split() for line in out.getvalue().splitlines()]


def test_every_partition_has_a_line_with_offsets_and_lag() -> None:
    lines = printed(report_07(partition_07("t", "0-1", 1000, (1000, 1200), 1500, 1400), groups=("g",)))
    assert ["t", "0-1", "1,000", "1,500", "500", "2", "1,400", "100"] in lines
    assert lines[0] == ["zookeeper.connect=h:2181"]
    assert ["1", "topic,", "1", "partition,", "500", "B", "in", "the", "partitions"] in lines


def test_later_kafka_has_times_instead_of_segments() -> None:
    lines = printed(report_modern(partition_modern("t", 1, 0, 5)))
    assert ["t", "1", "1", "0", "5", "5", "2023-11-14", "22:13:20Z", "2023-11-14", "22:14:20Z"] in lines
    assert "segments" not in {word for line in lines for word in line}


def test_of_many_exactly_once_writes_some_are_listed() -> None:
    writes = tuple(WriteGroups(f"w{number}\n", ("g",)) for number in range(WRITES_LISTED_MAX + 2))
    lines = printed(replace(report_modern(partition_modern("t", 1, 0, 5)), writes=writes))
    reported = [" ".join(line) for line in lines if "exactly-once" in line]
    assert reported[0] == "exactly-once write w0\\x0a: 1 group with its records, no consumers"
    assert len(reported) == WRITES_LISTED_MAX + 1
    assert reported[-1] == "2 more exactly-once writes: --html and --json list each of them"


def test_an_offset_outside_of_its_log_has_a_sign() -> None:
    lines = printed(
        report_07(
            partition_07("t", "0-0", 5, (5,), 9, 4), partition_07("t", "0-1", 5, (5,), 9, 10), groups=("g",)
        )
    )
    assert [line[-1] for line in lines if line[:1] == ["t"]] == ["!4", "!0"]


def test_a_partition_that_nobody_serves_is_listed() -> None:
    lines = printed(report_07(PartitionReport(TopicPartition("t", 0, 7), None, None)))
    assert ["t", "7-0", "-", "-", "-", "-"] in lines


def test_of_many_partitions_the_topics_are_listed() -> None:
    partitions = [
        partition_07("t", f"0-{partition}", 0, (0,), 5, 3) for partition in range(PARTITIONS_LISTED_MAX + 1)
    ]
    lines = printed(report_07(*partitions, groups=("g",)))
    assert ["t", "201", "1,005", "201", "402"] in lines
    assert any("--html" in line for line in lines)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown_at(width: int, report: ClusterReport, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of the tables on a terminal of that width. From 80 on none is longer."""
    monkeypatch.setenv("COLUMNS", str(width))
    out = Terminal()
    print_report(report, out)
    lines = re.sub("\x1b\\[[0-9;]*m", "", out.getvalue()).splitlines()
    lines = lines[lines.index("") :]
    assert max(map(len, lines)) <= max(width, 80)
    return lines


def tables(lines: list[str]) -> list[list[str]]:
    """The lines of each table: those between blank ones."""
    return [list(table) for is_table, table in groupby(lines, key=bool) if is_table]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_terminal_cuts_no_number_and_no_time(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    partition = partition_modern("a-topic-with-a-long-name", 0, 10**9, 3 * 10**9, 2 * 10**9)
    text = "\n".join(shown_at(width, report_modern(partition, groups=("etl",)), monkeypatch))
    for shown in ("a-topic-with-a-long-name", "1,000,000,000", "3,000,000,000", "2023-11-14 22:13:20"):
        assert shown in text


def test_columns_of_common_widths_are_one_table_at_120(monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = [partition_modern("orders-by-customer", number, 0, 9_999_999) for number in range(12)]
    assert len(tables(shown_at(120, report_modern(*partitions), monkeypatch))) == 1
    old = partition_07("debian-gzip", "0-1", 1000, (1000, 1200), 10**10, 10**9)
    assert len(tables(shown_at(120, report_07(old, groups=("etl",)), monkeypatch))) == 1


@pytest.mark.parametrize("width", [80, 120])
def test_long_names_and_many_groups_fold_and_all_of_them_is_there(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    topic = "".join(f"topic{number:03}." for number in range(27))
    groups = tuple(f"{'team.' * 30}{number}" for number in range(6))
    partition = partition_modern(topic, 0, 0, 10**12, *(10**11 + number for number in range(6)))
    found = tables(shown_at(width, report_modern(partition, groups=groups), monkeypatch))
    assert len(found) > 1
    for table in found:
        rule = next(number for number, line in enumerate(table) if set(line) == {"─"})
        row = table[rule + 1 :]
        name_width = len(row[0].split()[0])
        assert name_width >= 24
        assert "".join(line[:name_width].strip() for line in row) == topic
        assert row[0].split()[1] == "0"
    titles = "".join("".join(line.split()) for table in found for line in table)
    cells = {word for table in found for line in table for word in line.split()}
    assert {f"{10**11 + number:,}" for number in range(6)} <= cells
    assert {f"{9 * 10**11 - number:,}" for number in range(6)} <= cells
    assert titles.count("team.") >= 6 * 25


def test_a_report_in_a_file_is_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    groups = tuple(f"group-{number}" for number in range(20))
    lines = printed(report_modern(partition_modern("t" * 249, 0, 0, 10**12, *range(20)), groups=groups))
    assert len([line for line in lines if line[:1] == ["t" * 249]]) == 1


def test_names_of_wide_characters_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    report = report_07(partition_07("\u8a71" * 100, "0-0", 0, (0,), 10**12, 5), groups=("\u7d44" * 40,))
    for table in tables(shown_at(80, report, monkeypatch)):
        assert max(map(cell_len, table)) <= 80
        assert "".join(table).count("\u8a71") == 100


def test_a_hostile_name_neither_colours_nor_marks_up() -> None:
    out = io.StringIO()
    print_report(report_07(partition_07("[red]\x1b[31m :smile:", "0-0", 0, (), 0)), out)
    assert "[red]\\x1b[31m :smile:" in out.getvalue()
    assert "\x1b" not in out.getvalue()
