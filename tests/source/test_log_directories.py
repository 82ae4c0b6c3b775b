"""Reads of log directories, without a JVM: planned as on the driver, and read as in tasks; also of damaged
ones, and of those without some of their segments."""

from __future__ import annotations

import json
import logging
import os
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_kafkawire.directories.files import FileAccessError
from spark_kafkawire.directories.side_files import CLEANER_OFFSETS, HIGH_WATERMARKS, META_PROPERTIES
from spark_kafkawire.errors import (
    CorruptDataError,
    DataLossError,
    LimitError,
    OptionError,
    UnknownTopicError,
)
from spark_kafkawire.options import StreamOptions
from spark_kafkawire.records.log_index import BASE_OFFSET, NEXT_OFFSET, POS, SIZE, index_batches
from tests.support.cases import for_each
from tests.support.directory_reading import DirectoryRead, copied
from tests.support.golden import CORPUS, MANIFEST, values_sha256
from tests.support.log_folders import (
    ABORTED,
    KILLED,
    KILLED_4,
    KILLED_END,
    MARKERS,
    OPEN_SINCE,
    START_OFFSET,
    STOPPED,
    STOPPED_END,
)

FIRST_TIME_MS = 1_700_000_000_000


def offsets(*paths: Path, **options: str) -> list[int]:
    result: list[int] = DirectoryRead(*paths, **options).column("offset")
    return result


