"""A disk that is full or read-only: the fixture ``disk``."""

from __future__ import annotations

import subprocess
from pathlib import Path


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
