"""A whole read of log directories without a JVM, as ``reading.Read`` reads from brokers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from spark_kafkawire.directories.side_files import META_PROPERTIES

from .reading import PlannedRead, with_dots


class DirectoryRead(PlannedRead):
    """A read of one path or of several. Option names have ``__`` for dots."""

    def __init__(self, *paths: Path | str, **options: str) -> None:
        given = with_dots(options)
        if len(paths) == 1:
            given["path"] = str(paths[0])
        elif paths:
            given["paths"] = json.dumps([str(path) for path in paths])
        super().__init__(given)


def copied(directory: Path, folder: Path, broker_id: int) -> Path:
    """A copy of a directory, as another broker has it."""
    shutil.copytree(directory, folder)
    meta = folder / META_PROPERTIES
    meta.write_text(meta.read_text().replace("node.id=1", f"node.id={broker_id}"))
    return folder
