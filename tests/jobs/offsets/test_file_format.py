"""Files of committed offsets: the lines of Kafka's own tools."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError
from spark_kafkawire.jobs.offsets.file_format import exported, imported
from spark_kafkawire.jobs.offsets.report import GroupOffset
from spark_kafkawire.model import Generation, TopicPartition
from tests.support.golden import read_json

BYTES, RECORDS = Generation.V07, Generation.MODERN
#: As the comment of 0.7's ExportZkOffsets has it.
LINE_07 = "/consumers/group1/offsets/topic1/3-0:285038193\n"
ENTRY_07 = GroupOffset("group1", TopicPartition("topic1", 0, 3), 285_038_193)
LINE_MODERN = "group1,topic1,0,285038193\n"
ENTRY_MODERN = GroupOffset("group1", TopicPartition("topic1", 0), 285_038_193)

NAMES = st.text(st.characters(exclude_characters="/\r\n\0", exclude_categories=["Cs"]), min_size=1)
NUMBERS = st.integers(0, 999_999_999)
OFFSETS = st.integers(0, 2**63 - 1)


@pytest.mark.parametrize(
    ("generation", "entry", "line"), [(BYTES, ENTRY_07, LINE_07), (RECORDS, ENTRY_MODERN, LINE_MODERN)]
)
def test_lines_are_those_of_kafkas_tools(generation: Generation, entry: GroupOffset, line: str) -> None:
    assert exported([entry], generation) == line
    assert imported(line, generation) == (entry,)
    assert imported(line.replace("\n", "\r\n"), generation) == (entry,)
    assert imported(f"\n{line}\n", generation) == (entry,)


def test_the_path_of_a_line_is_a_recorded_node() -> None:
    tree = read_json("zk_tree.json")["stages"]["10_consumer1_two_streams"]["tree"]
    offsets = [node for node in tree if "/offsets/cc-topic/" in node["path"]]
    text = "".join(f"{node['path']}:{node['data']}\n" for node in offsets)
    assert len(offsets) == 6
    entries = imported(text, BYTES)
    assert entries[0] == GroupOffset("lab-group", TopicPartition("cc-topic", 0, 0), 34)
    assert sorted(exported(entries, BYTES).splitlines()) == sorted(text.splitlines())


@given(group=NAMES, topic=NAMES, partition=NUMBERS, broker=NUMBERS, offset=OFFSETS)
def test_every_name_comes_back(group: str, topic: str, partition: int, broker: int, offset: int) -> None:
    for generation, tp in (
        (BYTES, TopicPartition(topic, partition, broker)),
        (RECORDS, TopicPartition(topic, partition)),
    ):
        entry = GroupOffset(group, tp, offset)
        assert imported(exported([entry], generation), generation) == (entry,)


@given(text=st.text(alphabet='/consumer:,0123-"\n\r \x00ü'))
def test_any_text_is_offsets_or_an_option_error(text: str) -> None:
    for generation in Generation:
        with contextlib.suppress(OptionError):
            assert imported(text, generation)


@pytest.mark.parametrize("generation", list(Generation))
@pytest.mark.parametrize(("group", "topic"), [("a\nb", "t"), ("g", "t\r"), ("\0", "t"), ("g", "\0t")])
def test_a_name_that_no_line_can_hold_is_not_exported(generation: Generation, group: str, topic: str) -> None:
    with pytest.raises(OptionError, match="holds a line break or a NUL"):
        exported([GroupOffset(group, TopicPartition(topic, 0, 0), 1)], generation)


@pytest.mark.parametrize(
    "line",
    [
        "/consumers/g/offsets/t/0-0:",
        "/consumers/g/offsets/t/0-0:-1",
        "/consumers/g/offsets/t/0-0:9223372036854775808",
        "/consumers/g/offsets/t/0:5",
        "/consumers/g/owners/t/0-0:5",
        "/consumers//offsets/t/0-0:5",
        "g,t,0,5",
    ],
)
def test_a_line_that_is_no_offset_of_07_is_named(line: str) -> None:
    with pytest.raises(OptionError, match=r"line 2 is not /consumers/GROUP/offsets"):
        imported(f"{LINE_07}{line}\n", BYTES)


@pytest.mark.parametrize(
    "line",
    [
        "t,0,5",
        "g,t,0,-1",
        "g,t,0,9223372036854775808",
        "g,t,2147483648,5",
        ",t,0,5",
        "g,,0,5",
        '"g,t,0,5',
        "g",
    ],
)
def test_a_line_that_is_no_offset_of_later_kafka_is_named(line: str) -> None:
    with pytest.raises(OptionError, match="line 2 is not GROUP,TOPIC,PARTITION,OFFSET"):
        imported(f"{LINE_MODERN}{line}\n", RECORDS)


def test_lines_of_one_group_may_leave_its_name_out() -> None:
    assert imported("topic1,0,285038193\n", RECORDS, ["group1"]) == (ENTRY_MODERN,)


def test_only_the_groups_that_are_asked_for_are_imported() -> None:
    text = LINE_07 + LINE_07.replace("group1", "group2")
    assert imported(text, BYTES, ["group1"]) == (ENTRY_07,)
    with pytest.raises(OptionError, match="no offset of a group of --group"):
        imported(text, BYTES, ["group3"])


def test_a_partition_that_is_there_twice_is_an_error() -> None:
    with pytest.raises(OptionError, match="line 2 repeats the partition of line 1"):
        imported(LINE_07 + LINE_07, BYTES)


@pytest.mark.parametrize(("text", "generation"), [(LINE_07, BYTES), (LINE_MODERN, RECORDS)])
def test_a_file_that_was_cut_within_a_line_is_an_error_wherever_that_was(
    text: str, generation: Generation
) -> None:
    other = text.replace("group1", "group2")
    for size in range(1, len(text)):
        with pytest.raises(
            OptionError, match=r"^argument --import: (line 2 is not|the last line has no line f)"
        ):
            imported(other + text[:size], generation)
    assert len(imported(other + text, generation)) == 2


def test_an_empty_file_is_an_error() -> None:
    with pytest.raises(OptionError, match="holds no offset"):
        imported("\n\n", BYTES)
