"""A wait for a condition, with a deadline instead of a sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
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
