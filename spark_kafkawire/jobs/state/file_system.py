"""The file system interface of jobs, and messages for its errors."""

from __future__ import annotations

import errno
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from spark_kafkawire.errors import KafkaWireError, printable

_FREE_SPACE: Final = "free some space there, and run again"
_ALLOW: Final = "let this user write there, and run again"
_ADVICE: Final = MappingProxyType(
    {
        errno.ENOSPC: _FREE_SPACE,
        errno.EDQUOT: _FREE_SPACE,
        errno.EFBIG: _FREE_SPACE,
        errno.EROFS: _ALLOW,
        errno.EACCES: _ALLOW,
        errno.EPERM: _ALLOW,
        errno.EIO: "check the disk, and run again",
        errno.EXDEV: "it is on another file system: keep all of the output on one",
    }
)


class FileError(KafkaWireError):
    """A file or folder cannot be read or written. Fatal."""


class FileSystem(Protocol):
    """Files by path. All methods raise ``FileError``, which names the path."""

    def exists(self, path: str) -> bool:
        """True if there is such a file or folder."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; empty if the folder does not exist."""

    def read(self, path: str) -> str:
        """A file's text."""

    def create(self, path: str, text: str) -> None:
        """Create a new file with its text in one step."""

    def rename(self, source: str, target: str) -> None:
        """Rename a file or folder to a path that does not exist."""

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it."""

    def remove(self, path: str) -> None:
        """Remove a file or folder, which need not be there."""

    def sync(self, folder: str) -> None:
        """Force the content of a folder to the disk, if the file system can."""

    def local_path(self, path: str) -> str | None:
        """The local path; None for other file systems."""


def file_error(action: str, path: str | Path, error: OSError, more: str = "") -> FileError:
    """The error for an operating system's error, with advice."""
    where = path if error.filename is None or error.filename2 is not None else error.filename
    # The name of the temporary file means nothing to the user.
    where = path if str(where).endswith(".unfinished") else where
    advice = _ADVICE.get(error.errno or 0)
    reason = f"{error.strerror}{f'; {advice}' if advice else ''}"
    return FileError(f"{printable_path(str(where))}: cannot {action}{more}: {reason}")


def printable_path(path: str) -> str:
    """A path as part of one line, without leaving out names."""
    return "/".join(map(printable, path.split("/")))


def is_there(path: str) -> FileError:
    """The error of creating or renaming to a path that exists."""
    return FileError(f"{printable_path(path)} already exists: does another run write here?")
