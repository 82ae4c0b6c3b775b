"""Tables of log directories that real brokers wrote, also damaged, cut and deleted ones."""

from __future__ import annotations

import json
import pickle
import shutil
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.directories import scanner
from spark_kafkawire.directories.files import FileSystemOptions, open_files
from spark_kafkawire.directories.scanner import Damaged, SegmentFile, Sound, scan_segment
from spark_kafkawire.errors import OptionError, UnknownTopicError
from spark_kafkawire.model import Generation
from spark_kafkawire.options.selection import DIRECTORY_TABLES
from spark_kafkawire.tables import catalogue
from tests.support.directory_reading import DirectoryRead
from tests.support.golden import CORPUS
from tests.support.log_folders import ABORTED, KILLED, KILLED_4, KILLED_END, STOPPED
from tests.support.table_reading import Rows, rows_of

V07: Final = CORPUS / "broker0"
#: A segment of several batches.
FIRST: Final = "events-0/00000000000000000000.log"


def log_rows(table: str, *paths: Path, columns: tuple[str, ...] = (), **options: str) -> Rows:
    location = {"path": str(paths[0])} if len(paths) == 1 else {"paths": json.dumps([*map(str, paths)])}
    return rows_of({"table": table, **location, **options}, columns)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A directory that the test may damage."""
    return Path(shutil.copytree(KILLED, tmp_path / "logs"))


@pytest.mark.parametrize("path", [STOPPED, KILLED, KILLED_4])
def test_batches_are_those_of_the_records(path: Path) -> None:
    records = DirectoryRead(path, subscribe="events").table()
    rows = log_rows("batches", path, subscribe="events")
    assert all(row["isValid"] and row["reason"] is None and row["magic"] == 2 for row in rows)
    offsets = set(records.column("offset").to_pylist())
    start = min(offsets)
    held = [row for row in rows if not row["isControl"] and row["lastOffset"] >= start]
    assert sum(row["records"] for row in held) == len(offsets) + (start - held[0]["baseOffset"])
    by_file: dict[str, int] = {}
    for row in rows:
        assert row["position"] == by_file.get(row["file"], 0)
        by_file[row["file"]] = row["position"] + row["bytes"]
    assert by_file == {file.name: file.stat().st_size for file in path.glob("events-0/*.log")}
    for before, after in pairwise(rows):
        assert after["baseOffset"] == before["lastOffset"] + 1
    times = dict(
        zip(records.column("offset").to_pylist(), records.column("timestamp").to_pylist(), strict=True)
    )
    for row in held:
        inside = [times[item] for item in range(row["baseOffset"], row["lastOffset"] + 1) if item in times]
        if len(inside) == row["records"]:
            assert row["maxTimestamp"] == max(inside)


def test_batches_of_a_transaction_have_its_producer() -> None:
    [aborted, marker] = [
        row for row in log_rows("batches", KILLED) if ABORTED[0] <= row["baseOffset"] <= ABORTED[1] + 1
    ]
    assert (aborted["isControl"], marker["isControl"]) == (False, True)
    assert aborted["producerId"] == marker["producerId"] >= 0
    assert (aborted["baseSequence"], marker["baseSequence"]) == (0, None)
    assert (aborted["producerEpoch"], aborted["lastOffset"]) == (0, ABORTED[1])
    assert aborted["isTransactional"] is marker["isTransactional"] is True


def test_segments_have_their_ends_and_the_files_beside() -> None:
    rows = log_rows("segments", KILLED)
    assert [row["firstOffset"] for row in rows] == [row["baseOffset"] for row in rows]
    assert [row["nextOffset"] for row in rows] == [*(row["baseOffset"] for row in rows[1:]), KILLED_END]
    for row in rows:
        folder = KILLED / f"{row['topic']}-{row['partition']}"
        assert row["bytes"] == (folder / row["file"]).stat().st_size
        for column, ending in (
            ("offsetIndexBytes", "index"),
            ("timeIndexBytes", "timeindex"),
            ("txnIndexBytes", "txnindex"),
            ("snapshotBytes", "snapshot"),
        ):
            file = folder / row["file"].replace("log", ending)
            assert row[column] == (file.stat().st_size if file.exists() else None)
    by_file: dict[str, Any] = {}
    for batch in log_rows("batches", KILLED):
        by_file[batch["file"]] = max(batch["maxTimestamp"], by_file.get(batch["file"], batch["maxTimestamp"]))
    assert {row["file"]: row["maxTimestamp"] for row in rows} == by_file
    assert {row["broker"] for row in rows} == {1}


def test_an_index_that_is_wrong_is_not_trusted(copy: Path) -> None:
    expected = log_rows("segments", copy, columns=("nextOffset", "maxTimestamp"))
    for index in copy.glob("events-0/*.index"):
        index.write_bytes(b"\0\0\0\1\0\0\0\7")
    assert log_rows("segments", copy, columns=("nextOffset", "maxTimestamp")) == expected
    for index in copy.glob("events-0/*.index"):
        index.unlink()
    assert log_rows("segments", copy, columns=("nextOffset", "maxTimestamp")) == expected


def test_columns_are_projected_and_only_what_they_need_is_read(copy: Path) -> None:
    for log in copy.glob("events-0/*.log"):
        log.write_bytes(b"")
    columns = ("baseOffset", "bytes", "file")
    assert [row["bytes"] for row in log_rows("segments", copy, columns=columns)] == [0] * 4
    assert [row["firstOffset"] for row in log_rows("segments", copy)] == [None] * 4
    assert log_rows("batches", copy) == []


def test_every_projection_of_batches_has_the_same_values() -> None:
    for path in (KILLED, V07):
        every = log_rows("batches", path, subscribePattern="events|debian-gzip")
        for name in every[0]:
            alone = log_rows("batches", path, columns=(name,), subscribePattern="events|debian-gzip")
            assert alone == [{name: row[name]} for row in every]


def test_messages_of_07_are_the_batches_of_its_logs() -> None:
    rows = log_rows("batches", V07, subscribe="debian-gzip", brokers="7")
    assert {row["broker"] for row in rows} == {7}
    assert all(row["baseOffset"] == row["lastOffset"] == row["position"] for row in rows)
    assert all((row["records"] is None) == (row["codec"] != "none") for row in rows)
    records = DirectoryRead(V07, subscribe="debian-gzip", brokers="7").table()
    places = set(zip(*(records.column(name).to_pylist() for name in ("partition", "offset")), strict=True))
    assert places == {(row["partition"], row["baseOffset"]) for row in rows}
    segments = log_rows("segments", V07, subscribe="debian-gzip")
    assert [row["nextOffset"] for row in segments] == [row["baseOffset"] + row["bytes"] for row in segments]


@pytest.mark.parametrize("table", DIRECTORY_TABLES)
def test_logs_are_chosen_by_topic_pattern_and_partition(table: str) -> None:
    every = log_rows(table, V07)
    chosen = log_rows(table, V07, assign='{"debian-snappy":["0-2"]}')
    expected = [row for row in every if (row["topic"], row["partition"]) == ("debian-snappy", 2)]
    assert chosen == expected != []
    assert {row["topic"] for row in log_rows(table, V07, subscribePattern="gzip$")} == {"debian-gzip"}
    assert log_rows(table, KILLED, assign='{"events":[0]}') == log_rows(table, KILLED)
    assert log_rows(table, KILLED, subscribePattern="no such topic") == []
    with pytest.raises(UnknownTopicError, match="no log directory holds the topic eventz; did you"):
        log_rows(table, KILLED, subscribe="eventz")
    with pytest.raises(UnknownTopicError, match="option assign: no log directory holds events 3"):
        log_rows(table, KILLED, assign='{"events":[3]}')


def test_replicas_of_several_brokers_are_rows_of_their_own() -> None:
    both = log_rows("batches", KILLED, STOPPED)
    assert both == [*log_rows("batches", KILLED), *log_rows("batches", STOPPED)]


def test_a_large_directory_is_read_by_several_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = log_rows("batches", V07)
    monkeypatch.setattr(catalogue, "_SHARE_BYTES", 1 << 20)
    source = KafkaWireDataSource({"table": "batches", "path": str(V07)})
    reader: Any = source.reader(source.schema())
    assert len(reader.partitions()) > 3
    assert log_rows("batches", V07) == expected


def flip(path: Path, pos: int) -> None:
    data = bytearray(path.read_bytes())
    data[pos] ^= 0xFF
    path.write_bytes(data)


def test_a_damaged_batch_is_a_row_with_a_reason(copy: Path) -> None:
    before = log_rows("batches", copy)
    damaged = before[2]
    flip(copy / FIRST, damaged["position"] + 100)
    rows = log_rows("batches", copy)
    [row] = [item for item in rows if not item["isValid"]]
    assert [item for item in rows if item["isValid"]] == [item for item in before if item != damaged]
    same = ("topic", "partition", "file", "position", "bytes", "baseOffset", "lastOffset")
    assert [row[name] for name in same] == [damaged[name] for name in same]
    assert row["reason"] == "its CRC-32C is wrong"
    assert rows.index(row) == 2
    assert [row[name] for name in ("records", "codec", "crc", "producerId")] == [None] * 4


def test_a_damaged_message_of_07_is_a_row(tmp_path: Path) -> None:
    copied = Path(shutil.copytree(V07, tmp_path / "logs"))
    before = log_rows("batches", copied, subscribe="debian-gzip")
    flip(copied / "debian-gzip-0" / before[3]["file"], before[3]["position"] + 30)
    rows = log_rows("batches", copied, subscribe="debian-gzip")
    [row] = [item for item in rows if not item["isValid"]]
    assert (row["position"], row["bytes"]) == (before[3]["position"], before[3]["bytes"])
    assert (row["baseOffset"], row["lastOffset"]) == (before[3]["baseOffset"], None)
    assert [item for item in rows if item["isValid"]] == [item for item in before if item != before[3]]


def test_an_end_that_is_cut_or_empty_is_a_row(copy: Path) -> None:
    before = log_rows("batches", copy)
    log = copy / "events-0" / before[-1]["file"]
    whole = log.read_bytes()
    log.write_bytes(whole[:-1])
    *rest, last = log_rows("batches", copy)
    assert rest == before[:-1]
    assert (last["isValid"], last["reason"]) == (False, "it is longer than the rest of the log")
    assert (last["position"], last["lastOffset"]) == (before[-1]["position"], None)
    log.write_bytes(whole + bytes(1000))
    *rest, last = log_rows("batches", copy)
    assert rest == before
    assert (last["reason"], last["bytes"]) == ("there are only zeros", 1000)
    segment = log_rows("segments", copy)[-1]
    assert segment["nextOffset"] == KILLED_END


def parts_of(path: Path, window_bytes: int, size: int | None = None) -> list[tuple[int, int, bool]]:
    """Position, size and verdict of all parts, those of batches each for itself."""
    segment = SegmentFile(str(path), size or path.stat().st_size, 0, None, Generation.MODERN)
    files = open_files(str(path.parent), FileSystemOptions())
    result = []
    for part in scan_segment(files, segment, window_bytes=window_bytes):
        if isinstance(part, Sound):
            rows: Any = part.index
            result += [(part.pos + pos, size, True) for pos, size in rows.table[:, :2].tolist()]
        else:
            result.append((part.pos, part.stop - part.pos, False))
    return result


@pytest.mark.parametrize("window_bytes", [64, 1000, 4096])
def test_windows_of_any_size_have_the_same_batches(copy: Path, window_bytes: int) -> None:
    expected = parts_of(copy / FIRST, 1 << 20)
    assert len(expected) > 5
    assert parts_of(copy / FIRST, window_bytes) == expected
    flip(copy / FIRST, expected[1][0] + 200)
    flip(copy / FIRST, expected[4][0] + 8)
    damaged = [(pos, size, index not in (1, 4)) for index, (pos, size, _) in enumerate(expected)]
    assert parts_of(copy / FIRST, 1 << 20) == damaged
    assert parts_of(copy / FIRST, window_bytes) == damaged


def test_a_moved_batch_at_the_end_of_a_window_is_the_damaged_one(copy: Path) -> None:
    expected = parts_of(copy / FIRST, 1 << 20)
    pos, size, _ = expected[2]
    data = bytearray((copy / FIRST).read_bytes())
    struct.pack_into(">q", data, pos, struct.unpack_from(">q", data, pos)[0] + 1)
    (copy / FIRST).write_bytes(data)
    damaged = [(*location, index != 2) for index, (*location, _) in enumerate(expected)]
    for window_bytes in (pos + size, pos + size + 1, pos + size + 20, 1 << 20):
        assert parts_of(copy / FIRST, window_bytes) == damaged


def test_a_file_that_was_cut_since_the_plan_ends_there(copy: Path) -> None:
    expected = parts_of(copy / FIRST, 1 << 20)
    size = (copy / FIRST).stat().st_size
    assert parts_of(copy / FIRST, 1 << 20, size + 5000) == expected
    assert parts_of(copy / FIRST, 1000, size + 5000) == expected


def test_memory_is_bounded_where_no_batch_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage of any length is one row, and only twice the largest batch of it is kept."""
    monkeypatch.setattr(scanner, "BATCH_BYTES_MAX", 20_000)
    first = (KILLED / FIRST).read_bytes()
    garbage = b"\xff" * 300_000
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(first + garbage)
    whole = parts_of(KILLED / FIRST, 1 << 20)
    sizes: list[int] = []
    walk: Any = getattr(scanner, "walk_batches")  # noqa: B009  # the module's own import of it

    def measured(buf: Any, *arguments: Any, **options: Any) -> Any:
        sizes.append(len(buf))
        return walk(buf, *arguments, **options)

    monkeypatch.setattr(scanner, "walk_batches", measured)
    assert parts_of(path, 4096) == [*whole, (len(first), len(garbage), False)]
    assert max(sizes) <= 2 * 20_000 + 4096
    monkeypatch.undo()
    assert parts_of(path, 1 << 20) == [*whole, (len(first), len(garbage), False)]


