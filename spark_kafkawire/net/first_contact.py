"""First contact with a cluster: bounded by ``bootstrapTimeout``, and logged after three seconds.

An address that has never answered may be wrong, and its user waits for the first result. A cluster that has
answered exists, so ``brokerDownTimeout`` bounds the wait while it is down. Spark runs each step of a query in
a separate process, so later steps use ``RetryPolicy.known``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from ..errors import LOG, printable
from .transport import Deadline

#: Time without an answer after which a warning names the addresses, seconds.
WARNED_AFTER_S: Final = 3.0
#: Least time for one TCP connection, seconds, however many servers share ``bootstrapTimeout``.
DIAL_LEAST_S: Final = 1.0
_OPTION: Final = "bootstrapTimeout"


class _Clusters:
    """State of clusters by the option that names them: those that answered, and failures of others."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.answered: set[str] = set()
        self.warned: set[str] = set()
        self.reasons: dict[str, str] = {}


_CLUSTERS: Final = _Clusters()


def forget_clusters() -> None:
    """Forget which clusters have answered: an address may belong to another server later, as in tests."""
    with _CLUSTERS.lock:
        _CLUSTERS.answered.clear()
        _CLUSTERS.warned.clear()
        _CLUSTERS.reasons.clear()


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
        return not self.place or self.place in _CLUSTERS.answered

    @property
    def bound_s(self) -> float | None:
        """The time for the first contact, seconds; None if the cluster is known or no time is set."""
        return None if self.is_answered else self.timeout_s

    def answered(self) -> None:
        """Record that a server has answered, or that the cluster is known to exist."""
        if self.is_answered:
            return
        with _CLUSTERS.lock:
            _CLUSTERS.answered.add(self.place)
            _CLUSTERS.reasons.pop(self.place, None)
            was_warned = self.place in _CLUSTERS.warned
            _CLUSTERS.warned.discard(self.place)
        if was_warned:
            LOG.info("%s: a server has answered", printable(self.place))

    def note(self, reason: object) -> None:
        """Keep the last failure for the warning."""
        if not self.is_answered:
            with _CLUSTERS.lock:
                _CLUSTERS.reasons[self.place] = str(reason)

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
        with _CLUSTERS.lock:
            if self.is_answered or self.place in _CLUSTERS.warned:
                return
            _CLUSTERS.warned.add(self.place)
            reason = _CLUSTERS.reasons.get(self.place, "no answer yet")
        bound = "" if self.timeout_s is None else f"; trying for up to {self.timeout_s:g} s ({_OPTION})"
        LOG.warning(
            "%s: no server has answered within %g s: %s%s",
            printable(self.place),
            WARNED_AFTER_S,
            reason,
            bound,
        )


#: A cluster that is known to exist.
KNOWN_CLUSTER: Final = Bootstrap("")


def shared(within: Deadline | None, servers_left: int) -> Deadline | None:
    """A deadline whose time to connect is divided among the remaining servers. A server that accepts the
    connection may use all of the time."""
    if within is None or within.dial_s is None:
        return within
    return replace(within, dial_s=max(round(within.left_s / servers_left, 1), DIAL_LEAST_S))
