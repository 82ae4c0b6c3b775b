"""The table on a terminal."""

from __future__ import annotations

import io

import pytest

from spark_kafkawire.jobs.offsets.report import LogReport
from spark_kafkawire.jobs.offsets.terminal import LOGS_LISTED_MAX, print_report
from spark_kafkawire.model import TopicPartition

from .reports import log_07, log_modern, report_07, report_modern


def printed(report: object) -> list[list[str]]:
    """The words of each line."""
    out = io.StringIO()
    print_report(report, out)  # type: ignore[arg-type]
    return [line.split() for line in out.getvalue().splitlines()]


def test_every_partition_has_a_line_with_offsets_and_lag() -> None:
    lines = printed(report_07(log_07("t", "0-1", 1000, (1000, 1200), 1500, 1400), groups=("g",)))
    assert ["t", "0-1", "1,000", "1,500", "500", "2", "1,400", "100"] in lines
    assert lines[0] == ["zookeeper.connect=h:2181"]
    assert ["1", "topic,", "1", "partition,", "500", "B", "in", "the", "logs"] in lines


def test_later_kafka_has_times_instead_of_segments() -> None:
    lines = printed(report_modern(log_modern("t", 1, 0, 5)))
    assert ["t", "1", "1", "0", "5", "5", "2023-11-14", "22:13:20", "2023-11-14", "22:14:20"] in lines
    assert "segments" not in {word for line in lines for word in line}


def test_an_offset_outside_of_its_log_has_a_sign() -> None:
    lines = printed(
        report_07(log_07("t", "0-0", 5, (5,), 9, 4), log_07("t", "0-1", 5, (5,), 9, 10), groups=("g",))
    )
    assert [line[-1] for line in lines if line[:1] == ["t"]] == ["!4", "!0"]


def test_a_log_that_nobody_serves_is_listed() -> None:
    lines = printed(report_07(LogReport(TopicPartition("t", 0, 7), None, None)))
    assert ["t", "7-0", "-", "-", "-", "-"] in lines


def test_of_many_partitions_the_topics_are_listed() -> None:
    logs = [log_07("t", f"0-{partition}", 0, (0,), 5, 3) for partition in range(LOGS_LISTED_MAX + 1)]
    lines = printed(report_07(*logs, groups=("g",)))
    assert ["t", "201", "1,005", "201", "402"] in lines
    assert any("--html" in line for line in lines)


def test_a_narrow_terminal_cuts_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "60")
    out = Terminal()
    log = log_modern("a-topic-with-a-long-name", 0, 10**9, 3 * 10**9, 2 * 10**9)
    print_report(report_modern(log, groups=("etl",)), out)
    for shown in ("a-topic-with-a-long-name", "1,000,000,000", "3,000,000,000", "2023-11-14 22:13:20"):
        assert shown in out.getvalue()


def test_a_hostile_name_neither_colours_nor_marks_up() -> None:
    out = io.StringIO()
    print_report(report_07(log_07("[red]\x1b[31m :smile:", "0-0", 0, (), 0)), out)
    assert "[red]\\x1b[31m :smile:" in out.getvalue()
    assert "\x1b" not in out.getvalue()
