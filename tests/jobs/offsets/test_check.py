"""Findings of a check of groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_kafkawire.jobs.offsets.check import complaints
from spark_kafkawire.jobs.offsets.report import GroupOffset, PartitionReport
from spark_kafkawire.model import TopicPartition

from .reports import partition_07, partition_modern, report_07, report_modern

UNSERVED = PartitionReport(TopicPartition("t", 2, 0), None, None, committed=(7,))


def test_offsets_in_their_partitions_are_no_complaint() -> None:
    ends = [
        partition_07("t", f"0-{number}", 5, (5,), 9, offset) for number, offset in enumerate((5, 7, 9, None))
    ]
    assert complaints(report_07(*ends, groups=("g",))) == []


@pytest.mark.parametrize(
    ("partitions", "complaint"),
    [
        (
            [partition_07("t", "0-0", 5, (5,), 9, 2)],
            "1 offset before the start of the log (3 B lost), t 0-0 first",
        ),
        (
            [partition_07("t", f"0-{number}", 5, (5,), 9, 10) for number in range(2)],
            "2 offsets beyond the end of the log, t 0-0 first",
        ),
        ([UNSERVED], "1 offset in partitions that no broker serves now, t 0-2 first"),
    ],
)
def test_an_offset_outside_of_its_log_is_one(partitions: list[PartitionReport], complaint: str) -> None:
    assert complaints(report_07(*partitions, groups=("g",))) == [f"group 'g': {complaint}"]


def test_an_offset_in_a_partition_that_is_not_there_is_one_of_its_group_alone() -> None:
    report = report_07(partition_07("t", "0-0", 0, (0,), 9, 3, 4), groups=("g", "h"))
    unknown = tuple(GroupOffset("h", TopicPartition("t", number, 1), 5) for number in range(1200))
    assert complaints(replace(report, unknown=unknown)) == [
        "group 'h': 1,200 offsets in partitions that no broker holds, t 1-0 first"
    ]


def test_a_group_without_any_offset_is_one() -> None:
    assert complaints(report_modern(partition_modern("t", 0, 0, 9, None), groups=("typo\n",))) == [
        "group 'typo\\n' has committed no offset here"
    ]


def test_all_that_is_wrong_is_told() -> None:
    report = report_modern(
        partition_modern("t", 0, 5, 9, 1), partition_modern("t", 1, 5, 9, 11), groups=("g",)
    )
    assert complaints(report) == [
        "group 'g': 1 offset before the start of the log (4 lost), t 0 first",
        "group 'g': 1 offset beyond the end of the log, t 1 first",
    ]
