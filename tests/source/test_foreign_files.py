"""Log directories in which a file is of another kind: a read has all records, or ends in one line."""

from __future__ import annotations

import os
import shutil
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import fsspec
import pytest
from spark_kafkawire.bounded import bounded
from spark_kafkawire.directories import checkpoints
from spark_kafkawire.directories.files import ENTRIES_BYTES_MAX, FileAccessError, FileSystemOptions, opened
from spark_kafkawire.errors import KafkaWireError
from tests.support.directory_reading import DirectoryRead
from tests.support.golden import CORPUS
from tests.support.log_folders import KILLED, KILLED_END, MARKERS
from tests.support.special_files import KINDS, special_file
from tests.support.table_reading import rows_of

#: A hang is not a slow machine, seconds.
DEADLINE_S: Final = 120.0
#: Sizes of a segment and of another file of zeros, and the memory that a read of one may take, bytes.
SEGMENT_BYTES: Final = 2 << 20
ZEROS_BYTES: Final = 100 << 20
MEMORY_MAX: Final = 32 << 20
FILES: Final = (
    *(
        f"events-0/{name}"
        for name in (
            "00000000000000000000.log",
            "00000000000000000120.log",
            "00000000000000000310.log",
            "00000000000000000310.index",
            "00000000000000000310.timeindex",
            "00000000000000000310.txnindex",
            "00000000000000000402.snapshot",
            checkpoints.LEADER_EPOCHS,
            checkpoints.PARTITION_METADATA,
        )
    ),
    checkpoints.META_PROPERTIES,
    checkpoints.HIGH_WATERMARKS,
    checkpoints.LOG_STARTS,
    checkpoints.CLEANER_OFFSETS,
    checkpoints.RECOVERY_POINTS,
)
#: Reads that open every kind of file, and their offsets: all, and the committed ones from a timestamp on.
READS: Final = (
    {"startingOffsets": "earliest"},
    {"kafka.isolation.level": "read_committed", "startingTimestamp": "1"},
)
#: What an error says for a kind that cannot be opened.
REASONS: Final = {
    **KINDS,
    "link to nothing": "it is a link to a file that does not exist",
    "link to itself": "Too many levels of symbolic links",
    "unreadable": "Permission denied",
}


def offsets(path: Path | str, options: dict[str, str]) -> list[int]:
    return sorted(DirectoryRead(path, subscribe="events", **options).column("offset"))


EXPECTED: Final = [offsets(KILLED, options) for options in READS]


def replaced(path: Path, kind: str) -> None:
    """Put a file of a kind in the place of another one."""
    if kind == "unreadable":
        path.chmod(0)
        return
    content = path.with_name(f"{path.name}.away")
    path.rename(content)
    if kind == "zeros":
        path.touch()
        os.truncate(path, SEGMENT_BYTES if path.suffix == ".log" else ZEROS_BYTES)
    elif kind.startswith("link"):
        targets = {"link": content, "link to nothing": Path("nothing"), "link to itself": path}
        path.symlink_to(targets[kind])
    else:
        special_file(path, kind)


@contextmanager
def without_rights() -> Iterator[None]:
    """As another user: root reads what it has no right to."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def outcome(call: Any, path: str) -> Any:
    """The result of a call, or its error: one line, which names the file."""
    try:
        return bounded(call, DEADLINE_S, "read")
    except KafkaWireError as error:
        message = str(error)
        assert path in message
        assert "\n" not in message
        assert not message.endswith(": ")
        return error


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A copy of a directory, to change, which any user can list."""
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    return Path(shutil.copytree(KILLED, tmp_path / "logs"))


@pytest.mark.parametrize(
    ("name", "kind"),
    # Each file of two kinds, and of the others one file that planning reads, and one that tasks do.
    [
        (name, kind)
        for name in FILES
        for kind in ("link", "zeros", *REASONS)
        if kind in ("folder", "zeros") or name in (FILES[1], checkpoints.META_PROPERTIES)
    ],
)
def test_a_file_of_another_kind_is_an_error_at_once_or_costs_no_record(
    logs: Path, name: str, kind: str
) -> None:
    replaced(logs / name, kind)
    with without_rights() if kind == "unreadable" else nullcontext():
        for options, expected in zip(READS, EXPECTED, strict=True):
            tracemalloc.start()
            try:
                found = outcome(lambda options=options: offsets(logs, options), name)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert peak < MEMORY_MAX
            if isinstance(found, FileAccessError):
                assert kind != "link"
                assert kind == "zeros" or f"{logs / name} cannot be read: {REASONS[kind]}" in str(found)
            elif isinstance(found, KafkaWireError):
                assert kind == "zeros"
            else:
                assert found == expected
        if name.endswith(".log"):
            assert isinstance(found, KafkaWireError) or kind == "link"
        for table in ("segments", "batches"):
            rows = outcome(
                lambda table=table: rows_of({"table": table, "path": str(logs), "subscribe": "events"}), name
            )
            if not isinstance(rows, KafkaWireError):
                assert len({row["file"] for row in rows}) == 4


