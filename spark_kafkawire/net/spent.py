"""Cost of a task: seconds, attempts that are made again, and waits for the responses of brokers."""

from __future__ import annotations

import time
from typing import ClassVar

from .retry import Attempts


class Spent:
    """Cost of what this process does from here on."""

    #: Seconds in which all of the process has waited, by the addresses of brokers.
    waits_s: ClassVar[dict[str, float]] = {}

    def __init__(self) -> None:
        self._began_s, self._retried_count = time.monotonic(), Attempts.retried_count
        self._waits_s = dict(Spent.waits_s)

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        return time.monotonic() - self._began_s

    @property
    def retried_count(self) -> int:
        """Attempts that were made again."""
        return Attempts.retried_count - self._retried_count

    @property
    def slowest(self) -> tuple[float, str]:
        """The longest wait for a broker, seconds, and its address; empty without a wait."""
        waits = ((wait_s - self._waits_s.get(name, 0.0), name) for name, wait_s in Spent.waits_s.items())
        return max(waits, default=(0.0, ""))