def due(start: int, stop: int, without: tuple[int, int] = (0, -1)) -> list[int]:
    first, last = without
    return [item for item in range(start, stop) if item not in MARKERS and not first <= item <= last]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A copy of a directory, to change."""
    return shutil.copytree(KILLED, tmp_path / "kafka-logs")


@pytest.mark.parametrize(("directory", "end"), [(STOPPED, STOPPED_END), (KILLED, KILLED_END)])
def test_all_records_from_the_start_that_delete_records_left(directory: Path, end: int) -> None:
    result = DirectoryRead(directory).table()
    assert result.column("offset").to_pylist() == due(START_OFFSET, end)
    assert set(result.column("topic").to_pylist()) == {"events"}
    first = result.slice(0, 1).to_pylist()[0]
    assert (first["key"], first["value"][:4], first["timestampType"]) == (b"k1", b"v50x", 0)
    assert first["timestamp"].timestamp() * 1000 == FIRST_TIME_MS + 50_000


@pytest.mark.parametrize("directory", [KILLED, KILLED_4], ids=lambda path: path.name)
def test_committed_records_end_before_a_transaction_that_is_open(directory: Path) -> None:
    result = offsets(directory, kafka__isolation__level="read_committed")
    assert result == due(START_OFFSET, OPEN_SINCE, ABORTED)


def test_an_open_transaction_is_found_without_snapshots(logs: Path) -> None:
    for path in (logs / "events-0").glob("*.snapshot"):
        path.unlink()
    assert offsets(logs, kafka__isolation__level="read_committed") == due(START_OFFSET, OPEN_SINCE, ABORTED)


def test_an_aborted_transaction_without_its_index_is_an_error(logs: Path) -> None:
    for path in (logs / "events-0").glob("*.txnindex"):
        path.unlink()
    with pytest.raises(CorruptDataError, match="aborts the transaction of producer"):
        offsets(logs, kafka__isolation__level="read_committed")


def test_offsets_and_timestamps_of_options() -> None:
    given = {"startingOffsets": '{"events":{"0":100}}', "endingOffsets": '{"events":{"0":130}}'}
    assert offsets(KILLED, **given) == due(100, 130)
    times = {
        "startingTimestamp": str(FIRST_TIME_MS + 119_500),
        "endingTimestamp": str(FIRST_TIME_MS + 305_000),
    }
    # The records of offset n up to 309 have the n-th second.
    assert offsets(KILLED, **times) == due(120, 305)
    of_iso = {"startingTimestamp": "2023-11-14T22:15:19.500Z", "endingTimestamp": "2023-11-14T23:18:25+01:00"}
    assert offsets(KILLED, **of_iso) == due(120, 305)
    assert offsets(KILLED, startingOffsetsFromEnd="9") == due(KILLED_END - 9, KILLED_END)
    assert offsets(KILLED, startingTimestamp="-1 day") == []
    with pytest.raises(OptionError, match="no offset matched from request"):
        offsets(KILLED, startingTimestamp="9000000000000")


def test_timestamps_without_their_indexes_are_the_same(logs: Path) -> None:
    for pattern in ("*.timeindex", "*.index"):
        for path in (logs / "events-0").glob(pattern):
            path.unlink()
    for second in (0, 50, 119, 120, 121, 305, 399):
        time_ms = str(FIRST_TIME_MS + 1000 * second)
        assert offsets(logs, startingTimestamp=time_ms) == offsets(KILLED, startingTimestamp=time_ms)


@pytest.mark.parametrize(
    "split", [{"minPartitions": "7"}, {"maxRecordsPerPartition": "13"}, {"maxBytesPerPartition": "2000"}]
)
def test_parts_are_read_through_the_index(split: Mapping[str, str]) -> None:
    result = DirectoryRead(KILLED, **split)
    assert len(result.tasks) >= 7
    assert result.column("offset") == due(START_OFFSET, KILLED_END)
    committed = DirectoryRead(KILLED, kafka__isolation__level="read_committed", **split)
    assert committed.column("offset") == due(START_OFFSET, OPEN_SINCE, ABORTED)


@pytest.mark.parametrize("damage", ["cut", "zeros", "noise", "other"])
def test_an_index_that_is_wrong_leaves_nothing_out(logs: Path, damage: str) -> None:
    for path in (logs / "events-0").glob("*.index"):
        data = path.read_bytes()
        changed = {
            "cut": data[:5],
            "zeros": bytes(len(data)),
            "noise": bytes(index * 37 % 127 for index in range(len(data))),
            "other": (STOPPED / "events-0" / "00000000000000000120.index").read_bytes(),
        }
        path.write_bytes(changed[damage])
    for start in (0, 55, 120, 239, 240, 311, 400):
        options = {"startingOffsets": f'{{"events":{{"0":{max(start, START_OFFSET)}}}}}'}
        assert offsets(logs, **options, minPartitions="3") == due(max(start, START_OFFSET), KILLED_END)


@pytest.mark.parametrize("bad_records", ["fail", "null"])
def test_an_index_that_names_no_batch_near_the_end_leaves_nothing_out(logs: Path, bad_records: str) -> None:
    path = logs / "events-0" / ACTIVE
    path.with_suffix(".index").write_bytes(struct.pack(">ii", 1, path.stat().st_size - 10))
    assert offsets(logs, badRecords=bad_records) == due(START_OFFSET, KILLED_END)


def test_a_torn_end_is_no_error(logs: Path) -> None:
    active = logs / "events-0" / "00000000000000000310.log"
    whole = active.read_bytes()
    (logs / HIGH_WATERMARKS).unlink()
    for torn in (whole[:-1], whole[:-60], whole + bytes(500), whole + whole[:50]):
        active.write_bytes(torn)
        result = offsets(logs)
        assert result == due(START_OFFSET, result[-1] + 1)
        assert result[-1] >= KILLED_END - 6


def test_noise_after_the_high_watermark_is_no_error(logs: Path, caplog: pytest.LogCaptureFixture) -> None:
    active = logs / "events-0" / "00000000000000000310.log"
    active.write_bytes(active.read_bytes() + b"noise, and no batch of Kafka")
    with caplog.at_level(logging.WARNING):
        assert offsets(logs) == due(START_OFFSET, KILLED_END)
    assert (
        "unknown magic; the records before it are whole, read up to that offset; it is after the high "
        "watermark" in caplog.text
    )
    (logs / HIGH_WATERMARKS).unlink()
    with pytest.raises(
        CorruptDataError, match=r"00310\.log: batch at offset \d+ is damaged: it has an unknown"
    ):
        offsets(logs)


def test_a_last_batch_that_the_disk_does_not_have_is_left_out(logs: Path) -> None:
    active = logs / "events-0" / "00000000000000000310.log"
    active.write_bytes(active.read_bytes()[:-40] + bytes(40))
    (logs / HIGH_WATERMARKS).write_text(f"0\n1\nevents 0 {OPEN_SINCE}\n")
    assert offsets(logs) == due(START_OFFSET, 403)


def test_lost_committed_records_are_a_data_loss(logs: Path, caplog: pytest.LogCaptureFixture) -> None:
    active = logs / "events-0" / "00000000000000000310.log"
    active.write_bytes(active.read_bytes()[:-40])
    with pytest.raises(DataLossError, match="replication-offset-checkpoint says that 408 is committed"):
        offsets(logs)
    with caplog.at_level(logging.WARNING):
        assert offsets(logs, failOnDataLoss="false") == due(START_OFFSET, 403)
    assert "reading on because failOnDataLoss=false" in caplog.text


def test_an_offset_that_no_checksum_covers_is_checked_by_its_segment(logs: Path) -> None:
    log = logs / "events-0" / "00000000000000000120.log"
    data = bytearray(log.read_bytes())
    data[int(index_batches(bytes(data)).table[-1, POS]) + 5] ^= 1
    log.write_bytes(data)
    with pytest.raises(CorruptDataError, match=r"is outside its segment, which has \[120, 240\)"):
        offsets(logs)


def test_a_missing_segment_in_the_middle_is_reported(logs: Path, caplog: pytest.LogCaptureFixture) -> None:
    for path in (logs / "events-0").glob("00000000000000000120.*"):
        path.unlink()
    with pytest.raises(DataLossError, match=r"offsets \[120, 240\) are gone: .*/0{20}\.log has the offsets"):
        offsets(logs)
    with caplog.at_level(logging.WARNING):
        assert offsets(logs, failOnDataLoss="false") == due(START_OFFSET, 120) + due(240, KILLED_END)
    assert "120 of its offsets are missing: [120, 240)" in caplog.text
    caplog.clear()
    (logs / "cleaner-offset-checkpoint").write_text("0\n1\nevents 0 310\n")
    with caplog.at_level(logging.WARNING):
        assert offsets(logs) == due(START_OFFSET, 120) + due(240, KILLED_END)
    assert "missing" not in caplog.text


def test_a_segment_that_is_deleted_after_planning_is_a_data_loss(logs: Path) -> None:
    read, lenient = DirectoryRead(logs), DirectoryRead(logs, failOnDataLoss="false")
    (logs / "events-0" / "00000000000000000000.log").unlink()
    assert lenient.column("offset") == due(120, KILLED_END)
    with pytest.raises(DataLossError, match=r"offsets \[50, 120\) are gone: .*000.log was deleted"):
        read.table()


@pytest.mark.parametrize("bad_records", ["fail", "null", "drop"])
def test_segment_cut_after_planning_is_an_error(logs: Path, bad_records: str) -> None:
    read = DirectoryRead(logs, badRecords=bad_records)
    path = logs / "events-0" / "00000000000000000120.log"
    os.truncate(path, 7000)
    with pytest.raises(CorruptDataError) as raised:
        read.table()
    message = str(raised.value)
    assert (
        f"{path}: the file has 7000 bytes now, and had 14346 when the read was planned; a broker cut it"
        in message
    )
    assert message.endswith("read again, or read a copy that nothing changes")
    assert "badRecords" not in message


def test_a_path_that_an_executor_lacks_is_named(logs: Path) -> None:
    read = DirectoryRead(logs)
    shutil.rmtree(logs)
    with pytest.raises(FileAccessError, match="kafka-logs does not exist on this executor"):
        read.table()


def test_what_is_appended_after_planning_is_not_read(logs: Path) -> None:
    read = DirectoryRead(logs)
    active = logs / "events-0" / "00000000000000000310.log"
    active.write_bytes(active.read_bytes() * 2)
    assert read.column("offset") == due(START_OFFSET, KILLED_END)


def test_replicas_of_one_partition_count_once(tmp_path: Path) -> None:
    other = copied(KILLED, tmp_path / "other", 2)
    assert offsets(KILLED, other) == due(START_OFFSET, KILLED_END)
    # A follower that is behind.
    behind = copied(STOPPED, tmp_path / "behind", 3)
    assert offsets(behind, KILLED) == due(START_OFFSET, KILLED_END)
    # The longer log is not committed.
    (other / HIGH_WATERMARKS).write_text(f"0\n1\nevents 0 {STOPPED_END}\n")
    assert offsets(behind, other) == due(START_OFFSET, STOPPED_END)


def test_directories_of_two_clusters_contradict_each_other(tmp_path: Path) -> None:
    other = copied(KILLED, tmp_path / "other", 2)
    metadata = other / "events-0" / "partition.metadata"
    metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA")
    with pytest.raises(
        OptionError, match=r"killed/events-0/partition.metadata and .*other/events-0/part.*two t"
    ):
        offsets(KILLED, other)
    metadata.unlink()
    log = other / "events-0" / "00000000000000000310.log"
    data = bytearray(log.read_bytes())
    data[-3] ^= 1
    log.write_bytes(data)
    with pytest.raises(OptionError, match=r"000310.log and .*000310.log contradict .* at offset 407 differ"):
        offsets(KILLED, other)
    (other / "meta.properties").write_text("cluster.id=other\n")
    with pytest.raises(OptionError, match=r"meta.properties and .*meta.properties contradict"):
        offsets(KILLED, other)


def test_two_copies_of_the_disks_of_one_broker_contradict_each_other(tmp_path: Path) -> None:
    other = shutil.copytree(KILLED, tmp_path / "other")
    with pytest.raises(OptionError, match=r"meta.properties and .*other/meta.properties .* are of broker 1,"):
        offsets(KILLED, other)
    # ZooKeeper's brokers have another name for it.
    for path, broker_id in ((other, 1), (copied(KILLED, tmp_path / "third", 2), 1)):
        (path / META_PROPERTIES).write_text(f"version=0\nbroker.id={broker_id}\n")
    with pytest.raises(OptionError, match=r"other/meta.properties and .*third/meta.properties contradict"):
        offsets(other, tmp_path / "third")
    (other / META_PROPERTIES).write_text("version=0\nbroker.id=7\n")
    read = DirectoryRead(KILLED, other)
    assert read.column("offset") == due(START_OFFSET, KILLED_END)
    assert {task.leader.broker.id for task in read.tasks} <= {1, 7}


def test_the_log_dirs_of_one_broker_are_read_together(tmp_path: Path) -> None:
    other = shutil.copytree(KILLED, tmp_path / "other")
    (other / "events-0").rename(other / "moved-0")
    for path in (other / "moved-0").glob("partition.metadata"):
        path.unlink()
    result = DirectoryRead(KILLED, other).table()
    assert set(result.column("topic").to_pylist()) == {"events", "moved"}


def by_log(rows: list[dict[str, Any]]) -> dict[tuple[int, str, int], list[bytes]]:
    result: dict[tuple[int, str, int], list[bytes]] = {}
    for row in rows:
        result.setdefault((row["broker"], row["topic"], row["partition"]), []).append(row["value"])
    return result


def test_all_recorded_logs_of_kafka_07() -> None:
    result = by_log(DirectoryRead(CORPUS / "broker0", CORPUS / "broker1").table().to_pylist())
    expected = {
        (item["broker"], item["topic"], item["partition"]): (item["messages"], item["values_sha256"])
        for item in MANIFEST
    }
    assert {log: (len(values), values_sha256(values)) for log, values in result.items()} == expected


def test_a_torn_end_of_kafka_07_is_no_error(tmp_path: Path) -> None:
    logs = shutil.copytree(CORPUS / "broker0", tmp_path / "logs")
    options = {"subscribePattern": "plain", "startingOffsets": "earliest"}
    whole = DirectoryRead(logs, **options).table().to_pylist()
    last = logs / "debian-plain-0" / "00000000000000524291.kafka"
    data = last.read_bytes()
    for size in (1, 3, 9, 100):
        last.write_bytes(data + data[:size])
        assert DirectoryRead(logs, **options).table().to_pylist() == whole
    last.write_bytes(data[:-1])
    assert len(DirectoryRead(logs, **options).table()) == len(whole) - 1


def test_a_missing_segment_of_kafka_07_is_named(tmp_path: Path) -> None:
    logs = shutil.copytree(CORPUS / "broker0", tmp_path / "logs")
    first = logs / "debian-plain-0" / "00000000000000000000.kafka"
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(CorruptDataError, match=r"ends at offset 524290, and .*begins at 524291"):
        DirectoryRead(logs)


def test_paths_that_cannot_be_read_are_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="missing' does not exist"):
        DirectoryRead(tmp_path / "missing")
    with pytest.raises(OptionError, match="no Kafka log is below it"):
        DirectoryRead(tmp_path)
    with pytest.raises(OptionError, match="is there twice"):
        DirectoryRead(KILLED, KILLED)
    with pytest.raises(OptionError, match=r"killed of Kafka 0\.8 or later and those in .* of Kafka 0\.7"):
        DirectoryRead(KILLED, CORPUS / "broker0")
    with pytest.raises(OptionError, match="a list of paths in JSON"):
        DirectoryRead(paths="/a,/b")
    with pytest.raises(
        UnknownTopicError, match="no log directory holds the topic event; did you mean events"
    ):
        DirectoryRead(KILLED, subscribe="event")
    with pytest.raises(UnknownTopicError, match="no log directory holds events 1"):
        DirectoryRead(KILLED, assign='{"events":[0,1]}')


def test_a_stream_over_a_directory_is_refused() -> None:
    for options in ({"path": str(KILLED)}, {"paths": json.dumps([str(KILLED)])}):
        with pytest.raises(OptionError, match="a stream reads from brokers, not from log directories"):
            StreamOptions.parse(options)


@pytest.mark.parametrize("value", ["fail", "null", "drop"])
def test_bad_records_change_nothing_of_sound_logs(value: str) -> None:
    for directory in (KILLED, STOPPED, KILLED_4):
        assert offsets(directory, badRecords=value) == offsets(directory)
        committed = {"kafka__isolation__level": "read_committed"}
        assert offsets(directory, badRecords=value, **committed) == offsets(directory, **committed)
    assert DirectoryRead(KILLED, badRecords=value, valueFormat="string").column("offset") == offsets(KILLED)


# Damaged segments: ``badRecords``

#: Segments in the middle and at the end of the log.
MIDDLE, ACTIVE = "00000000000000000120.log", "00000000000000000310.log"
#: The row of a batch that is damaged in a segment.
ROW = 3
DAMAGES = ("crc", "huge size", "zeros", "moved", "cut")


def damage(path: Path, kind: str, row: int = ROW) -> tuple[int, int, int]:
    """Damage a batch of a segment: its position, and the offsets that are lost. A segment that is cut loses
    all that follows."""
    data = bytearray(path.read_bytes())
    table = index_batches(bytes(data)).table
    pos, size, first, stop = (int(table[row, name]) for name in (POS, SIZE, BASE_OFFSET, NEXT_OFFSET))
    if kind == "crc":
        data[pos + size - 1] ^= 1
    elif kind == "huge size":
        struct.pack_into(">i", data, pos + 8, 2**31 - 1)
    elif kind == "zeros":
        data[pos : pos + size] = bytes(size)
    elif kind == "moved":
        data[pos + 6] ^= 64
    else:
        del data[pos + size // 2 :]
        stop = int(table[-1, NEXT_OFFSET])
    path.write_bytes(bytes(data))
    return pos, first, stop


def due_around(first: int, stop: int) -> list[int]:
    """The offsets of records without those of a damaged place."""
    return due(START_OFFSET, KILLED_END, (first, stop - 1))


def sound_and_damaged(*paths: Path, **options: str) -> tuple[list[int], list[tuple[int, int]]]:
    result = DirectoryRead(*paths, badRecords="null", **options).table()
    bad = [row for row in result.column("_corrupt_record").to_pylist() if row is not None]
    is_sound = np.array([row is None for row in result.column("_corrupt_record").to_pylist()])
    offsets = np.array(result.column("offset").to_pylist())[is_sound]
    return offsets.tolist(), [(row["startOffset"], row["endOffset"]) for row in bad]


@pytest.mark.parametrize("is_indexed", [True, False])
@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_in_the_middle_of_a_log(
    logs: Path, kind: str, is_indexed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path = logs / "events-0" / MIDDLE
    pos, first, stop = damage(path, kind)
    if not is_indexed:
        path.with_suffix(".index").unlink()
    assert sound_and_damaged(logs) == (due_around(first, stop), [(first, stop)])
    with caplog.at_level(logging.WARNING):
        assert DirectoryRead(logs, badRecords="drop").column("offset") == due_around(first, stop)
    assert f"badRecords=drop left out 1 damaged place of events 0 ({stop - first} offset" in caplog.text
    with pytest.raises(
        (CorruptDataError, LimitError), match=rf"{MIDDLE}: .*it begins at byte {pos} of the file"
    ):
        DirectoryRead(logs).table()


@for_each("has_high_watermark", [True, False])
@for_each("kind", DAMAGES[:-1])
def test_damage_of_the_active_segment(kind: str, has_high_watermark: bool, tmp_path: Path) -> None:
    logs = shutil.copytree(KILLED, tmp_path / f"{kind} {has_high_watermark}")
    path = logs / "events-0" / ACTIVE
    pos, first, stop = damage(path, kind)
    path.with_suffix(".index").unlink()
    if not has_high_watermark:
        (logs / HIGH_WATERMARKS).unlink()
    assert sound_and_damaged(logs) == (due_around(first, stop), [(first, stop)])
    with pytest.raises(
        (CorruptDataError, LimitError), match=rf"{ACTIVE}.*it begins at byte {pos} of the file"
    ):
        DirectoryRead(logs).table()


def test_timestamps_are_found_behind_damage(logs: Path) -> None:
    path = logs / "events-0" / MIDDLE
    for kind, row in (("crc", 5), ("zeros", 3)):
        damage(path, kind, row)
    for suffix in (".index", ".timeindex"):
        path.with_suffix(suffix).unlink()
    time_ms = str(FIRST_TIME_MS + 200_000)
    result, bad = sound_and_damaged(logs, startingTimestamp=time_ms)
    assert result == [offset for offset in due_around(220, 240) if offset >= 200]
    assert bad == [(220, 240)]


def test_a_replica_that_is_damaged_contradicts_no_other(logs: Path, tmp_path: Path) -> None:
    other = copied(logs, tmp_path / "other", broker_id=2)
    table = index_batches((logs / "events-0" / ACTIVE).read_bytes()).table
    damage(other / "events-0" / ACTIVE, "crc", len(table) - 1)
    result, bad = sound_and_damaged(logs, other)
    assert (result, bad) == (due_around(0, 0), [])


# Missing segments of a compacted log


@for_each(("base", "stop"), [(120, 240), (240, 310), (310, STOPPED_END)])
def test_a_compacted_log_may_lack_any_offset(base: int, stop: int, tmp_path: Path) -> None:
    folder = shutil.copytree(STOPPED, tmp_path / str(base))
    # Empty, as a broker leaves the segment that it has just begun: the end of the log is known.
    (folder / "events-0" / f"{STOPPED_END:020}.log").touch()
    for path in (folder / "events-0").glob(f"{base:020}.*"):
        path.unlink()
    (folder / CLEANER_OFFSETS).write_text(f"0\n1\nevents 0 {STOPPED_END}\n")
    for split in ("1", "3", "20"):
        result = offsets(folder, kafka__isolation__level="read_committed", minPartitions=split)
        assert result == due(START_OFFSET, base, ABORTED) + due(stop, STOPPED_END, ABORTED)
