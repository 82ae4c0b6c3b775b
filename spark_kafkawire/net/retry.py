"""Retries: the policy, the attempts of one operation, and the first contact with a cluster.

The first contact is bounded by ``bootstrapTimeout``, and logged after three seconds.
An address that has never answered may be wrong, and its user waits for the first result. A cluster that has
answered exists, so ``brokerDownTimeout`` bounds the wait while it is down. Spark runs each step of a query in
a separate process, so later steps use ``RetryPolicy.known``.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar, Final, TypeVar

from ..errors import LOG, ConnectionLost, KafkaWireError, TransportError, counted, printable
from .transport import Deadline

#: Time without an answer after which a warning names the addresses, seconds.
WARNED_AFTER_S: Final = 3.0
#: Least time for one TCP connection, seconds, however many servers share ``bootstrapTimeout``.
DIAL_LEAST_S: Final = 1.0
_OPTION: Final = "bootstrapTimeout"


@dataclass(slots=True)
class _Cluster:
    """State of a cluster that an option names, in this process."""

    has_answered: bool = False
    is_warned: bool = False
    #: The last failure of a cluster that has not answered.
    reason: str = "no answer yet"


_UNKNOWN: Final = _Cluster()
#: It changes under the lock alone.
_CLUSTERS: Final[dict[str, _Cluster]] = {}
_LOCK: Final = threading.Lock()


def forget_clusters() -> None:
    """Forget which clusters have answered: an address may belong to another server later, as in tests."""
    with _LOCK:
        _CLUSTERS.clear()


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """The first contact with the cluster that an option names: ``place`` is ``option=value``.

    ``timeout_s`` bounds it. If that is None, retries and brokerDownTimeout do, as for a known cluster.
    """

    place: str
    timeout_s: float | None = None

    @property
    def is_answered(self) -> bool:
        """True once a server of the cluster has answered a request of this process."""
        return not self.place or _CLUSTERS.get(self.place, _UNKNOWN).has_answered

    @property
    def bound_s(self) -> float | None:
        """The time for the first contact, seconds; None if the cluster is known or no time is set."""
        return None if self.is_answered else self.timeout_s

    def answered(self) -> None:
        """Record that a server has answered, or that the cluster is known to exist."""
        if self.is_answered:
            return
        with _LOCK:
            was_warned = _CLUSTERS.get(self.place, _UNKNOWN).is_warned
            _CLUSTERS[self.place] = _Cluster(has_answered=True)
        if was_warned:
            LOG.info("%s: a server has answered", printable(self.place))

    def note(self, reason: object) -> None:
        """Keep the last failure for the warning."""
        if not self.is_answered:
            with _LOCK:
                _CLUSTERS.setdefault(self.place, _Cluster()).reason = str(reason)

    @contextmanager
    def reaching(self) -> Iterator[Deadline | None]:
        """The deadline of the first contact, with a timer for its warning; None if no time is set."""
        if self.is_answered:
            yield None
            return
        timer = threading.Timer(WARNED_AFTER_S, self._warn)
        timer.daemon = True
        timer.start()
        try:
            bound_s = self.timeout_s
            yield (None if bound_s is None else replace(Deadline.after(bound_s, _OPTION), dial_s=bound_s))
        finally:
            timer.cancel()

    def _warn(self) -> None:
        with _LOCK:
            cluster = _CLUSTERS.setdefault(self.place, _Cluster())
            if cluster.has_answered or cluster.is_warned:
                return
            cluster.is_warned = True
        bound = "" if self.timeout_s is None else f"; trying for up to {self.timeout_s:g} s ({_OPTION})"
        LOG.warning(
            "%s: no server has answered within %g s: %s%s",
            printable(self.place),
            WARNED_AFTER_S,
            cluster.reason,
            bound,
        )


#: A cluster that is known to exist.
KNOWN_CLUSTER: Final = Bootstrap("")


def share_deadline(within: Deadline | None, servers_left: int) -> Deadline | None:
    """A deadline whose time to connect is divided among the remaining servers. A server that accepts the
    connection may use all of the time."""
    if within is None or within.dial_s is None:
        return within
    return replace(within, dial_s=max(round(within.left_s / servers_left, 1), DIAL_LEAST_S))


T = TypeVar("T")
E = TypeVar("E", bound=KafkaWireError)


#: Longest wait between two attempts, seconds.
BACKOFF_MAX_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The least number of retries, the wait before the first one, and the least time to continue
    (``retry_timeout_s``): a broker needs some seconds to restart.

    The wait doubles with each retry, up to ``BACKOFF_MAX_S``. It is drawn at random from its upper half, so
    that many tasks do not retry at the same moment.

    ``bootstrap`` bounds the first contact with a cluster: until one of its servers answers, its time applies
    instead of the retries and brokerDownTimeout.
    """

    retries: int = 3
    backoff_s: float = 0.1
    retry_timeout_s: float = 0.0
    bootstrap: Bootstrap = KNOWN_CLUSTER

    def wait_s(self, attempt: int, draw: float) -> float:
        """Seconds to wait after failed attempt number ``attempt`` (from 1); ``draw`` in [0, 1)."""
        full_s = min(self.backoff_s * 2.0 ** min(attempt - 1, 30), BACKOFF_MAX_S)
        return full_s * (1 + draw) / 2

    @property
    def impatient(self) -> RetryPolicy:
        """The same policy without the minimum time, for errors that waiting does not fix."""
        return replace(self, retry_timeout_s=0.0)

    def make_lasting(self, retry_timeout_s: float) -> RetryPolicy:
        """The same policy for errors that take some time to pass: its brokerDownTimeout is at least that
        time."""
        return replace(self, retry_timeout_s=max(self.retry_timeout_s, retry_timeout_s))

    @property
    def known(self) -> RetryPolicy:
        """The same policy for a cluster that has answered during planning."""
        return replace(self, bootstrap=KNOWN_CLUSTER)


