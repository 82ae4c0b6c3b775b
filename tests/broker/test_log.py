"""Edges of the log that no recording touches: partial flushes, exact sizes, races."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_kafkawire.broker import BrokerConfig
from spark_kafkawire.broker.log import FileSlice, Log, LogLimits
from spark_kafkawire.broker.log_directory import LogDirectory, check_topic
from spark_kafkawire.errors import BrokerError
from spark_kafkawire.protocol.v07 import EARLIEST_TIME, LATEST_TIME
from spark_kafkawire.protocol.v07.error_codes import ErrorCode
from tests.support.cases import for_each

NEVER = 1 << 60


def open_log(folder: Path, *, segment_size_max: int = 100, flush_interval: int = 1) -> Log:
    return Log(
        folder, LogLimits(segment_size_max, NEVER, flush_interval), recover=False, clock_ms=lambda: 5000
    )


def segment(folder: Path, start_offset: int) -> Path:
    return folder / f"{start_offset:020d}.kafka"


def test_readers_see_the_flushed_part_of_a_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, flush_interval=3)
    log.append(b"a" * 10, 1)
    log.append(b"b" * 10, 2)
    log.append(b"c" * 10, 1)
    assert log.read(0, 1000) == FileSlice(segment(tmp_path, 0), 0, 20)
    assert log.read(20, 1000) is None
    assert log.offsets_before(LATEST_TIME, 1) == (20,)
    with pytest.raises(BrokerError):
        log.read(21, 1000)
    log.flush()
    assert log.read(15, 1000) == FileSlice(segment(tmp_path, 0), 15, 15)


def test_a_flush_without_new_messages_shows_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(b"holds no message", 0)
    log.flush()
    assert log.offsets_before(LATEST_TIME, 10) == (0,)
    log.append(b"one", 1)
    assert log.offsets_before(LATEST_TIME, 10) == (19, 0)


def test_a_segment_of_exactly_the_largest_size_is_not_closed(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_size_max=10)
    log.append(b"x" * 10, 1)
    log.append(b"y", 1)
    log.append(b"z", 1)
    assert [(each.start_offset, each.size) for each in log.segments] == [(0, 11), (11, 1)]
    assert log.read(10, 100) == FileSlice(segment(tmp_path, 0), 10, 1)
    assert log.read(11, 100) == FileSlice(segment(tmp_path, 11), 0, 1)


def test_closing_a_segment_makes_all_of_it_visible(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_size_max=10, flush_interval=1000)
    log.append(b"x" * 11, 1)
    assert log.offsets_before(LATEST_TIME, 10) == (0,)
    log.append(b"y", 1)
    assert log.offsets_before(LATEST_TIME, 10) == (11, 0)


def test_a_negative_size_reads_as_java_computes_and_is_nothing_at_the_end(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(b"x" * 10, 1)
    assert log.read(3, -5) == FileSlice(segment(tmp_path, 0), 3, -5)
    assert log.read(10, -5) is None


def test_the_earliest_offset_is_one_whatever_is_asked(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_size_max=1)
    for _ in range(3):
        log.append(b"xx", 1)
    assert log.offsets_before(EARLIEST_TIME, 10) == (0,)
    assert log.offsets_before(EARLIEST_TIME, 0) == ()
    assert log.offsets_before(LATEST_TIME, 10) == (6, 4, 2, 0)
    assert log.offsets_before(4999, 10) == ()
    assert log.offsets_before(5000, 2) == (6, 4)


def test_an_append_that_fails_leaves_the_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    log.append(b"kept", 1)
    written: list[int] = []

    def write_half(descriptor: int, data: memoryview) -> int:
        if written:
            raise OSError(28, "No space left on device")
        written.append(real_write(descriptor, data[:2]))
        return written[0]

    real_write = os.write
    with monkeypatch.context() as patch:
        patch.setattr("os.write", write_half)
        with pytest.raises(OSError, match="No space left"):
            log.append(b"lost", 1)
    assert segment(tmp_path, 0).read_bytes() == b"kept"
    log.append(b"next", 1)
    assert segment(tmp_path, 0).read_bytes() == b"keptnext"
    assert log.offsets_before(LATEST_TIME, 1) == (8,)


def test_offsets_of_a_segment_that_was_just_deleted_count_it_as_ancient(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_size_max=1)
    log.append(b"xx", 1)
    log.append(b"yy", 1)
    segment(tmp_path, 0).unlink()
    assert log.offsets_before(0, 10) == (0,)


def open_directory(log_dir: Path, **properties: str) -> LogDirectory:
    return LogDirectory(
        BrokerConfig.from_properties(
            {
                "brokerid": "0",
                "log.dir": str(log_dir),
                "num.partitions": "3",
                "log.flush.interval": "1",
                **{name.replace("_", "."): text for name, text in properties.items()},
            }
        )
    )


def test_a_topic_is_new_once_whatever_partitions_it_gets(tmp_path: Path) -> None:
    logs, new = open_directory(tmp_path), list[str]()
    logs.on_new_topic = new.append
    for partition in (2, 0, 2):
        logs.get_or_create("t", partition)
    assert new == ["t"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t-0", "t-2"]
    assert logs.get("t", 1) is None


def test_retention_keeps_what_would_go_below_the_size(tmp_path: Path) -> None:
    logs = open_directory(tmp_path, log_retention_size="20", log_file_size="5")
    log = logs.get_or_create("t", 0)
    for _ in range(4):
        log.append(b"x" * 10, 1)
    assert logs.delete_old() == 2
    assert log.size == 20
    log.append(b"x" * 9, 1)
    assert logs.delete_old() == 0


@for_each("topic", ["a", "a-b", "ü", "rocket-🚀", "x" * 255, "🚀" * 127 + "x", "a b", "..."])
def test_legal_topics_are_those_of_0_7_2(topic: str) -> None:
    check_topic(topic, 255)


@for_each(
    "topic",
    [
        "",
        ".",
        "..",
        "a/b",
        "a\0",
        "a\x1f",
        "\x7f",
        "\x9f",
        "\ue000",
        "\uf8ff",
        "\ufff0",
        "\ufffd",
        "x" * 256,
        "🚀" * 128,
    ],
)
def test_illegal_topics_are_those_of_0_7_2(topic: str) -> None:
    with pytest.raises(BrokerError) as raised:
        check_topic(topic, 255)
    assert raised.value.code == ErrorCode.UNKNOWN


def test_a_topic_that_ends_in_a_number_finds_its_logs_again(tmp_path: Path) -> None:
    open_directory(tmp_path).get_or_create("a-1", 2)
    logs = open_directory(tmp_path)
    assert logs.topics == ("a-1",)
    assert logs.get("a-1", 2)
