"""The one place that tries again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from ..errors import KafkaWireError
from .transport import Deadline

T = TypeVar("T")

#: A wait between two tries is never longer, seconds.
BACKOFF_MAX_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often to try again (``retries``), and how long to wait before the first retry.

    The wait doubles with each retry, up to ``BACKOFF_MAX_S``, and is drawn from its upper half so
    that many tasks do not come back at the same moment.
    """

    retries: int = 3
    backoff_s: float = 0.1

    def wait_s(self, attempt: int, draw: float) -> float:
        """Seconds to wait after failed attempt number ``attempt`` (from 1); ``draw`` in [0, 1)."""
        full_s = min(self.backoff_s * 2.0 ** min(attempt - 1, 30), BACKOFF_MAX_S)
        return full_s * (1 + draw) / 2


class Attempts:
    """Counts failures in a row. Progress starts the count anew.

    For ``patience_s`` after the last progress the retries are not used up, however many failed.
    """

    def __init__(
        self,
        policy: RetryPolicy,
        *,
        patience_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._policy, self._clock, self._sleep, self._draw = policy, clock, sleep, draw
        self._patience_s = patience_s
        self._failed = 0
        self._began_s = clock()

    def progressed(self) -> None:
        """Forget the failures so far: something came through."""
        self._failed = 0
        self._began_s = self._clock()

    def failed(self, error: KafkaWireError, within: Deadline | None = None) -> None:
        """Wait before the next try, or raise: ``error`` itself where retrying cannot help or that
        time is over, else ``error`` with the attempts made and the time they took."""
        if not error.retriable or (within is not None and not within.left_s):
            raise error
        self._failed += 1
        elapsed_s = self._clock() - self._began_s
        if self._failed > self._policy.retries and elapsed_s >= self._patience_s:
            raise error.located(
                f"gave up after {self._failed} attempts in {elapsed_s:.1f} s (retries)"
            ) from error
        wait_s = self._policy.wait_s(self._failed, self._draw())
        self._sleep(wait_s if within is None else min(wait_s, within.left_s))

    def run(self, attempt: Callable[[], T]) -> T:
        """Call ``attempt`` until it succeeds or ``failed`` raises."""
        while True:
            try:
                return attempt()
            except KafkaWireError as error:
                self.failed(error)
