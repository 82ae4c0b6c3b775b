"""Files that a job is told to write and to read."""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path
from typing import Final

from ...errors import LimitError, OptionError, shown
from ..state.local_files import sync_folder, write_synced

#: Bytes of a file that is read whole: a million lines.
READ_SIZE_MAX: Final = 256 << 20


def write_file(path: Path, text: str, argument: str) -> None:
    """Write a file whole or not at all: nobody reads half of it, and a failure leaves the old one. It is on
    the disk when this returns.

    Raises ``OptionError`` (fatal) that names the ``argument`` which the path came from.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe or a terminal, as /dev/stdout
            path.write_text(text, "utf-8")
            return
        unfinished = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
        try:
            write_synced(str(unfinished), text.encode("utf-8"))
            os.replace(unfinished, path)
            sync_folder(str(path.parent))
        finally:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
    except OSError as error:
        raise OptionError(f"argument {argument}: {shown(path)}: {error.strerror}") from error


def read_file(path: Path, argument: str) -> str:
    """A file's text. Raises ``OptionError`` and ``LimitError`` (fatal) that name the ``argument``."""
    try:
        with path.open("rb") as file:
            data = file.read(READ_SIZE_MAX + 1)
        if len(data) > READ_SIZE_MAX:
            raise LimitError(f"argument {argument}: {shown(path)} is larger than {READ_SIZE_MAX} bytes")
        return data.decode("utf-8")
    except OSError as error:
        raise OptionError(f"argument {argument}: {shown(path)}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise OptionError(f"argument {argument}: {shown(path)} is not a text in UTF-8") from error
