"""The report of partitions and groups: sizes, lags, sums, findings of a check, the table on a
terminal, and the files of offsets, whose lines are those of Kafka's own tools."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from spark_kafkawire.errors import OptionError
from spark_kafkawire.jobs.offsets.report import (
    ClusterReport,
    GroupOffset,
    GroupTotal,
    Standing,
    complaints,
    find_standing,
    printable,
    row_of,
    size_text,
    time_text,
)
from spark_kafkawire.jobs.offsets.run import export_text, import_text
from spark_kafkawire.jobs.offsets.terminal import (
    WRITES_LISTED_MAX,
    print_report,
)
from spark_kafkawire.model import Generation, PartitionBounds, RecordTimes, TopicPartition
from tests.support.golden import read_json

from .reports import BROKERS, partition_07, partition_modern, report_07, report_modern

PARTITION = TopicPartition("t", 0, 0)
BYTES, RECORDS = Generation.V07, Generation.MODERN


def test_lag_is_what_the_log_still_holds_for_the_group() -> None:
    offsets = (None, 90, 100, 120, 150, 151)
    row = row_of(
        BYTES,
        PARTITION,
        BROKERS[0],
        PartitionBounds(PARTITION, 100, 150),
        RecordTimes(),
        {f"{at}": at for at in offsets},
    )
    result = [(find_standing(at, 100, 150), *row["groups"][f"{at}"].values()) for at in offsets]
    assert result == [
        (None, None, None, 0),
        (Standing.BEHIND, 90, 50, 10),
        (None, 100, 50, 0),
        (None, 120, 30, 0),
        (None, 150, 0, 0),
        (Standing.BEYOND, 151, 0, 0),
    ]


def test_a_topic_sums_the_partitions_that_a_group_has_offsets_for() -> None:
    report = report_07(
        partition_07("t", "0-0", 0, (0, 50), 80, 10),
        partition_07("t", "0-1", 100, (100,), 140, 90),
        partition_07("t", "1-0", 0, (0,), 30, 31),
        partition_07("t", "1-1", 0, (0,), 1000, None),
        partition_07("u", "0-0", 0, (), 0, None),
        groups=("g",),
    )
    topic, empty = report.topics
    assert (topic["bytes"], topic["segments"]) == (1150, 5)
    total = GroupTotal.of(topic["logs"], "g")
    counts = total.lag, total.lost, total.partition_count, total.size, total.beyond_count
    assert counts == (110, 10, 3, 150, 1)
    assert (GroupTotal.of(empty["logs"], "g").lag, empty["segments"]) == (None, 0)
    assert report.group("g") == total


def test_sizes_times_and_names_read_as_people_say_them() -> None:
    for size, generation, text in ((0, BYTES, "0 B"), (1536, BYTES, "1.5 KiB"), (1536, RECORDS, "1,536")):
        assert size_text(size, generation) == text
    assert size_text(None, BYTES) == time_text(None) == "-"
    for ms, text in ((0, "1970-01-01 00:00:00Z"), (-2, "-2 ms"), (1 << 62, f"{1 << 62} ms")):
        assert time_text(ms) == text
    for name, shown in (
        ("plain.topic-größe", "plain.topic-größe"),
        ("\x1b[31m\n", "\\x1b[31m\\x0a"),
        ("a\u202eb", "a\\u202eb"),
        ("\ud800\U000e0001", "\\ud800\\U000e0001"),
        ("a\\x1b", "a\\\\x1b"),
    ):
        assert printable(name) == shown
        assert shown.isprintable()


UNSERVED = TopicPartition("t", 2, 0)


def test_an_offset_outside_of_its_log_is_a_complaint_and_a_group_without_any() -> None:
    ends = [partition_07("t", f"0-{at}", 5, (5,), 9, offset) for at, offset in enumerate((5, 7, 9, None))]
    beyond = [partition_07("t", f"0-{number}", 5, (5,), 9, 10) for number in range(2)]
    for partitions, said in (
        (ends, []),
        (
            [partition_07("t", "0-0", 5, (5,), 9, 2)],
            ["1 offset before the start of the log (3 B lost), t 0-0 first"],
        ),
        (beyond, ["2 offsets beyond the end of the log, t 0-0 first"]),
        ([(UNSERVED, None, (7,))], ["1 offset in partitions that no broker serves now, t 0-2 first"]),
    ):
        assert complaints(report_07(*partitions, groups=("g",))) == [f"group 'g': {item}" for item in said]
    report = report_07(partition_07("t", "0-0", 0, (0,), 9, 3, 4), groups=("g", "h"))
    unknown = tuple(GroupOffset("h", TopicPartition("t", number, 1), 5) for number in range(1200))
    assert complaints(replace(report, unknown=unknown)) == [
        "group 'h': 1,200 offsets in partitions that no broker holds, t 1-0 first"
    ]
    assert complaints(report_modern(partition_modern("t", 0, 0, 9, None), groups=("typo\n",))) == [
        "group 'typo\\n' has committed no offset here"
    ]
    both = partition_modern("t", 0, 5, 9, 1), partition_modern("t", 1, 5, 9, 11)
    assert complaints(report_modern(*both, groups=("g",))) == [
        "group 'g': 1 offset before the start of the log (4 lost), t 0 first",
        "group 'g': 1 offset beyond the end of the log, t 1 first",
    ]


def printed(report: object) -> list[list[str]]:
    """The words of each line."""
    out = io.StringIO()
    print_report(report, out)  # type: ignore[arg-type]
    return [line.split() for line in out.getvalue().splitlines()]


def test_of_many_exactly_once_writes_some_are_listed() -> None:
    writes = {f"w{number}\n": ["g"] for number in range(WRITES_LISTED_MAX + 2)}
    lines = printed(replace(report_modern(partition_modern("t", 1, 0, 5)), writes=writes))
    reported = [" ".join(line) for line in lines if "exactly-once" in line]
    assert reported[0] == "exactly-once write w0\\x0a: 1 group with its records, no consumers"
    assert len(reported) == WRITES_LISTED_MAX + 1
    assert reported[-1] == "2 more exactly-once writes: --html and --json list each of them"


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


def test_a_terminal_cuts_no_number_and_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = partition_modern("a-topic-with-a-long-name", 0, 10**9, 3 * 10**9, 2 * 10**9)
    for width in (60, 80, 120):
        text = "\n".join(shown_at(width, report_modern(partition, groups=("etl",)), monkeypatch))
        shown = "a-topic-with-a-long-name", "1,000,000,000", "3,000,000,000", "2023-11-14 22:13:20"
        assert [item for item in shown if item not in text] == []
    # Columns of common widths are one table.
    partitions = [partition_modern("orders-by-customer", number, 0, 9_999_999) for number in range(12)]
    old = partition_07("debian-gzip", "0-1", 1000, (1000, 1200), 10**10, 10**9)
    for report in (report_modern(*partitions), report_07(old, groups=("etl",))):
        assert len(tables(shown_at(120, report, monkeypatch))) == 1
    # In a file all are.
    monkeypatch.setenv("COLUMNS", "60")
    groups = tuple(f"group-{number}" for number in range(20))
    lines = printed(report_modern(partition_modern("t" * 249, 0, 0, 10**12, *range(20)), groups=groups))
    assert len([line for line in lines if line[:1] == ["t" * 249]]) == 1
    # Names of wide characters fold.
    report = report_07(partition_07("\u8a71" * 100, "0-0", 0, (0,), 10**12, 5), groups=("\u7d44" * 40,))
    for table in tables(shown_at(80, report, monkeypatch)):
        assert max(map(cell_len, table)) <= 80
        assert "".join(table).count("\u8a71") == 100


@pytest.mark.parametrize("width", [80, 120])
def test_long_names_and_many_groups_fold_and_all_of_them_is_there(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    topic = "".join(f"topic{number:03}." for number in range(27))
    groups = tuple(f"{'team.' * 30}{number}" for number in range(6))
    partition = partition_modern(topic, 0, 0, 10**12, *(10**11 + number for number in range(6)))
    result = tables(shown_at(width, report_modern(partition, groups=groups), monkeypatch))
    assert len(result) > 1
    for table in result:
        rule = next(number for number, line in enumerate(table) if set(line) == {"─"})
        row = table[rule + 1 :]
        name_width = len(row[0].split()[0])
        assert name_width >= 24
        assert "".join(line[:name_width].strip() for line in row) == topic
        assert row[0].split()[1] == "0"
    titles = "".join("".join(line.split()) for table in result for line in table)
    cells = {word for table in result for line in table for word in line.split()}
    assert {f"{10**11 + number:,}" for number in range(6)} <= cells
    assert {f"{9 * 10**11 - number:,}" for number in range(6)} <= cells
    assert titles.count("team.") >= 6 * 25


#: As the comment of 0.7's ExportZkOffsets has it.
LINE_07 = "/consumers/group1/offsets/topic1/3-0:285038193\n"
ENTRY_07 = GroupOffset("group1", TopicPartition("topic1", 0, 3), 285_038_193)
LINE_MODERN = "group1,topic1,0,285038193\n"
ENTRY_MODERN = GroupOffset("group1", TopicPartition("topic1", 0), 285_038_193)

NAMES = st.text(st.characters(exclude_characters="/\r\n\0", exclude_categories=["Cs"]), min_size=1)
NUMBERS = st.integers(0, 999_999_999)
OFFSETS = st.integers(0, 2**63 - 1)


def test_lines_are_those_of_kafkas_tools() -> None:
    for generation, entry, line in ((BYTES, ENTRY_07, LINE_07), (RECORDS, ENTRY_MODERN, LINE_MODERN)):
        assert export_text([entry], generation) == line
        for text in (line, line.replace("\n", "\r\n"), f"\n{line}\n"):
            assert import_text(text, generation) == (entry,)


def test_the_path_of_a_line_is_a_recorded_node() -> None:
    tree = read_json("zk_tree.json")["stages"]["10_consumer1_two_streams"]["tree"]
    offsets = [node for node in tree if "/offsets/cc-topic/" in node["path"]]
    text = "".join(f"{node['path']}:{node['data']}\n" for node in offsets)
    assert len(offsets) == 6
    entries = import_text(text, BYTES)
    assert entries[0] == GroupOffset("lab-group", TopicPartition("cc-topic", 0, 0), 34)
    assert sorted(export_text(entries, BYTES).splitlines()) == sorted(text.splitlines())


@given(group=NAMES, topic=NAMES, partition=NUMBERS, broker=NUMBERS, offset=OFFSETS)
def test_every_name_comes_back(group: str, topic: str, partition: int, broker: int, offset: int) -> None:
    for generation, tp in (
        (BYTES, TopicPartition(topic, partition, broker)),
        (RECORDS, TopicPartition(topic, partition)),
    ):
        entry = GroupOffset(group, tp, offset)
        assert import_text(export_text([entry], generation), generation) == (entry,)


@given(text=st.text(alphabet='/consumer:,0123-"\n\r \x00ü'))
def test_any_text_is_offsets_or_an_option_error(text: str) -> None:
    for generation in Generation:
        with contextlib.suppress(OptionError):
            assert import_text(text, generation)


@pytest.mark.parametrize("generation", list(Generation))
@pytest.mark.parametrize(("group", "topic"), [("a\nb", "t"), ("g", "t\r"), ("\0", "t"), ("g", "\0t")])
def test_a_name_that_no_line_can_hold_is_not_exported(generation: Generation, group: str, topic: str) -> None:
    with pytest.raises(OptionError, match="holds a line break or a NUL"):
        export_text([GroupOffset(group, TopicPartition(topic, 0, 0), 1)], generation)


def test_a_line_that_is_no_offset_is_named() -> None:
    path = "/consumers/g/offsets/t"
    old = [f"{path}/0-0:", f"{path}/0-0:-1", f"{path}/0-0:9223372036854775808", f"{path}/0:5", "g,t,0,5"]
    old += ["/consumers/g/owners/t/0-0:5", "/consumers//offsets/t/0-0:5"]
    new = ["t,0,5", "g,t,0,-1", "g,t,0,9223372036854775808", "g,t,2147483648,5", ",t,0,5", "g,,0,5"]
    new += ['"g,t,0,5', "g"]
    for generation, first, lines, form in (
        (BYTES, LINE_07, old, "/consumers/GROUP/offsets"),
        (RECORDS, LINE_MODERN, new, "GROUP,TOPIC,PARTITION,OFFSET"),
    ):
        for line in lines:
            with pytest.raises(OptionError, match=f"line 2 is not {form}"):
                import_text(f"{first}{line}\n", generation)
    for text, said in (
        (LINE_07 + LINE_07, "line 2 repeats the partition of line 1"),
        ("\n\n", "holds no offset"),
    ):
        with pytest.raises(OptionError, match=said):
            import_text(text, BYTES)


def test_only_the_groups_that_are_asked_for_are_imported() -> None:
    """Lines of one group may leave its name out."""
    assert import_text("topic1,0,285038193\n", RECORDS, ["group1"]) == (ENTRY_MODERN,)
    text = LINE_07 + LINE_07.replace("group1", "group2")
    assert import_text(text, BYTES, ["group1"]) == (ENTRY_07,)
    with pytest.raises(OptionError, match="no offset of a group of --group"):
        import_text(text, BYTES, ["group3"])


@pytest.mark.parametrize(("text", "generation"), [(LINE_07, BYTES), (LINE_MODERN, RECORDS)])
def test_a_file_that_was_cut_within_a_line_is_an_error_wherever_that_was(
    text: str, generation: Generation
) -> None:
    other = text.replace("group1", "group2")
    for size in range(1, len(text)):
        with pytest.raises(
            OptionError, match=r"^argument --import: (line 2 is not|the last line has no line f)"
        ):
            import_text(other + text[:size], generation)
    assert len(import_text(other + text, generation)) == 2
