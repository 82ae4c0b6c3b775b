"""Files at a path from outside: only regular files are opened, because others may block for ever.

    data = read_regular(path, size_max, "on the driver", "give another path", "give a smaller file")

To open a named pipe waits for its other end, and to read a terminal waits for a person.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

#: Kinds of files that are not regular, by their mode in ``stat``.
_KINDS: Final = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: str | Path, *, append: bool = False) -> BinaryIO:
    """Open a regular file to read it, or to append to it, which creates a missing file. Never blocks.

    Raises ``OSError`` whose ``strerror`` names the kind of any other file.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT if append else os.O_RDONLY
    try:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, 0o666)
    except OSError as error:
        # A socket, and a missing device.
        if error.errno == errno.ENXIO:
            raise not_regular(path, os.stat(path).st_mode) from error
        raise
    try:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            raise not_regular(path, mode)
        return os.fdopen(fd, "ab" if append else "rb")
    except BaseException:
        os.close(fd)
        raise


class Unreadable(Exception):
    """A file that cannot be read, or is too long. The text says so, and what to do."""


def read_regular(path: str | Path, size_max: int, where: str, if_absent: str, if_long: str) -> bytes:
    """The content of a small regular file. Never blocks. Raises ``Unreadable``, which ends with an advice."""
    try:
        with open_regular(path) as file:
            data = file.read(size_max + 1)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or "it cannot be a file's name"
        raise Unreadable(f"cannot be read {where}: {reason}; {if_absent}") from error
    if len(data) > size_max:
        raise Unreadable(f"is longer than {size_max} bytes; {if_long}")
    return data


def not_regular(path: str | Path, mode: int) -> OSError:
    """The error for a file that is not regular."""
    if stat.S_ISDIR(mode):
        return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    kind = _KINDS.get(stat.S_IFMT(mode), "of another kind")
    return OSError(errno.ENXIO, f"it is {kind}, and a regular file is needed", str(path))


def dead_link(path: str | Path) -> OSError:
    """The error for a link to a file that does not exist."""
    return OSError(errno.ENOLINK, "it is a link to a file that does not exist", str(path))
