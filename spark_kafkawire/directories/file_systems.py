"""File systems of log directories: disks of this machine, those of ``pyarrow.fs``, and those of fsspec.

    system.listed(folder)           # FileInfo of each file and folder in it
    system.open(path).read_into(buffer, pos)

Each call raises ``FileNotFoundError`` if the store says that there is no such file, and another error if it
does not say so: log directories take a missing folder for a deleted topic.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO, Final, Protocol, TypeVar

from ..bounded import NotEnded, call_bounded
from ..errors import printable
from ..regular_files import dead_link, open_regular

T = TypeVar("T")

#: Longest wait for a request through fsspec, seconds: the libraries below it wait without a limit.
REQUEST_TIMEOUT_S: Final = 120.0
#: Bytes that fsspec reads ahead: the next window is another request.
_AHEAD_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True, order=True)
class FileInfo:
    """A file or a folder. ``path`` is one of its file system, ``size`` counts bytes (0 for folders, and for
    files that are not regular), ``modified_ms`` is the time of its last change, 0 if it is not known."""

    path: str
    name: str
    is_folder: bool
    size: int = 0
    modified_ms: int = 0


class OpenFile(Protocol):
    """A file that is open for reading at any position, of ``size`` bytes then. Several threads may read at
    once."""

    size: int

    def read_into(self, buffer: memoryview, pos: int) -> int:
        """Fill ``buffer`` from ``pos`` on; the number of bytes, which is smaller only at the end of the
        file."""

    def close(self) -> None: ...


class FileSystem(Protocol):
    """Folders and files by path."""

    def listed(self, folder: str) -> list[FileInfo]: ...

    def open(self, path: str) -> OpenFile: ...


class LocalFiles:
    """The disks of this machine."""

    def listed(self, folder: str) -> list[FileInfo]:
        result = []
        with os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # a broker has just removed it
                    try:
                        facts = entry.stat()
                    except OSError:  # a link to nothing, or to itself: to open it is the error
                        facts = entry.stat(follow_symlinks=False)
                    is_folder = stat.S_ISDIR(facts.st_mode)
                    size = facts.st_size if stat.S_ISREG(facts.st_mode) else 0
                    modified_ms = facts.st_mtime_ns // 1_000_000
                    result.append(FileInfo(entry.path, entry.name, is_folder, size, modified_ms))
        return result

    def open(self, path: str) -> OpenFile:
        try:
            return _LocalFile(open_regular(path))
        except FileNotFoundError:
            if os.path.islink(path):
                raise dead_link(path) from None
            raise


class _LocalFile:
    """A file of this machine, read into the caller's memory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.size = file, os.fstat(file.fileno()).st_size

    def read_into(self, buffer: memoryview, pos: int) -> int:
        done = 0
        while done < len(buffer):
            count = os.preadv(self._file.fileno(), [buffer[done:]], pos + done)
            if not count:
                break
            done += count
        return done

    def close(self) -> None:
        self._file.close()


class ArrowFiles:
    """A file system of ``pyarrow.fs``. With ``is_flat`` it has no folders but those that an empty object
    marks, so all files are listed."""

    def __init__(self, system: Any, *, is_flat: bool) -> None:
        self._system, self._is_flat = system, is_flat

    def listed(self, folder: str) -> list[FileInfo]:
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(folder, allow_not_found=self._is_flat, recursive=self._is_flat)
        result = [
            FileInfo(
                item.path, item.base_name, item.type == FileType.Directory, item.size or 0, _ms(item.mtime)
            )
            for item in self._system.get_file_info(selector)
        ]
        if self._is_flat and not result:
            raise FileNotFoundError(printable(folder))
        return _children(folder, result) if self._is_flat else result

    def open(self, path: str) -> OpenFile:
        file = self._system.open_input_file(path)
        return _StoreFile(int(file.size()), file.read_at, file.close)