@pytest.mark.parametrize("table", DIRECTORY_TABLES)
def test_a_segment_that_is_deleted_meanwhile_is_left_out(
    table: str, copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = [row for row in log_rows(table, copy) if row["file"] != Path(FIRST).name]
    source = KafkaWireDataSource({"table": table, "path": str(copy)})
    reader: Any = source.reader(source.schema())
    partitions = reader.partitions()
    (copy / FIRST).unlink()
    rows = [row for item in partitions for batch in reader.read(item) for row in batch.to_pylist()]
    assert rows == expected
    assert f"{copy / FIRST} was deleted while it was read" in caplog.text
    shutil.rmtree(copy)
    with pytest.raises(OptionError, match="does not exist on this executor"):
        [list(reader.read(item)) for item in partitions]


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"table": "topics"}, "option table=topics is of a cluster, and path is read without brokers: "),
        ({"table": "batches", "path": ""}, "option path: '/' is not the path of logs"),
        ({"table": "batches", "path": "/no/such/path"}, "path '/no/such/path' does not exist"),
        ({"table": "batches", "startingOffsets": "latest"}, "option startingOffsets has no meaning with"),
        (
            {"table": "batches", "kafka.group.id": "g"},
            "option kafka.group.id has no meaning with table=batches",
        ),
        (
            {"table": "batches", "kafka.bootstrap.servers": "h:1"},
            "options path and kafka.bootstrap.servers are",
        ),
        ({"table": "segment"}, "option table: 'segment' is not brokers or topics"),
    ],
)
def test_bad_input_gets_one_line(options: dict[str, str], refusal: str) -> None:
    with pytest.raises(OptionError) as error:
        rows_of({"path": str(KILLED), **options})
    assert str(error.value).startswith(refusal)
    assert str(error.value).isprintable()


