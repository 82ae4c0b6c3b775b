"""Log directories without some of their segments: all rows of a range, or an error that names a file."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from pathlib import Path

import pytest
from spark_kafkawire.directories.checkpoints import CLEANER_OFFSETS
from spark_kafkawire.errors import CorruptDataError, DataLossError
from spark_kafkawire.records.log_index import index_batches
from spark_kafkawire.records.log_kernels import POS
from tests.support.cases import for_each
from tests.support.directory_reading import DirectoryRead
from tests.support.log_folders import ABORTED, MARKERS, START_OFFSET, STOPPED, STOPPED_END
from tests.support.short_and_long import short_and_long

BASES = (0, 120, 240, 310)
#: ``minPartitions``.
SPLITS = ("1", "3", "20")
RANGES = ((START_OFFSET, STOPPED_END), (60, 200), (120, 240), (250, 402), (130, 320))


def log_of(folder: Path, base: int) -> Path:
    return folder / "events-0" / f"{base:020}.log"


def harmed(folder: Path, base: int, harm: str) -> int:
    """Harm a segment: the first offset that it lacks after that."""
    path = log_of(folder, base)
    if harm == "removed":
        for each in path.parent.glob(f"{base:020}.*"):
            each.unlink()
    elif harm == "emptied":
        os.truncate(path, 0)
    else:
        table = index_batches(path.read_bytes()).table
        row = len(table) // 2
        os.truncate(path, int(table[row, POS]))
        return int(index_batches(path.read_bytes()).next_offset or base)
    return base


def due(start: int, stop: int) -> list[int]:
    aborted = range(ABORTED[0], ABORTED[1] + 1)
    return [each for each in range(start, stop) if each not in MARKERS and each not in aborted]


def read(folder: Path, start: int, stop: int, split: str, **options: str) -> list[int]:
    given = {
        "startingOffsets": json.dumps({"events": {"0": start}}),
        "endingOffsets": json.dumps({"events": {"0": stop}}),
        "minPartitions": split,
        "kafka.isolation.level": "read_committed",
    }
    return DirectoryRead(folder, **given, **options).column("offset")


HARMS = ("kept", "removed", "emptied", "cut")
ALL = [each for each in itertools.product(HARMS, repeat=4) if each[0] != "removed"]


@short_and_long("step", short=11, long=1)
def test_what_is_missing_is_an_error_however_ranges_are_split(step: int, tmp_path: Path) -> None:
    """The first segment stays in its place: without it, retention deleted what it had."""
    for number in range(0, len(ALL), step):
        read_harmed(ALL[number], number, tmp_path)


def read_harmed(harms: tuple[str, ...], number: int, tmp_path: Path) -> None:
    folder = shutil.copytree(STOPPED, tmp_path / "-".join(harms))
    # Empty, as a broker leaves the segment that it has just begun: the end of the log is known.
    log_of(folder, STOPPED_END).touch()
    lost: set[int] = set()
    for base, stop, harm in zip(BASES, (*BASES[1:], STOPPED_END), harms, strict=True):
        if harm != "kept":
            lost.update(range(harmed(folder, base, harm), stop))
    # Each range with one split; which one, the harms before decide.
    splits = itertools.islice(itertools.cycle(SPLITS), number, None)
    for (start, stop), split in zip(RANGES, splits, strict=False):
        missing = sorted(lost & set(range(start, stop)))
        if missing:
            with pytest.raises(DataLossError, match=rf"offsets \[{missing[0]}, .*\.log "):
                read(folder, start, stop, split)
        else:
            assert read(folder, start, stop, split) == due(start, stop), harms
    shutil.rmtree(folder)


@for_each("other", BASES[1:])
def test_segments_in_each_others_place_are_an_error(other: int, tmp_path: Path) -> None:
    folder = shutil.copytree(STOPPED, tmp_path / str(other))
    first, second = log_of(folder, 0), log_of(folder, other)
    content = first.read_bytes()
    second.replace(first)
    second.write_bytes(content)
    for split in SPLITS:
        with pytest.raises((CorruptDataError, DataLossError), match=r"\.log"):
            read(folder, START_OFFSET, STOPPED_END, split)


@for_each("base", BASES[1:])
def test_a_compacted_log_may_lack_any_offset(base: int, tmp_path: Path) -> None:
    folder = shutil.copytree(STOPPED, tmp_path / str(base))
    log_of(folder, STOPPED_END).touch()
    harmed(folder, base, "removed")
    (folder / CLEANER_OFFSETS).write_text(f"0\n1\nevents 0 {STOPPED_END}\n")
    stop = (*BASES, STOPPED_END)[BASES.index(base) + 1]
    for split in SPLITS:
        found = read(folder, START_OFFSET, STOPPED_END, split)
        assert found == due(START_OFFSET, base) + due(stop, STOPPED_END)