@pytest.mark.parametrize(
    "kind", ["link", *(kind for kind in REASONS if kind not in ("folder", "unreadable"))]
)
def test_a_folder_of_a_log_that_is_of_another_kind_is_named(logs: Path, kind: str) -> None:
    shutil.copytree(logs / "events-0", logs / "others-0")
    replaced(logs / "events-0", kind)
    found = outcome(lambda: DirectoryRead(logs, **READS[0]).table().num_rows, "events-0")
    if kind == "link":
        assert found == len(EXPECTED[0]) + KILLED_END - len(MARKERS)
    else:
        assert f"{logs / 'events-0'} cannot be read: {REASONS[kind]}" in str(found)


@pytest.mark.parametrize("kind", [kind for kind in REASONS if kind != "unreadable"])
def test_the_last_segment_of_kafka_07_is_a_regular_file(tmp_path: Path, kind: str) -> None:
    logs = Path(shutil.copytree(CORPUS / "broker0", tmp_path / "logs"))
    (logs / ".kafka_cleanshutdown").touch()
    last = max(logs.glob("debian-plain-0/*.kafka"))
    replaced(last, kind)
    read = lambda: DirectoryRead(logs, subscribe="debian-plain", brokers="0").table().num_rows  # noqa: E731
    assert REASONS[kind] in str(outcome(read, last.name))


def test_other_files_beside_a_log_may_be_of_any_kind(logs: Path) -> None:
    for kind in (*KINDS, "link to nothing", "link to itself"):
        for folder in (logs, logs / "events-0"):
            replaced_name = folder / kind.replace(" ", "_")
            replaced_name.touch()
            replaced(replaced_name, kind)
    (logs / "backup-2024").touch()
    assert bounded(lambda: offsets(logs, READS[0]), DEADLINE_S, "read") == EXPECTED[0]


def test_a_segment_that_no_broker_can_open_is_named_with_both_sizes(logs: Path) -> None:
    path = logs / "events-0" / "00000000000000000310.log"
    os.truncate(path, 1 << 40)
    found = outcome(lambda: offsets(logs, READS[0]), str(path))
    assert f"has {1 << 40} bytes, and a broker writes at most {2**31 - 1}" in str(found)


@pytest.mark.parametrize("name", [*FILES[3:7], *FILES[7:]])
def test_a_file_that_is_longer_than_a_broker_writes_is_named_with_both_sizes(logs: Path, name: str) -> None:
    bytes_max = checkpoints.BYTES_MAX if name in FILES[7:] else ENTRIES_BYTES_MAX
    files = opened(str(logs), FileSystemOptions())
    path = logs / name
    path.write_bytes(b"\1" * (bytes_max + 1))
    reason = f"{path} cannot be read: it has {bytes_max + 1} bytes, and a broker writes at most {bytes_max}"
    with pytest.raises(FileAccessError, match=reason):
        files.read_entries(str(path)) if bytes_max == ENTRIES_BYTES_MAX else files.read(str(path), bytes_max)
    path.write_bytes(b"\1" * 100 + bytes(ENTRIES_BYTES_MAX))
    assert files.read_entries(str(path)).rstrip(b"\0") == b"\1" * 100


@pytest.fixture
def memory() -> Iterator[str]:
    """The same directory in a file system of fsspec."""
    system = fsspec.filesystem("memory")
    system.put(str(KILLED), "/foreign", recursive=True)
    yield "memory://foreign"
    system.rm("/foreign", recursive=True)


@pytest.mark.parametrize("kind", ["folder", "zeros"])
@pytest.mark.parametrize("name", FILES[1::3])
def test_a_remote_file_of_another_kind_is_an_error_or_costs_no_record(
    memory: str, name: str, kind: str
) -> None:
    system = fsspec.filesystem("memory")
    system.rm(f"/foreign/{name}")
    if kind == "folder":
        system.pipe(f"/foreign/{name}/object", b"")
    else:
        system.pipe(f"/foreign/{name}", bytes(ENTRIES_BYTES_MAX + 1))
    for options, expected in zip(READS, EXPECTED, strict=True):
        found = outcome(lambda options=options: offsets(memory, options), name)
        if isinstance(found, KafkaWireError):
            assert kind == "zeros" or "Is a directory" in str(found)
        else:
            assert found == expected
            assert not name.endswith(".log")
