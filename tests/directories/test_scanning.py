"""Segment files: windows, indexes, walks over them, and where a time or an offset is."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import fsspec
import numpy as np
import pytest

from spark_kafkawire.directories import LogName
from spark_kafkawire.directories.file_systems import ArrowFiles, FsspecFiles
from spark_kafkawire.directories.files import (
    FileAccessError,
    Files,
    FileSystemOptions,
    SegmentSlice,
    open_files,
    windows,
)
from spark_kafkawire.directories.scanner import SegmentFile, Sound, scan_segment
from spark_kafkawire.directories.scanning import generation_in, scan
from spark_kafkawire.directories.side_files import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    AbortedTransaction,
    OffsetIndex,
    aborted_transactions,
    offset_index,
    time_index,
)
from spark_kafkawire.errors import CorruptDataError
from spark_kafkawire.model import Generation
from spark_kafkawire.records.log_index import (
    BASE_OFFSET,
    MAX_TIMESTAMP,
    NEXT_OFFSET,
    POS,
    SIZE,
    BatchIndex,
    index_batches,
)
from tests.clients.reading.damaged_directories import SEGMENT_ENTRIES, written
from tests.records.damaged_logs import (
    KINDS,
    DamagedLog,
    damaged_log,
    is_free,
    may_be_lost,
    may_show_content,
)
from tests.support.failing_case import failing_case
from tests.support.golden import CORPUS
from tests.support.log_folders import (
    ABORTED,
    KILLED,
    KILLED_4,
    KILLED_END,
    START_OFFSET,
    STOPPED,
    STOPPED_END,
)
from tests.support.short_and_long import short_and_long

EVENTS = LogName("events", 0)


def test_a_directory_of_apache_kafka() -> None:
    directory = scan(str(STOPPED))
    assert EVENTS in directory.logs
    folder = directory.log(EVENTS)
    assert folder.generation is Generation.MODERN
    assert [item.base_offset for item in folder.segments] == [0, 120, 240, 310]
    assert all(item.offset_index and item.time_index for item in folder.segments)
    assert [item.txn_index is not None for item in folder.segments] == [False, False, False, True]
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
    assert [item.base_offset for item in folder.segments] == [0, 524291]


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
    assert [item.base_offset for item in directory.log(EVENTS).segments] == [120, 240, 310]


def test_a_segment_whose_rename_was_interrupted_is_listed_apart(logs: Path) -> None:
    folder = logs / "events-0"
    for suffix in ("log", "index", "timeindex"):
        path = folder / f"00000000000000000120.{suffix}"
        path.rename(path.with_name(f"{path.name}.swap"))
    result = scan(str(logs)).log(EVENTS)
    assert [item.base_offset for item in result.segments] == [0, 240, 310]
    assert [item.base_offset for item in result.swapped] == [120]
    assert result.swapped[0].offset_index is not None
    # A split that had not written all of its segments is undone.
    (folder / "00000000000000000060.log.cleaned").touch()
    assert scan(str(logs)).log(EVENTS).swapped == ()


def test_a_checkpoint_that_is_damaged_is_named(logs: Path) -> None:
    (logs / HIGH_WATERMARKS).write_text("0\n5\n")
    with pytest.raises(
        CorruptDataError, match=f"{HIGH_WATERMARKS}: the file is damaged: it says that it has '5' entries"
    ):
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
    with pytest.raises(FileAccessError, match=r"folder of one log; give the folder above .*subscribe=events"):
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
        open_files(uri, FileSystemOptions())
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("uri", ["\0", "/logs\0", "file:///logs\0", "s3://user:hush@[bucket/logs"])
def test_what_is_no_path_is_refused_in_one_line(uri: str) -> None:
    with pytest.raises(FileAccessError, match=r"^option path: [ -~]+$") as refused:
        open_files(uri, FileSystemOptions())
    assert "hush" not in str(refused.value)


def test_an_endpoint_that_is_no_address_is_refused() -> None:
    with pytest.raises(FileAccessError, match=r"cannot be opened: Invalid IPv6 URL"):
        open_files("s3://bucket/logs", FileSystemOptions(endpoint="[::1"))


def test_schemes_that_nothing_knows_are_refused() -> None:
    with pytest.raises(FileAccessError) as unknown:
        open_files("nothing://bucket/logs", FileSystemOptions())
    assert "\n" not in str(unknown.value)


def test_ends_of_the_recordings_differ() -> None:
    assert STOPPED_END < KILLED_END


def _opened(kind: str, folder: Path) -> Files:
    """A local folder, also through pyarrow and fsspec, whose reads are requested ahead."""
    if kind == "arrow":
        from pyarrow.fs import LocalFileSystem

        return Files("local", str(folder), False, ArrowFiles(LocalFileSystem(), is_flat=False))
    if kind == "fsspec":
        return Files("local", str(folder), False, FsspecFiles(fsspec.filesystem("file"), "file"))
    return open_files(str(folder), FileSystemOptions())


_FILE_SYSTEMS = pytest.mark.parametrize("kind", ["local", "arrow", "fsspec"])


@_FILE_SYSTEMS
@pytest.mark.parametrize(
    ("pos", "stop"), [(0, 1000), (0, 1001), (7, 993), (5, 5), (999, 1000), (0, 64), (0, 65)]
)
def test_windows_are_the_bytes_of_the_file(tmp_path: Path, kind: str, pos: int, stop: int) -> None:
    data = bytes(index * 7 % 251 for index in range(1001))
    (tmp_path / "file").write_bytes(data)
    files = _opened(kind, tmp_path)
    path = str(tmp_path / "file")
    result = [bytes(frame[start:]) for frame, start in windows(files, path, pos, stop, window_bytes=64)]
    assert b"".join(result) == data[pos:stop]
    assert all(len(item) == 64 for item in result[:-1])


@_FILE_SYSTEMS
def test_a_file_that_ends_early_gives_what_it_has(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_bytes(bytes(100))
    files = _opened(kind, tmp_path)
    result = [
        len(frame) - start for frame, start in windows(files, str(tmp_path / "file"), 0, 300, window_bytes=64)
    ]
    assert sum(result) == 100


@_FILE_SYSTEMS
def test_a_missing_file_stays_one(tmp_path: Path, kind: str) -> None:
    files = _opened(kind, tmp_path)
    with pytest.raises(FileNotFoundError):
        list(windows(files, str(tmp_path / "missing"), 0, 10))


DIRECTORIES = pytest.mark.parametrize("directory", [STOPPED, KILLED, KILLED_4], ids=lambda path: path.name)


def segments(directory: Path) -> list[Path]:
    return sorted((directory / "events-0").glob("*.log"))


@DIRECTORIES
def test_an_offset_index_finds_the_batch_of_each_offset(directory: Path) -> None:
    for log in segments(directory):
        batches = index_batches(log.read_bytes())
        index = offset_index(log.with_suffix(".index").read_bytes(), int(log.stem))
        assert index.count > 0
        assert set(index.positions.tolist()) <= set(batches.column(POS).tolist())
        for offset in range(int(log.stem), int(batches.next_offset or 0)):
            pos = index.position_of(offset)
            [row] = np.flatnonzero(batches.column(POS) == pos)
            assert batches.table[row, BASE_OFFSET] <= offset
        assert index.last_position(log.stat().st_size) == index.positions[-1]


@DIRECTORIES
def test_a_time_index_names_an_offset_before_the_records_of_a_timestamp(directory: Path) -> None:
    for log in segments(directory):
        batches = index_batches(log.read_bytes())
        index = time_index(log.with_suffix(".timeindex").read_bytes(), int(log.stem))
        assert index.count > 0
        for time_ms, offset in zip(index.times_ms.tolist(), index.offsets.tolist(), strict=True):
            before = batches.column(NEXT_OFFSET) <= offset
            assert (batches.column(MAX_TIMESTAMP)[before] <= time_ms).all()


def test_indexes_of_a_killed_broker_end_in_zeros() -> None:
    stopped = (STOPPED / "events-0" / "00000000000000000310.index").read_bytes()
    killed = (KILLED / "events-0" / "00000000000000000310.index").read_bytes()
    assert offset_index(stopped, 310).is_trimmed
    assert killed.endswith(bytes(100))
    cut = offset_index(killed, 310)
    assert not cut.is_trimmed
    assert cut.offsets.tolist()[: len(stopped) // 8] == offset_index(stopped, 310).offsets.tolist()
    times = (KILLED / "events-0" / "00000000000000000310.timeindex").read_bytes()
    assert not time_index(times, 310).is_trimmed


def test_an_index_of_nothing_is_empty() -> None:
    for data in (b"", bytes(7), bytes(1024)):
        assert offset_index(data, 5).count == 0
        assert offset_index(data, 5).position_of(99) == 0
        assert time_index(data, 5).count == 0
        assert time_index(data, 5).offset_before(99) is None


def test_an_index_of_aborted_transactions() -> None:
    data = (STOPPED / "events-0" / "00000000000000000310.txnindex").read_bytes()
    [result] = aborted_transactions(data)
    first, last = ABORTED
    assert (result.first_offset, result.last_offset) == (first, last + 1)
    assert result.producer_id >= 0
    assert aborted_transactions(data[:-1]) == ()
    assert aborted_transactions(b"") == ()


@pytest.mark.parametrize(
    "numbers", [(1, 1, 0, 5, 6), (0, -1, 0, 5, 6), (0, 1, 6, 5, 6), (0, 1, -1, 5, 6)], ids=str
)
def test_an_entry_that_cannot_be_is_damage(numbers: tuple[int, ...]) -> None:
    version, *others = numbers
    data = version.to_bytes(2, "big") + b"".join(item.to_bytes(8, "big", signed=True) for item in others)
    with pytest.raises(CorruptDataError):
        aborted_transactions(data)


def test_entries_have_names() -> None:
    data = b"".join([(0).to_bytes(2, "big"), *(item.to_bytes(8, "big") for item in (7, 10, 20, 15))])
    assert aborted_transactions(data) == (AbortedTransaction(7, 10, 20, 15),)


Span = tuple[int, int]


@short_and_long("count", short=16, long=1_000)
@pytest.mark.parametrize(("form", "codec", "is_mixed"), KINDS)
def test_sound_batches_are_those_of_the_log(
    form: int, codec: str, is_mixed: bool, count: int, tmp_path: Path
) -> None:
    files = open_files(str(tmp_path), FileSystemOptions())
    for seed in range(count):
        with failing_case(f"damaged_log({seed}, {form}, {codec!r}, is_mixed={is_mixed})"):
            log = damaged_log(seed, form, codec, is_mixed=is_mixed)
            log_slice = written(log, tmp_path, is_indexed=seed % 2 == 0)
            window_bytes = (150, 1000, 8 << 20)[seed % 3]
            for number, segment in enumerate(log_slice.segments):
                valid = spans(files, tmp_path, segment, log_slice.generation, window_bytes)
                check(log, number * SEGMENT_ENTRIES, segment.size, valid)
            for path in tmp_path.iterdir():
                path.unlink()


def spans(
    files: Files, folder: Path, segment: SegmentSlice, generation: Generation, window_bytes: int
) -> set[Span]:
    """The sound batches as positions in the file; all other bytes are damage."""
    path = folder / segment.name
    file = SegmentFile(str(path), segment.size, segment.base_offset, segment.next_base, generation)

    def find_index() -> OffsetIndex | None:
        index = path.with_suffix(".index")
        return offset_index(index.read_bytes(), segment.base_offset) if index.exists() else None

    valid, parts = set[Span](), list[Span]()
    for part in scan_segment(files, file, find_index, window_bytes=window_bytes):
        if not isinstance(part, Sound):
            parts.append((part.pos, part.stop))
            continue
        index = part.index
        if isinstance(index, BatchIndex):
            starts, sizes = index.column(POS), index.column(SIZE)
        else:
            starts, sizes = index.pos, index.payload_pos + index.payload_size - index.pos
        result = [
            (part.pos + start, part.pos + start + size)
            for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)
        ]
        valid.update(result)
        parts += result
    assert all(left[1] == right[0] for left, right in pairwise(parts))
    assert not parts or (parts[0][0], parts[-1][1]) == (0, segment.size)
    return valid


def check(log: DamagedLog, first: int, size: int, sound: set[Span]) -> None:
    """Compare the sound batches of a segment with the entries of the log from ``first`` on."""
    begin = log.positions[first]
    entries = {
        (log.positions[i] - begin, log.positions[i + 1] - begin): i
        for i in range(first, min(first + SEGMENT_ENTRIES, len(log.entries)))
    }
    assert max(stop for _, stop in entries) == size
    if not is_free(log) and not may_show_content(log):
        # A damaged compressed message of magic 0 or 1 may hold its content as it is, with right checksums.
        held = [span for span, i in entries.items() if log.form < 2 and log.is_damaged(i)]
        for span in sound - entries.keys():
            assert any(start < span[0] and span[1] <= stop for start, stop in held), f"{span} was never held"
        assert not [i for span in sound & entries.keys() if log.is_damaged(i := entries[span])]
    for span, index in entries.items():
        if not log.is_damaged(index) and span not in sound:
            assert may_be_lost(log, index), f"entry {index} was lost, and no byte of it was flipped"
