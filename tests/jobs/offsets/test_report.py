"""The report of partitions and groups: sizes, lags, and sums of them."""

from __future__ import annotations

import json

import pytest

from spark_kafkawire.jobs.offsets.report import GroupPosition, PartitionReport, Standing
from spark_kafkawire.jobs.offsets.report_json import as_json
from spark_kafkawire.jobs.offsets.wording import printable, size_text, time_text
from spark_kafkawire.model import Generation, PartitionBounds, TopicPartition

from .reports import BROKERS, partition_07, partition_modern, report_07, report_modern

PARTITION = TopicPartition("t", 0, 0)


@pytest.mark.parametrize(
    ("committed", "standing", "lag", "lost"),
    [
        (None, Standing.UNCOMMITTED, None, 0),
        (90, Standing.BEHIND, 50, 10),
        (100, Standing.WITHIN, 50, 0),
        (120, Standing.WITHIN, 30, 0),
        (150, Standing.WITHIN, 0, 0),
        (151, Standing.BEYOND, 0, 0),
    ],
)
def test_lag_is_what_the_log_still_holds_for_the_group(
    committed: int | None, standing: Standing, lag: int | None, lost: int
) -> None:
    at = GroupPosition(committed, PartitionBounds(PARTITION, 100, 150))
    assert (at.standing, at.lag, at.lost) == (standing, lag, lost)


def test_a_partition_that_nobody_serves_has_no_lag_and_no_size() -> None:
    partition = PartitionReport(PARTITION, None, None, committed=(5,))
    [at] = partition.positions
    assert (at.standing, at.lag, at.lost) == (Standing.UNKNOWN, None, 0)
    assert (partition.size, partition.segment_count) == (0, None)


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
    assert (topic.size, topic.segment_count) == (1150, 5)
    total = topic.group(0)
    assert (total.lag, total.lost, total.partition_count, total.size, total.beyond_count) == (
        110,
        10,
        3,
        150,
        1,
    )
    assert (empty.group(0).lag, empty.segment_count) == (None, 0)
    assert report.group(0) == total
    assert [partition.size for partition in report.partitions_on(BROKERS[1])] == [30, 1000]


def test_the_time_of_a_topic_is_that_of_its_first_and_youngest_record() -> None:
    timed, untimed = partition_modern("t", 0, 0, 5), PartitionReport(TopicPartition("t", 1), BROKERS[1], None)
    [topic] = report_modern(timed, untimed).topics
    assert (topic.first_time_ms, topic.max_time_ms) == (timed.first_time_ms, timed.max_time_ms)
    [timeless] = report_modern(untimed).topics
    assert (timeless.first_time_ms, timeless.max_time_ms) == (None, None)


def test_json_of_07_speaks_of_bytes_and_segments() -> None:
    report = report_07(partition_07("t", "1-2", 0, (0, 50), 80, 10), groups=("g",))
    reported = json.loads(json.dumps(as_json(report)))
    assert (reported["topics"], reported["partitions"], reported["bytes"]) == (1, 1, 80)
    assert reported["groups"] == {"g": {"partitions": 1, "lag": 70, "lost": 0, "unknown_partitions": 0}}
    assert reported["logs"] == [
        {
            "topic": "t",
            "partition": 2,
            "broker": 1,
            "earliest": 0,
            "latest": 80,
            "bytes": 80,
            "segments": 2,
            "groups": {"g": {"offset": 10, "lag": 70, "lost": 0}},
        }
    ]


def test_json_of_later_kafka_speaks_of_records_and_times() -> None:
    [partition] = as_json(report_modern(partition_modern("t", 1, 3, 8)))["logs"]
    assert partition == {
        "topic": "t",
        "partition": 1,
        "broker": 1,
        "earliest": 3,
        "latest": 8,
        "records": 5,
        "first_time": 1_700_000_000_000,
        "max_time": 1_700_000_060_999,
    }


def test_json_of_a_partition_that_nobody_serves_is_null_not_zero() -> None:
    [partition] = as_json(report_07(PartitionReport(PARTITION, None, None)))["logs"]
    assert (partition["broker"], partition["earliest"], partition["latest"], partition["bytes"]) == (
        0,
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("size", "generation", "text"),
    [
        (0, Generation.V07, "0 B"),
        (1536, Generation.V07, "1.5 KiB"),
        (1536, Generation.MODERN, "1,536"),
        (None, Generation.V07, "-"),
    ],
)
def test_sizes_read_as_people_say_them(size: int | None, generation: Generation, text: str) -> None:
    assert size_text(size, generation) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "1970-01-01 00:00:00Z"), (-2, "-2 ms"), (1 << 62, f"{1 << 62} ms"), (None, "-")],
)
def test_any_time_that_a_record_may_hold_is_shown(ms: int | None, text: str) -> None:
    assert time_text(ms) == text


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain.topic-größe", "plain.topic-größe"),
        ("\x1b[31m\n", "\\x1b[31m\\x0a"),
        ("a\u202eb", "a\\u202eb"),
        ("\ud800\U000e0001", "\\ud800\\U000e0001"),
        ("a\\x1b", "a\\\\x1b"),
    ],
)
def test_every_character_of_a_name_shows(name: str, shown: str) -> None:
    assert printable(name) == shown
    assert printable(name).isprintable()
