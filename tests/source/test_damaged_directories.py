"""Damaged segments of log directories, planned as on the driver and read as in tasks: ``badRecords``."""

from __future__ import annotations

import json
import logging
import os
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from spark_kafkawire.directories.checkpoints import HIGH_WATERMARKS
from spark_kafkawire.errors import CorruptDataError, LimitError
from spark_kafkawire.records.log_index import index_batches
from spark_kafkawire.records.log_kernels import BASE_OFFSET, NEXT_OFFSET, POS, SIZE
from tests.support.directory_reading import DirectoryRead, copied
from tests.support.golden import CORPUS
from tests.support.log_folders import KILLED, KILLED_END, START_OFFSET

MARKERS = {310, 321}
FIRST_TIME_MS = 1_700_000_000_000
#: Segments in the middle and at the end of the log.
MIDDLE, ACTIVE = "00000000000000000120.log", "00000000000000000310.log"
#: The row of a batch that is damaged in a segment.
ROW = 3
DAMAGES = ("crc", "size", "huge size", "zeros", "moved", "cut")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A copy of a directory, to change."""
    return shutil.copytree(KILLED, tmp_path / "kafka-logs")


def damage(path: Path, kind: str, row: int = ROW) -> tuple[int, int, int]:
    """Damage a batch of a segment: its position, and the offsets that are lost. A segment that is cut loses
    all that follows."""
    data = bytearray(path.read_bytes())
    table = index_batches(bytes(data)).table
    pos, size, first, stop = (int(table[row, name]) for name in (POS, SIZE, BASE_OFFSET, NEXT_OFFSET))
    if kind == "crc":
        data[pos + size - 1] ^= 1
    elif kind == "size":
        struct.pack_into(">i", data, pos + 8, 7)
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


def due(first: int, stop: int) -> list[int]:
    """The offsets of records without those of a damaged place."""
    lost = {*MARKERS, *range(first, stop)}
    return [offset for offset in range(START_OFFSET, KILLED_END) if offset not in lost]


def sound_and_damaged(*paths: Path, **options: str) -> tuple[list[int], list[tuple[int, int]]]:
    found = DirectoryRead(*paths, badRecords="null", **options).table()
    bad = [row for row in found.column("_corrupt_record").to_pylist() if row is not None]
    is_sound = np.array([row is None for row in found.column("_corrupt_record").to_pylist()])
    offsets = np.array(found.column("offset").to_pylist())[is_sound]
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
    assert sound_and_damaged(logs) == (due(first, stop), [(first, stop)])
    with caplog.at_level(logging.WARNING):
        assert DirectoryRead(logs, badRecords="drop").column("offset") == due(first, stop)
    assert f"badRecords=drop left out 1 damaged place of events 0 ({stop - first} offset" in caplog.text
    with pytest.raises(
        (CorruptDataError, LimitError), match=rf"{MIDDLE}: .*it begins at byte {pos} of the file"
    ):
        DirectoryRead(logs).table()


@pytest.mark.parametrize("has_high_watermark", [True, False])
@pytest.mark.parametrize("kind", DAMAGES[:-1])
def test_damage_of_the_active_segment_that_planning_reads(
    logs: Path, kind: str, has_high_watermark: bool
) -> None:
    path = logs / "events-0" / ACTIVE
    pos, first, stop = damage(path, kind)
    path.with_suffix(".index").unlink()
    if not has_high_watermark:
        (logs / HIGH_WATERMARKS).unlink()
    assert sound_and_damaged(logs) == (due(first, stop), [(first, stop)])
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
    found, bad = sound_and_damaged(logs, startingTimestamp=time_ms)
    assert found == [offset for offset in due(220, 240) if offset >= 200]
    assert bad == [(220, 240)]


def test_each_offset_of_damage_is_in_one_range(logs: Path) -> None:
    _, first, stop = damage(logs / "events-0" / MIDDLE, "zeros")
    found, bad = sound_and_damaged(logs, minPartitions="40")
    assert found == due(first, stop)
    assert [offset for start, end in bad for offset in range(start, end)] == list(range(first, stop))


def test_a_replica_that_is_damaged_contradicts_no_other(logs: Path, tmp_path: Path) -> None:
    other = copied(logs, tmp_path / "other", broker_id=2)
    table = index_batches((logs / "events-0" / ACTIVE).read_bytes()).table
    damage(other / "events-0" / ACTIVE, "crc", len(table) - 1)
    found, bad = sound_and_damaged(logs, other)
    assert (found, bad) == (due(0, 0), [])


@pytest.mark.parametrize("kind", ["crc", "length", "huge length", "zeros", "cut", "magic"])
def test_damage_of_kafka_07(tmp_path: Path, kind: str) -> None:
    logs = shutil.copytree(CORPUS / "broker0", tmp_path / "logs")
    options = {"subscribePattern": "plain", "startingOffsets": "earliest"}
    names = ["topic", "partition", "offset", "value", "nextOffset"]
    rows = DirectoryRead(logs, **options).table().select(names).to_pylist()
    path = logs / "debian-plain-0" / "00000000000000000000.kafka"
    hit = [row for row in rows if (row["topic"], row["partition"]) == ("debian-plain", 0)][2]
    start, stop = hit["offset"], hit["nextOffset"]
    data = bytearray(path.read_bytes())
    size = len(data)
    if kind == "crc":
        data[stop - 1] ^= 1
    elif kind == "length":
        data[start : start + 4] = bytes(4)
    elif kind == "huge length":
        data[start : start + 4] = b"\x7f" * 4
    elif kind == "zeros":
        data[start:stop] = bytes(stop - start)
    elif kind == "magic":
        data[start + 4] = 9
    else:
        del data[start + 3 :]
        stop = size
    path.write_bytes(bytes(data))
    found = DirectoryRead(logs, badRecords="null", **options).table().to_pylist()
    bad = [row["_corrupt_record"] for row in found if row["_corrupt_record"] is not None]
    spans = [(each["startOffset"], each["endOffset"]) for each in bad]
    assert (spans[0][0], spans[-1][1]) == (start, stop)
    lost = [row for row in rows if row["partition"] == 0 and start <= row["offset"] < stop]
    kept = [row for row in rows if row not in lost]
    sound = [row for row in found if row["_corrupt_record"] is None]
    assert [{name: row[name] for name in names} for row in sound] == kept
    dropped = DirectoryRead(logs, badRecords="drop", **options)
    assert dropped.column("offset") == [row["offset"] for row in kept]
    place = "ends at offset" if kind == "cut" else f"it begins at byte {start} of the file"
    with pytest.raises((CorruptDataError, LimitError), match=place):
        DirectoryRead(logs, **options).table()


def test_a_range_of_kafka_07_may_begin_and_end_where_bytes_are_missing(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    shutil.copytree(CORPUS / "broker0" / "debian-plain-0", logs / "debian-plain-0")
    offsets = DirectoryRead(logs).table().column("offset").to_pylist()
    cut, begin, end = (min(each for each in offsets if each > least) for least in (300_000, 400_000, 450_000))
    os.truncate(logs / "debian-plain-0" / f"{0:020}.kafka", cut)
    second = max(int(path.stem) for path in (logs / "debian-plain-0").iterdir())
    for start, stop in ((0, end), (begin, end), (begin, second)):
        bounds = {"startingOffsets": start, "endingOffsets": stop}
        given = {name: json.dumps({"debian-plain": {"0-0": at}}) for name, at in bounds.items()}
        found, damaged = sound_and_damaged(logs, **given)
        assert found == [each for each in offsets if start <= each < min(cut, stop)]
        assert damaged == [(max(start, cut), stop)]
        with pytest.raises(CorruptDataError, match=f"ends at offset {cut}, and .* begins at {second}"):
            DirectoryRead(logs, **given).table()
