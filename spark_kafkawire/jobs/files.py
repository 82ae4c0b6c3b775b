"""Files of jobs: the file system interface of their state, its local files, and files that arguments name.

    files = LocalFiles()
    files.create("/state/7.planned.json", text)      # complete and on disk, or absent

A file and its name are on disk when the call returns. Of two runs that create the same file one is
refused, also on file systems without locks (a folder that two machines share). Hadoop is not used for
local files: Java's rename falls back to copying file by file, and Hadoop does not force local files to
the disk.

A file that an argument names may be a pipe, such as ``--options-file <(...)`` or ``--export
/dev/stdout``. A job does not wait long for the process at the other end.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import shutil
import stat
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from ..errors import KafkaWireError, LimitError, OptionError, printable
from ..regular_files import not_regular, open_regular

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


def list_numbered(files: FileSystem, folder: str, pattern: str) -> list[tuple[int, str]]:
    """The numbers and names in a folder that match, sorted. The first group of ``pattern`` is the number."""
    matches = (re.fullmatch(pattern, name) for name in files.names(folder))
    return sorted((int(match[1]), match[0]) for match in matches if match)


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


#: Most bytes of a file: far more than a state of a million partitions has.
READ_SIZE_MAX: Final = 256 << 20
#: Permissions of a new file, before the umask.
_MODE: Final = 0o666
#: Errors of file systems without links, or whose folders cannot be forced to the disk.
_UNSUPPORTED: Final = frozenset((errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.EMLINK))


class LocalFiles:
    """Files by the paths that this machine knows. All methods raise ``FileError``, which names the path."""

    def exists(self, path: str) -> bool:
        with _file_errors("look at", path):
            try:
                os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True

    def names(self, folder: str) -> list[str]:
        with _file_errors("list", folder):
            try:
                return sorted(os.listdir(folder))
            except FileNotFoundError:
                return []

    def read(self, path: str) -> str:
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
        with _file_errors("make the folder", path):
            try:
                os.makedirs(path, exist_ok=True)
            except FileExistsError as error:
                raise FileError(
                    f"{printable_path(path)}: cannot make the folder, because a file is in its place: move it"
                ) from error

    def remove(self, path: str) -> None:
        # A process that still renames it, or a file in it, finds it complete or absent.
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
