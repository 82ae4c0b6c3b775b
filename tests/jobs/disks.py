"""Disks that fail, are full, or are read-only: the n-th call of a process, and a small file system."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from spark_kafkawire.jobs import files
from spark_kafkawire.regular_files import open_regular

from .ingest.ingesting import Crash

#: What a disk or a kill does to a call. A full disk, one that was made read-only, and a process that was
#: killed stay so.
FAULTS: Final = ("full", "read-only", "broken once", "killed before", "killed after", "killed in the middle")
#: Calls that take place or change something; of a full disk files can still be removed.
_GROWING: Final = ("open", "write", "fsync", "link", "rename", "makedirs")
_CHANGING: Final = (*_GROWING, "unlink", "rmtree")
_CALLS: Final = (*_CHANGING, "listdir", "lstat", "read")
_ERRORS: Final = {"full": errno.ENOSPC, "read-only": errno.EROFS, "broken once": errno.EIO}


class FailingDisk:
    """The calls of ``local_files``, counted from the last ``failing`` on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._fault = ""
        self._left = 0
        names = [name for name in _CALLS if hasattr(os, name) and name != "read"]
        calls = {name: self._wrap(name, getattr(os, name)) for name in names}
        proxy = SimpleNamespace(**{**vars(os), **calls})
        monkeypatch.setattr(files, "os", proxy)
        rmtree = self._wrap("rmtree", shutil.rmtree)
        monkeypatch.setattr(files, "shutil", SimpleNamespace(rmtree=rmtree))
        monkeypatch.setattr(files, "open_regular", self._wrap("read", open_regular))

    @property
    def has_failed(self) -> bool:
        """True if the call that was to fail has come."""
        return self._left <= 0

    @contextlib.contextmanager
    def failing(self, fault: str, number: int) -> Iterator[None]:
        """Let a call of the block fail, counted from 1, which ends there where that is a kill."""
        self._fault, self._left = fault, number
        try:
            with contextlib.suppress(Crash):
                yield
        finally:
            self._fault = ""

    def _wrap(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            if not self._fault:
                return call(*arguments, **options)
            counted = name in {"full": _GROWING, "read-only": _CHANGING}.get(self._fault, _CALLS)
            self._left -= counted
            if self._left > 0 or not counted:
                return call(*arguments, **options)
            return self._failed(name, call, arguments, options)

        return wrapped

    def _failed(self, name: str, call: Callable[..., Any], arguments: Any, options: Any) -> Any:
        is_first = self._left == 0
        if self._fault in _ERRORS:
            if self._fault == "broken once" and not is_first:
                return call(*arguments, **options)
            if name == "write" and is_first and len(arguments[1]) > 1:
                # What fits is written; the next call fails.
                return call(arguments[0], arguments[1][: len(arguments[1]) // 2])
            number = _ERRORS[self._fault]
            named = [item for item in arguments if isinstance(item, str)]
            raise OSError(number, os.strerror(number), named[0] if named else None)
        if is_first and self._fault == "killed after":
            _done(name, call, arguments, options)
        if is_first and self._fault == "killed in the middle":
            _half_done(name, call, arguments, options)
        # Nothing that a process would do on its way out is done by one that was killed.
        raise Crash


def _half_done(name: str, call: Callable[..., Any], arguments: Any, options: Any) -> None:
    if name == "write":
        call(arguments[0], arguments[1][: len(arguments[1]) // 2])
    elif name == "rmtree":
        files = [os.path.join(where, item) for where, _, names in os.walk(arguments[0]) for item in names]
        for file in files[: (len(files) + 1) // 2]:
            os.unlink(file)
    elif name != "rename":
        _done(name, call, arguments, options)


def _done(name: str, call: Callable[..., Any], arguments: Any, options: Any) -> None:
    """The call, of which nothing stays open: the system closes the files of a process that was killed."""
    result = call(*arguments, **options)
    if name == "open":
        os.close(result)
    elif name == "read":
        result.close()


class SmallDisk:
    """A file system in memory, of a size that may change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def mount(self) -> bool:
        """Mount it. Returns False if this user may not."""
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4k", "kafkawire", self.folder], capture_output=True
        )
        return done.returncode == 0

    def remount(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", self.folder], check=True)

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", self.folder], check=True)
