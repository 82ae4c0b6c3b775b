"""A counter that wakes long polls of the embedded broker when a log has more to read."""

from __future__ import annotations

import threading


class Arrivals:
    """Counter of the arrivals of messages in any log. Safe for many threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    @property
    def count(self) -> int:
        """The number of arrivals so far; read it before you look at the logs, and pass it to ``wait``."""
        return self._count

    def notify(self) -> None:
        """Wake all waiting threads."""
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def wait(self, count: int, timeout_s: float) -> None:
        """Return once the count differs from ``count``, or after the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self._count != count, timeout_s)