def call_with_retries(
    attempt: Callable[[], T],
    policy: RetryPolicy,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    draw: Callable[[], float] = random.random,
) -> T:
    """Call ``attempt`` until it succeeds, and return its result.

    Raises an error that a retry cannot help, or the last error once the retries and brokerDownTimeout are
    used up. An operation that makes progress between two failures has an ``Attempts`` of its own.
    """
    attempts = Attempts(policy, clock=clock, sleep=sleep, draw=draw)
    while True:
        try:
            outcome = attempt()
        except KafkaWireError as error:
            attempts.failed(error)
        else:
            attempts.note_progress()
            return outcome


class Attempts:
    """Counter of failures in a row. Progress resets it.

    The retries are not used up before brokerDownTimeout of the policy has passed since the last progress. A
    long wait is logged once when it begins and once when it ends.
    """

    #: Attempts that all of the process have made again.
    retried_count: ClassVar[int] = 0

    def __init__(
        self,
        policy: RetryPolicy,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._policy, self._clock, self._sleep, self._draw = policy, clock, sleep, draw
        self._failed = 0
        self._warned: str | None = None
        self._began_s = clock()

    def note_progress(self) -> None:
        """Reset the count: an attempt succeeded."""
        if self._warned is not None:
            elapsed_s = self._clock() - self._began_s
            LOG.info(
                "continuing after %.1f s and %s: %s",
                elapsed_s,
                counted(self._failed, "failure"),
                self._warned,
            )
        self._failed, self._warned = 0, None
        self._began_s = self._clock()

    def failed(self, error: KafkaWireError, within: Deadline | None = None) -> None:
        """Wait before the next attempt, or raise what ``last`` returns."""
        if (last := self.last(error, within)) is error:
            raise error
        if last is not None:
            raise last from error

    def last(self, error: E, within: Deadline | None = None) -> E | None:
        """Wait before the next attempt and return None. If no attempt is left, return the error to raise:
        ``error`` itself if a retry cannot help or that deadline has passed, else ``error`` with the number of
        attempts and their time."""
        if not error.retriable or (within is not None and not within.left_s):
            return error
        self._failed += 1
        elapsed_s = self._clock() - self._began_s
        bound_s = self._policy.bootstrap.bound_s
        retry_timeout_s = self._policy.retry_timeout_s if bound_s is None else bound_s
        is_used_up = bound_s is not None or self._failed > self._policy.retries or error.exhausted
        if is_used_up and elapsed_s >= retry_timeout_s:
            return self._give_up(error, elapsed_s)
        wait_s = self._policy.wait_s(self._failed, self._draw())
        if is_used_up:  # one more attempt when brokerDownTimeout ends
            wait_s = min(wait_s, retry_timeout_s - elapsed_s)
        if within is not None:
            wait_s = min(wait_s, within.left_s)
        self._warn(error, elapsed_s)
        Attempts.retried_count += 1
        self._sleep(wait_s)
        return None

    def _give_up(self, error: E, elapsed_s: float) -> E:
        if error.exhausted and self._failed == 1:  # its message has the attempts already
            return error
        bounds = "retries, brokerDownTimeout" if self._policy.retry_timeout_s else "retries"
        if self._policy.bootstrap.bound_s is not None:
            bounds = "bootstrapTimeout"
        last = error.locate(
            f"gave up after {counted(self._failed, 'attempt')} in {elapsed_s:.1f} s ({bounds})"
        )
        last.exhausted = True
        return last

    def _warn(self, error: KafkaWireError, elapsed_s: float) -> None:
        """Log once that a wait begins, and its reason. A single closed connection is no reason: brokers close
        idle connections."""
        is_sure = isinstance(error, TransportError) and not isinstance(error, ConnectionLost)
        # The first contact has a warning of its own.
        waits = elapsed_s < self._policy.retry_timeout_s and self._policy.bootstrap.is_answered
        if self._warned is None and waits and (is_sure or self._failed > 1):
            self._warned = str(error)
            LOG.warning(
                "%s; trying again for up to %g s (brokerDownTimeout)", error, self._policy.retry_timeout_s
            )


class Spent:
    """Cost of what this process does from here on: seconds, attempts that are made again, and waits for the
    responses of brokers."""

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
