"""Processes that stop without ending, as in a debugger or on a machine that hangs."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from .polling import poll


def freeze(pid: int) -> None:
    """Stop a process with all of its threads: the kernel tells one, which tells the others once it runs."""
    os.kill(pid, signal.SIGSTOP)
    poll(lambda: is_stopped(pid), f"process {pid} to stop")


def is_stopped(pid: int) -> bool:
    """True if none of its threads runs."""
    return all(_state(thread) in "TZX" for thread in Path(f"/proc/{pid}/task").iterdir())


def _state(thread: Path) -> str:
    """The letter behind ``pid (name)``, where the name may hold anything; X where the thread has ended."""
    try:
        return (thread / "stat").read_text().rpartition(") ")[2][0]
    except FileNotFoundError:
        return "X"