def _children(folder: str, result: list[FileInfo]) -> list[FileInfo]:
    """The content of a folder itself, of all that is below it."""
    children: dict[str, FileInfo] = {}
    for item in result:
        name, is_deeper, _ = item.path[len(folder) + 1 :].partition("/")
        if is_deeper:
            children.setdefault(name, FileInfo(f"{folder}/{name}", name, True))
        else:
            children[name] = item
    return list(children.values())


class _StoreFile:
    """A file of an object store of ``size`` bytes: ``ask`` is a request for a number of them from a position
    on."""

    def __init__(self, size: int, ask: Callable[[int, int], bytes], close: Callable[[], None]) -> None:
        self.size, self._ask, self.close = size, ask, close

    def read_into(self, buffer: memoryview, pos: int) -> int:
        """Raises ``OSError`` if a store returns fewer bytes: the rest of a log would be missing."""
        count = max(min(len(buffer), self.size - pos), 0)
        result = self._ask(count, pos) if count else b""
        if len(result) != count:
            raise OSError(f"the store returned {len(result)} of {count} bytes at position {pos}; read again")
        buffer[:count] = result
        return count


class FsspecFiles:
    """A file system of fsspec.

    pyarrow's handler of fsspec asks ``exists`` and ``isfile`` first, which are False if the request fails. So
    it is not used: here a failed request is an error, and a file has the size that the store says.
    """

    def __init__(self, system: Any, scheme: str) -> None:
        self._system = system
        if scheme == "webhdfs" and _raise_for_status not in system.session.hooks["response"]:
            system.session.hooks["response"].append(_raise_for_status)

    def listed(self, folder: str) -> list[FileInfo]:
        def call() -> list[FileInfo]:
            self._system.invalidate_cache(folder)
            return [_info(item) for item in self._system.ls(folder, detail=True)]

        return _call_in_time(call)

    def open(self, path: str) -> OpenFile:
        def ask(count: int, pos: int) -> bytes:
            # A handle of fsspec serves one thread.
            with self._system.open(path, "rb", block_size=_AHEAD_BYTES) as file:
                file.seek(pos)
                result: bytes = file.read(count)
                return result

        size = _call_in_time(lambda: int(self._system.info(path)["size"]))
        return _StoreFile(size, lambda count, pos: _call_in_time(lambda: ask(count, pos)), lambda: None)


def _call_in_time(call: Callable[[], T]) -> T:
    try:
        return call_bounded(call, REQUEST_TIMEOUT_S, "kafkawire-files")
    except NotEnded:
        raise OSError(f"no answer within {REQUEST_TIMEOUT_S:g} s; check the network to the store") from None


def _info(result: dict[str, Any]) -> FileInfo:
    """An entry of fsspec. Times have another name in each file system; those of the two that have folders
    are known."""
    path = result["name"].rstrip("/")
    is_folder = result["type"] == "directory"
    milliseconds = result.get("modificationTime")  # of webhdfs
    modified_ms = int(milliseconds) if milliseconds else _ms(result.get("mtime"))
    return FileInfo(
        path, path.rpartition("/")[2], is_folder, 0 if is_folder else result["size"] or 0, modified_ms
    )


def _ms(time: datetime | float | None) -> int:
    """A time in ms; 0 without one."""
    if not time:
        return 0
    return int((time.timestamp() if isinstance(time, datetime) else time) * 1000)


def _raise_for_status(response: Any, *_: Any, **__: Any) -> None:
    """Raise the error of a name node or a data node. fsspec does not look at the status of a data node, so
    that an error would be the content of a file."""
    if response.status_code < 400:
        return
    try:
        remote = response.json()["RemoteException"]
        kind, message = str(remote["exception"]), str(remote["message"])
    except (ValueError, KeyError, TypeError):
        kind, message = "", str(response.reason)
    if kind == "FileNotFoundException":
        raise FileNotFoundError(message)
    url = response.url.partition("?")[0]
    raise OSError(f"{url} answers with status {response.status_code} {kind}: {message}")
