"""Logs below a path."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spark_kafkawire.directories.checkpoints import HIGH_WATERMARKS, LOG_STARTS
from spark_kafkawire.directories.files import FileAccessError, FileSystemOptions, opened
from spark_kafkawire.directories.names import LogName
from spark_kafkawire.directories.scanning import generation_in, scan
from spark_kafkawire.errors import CorruptDataError
from spark_kafkawire.model import Generation
from tests.support.golden import CORPUS
from tests.support.log_folders import KILLED_END, START_OFFSET, STOPPED, STOPPED_END

EVENTS = LogName("events", 0)


def test_a_directory_of_apache_kafka() -> None:
    directory = scan(str(STOPPED))
    assert EVENTS in directory.logs
    folder = directory.log(EVENTS)
    assert folder.generation is Generation.MODERN
    assert [each.base_offset for each in folder.segments] == [0, 120, 240, 310]
    assert all(each.offset_index and each.time_index for each in folder.segments)
    assert [each.txn_index is not None for each in folder.segments] == [
        False,
        False,
        False,
        True,
    ]
    assert max(folder.snapshots) == STOPPED_END
    assert directory.offsets(LOG_STARTS) == {EVENTS: START_OFFSET}
    assert directory.offsets(HIGH_WATERMARKS)[EVENTS] == STOPPED_END
    assert directory.properties()["node.id"] == "1"
    assert directory.properties(EVENTS)["version"] == "0"
    assert directory.epochs(EVENTS)[0].epoch == 0


def test_a_directory_of_kafka_07() -> None:
    directory = scan((CORPUS / "broker0").as_uri())
    assert set(directory.topics) == {"debian-gzip", "debian-plain", "debian-snappy"}
    directory.list_logs(sorted(directory.logs))
    folder = directory.log(LogName("debian-plain", 0))
    assert folder.generation is Generation.V07
    assert [each.base_offset for each in folder.segments] == [0, 524291]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A copy of a directory, to change."""
    return shutil.copytree(STOPPED, tmp_path / "kafka-logs")


def test_files_that_kafka_removes_are_passed_over(logs: Path) -> None:
    folder = logs / "events-0"
    (folder / "00000000000000000000.log").rename(folder / "00000000000000000000.log.deleted")
    (folder / "00000000000000000120.log.cleaned").touch()
    (folder / "00000000000000000500.log.tmp").touch()
    shutil.copytree(folder, logs / "gone-0.0123456789abcdef0123456789abcdef-delete")
    shutil.copytree(folder, logs / "moved-0.0123456789abcdef0123456789abcdef-future")
    shutil.copytree(folder, logs / "other-0.0123456789abcdef0123456789abcdef-stray")
    directory = scan(str(logs))
    assert not {"gone", "moved", "other"}.intersection(directory.topics)
    assert [each.base_offset for each in directory.log(EVENTS).segments] == [
        120,
        240,
        310,
    ]


def test_a_segment_whose_rename_was_interrupted_is_listed_apart(logs: Path) -> None:
    folder = logs / "events-0"
    for suffix in ("log", "index", "timeindex"):
        path = folder / f"00000000000000000120.{suffix}"
        path.rename(path.with_name(f"{path.name}.swap"))
    found = scan(str(logs)).log(EVENTS)
    assert [each.base_offset for each in found.segments] == [0, 240, 310]
    assert [each.base_offset for each in found.swapped] == [120]
    assert found.swapped[0].offset_index is not None
    # A split that had not written all of its segments is undone.
    (folder / "00000000000000000060.log.cleaned").touch()
    assert scan(str(logs)).log(EVENTS).swapped == ()


def test_a_checkpoint_that_is_damaged_is_named(logs: Path) -> None:
    (logs / HIGH_WATERMARKS).write_text("0\n5\n")
    with pytest.raises(CorruptDataError, match=f"{HIGH_WATERMARKS}: it says that it has '5' entries"):
        scan(str(logs)).offsets(HIGH_WATERMARKS)
    (logs / HIGH_WATERMARKS).unlink()
    assert scan(str(logs)).offsets(HIGH_WATERMARKS) == {}


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileAccessError, match="missing' does not exist; on a cluster it must be there"):
        scan(str(tmp_path / "missing"))


def test_a_folder_without_a_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileAccessError, match="no Kafka log is below it"):
        scan(str(tmp_path))
    (tmp_path / "file").touch()
    with pytest.raises(FileAccessError, match="cannot be read: Not a directory"):
        scan(str(tmp_path / "file"))


def test_the_folder_that_is_meant_is_named(logs: Path) -> None:
    with pytest.raises(FileAccessError, match=r"but there are some below .*kafka-logs; give these paths"):
        scan(str(logs.parent))
    with pytest.raises(
        FileAccessError,
        match=r"folder of one log; give the folder above .*subscribe=events",
    ):
        scan(str(logs / "events-0"))


def test_a_folder_of_a_broker_that_has_the_name_of_a_log_is_no_log(logs: Path) -> None:
    logs.rename(logs.with_name("kafka-logs-1"))
    with pytest.raises(FileAccessError, match=r"there are some below .*kafka-logs-1; give these paths"):
        generation_in(scan(str(logs.parent)))
    (logs.with_name("empty-0")).mkdir()
    shutil.rmtree(logs.with_name("kafka-logs-1"))
    with pytest.raises(FileAccessError, match="no Kafka log is below it"):
        generation_in(scan(str(logs.parent)))


@pytest.mark.parametrize(
    "uri",
    [
        "s3://user:hush@bucket/logs",
        "s3://hush@bucket/logs",
        "abfs://container:hush@account.dfs.core.windows.net/logs",
        "abfss://container@account.dfs.core.windows.net/logs?client_secret=hush",
        "webhdfs://node:9870/logs?token=hush",
    ],
)
def test_a_path_with_credentials_is_refused_and_not_shown(uri: str) -> None:
    with pytest.raises(FileAccessError, match="holds credentials") as refused:
        opened(uri, FileSystemOptions())
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("uri", ["\0", "/logs\0", "file:///logs\0", "s3://user:hush@[bucket/logs"])
def test_what_is_no_path_is_refused_in_one_line(uri: str) -> None:
    with pytest.raises(FileAccessError, match=r"^path: [ -~]+$") as refused:
        opened(uri, FileSystemOptions())
    assert "hush" not in str(refused.value)


def test_an_endpoint_that_is_no_address_is_refused() -> None:
    with pytest.raises(FileAccessError, match=r"cannot be opened: Invalid IPv6 URL"):
        opened("s3://bucket/logs", FileSystemOptions(endpoint="[::1"))


def test_schemes_that_nothing_knows_are_refused() -> None:
    with pytest.raises(FileAccessError) as unknown:
        opened("nothing://bucket/logs", FileSystemOptions())
    assert "\n" not in str(unknown.value)


def test_ends_of_the_recordings_differ() -> None:
    assert STOPPED_END < KILLED_END
