"""Where compiled kernels are kept: for the user, and for all users of an installation.

What lies there is executed. So a user's folder is one that nobody else can write; and what lies beside the
code, where whoever installed the package has put it, is taken where nobody else can write that, either. numba
keeps to folders that it can write, so the user's is filled from it.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

#: What ``compile_kernels --for-all-users`` makes.
INSTALLED: Final = Path(__file__).parents[1] / "compiled_kernels"
#: Memory that most containers can write, those with a read-only disk, too.
_SHARED_MEMORY: Final = Path("/dev/shm")
_OF_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


def users_folder() -> Path | None:
    """A folder that this user alone can write; None where there is none."""
    for place in _places():
        try:
            folder = place.expanduser()
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = folder.stat()
        except (OSError, RuntimeError):  # read-only, or a user without a home
            continue
        private = status.st_uid == os.getuid() and not status.st_mode & _OF_OTHERS
        if private and os.access(folder, os.W_OK | os.X_OK):
            return folder
    return None


def _places() -> Iterator[Path]:
    yield Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "spark-kafkawire")
    of_user = f"spark-kafkawire-{os.getuid()}"
    with suppress(OSError):  # none can be written
        yield Path(tempfile.gettempdir(), of_user)
    yield _SHARED_MEMORY / of_user


def fill(folder: Path) -> None:
    """Copy to the user's folder what was compiled for all users and is not there yet."""
    # Names of code come before those of the indexes that tell of it.
    for source in sorted(INSTALLED.glob("*/*.nb[ci]")):
        target = folder / source.relative_to(INSTALLED)
        if not target.exists() and _is_the_installers(source):
            target.parent.mkdir(exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as part:
                part.write(source.read_bytes())
            os.replace(part.name, target)


def _is_the_installers(source: Path) -> bool:
    """Whether nobody but the owner of the package can have written a file."""
    owner = Path(__file__).stat().st_uid
    statuses = [path.stat() for path in (source, source.parent, INSTALLED)]
    return all(status.st_uid == owner and not status.st_mode & _OF_OTHERS for status in statuses)
