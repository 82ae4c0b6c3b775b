"""Keeps a second run away from folders that a run works in, where the operating system can.

    with sole_run(files, (output, checkpoint)):
        ...

The lock ends with the process, however that ends. Only folders of this machine are locked; elsewhere a
second run is noticed later by the files that it makes, each of which is made once (see ``local_files``).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from spark_kafkawire.regular_files import open_regular

from .file_system import FileError, FileSystem, file_error, printable_path

#: The file in a folder that is locked.
LOCK: Final = "lock"
#: Errors of file systems without locks.
_NO_LOCKS: Final = frozenset((errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL))


@contextlib.contextmanager
def sole_run(files: FileSystem, folders: Iterable[str]) -> Iterator[None]:
    """Lock the folders. Raises ``FileError`` (fatal) if another run works in one of them."""
    with contextlib.ExitStack() as stack:
        for folder in dict.fromkeys(folders):
            files.make_folder(folder)
            path = files.local_path(folder)
            if path is not None:
                _lock(stack, Path(path, LOCK))
        yield


def _lock(stack: contextlib.ExitStack, path: Path) -> None:
    try:
        file = stack.enter_context(open_regular(path, append=True))
    except OSError as error:
        raise file_error("write", path, error) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise FileError(
            f"{printable_path(str(path.parent))}: another run is active here; wait until it ends"
        ) from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise file_error("lock", path, error) from error
