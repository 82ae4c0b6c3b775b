"""Reads of log directories some of whose files are removed, emptied, cut or swapped, in split ranges:
all committed rows, or an error that names a file."""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from spark_kafkawire.errors import CorruptDataError, DataLossError
from tests.support.directory_reading import DirectoryRead
from tests.support.log_folders import ABORTED, MARKERS, START_OFFSET, STOPPED, STOPPED_END

from .operation import EXACT

BASES: Final = (0, 120, 240, 310)
_ROWS: Final = frozenset(range(START_OFFSET, STOPPED_END)) - MARKERS - set(range(ABORTED[0], ABORTED[1] + 1))


def operation(seed: int, number: int) -> Counter[str]:
    """Reads of one directory. Raises ``AssertionError`` for rows that are missing without an error."""
    chance = random.Random(f"{seed} missing files {number}")
    ended = Counter[str]()
    with tempfile.TemporaryDirectory(prefix="kafkawire-chaos-") as name:
        folder = shutil.copytree(STOPPED, Path(name) / "logs")
        # The end of the log is known by an empty last segment, or by the high watermark alone.
        if chance.random() < 0.7:
            (folder / "events-0" / f"{STOPPED_END:020}.log").touch()
        harms = [_harm(folder, base, chance) for base in chance.sample(BASES, chance.randrange(4))]
        start, stop = sorted(chance.sample(range(START_OFFSET, STOPPED_END + 1), 2))
        for split in (1, chance.randrange(2, 30)):
            read = f"{harms}, [{start}, {stop}) in {split} tasks"
            ended[_ending(folder, start, stop, split, read)] += 1
    return ended


def _harm(folder: Path, base: int, chance: random.Random) -> str:
    path = folder / "events-0" / f"{base:020}.log"
    # Without its first file a log begins later: so retention leaves it.
    kind = chance.choice(("remove", "empty", "cut", "swap") if base else ("empty", "cut", "swap"))
    if not path.exists():
        return "nothing"
    if kind == "remove":
        for each in path.parent.glob(f"{base:020}.*"):
            each.unlink()
    elif kind == "swap":
        other = path.with_name(f"{chance.choice([each for each in BASES if each != base]):020}.log")
        if other.exists():
            content = path.read_bytes()
            path.write_bytes(other.read_bytes())
            other.write_bytes(content)
    else:
        os.truncate(path, 0 if kind == "empty" else chance.randrange(path.stat().st_size + 1))
    return f"{kind} {base}"


def _ending(folder: Path, start: int, stop: int, split: int, read: str) -> str:
    try:
        found = DirectoryRead(
            folder,
            startingOffsets=json.dumps({"events": {"0": start}}),
            endingOffsets=json.dumps({"events": {"0": stop}}),
            minPartitions=str(split),
            kafka__isolation__level="read_committed",
        ).column("offset")
    except (CorruptDataError, DataLossError) as error:
        if ".log" not in str(error):
            raise AssertionError(f"{read}: {error}") from error
        return type(error).__name__
    due = sorted(_ROWS & set(range(start, stop)))
    lost = sorted(set(due) - set(found))
    assert found == due, f"{read}: {len(lost)} rows are lost without an error, from {lost[:1]} on"
    return EXACT
