"""Reads of damaged logs of Kafka 0.7: what each value of badRecords makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_kafkawire.errors import CorruptDataError, OptionError
from spark_kafkawire.options import BadRecords, FetchOptions
from tests.support.fetching_07 import NET, fetcher_of, produce, serving, task

COUNT = 300
VALUES = [b"%06d" % number * (1 + number % 40) for number in range(COUNT)]


@pytest.fixture(params=["none", "gzip", "snappy"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, list[int]]:
    """A folder of a broker, and the offset of each message set: one message, or a compressed one of three."""
    offsets = [0]
    with serving(tmp_path / "logs") as broker:
        for start in range(0, COUNT, 3):
            if request.param == "none":
                for value in VALUES[start : start + 3]:
                    offsets.append(produce(broker, value))
            else:
                offsets.append(produce(broker, *VALUES[start : start + 3], compression=request.param))
    return tmp_path / "logs", offsets


def damage(log_dir: Path, *places: int) -> None:
    [segment] = log_dir.rglob("*.kafka")
    data = bytearray(segment.read_bytes())
    for place in places:
        data[place] ^= 1
    segment.write_bytes(data)


def rows(log_dir: Path, stop: int, bad_records: BadRecords, fetch_bytes: int, **options: Any) -> list[Any]:
    with serving(log_dir) as broker:
        fetcher = fetcher_of(
            task(broker, stop, **options), FetchOptions(fetch_bytes, 3, bad_records=bad_records), NET
        )
        found: list[Any] = []
        for columns in fetcher.columns():
            assert columns.values is not None
            assert columns.next_offset is not None
            values = columns.values.to_pylist()
            if columns.corrupt is not None:
                [corrupt] = columns.corrupt.to_pylist()
                values = [(corrupt["startOffset"], corrupt["endOffset"])]
                assert columns.next_offset.tolist() == [corrupt["endOffset"]]
            found += zip(columns.offset.tolist(), values, strict=True)
        return found


@pytest.mark.parametrize("fetch_bytes", [1024, 4096, 1 << 20])
@pytest.mark.parametrize("part", ["content", "checksum", "length", "large length", "huge length", "magic"])
def test_damage_becomes_one_row_or_none_and_all_other_messages_come(
    log: tuple[Path, list[int]], fetch_bytes: int, part: str
) -> None:
    log_dir, offsets = log
    lost = (0, 40, 41, len(offsets) - 2)
    pos = {"content": 12, "checksum": 7, "length": 3, "large length": 1, "huge length": 0, "magic": 4}[part]
    whole = rows(log_dir, offsets[-1], BadRecords.FAIL, fetch_bytes)
    damage(log_dir, *(offsets[index] + pos for index in lost))
    found = rows(log_dir, offsets[-1], BadRecords.NULL, fetch_bytes)
    places = [(0, offsets[1]), (offsets[40], offsets[42]), (offsets[-2], offsets[-1])]
    kept = [row for row in whole if row[0] not in {offsets[index] for index in lost}]
    assert found == sorted([*kept, *((place[0], place) for place in places)], key=lambda row: row[0])
    assert rows(log_dir, offsets[-1], BadRecords.DROP, fetch_bytes) == kept
    with pytest.raises(CorruptDataError, match=r"(message at|begins at) offset 0"):
        rows(log_dir, offsets[-1], BadRecords.FAIL, fetch_bytes)


def test_an_offset_of_an_option_that_is_no_boundary_is_no_damage(log: tuple[Path, list[int]]) -> None:
    log_dir, offsets = log
    with pytest.raises(OptionError, match=r"option startingOffsets: \d+ is not a message boundary"):
        rows(
            log_dir, offsets[-1], BadRecords.NULL, 4096, start=offsets[3] + 1, start_option="startingOffsets"
        )
    with pytest.raises(OptionError, match=r"option endingOffsets: \d+ is not a message boundary"):
        rows(log_dir, offsets[9] - 1, BadRecords.DROP, 4096, stop_option="endingOffsets")
