"""The one place that tries again."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from ..errors import ConnectionLost, KafkaWireError, TransportError
from .transport import Deadline

T = TypeVar("T")

_log = logging.getLogger("spark_kafkawire")

#: A wait between two tries is never longer, seconds.
BACKOFF_MAX_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often to try again at least (``retries``), how long to wait before the first retry, and for how
    long to go on at least (``patience_s``): a broker needs some seconds to start again.

    The wait doubles with each retry, up to ``BACKOFF_MAX_S``, and is drawn from its upper half so
    that many tasks do not come back at the same moment.
    """

    retries: int = 3
    backoff_s: float = 0.1
    patience_s: float = 0.0

    def wait_s(self, attempt: int, draw: float) -> float:
        """Seconds to wait after failed attempt number ``attempt`` (from 1); ``draw`` in [0, 1)."""
        full_s = min(self.backoff_s * 2.0 ** min(attempt - 1, 30), BACKOFF_MAX_S)
        return full_s * (1 + draw) / 2

    @property
    def impatient(self) -> RetryPolicy:
        """The same for what time does not mend: the retries alone count."""
        return replace(self, patience_s=0.0)


class Attempts:
    """Counts failures in a row. Progress starts the count anew.

    For ``patience_s`` after the last progress, or for the policy's where that is longer, the retries are
    not used up, however many failed. Who waits so long is told of it once, and once when it goes on.
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
        self._patience_s = max(policy.patience_s, patience_s)
        self._failed = 0
        self._told: str | None = None
        self._began_s = clock()

    def progressed(self) -> None:
        """Forget the failures so far: something came through."""
        if self._told is not None:
            elapsed_s = self._clock() - self._began_s
            _log.info("going on after %.1f s and %d failures: %s", elapsed_s, self._failed, self._told)
        self._failed, self._told = 0, None
        self._began_s = self._clock()

    def failed(self, error: KafkaWireError, within: Deadline | None = None) -> None:
        """Wait before the next try, or raise: ``error`` itself where retrying cannot help or that
        time is over, else ``error`` with the attempts made and the time they took."""
        if not error.retriable or (within is not None and not within.left_s):
            raise error
        self._failed += 1
        elapsed_s = self._clock() - self._began_s
        is_used_up = self._failed > self._policy.retries or error.exhausted
        if is_used_up and elapsed_s >= self._patience_s:
            raise self._given_up(error, elapsed_s) from error
        wait_s = self._policy.wait_s(self._failed, self._draw())
        if is_used_up:  # one more look when the patience ends
            wait_s = min(wait_s, self._patience_s - elapsed_s)
        if within is not None:
            wait_s = min(wait_s, within.left_s)
        self._tell(error, elapsed_s)
        self._sleep(wait_s)

    def run(self, attempt: Callable[[], T]) -> T:
        """Call ``attempt`` until it succeeds or ``failed`` raises."""
        while True:
            try:
                outcome = attempt()
            except KafkaWireError as error:
                self.failed(error)
            else:
                self.progressed()
                return outcome

    def _given_up(self, error: KafkaWireError, elapsed_s: float) -> KafkaWireError:
        if error.exhausted and self._failed == 1:  # it says so itself
            return error
        bounds = "retries, patience" if self._patience_s else "retries"
        last = error.located(f"gave up after {self._failed} attempts in {elapsed_s:.1f} s ({bounds})")
        last.exhausted = True
        return last

    def _tell(self, error: KafkaWireError, elapsed_s: float) -> None:
        """Say once that somebody waits now, and for what. A connection that a peer closed is no reason
        before the next one has failed: brokers close those that were idle for long."""
        is_sure = isinstance(error, TransportError) and not isinstance(error, ConnectionLost)
        waits = elapsed_s < self._patience_s
        if self._told is None and waits and (is_sure or self._failed > 1):
            self._told = str(error)
            _log.warning("%s; trying again for up to %g s (patience)", error, self._patience_s)
