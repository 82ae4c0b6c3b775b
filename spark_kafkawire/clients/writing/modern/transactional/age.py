"""How much of its time the transaction of a task has used up, and the write that it is of.

The first task's transaction is open until the last task is done, so the write must be done within the timeout
as well. When it began the driver tells, by its machine's clock.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from typing import Final

from .....errors import DeliveryError

_log = logging.getLogger("spark_kafkawire")

#: Parts of the timeout that are told to be used up.
_TOLD_AT: Final = (0.5, 0.9)


class Age:
    """That of a transaction which begins with it. ``timeout_ms`` is None where no timeout ends it;
    ``write_began_s`` is when the driver began the write, in seconds since 1970, None where nobody tells."""

    def __init__(self, timeout_ms: int | None, write_began_s: float | None = None) -> None:
        self._timeout_ms = timeout_ms
        self._began_s = time.monotonic()
        # Clocks of two machines may differ: no write has yet to begin.
        self._before_s = max(time.time() - write_began_s, 0.0) if write_began_s is not None else 0.0
        self._own_left, self._write_left = list(_TOLD_AT), list(_TOLD_AT)

    def tell(self) -> None:
        """Warn where another part of the time is used up, by the task or, it may be, by the write."""
        if self._timeout_ms is None:
            return
        own_s = time.monotonic() - self._began_s
        if used := self._used(own_s, self._own_left):
            _log.warning(
                "%.0f %% of kafka.transaction.timeout.ms=%d are used up, and the task has more rows: when it "
                "is over the brokers abort the transaction, and the write fails; raise it, or write less",
                *(100 * used, self._timeout_ms),
            )
        write_s = own_s + self._before_s
        used_by_write = self._used(write_s, self._write_left)
        if used_by_write > used:
            _log.warning(
                "the driver began this write %.1f s ago, more than %.0f %% of "
                "kafka.transaction.timeout.ms=%d, and there are more rows: what the first tasks left open "
                "may be as old, and the write fails where brokers abort it; raise it, or write less",
                *(write_s, 100 * used_by_write, self._timeout_ms),
            )

    def _used(self, age_s: float, left: list[float]) -> float:
        """The greatest part that is used up and was not told; 0 for none."""
        assert self._timeout_ms is not None
        used = 0.0
        while left and 1000 * age_s >= left[0] * self._timeout_ms:
            used = left.pop(0)
        return used

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """An error of a transaction that has had its time says so: brokers say only that it is over."""
        try:
            yield
        except DeliveryError as error:
            age_s = time.monotonic() - self._began_s
            if self._timeout_ms is None or 1000 * age_s < self._timeout_ms:
                raise
            raise error.advised(
                f"the task has had its transaction for {age_s:.1f} s, and kafka.transaction.timeout.ms="
                f"{self._timeout_ms} lets brokers abort it before: raise that, or write less"
            ) from error
