"""How those who wait for messages learn that a log has more to read."""

from __future__ import annotations

import threading


class Arrivals:
    """Counts the times at which some log has shown more. Safe for many threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    @property
    def count(self) -> int:
        """How often messages have come so far; look at the logs after it, and wait from it on."""
        return self._count

    def notify(self) -> None:
        """Wake all who wait."""
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def wait(self, count: int, timeout_s: float) -> None:
        """Return once more has come than at ``count``, or after that time."""
        with self._changed:
            self._changed.wait_for(lambda: self._count != count, timeout_s)
