"""What a job asks of the file systems that it works on, and what their errors mean."""

from __future__ import annotations

import errno
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from ...errors import KafkaWireError, shown

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
        errno.EIO: "look after the disk, and run again",
        errno.EXDEV: "it is another file system there: let all of the output be on one",
    }
)


class FileError(KafkaWireError):
    """A file or folder cannot be read or written. Fatal."""


class FileSystem(Protocol):
    """Files by path. All methods raise ``FileError``, which names the path."""

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; none where there is no such folder."""

    def read(self, path: str) -> str:
        """A file's text."""

    def create(self, path: str, text: str) -> None:
        """Make a file that is not there yet, in one step: with all of its text, or not at all."""

    def rename(self, source: str, target: str) -> None:
        """Rename a file or folder to what is not there yet."""

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it."""

    def remove(self, path: str) -> None:
        """Remove a file or folder, which need not be there."""

    def sync(self, folder: str) -> None:
        """Force all that is in a folder to the disk, where that can be asked for."""

    def local_path(self, path: str) -> str | None:
        """The path as this machine knows it; None on another file system than this machine's own."""


def file_error(action: str, path: str | Path, error: OSError, more: str = "") -> FileError:
    """What an operating system's error means, and what to do about it."""
    where = path if error.filename is None or error.filename2 is not None else error.filename
    # The file that is made out of sight on the way says nothing to a person.
    where = path if str(where).endswith(".unfinished") else where
    advice = _ADVICE.get(error.errno or 0)
    reason = f"{error.strerror}{f'; {advice}' if advice else ''}"
    return FileError(f"{shown_path(str(where))}: cannot {action}{more}: {reason}")


def shown_path(path: str) -> str:
    """A path as part of one line, none of its names left out."""
    return "/".join(map(shown, path.split("/")))


def is_there(path: str) -> FileError:
    """The error of making or renaming to what is there."""
    return FileError(f"{shown_path(path)} is there already: does another run write here?")