def test_a_table_of_a_cluster_reads_nothing_below_a_path() -> None:
    with pytest.raises(OptionError, match=r"^option table=topics is of a cluster, and paths is read without"):
        rows_of({"table": "topics", "paths": '["/no/such/path"]'})


@pytest.mark.parametrize("table", DIRECTORY_TABLES)
def test_an_unknown_column_is_refused(table: str) -> None:
    source = KafkaWireDataSource({"table": table, "path": str(KILLED)})
    with pytest.raises(OptionError, match="there is no column 'nope'; there are topic, partition, "):
        source.reader(StructType([StructField("nope", IntegerType())]))


def test_tasks_get_no_secret() -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{module} required username="u" password="opensesame";',
    }
    source = KafkaWireDataSource({"table": "batches", "path": str(KILLED), **login})
    reader: Any = source.reader(source.schema())
    assert b"opensesame" not in pickle.dumps((reader, reader.partitions()), 0)


def test_damage_has_no_offsets_that_are_not_known() -> None:
    files = open_files(str(KILLED), FileSystemOptions())
    path = KILLED / FIRST
    segment = SegmentFile(str(path), 40, 0, None, Generation.MODERN)
    [part] = scan_segment(files, segment)
    assert part == Damaged(0, 40, 0, None, "it is longer than the rest of the log")
