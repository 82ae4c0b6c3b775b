"""Milestones in a state folder: they prove that a record existed, so that its loss is detected.

    reach(files, folder, Milestone.BEGUN)           # when the first record is on the disk, before any row
    has_reached(files, folder, Milestone.BEGUN)     # and there is no record: it is lost

On a local disk the file ``lock`` has a line for each milestone. Other file systems cannot append, so each
milestone is a file of its own.
"""

from __future__ import annotations

import enum
import os
from pathlib import Path

from spark_kafkawire.regular_files import open_regular

from .file_system import FileSystem, file_error
from .sole_run import LOCK


class Milestone(enum.Enum):
    """Milestones that a state has reached."""

    #: There is a record.
    BEGUN = "begun"
    #: There is the record of the end.
    DONE = "done"


def reach(files: FileSystem, folder: str, milestone: Milestone) -> None:
    """Note a milestone, once; it is on the disk when this returns. Raises ``FileError`` (fatal)."""
    if has_reached(files, folder, milestone):
        return
    line = f"{milestone.value}\n"
    local = files.local_path(folder)
    if local is None:
        files.create(f"{folder}/{milestone.value}", line)
        return
    lock = Path(local, LOCK)
    try:
        with open_regular(lock, append=True) as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise file_error("write", lock, error) from error


def has_reached(files: FileSystem, folder: str, milestone: Milestone) -> bool:
    """True once a milestone was noted. Raises ``FileError`` (fatal)."""
    if files.local_path(folder) is None:
        return files.exists(f"{folder}/{milestone.value}")
    lock = f"{folder}/{LOCK}"
    return files.exists(lock) and milestone.value in files.read(lock)
