"""Files of this machine, made and renamed so that whatever ends a run leaves the old or the new one.

    files = LocalFiles()
    files.create("/state/7.planned.json", text)      # whole and on the disk, or not there at all

What is made is on the disk when the call returns: the file and its name. A file is made once: of two
that make the same one is refused, also where no lock is known (a folder that two machines share).

Java's own renaming, by which Hadoop renames local folders, falls back to copying file by file, and its
local files are not forced to the disk. So these are not made with it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from typing import Final

from .file_system import FileError, file_error, is_there, shown_path

#: Bytes of a file that is read whole: far above what a state of a million logs takes.
READ_SIZE_MAX: Final = 256 << 20
#: What a new file is for others, where the umask does not say less.
_MODE: Final = 0o666
#: What file systems answer that have no links, or folders that cannot be forced to the disk.
_UNSUPPORTED: Final = frozenset((errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.EMLINK))


class LocalFiles:
    """Files by the paths that this machine knows. All methods raise ``FileError``, which names the path."""

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        with _telling("look at", path):
            try:
                os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; none where there is no such folder."""
        with _telling("list", folder):
            try:
                return sorted(os.listdir(folder))
            except FileNotFoundError:
                return []

    def read(self, path: str) -> str:
        """A file's text."""
        with _telling("read", path), open(path, "rb") as file:
            data = file.read(READ_SIZE_MAX + 1)
        if len(data) > READ_SIZE_MAX:
            raise FileError(f"{shown_path(path)} is larger than {READ_SIZE_MAX} bytes")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise FileError(f"{shown_path(path)} is not a text in UTF-8: it is damaged") from error

    def create(self, path: str, text: str) -> None:
        """Make a file that is not there yet, in one step: with all of its text, or not at all."""
        folder, name = os.path.split(path)
        unfinished = os.path.join(folder, f".{name}.{uuid.uuid4().hex}.unfinished")
        with _telling("write", path):
            try:
                write_synced(unfinished, text.encode("utf-8"))
                _link(unfinished, path)
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(unfinished)
            sync_folder(folder)

    def rename(self, source: str, target: str) -> None:
        """Rename a file or folder to what is not there yet."""
        if self.exists(target):
            raise is_there(target)
        with _telling("rename", source, f" to {shown_path(target)}"):
            try:
                os.rename(source, target)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    raise is_there(target) from error
                raise
            for folder in {os.path.dirname(source), os.path.dirname(target)}:
                sync_folder(folder)

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it."""
        with _telling("make the folder", path):
            try:
                os.makedirs(path, exist_ok=True)
            except FileExistsError as error:
                raise FileError(
                    f"{shown_path(path)}: cannot make the folder: a file is in its place"
                ) from error

    def remove(self, path: str) -> None:
        """Remove a file or folder, which need not be there.

        Whoever still renames it or what is in it finds it whole or not at all.
        """
        folder, name = os.path.split(path)
        prefix = f".{name}.removed."
        with _telling("remove", path):
            with contextlib.suppress(FileNotFoundError):
                os.rename(path, os.path.join(folder, f"{prefix}{uuid.uuid4().hex}"))
            for left in self.names(folder):
                if left.startswith(prefix):
                    _delete(os.path.join(folder, left))

    def sync(self, folder: str) -> None:
        """Force all that is in a folder to the disk, which tells here what it could not keep."""
        with _telling("write", folder):
            for where, _, names in os.walk(folder, onerror=_raise):
                for name in names:
                    _sync(os.path.join(where, name), os.O_RDONLY)
                sync_folder(where)

    def local_path(self, path: str) -> str | None:
        """The path itself."""
        return path


@contextlib.contextmanager
def _telling(action: str, path: str, more: str = "") -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        raise is_there(path) from error
    except OSError as error:
        raise file_error(action, path, error, more) from error


def write_synced(path: str, data: bytes) -> None:
    """Make a file, and force it to the disk. Raises ``OSError``."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(fd, left) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def _link(source: str, target: str) -> None:
    """Give a file its name; raises ``FileExistsError`` where somebody else was first."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        # Without links there is a moment between the look and the step.
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from error
        os.rename(source, target)


def sync_folder(path: str) -> None:
    """Force the names in a folder to the disk, where the file system can. Raises ``OSError``."""
    try:
        _sync(path or ".", os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise


def _sync(path: str, flags: int) -> None:
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _delete(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def _raise(error: OSError) -> None:
    raise error
