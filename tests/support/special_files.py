"""Files that are not regular, at which a program could wait for ever.

path = special_file(tmp_path / "it", "pipe")
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from types import MappingProxyType
from typing import Final

#: The kinds, and how an error names them.
KINDS: Final = MappingProxyType(
    {
        "pipe": "it is a pipe, and a regular file is needed",
        "socket": "it is a socket, and a regular file is needed",
        "device": "it is a device, and a regular file is needed",
        "folder": "Is a directory",
    }
)


def special_file(path: Path, kind: str) -> Path:
    """Make a file of a kind, of which nobody has the other end; its path."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        # The address of a socket is short, and a test's folder may not be.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
    elif kind == "device":
        # Its reader would get zeros for good.
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    return path
