"""A wait for a condition, with a deadline instead of a sleep; and processes that stop without ending, as in a
debugger or on a machine that hangs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

#: Far above what anything that is waited for takes, on a machine that does other work too.
DEADLINE_S: Final = 90.0
#: How late a wait may end on such a machine. Whoever ignores a short deadline waits for longer than
#: this: the options' own are 30 s.
GRACE_S: Final = 28.0
INTERVAL_S: Final = 0.01


def poll(condition: Callable[[], T], what: str, deadline_s: float = DEADLINE_S) -> T:
    """The first true value of ``condition``; an ``AssertionError`` that names ``what`` else."""
    deadline = time.monotonic() + deadline_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {deadline_s:g} s: {what}"
        time.sleep(INTERVAL_S)
    return value


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
