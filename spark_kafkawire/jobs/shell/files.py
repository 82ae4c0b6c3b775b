"""Files that arguments of a job name, to write and to read.

Each may be a pipe, such as ``--options-file <(...)`` or ``--export /dev/stdout``. A job does not wait long
for the process at the other end.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import stat
import time
import uuid
from pathlib import Path
from typing import Final

from spark_kafkawire.errors import LimitError, OptionError, printable
from spark_kafkawire.regular_files import not_regular, open_regular

from ..state.local_files import sync_folder, write_synced

#: Bytes of a file that is read whole: a million lines.
READ_SIZE_MAX: Final = 256 << 20
#: How long to wait for the other end of a pipe, and for all of its content, seconds.
PIPE_TIMEOUT_S: Final = 20.0
_PIPE_BYTES: Final = 1 << 16
_PIPE_LOOK_S: Final = 0.05


def write_file(path: Path, text: str, argument: str) -> None:
    """Write a file in one step: no process reads a part of it, and a failure leaves the old file. It is on
    disk when this returns.

    Raises ``OptionError`` (fatal) that names the ``argument`` with the path.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe or a terminal, as /dev/stdout
            with open(_writable(path), "w", encoding="utf-8") as file:
                file.write(text)
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
        raise OptionError(f"argument {argument}: {printable(path)}: {error.strerror}") from error


def read_file(path: Path, argument: str) -> str:
    """A file's text. Raises ``OptionError`` and ``LimitError`` (fatal) that name the ``argument``."""
    try:
        data = _read(path)
        if len(data) > READ_SIZE_MAX:
            raise LimitError(
                f"argument {argument}: {printable(path)} is larger than {READ_SIZE_MAX} bytes; give a "
                "smaller file"
            )
        return data.decode("utf-8")
    except OSError as error:
        raise OptionError(f"argument {argument}: {printable(path)}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise OptionError(
            f"argument {argument}: {printable(path)} is not a text in UTF-8; save it in UTF-8"
        ) from error


def _read(path: Path) -> bytes:
    """The bytes of a file or of a pipe up to its end, one more than the limit at most. Raises ``OSError``."""
    if path.is_fifo():
        return _from_pipe(path)
    with open_regular(path) as file:
        return file.read(READ_SIZE_MAX + 1)


def _from_pipe(path: Path) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISFIFO(mode := os.fstat(fd).st_mode):
            raise not_regular(path, mode)
        data, stop_s = bytearray(), time.monotonic() + PIPE_TIMEOUT_S
        while len(data) <= READ_SIZE_MAX and (piece := _piece(fd, path, stop_s)):
            data += piece
    finally:
        os.close(fd)
    if not data:
        raise OSError(errno.EPIPE, "it is a pipe that no process writes to; start the writer", str(path))
    return bytes(data)


def _piece(fd: int, path: Path, stop_s: float) -> bytes:
    """The next bytes of a pipe; empty at its end."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while (left_s := stop_s - time.monotonic()) > 0:
        with contextlib.suppress(BlockingIOError):
            return os.read(fd, _PIPE_BYTES)
        poll.poll(left_s * 1000)
    raise OSError(
        errno.ETIMEDOUT,
        f"it is a pipe that has no end after {PIPE_TIMEOUT_S:g} s; close its writer",
        str(path),
    )


def _writable(path: Path) -> int:
    """Open a file that is not regular: a pipe as soon as a process reads from it, a terminal at once."""
    stop_s = time.monotonic() + PIPE_TIMEOUT_S
    while True:
        try:
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if not path.is_fifo():
                raise not_regular(path, path.stat().st_mode) from error
            if time.monotonic() > stop_s:
                why = f"it is a pipe that no process reads from for {PIPE_TIMEOUT_S:g} s; start the reader"
                raise OSError(errno.EPIPE, why, str(path)) from error
            time.sleep(_PIPE_LOOK_S)
        else:
            # A reader may take its time, as a pager does.
            os.set_blocking(fd, True)
            return fd
