"""A whole read of log directories without a JVM, as ``reading.Read`` reads from brokers."""

from __future__ import annotations

import json
from pathlib import Path

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
