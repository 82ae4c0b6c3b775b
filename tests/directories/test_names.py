"""Names of folders and files in a log directory."""

from __future__ import annotations

import pytest

from spark_kafkawire.directories.names import (
    FileKind,
    FileName,
    FileState,
    LogName,
    file_name,
    log_name,
)
from tests.support.cases import for_each


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("events-0", LogName("events", 0)),
        ("a-b-c-12", LogName("a-b-c", 12)),
        ("events--3", LogName("events-", 3)),
        ("a.b_c-2147483647", LogName("a.b_c", 2**31 - 1)),
        ("events-delete-0", LogName("events-delete", 0)),
        ("__consumer_offsets-49", LogName("__consumer_offsets", 49)),
    ],
)
def test_the_partition_follows_the_last_dash(folder: str, expected: LogName) -> None:
    assert log_name(folder) == expected
    assert str(expected) == folder


@pytest.mark.parametrize(
    "folder",
    [
        "events-0.4d5f3a0c9b3f4bb0a4bd0b47ec0ea0cd-delete",
        "events-0.4d5f3a0c9b3f4bb0a4bd0b47ec0ea0cd-future",
        "events-0.4d5f3a0c9b3f4bb0a4bd0b47ec0ea0cd-stray",
    ],
)
def test_logs_that_kafka_does_not_serve_are_passed_over(folder: str) -> None:
    assert log_name(folder) is None


@for_each(
    "folder",
    [
        "",
        "events",
        "-0",
        "events-",
        "events-x",
        "events-00",
        "events-2147483648",
        "events-\u0661",
    ],
)
def test_other_folders_hold_no_log(folder: str) -> None:
    assert log_name(folder) is None


@for_each(
    ("name", "expected"),
    [
        ("00000000000000000042.log", FileName(42, FileKind.LOG)),
        ("00000000000000524291.kafka", FileName(524291, FileKind.V07_LOG)),
        ("00000000000000000042.index", FileName(42, FileKind.OFFSET_INDEX)),
        ("00000000000000000042.timeindex", FileName(42, FileKind.TIME_INDEX)),
        ("00000000000000000042.txnindex", FileName(42, FileKind.TXN_INDEX)),
        ("00000000000000000042.snapshot", FileName(42, FileKind.SNAPSHOT)),
        (
            "00000000000000000042.log.deleted",
            FileName(42, FileKind.LOG, FileState.DELETED),
        ),
        (
            "00000000000000000042.index.cleaned",
            FileName(42, FileKind.OFFSET_INDEX, FileState.CLEANED),
        ),
        ("00000000000000000042.log.swap", FileName(42, FileKind.LOG, FileState.SWAP)),
    ],
)
def test_files_of_segments(name: str, expected: FileName) -> None:
    assert file_name(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "42.log",
        "00000000000000000042.log.tmp",
        "99999999999999999999.log",
        "leader-epoch-checkpoint",
        "leader-epoch-checkpoint.tmp",
        "partition.metadata",
        "00000000000000000042-0000000001.checkpoint",
    ],
)
def test_other_files_are_none_of_a_segment(name: str) -> None:
    assert file_name(name) is None
