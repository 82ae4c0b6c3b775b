"""Files of this machine for the state of jobs, created and renamed in one step, however a run ends.

    files = LocalFiles()
    files.create("/state/7.planned.json", text)      # complete and on disk, or absent

A file and its name are on disk when the call returns. Of two runs that create the same file one is refused,
also on file systems without locks (a folder that two machines share).

Hadoop is not used for local files: Java's rename falls back to copying file by file, and Hadoop does not
force local files to the disk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from typing import Final

from spark_kafkawire.regular_files import open_regular

from .file_system import FileError, file_error, is_there, printable_path

#: Most bytes of a file: far more than a state of a million partitions has.
READ_SIZE_MAX: Final = 256 << 20
#: Permissions of a new file, before the umask.
_MODE: Final = 0o666
#: Errors of file systems without links, or whose folders cannot be forced to the disk.
_UNSUPPORTED: Final = frozenset((errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.EMLINK))


class LocalFiles:
    """Files by the paths that this machine knows. All methods raise ``FileError``, which names the path."""

    def exists(self, path: str) -> bool:
        """True if there is such a file or folder."""
        with _file_errors("look at", path):
            try:
                os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; empty if the folder does not exist."""
        with _file_errors("list", folder):
            try:
                return sorted(os.listdir(folder))
            except FileNotFoundError:
                return []

    def read(self, path: str) -> str:
        """A file's text."""
        with _file_errors("read", path), open_regular(path) as file:
            data = file.read(READ_SIZE_MAX + 1)
        if len(data) > READ_SIZE_MAX:
            raise FileError(
                f"{printable_path(path)} is larger than {READ_SIZE_MAX} bytes, so it is damaged: put a copy "
                "of it back"
            )
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise FileError(
                f"{printable_path(path)} is not a text in UTF-8, so it is damaged: put a copy of it back"
            ) from error

    def create(self, path: str, text: str) -> None:
        """Create a new file with its text in one step."""
        folder, name = os.path.split(path)
        unfinished = os.path.join(folder, f".{name}.{uuid.uuid4().hex}.unfinished")
        with _file_errors("write", path):
            try:
                write_synced(unfinished, text.encode("utf-8"))
                _link(unfinished, path)
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(unfinished)
            sync_folder(folder)

    def rename(self, source: str, target: str) -> None:
        """Rename a file or folder to a path that does not exist."""
        if self.exists(target):
            raise is_there(target)
        with _file_errors("rename", source, f" to {printable_path(target)}"):
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
        with _file_errors("make the folder", path):
            try:
                os.makedirs(path, exist_ok=True)
            except FileExistsError as error:
                raise FileError(
                    f"{printable_path(path)}: cannot make the folder, because a file is in its place: move it"
                ) from error

    def remove(self, path: str) -> None:
        """Remove a file or folder, if it exists.

        A process that still renames it, or a file in it, finds it complete or absent.
        """
        folder, name = os.path.split(path)
        prefix = f".{name}.removed."
        with _file_errors("remove", path):
            with contextlib.suppress(FileNotFoundError):
                os.rename(path, os.path.join(folder, f"{prefix}{uuid.uuid4().hex}"))
            for left in self.names(folder):
                if left.startswith(prefix):
                    _delete(os.path.join(folder, left))

    def sync(self, folder: str) -> None:
        """Force the content of a folder to the disk. Raises the errors of earlier writes."""
        with _file_errors("write", folder):
            for where, _, names in os.walk(folder, onerror=_raise):
                for name in names:
                    with open_regular(os.path.join(where, name)) as file:
                        os.fsync(file.fileno())
                sync_folder(where)

    def local_path(self, path: str) -> str | None:
        """The path itself."""
        return path


@contextlib.contextmanager
def _file_errors(action: str, path: str, more: str = "") -> Iterator[None]:
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
    """Give a file its name; raises ``FileExistsError`` if another process was first."""
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
        fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise


def _delete(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def _raise(error: OSError) -> None:
    raise error
