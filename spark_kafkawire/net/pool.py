"""Pool of connections that a process keeps between its tasks, or between the polls of its stream.

    client = POOL.take(broker, ConnectionSettings(Generation.V07, timeout_s=30))
    ...
    POOL.give_back(client)      # or client.close(), which is right after every error

A kept connection is checked before it is used again. It is closed after ``IDLE_S`` without use, or later if
the process uses the same broker again and again: a stream that polls every minute keeps its connections. The
pool grows with the number of brokers, and takes at most a quarter of the files that the process may open.
"""

from __future__ import annotations

import atexit
import os
import resource
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from ..errors import ConnectFailed, counted
from ..model import Broker
from .client import Client
from .settings import ConnectionSettings
from .transport import Deadline, is_out_of_files

#: Time for which an idle connection is kept, seconds. Tasks of one stage follow each other at once, and each
#: connection takes a thread or a slot of its broker.
IDLE_S: Final = 10.0
#: The longest such time, seconds, as in Kafka's clients: brokers close a connection after 10 idle minutes.
#: Source: ``connections.max.idle.ms`` of clients and of brokers.
IDLE_MAX_S: Final = 540.0
#: How many times the interval between two uses an idle connection is kept: intervals are not equal.
_INTERVALS: Final = 2.0
#: Connections to one broker kept at once; the one that is idle for longest makes room.
KEPT_COUNT_MAX: Final = 16
#: Part of the files that the process may open, for kept connections. The others are for connections in use,
#: for Spark and for the user's code.
_FILES_SHARE: Final = 4
#: Number of files of a process without a limit.
_FILES_UNLIMITED: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class _Kept:
    client: Client
    since_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class _Use:
    """End of the last use of a broker, and the time for which its idle connections are kept."""

    at_s: float
    idle_s: float


class Pool:
    """Idle connections. Thread-safe; a forked process starts without any."""

    def __init__(self, idle_s: float = IDLE_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._idle_s, self._clock = idle_s, clock
        self._lock = threading.Lock()
        #: By broker, because a stream over 1,000 brokers looks up 1,000 connections in each poll.
        self._kept: dict[Broker, list[_Kept]] = {}
        #: Connections that are kept now.
        self.kept_count = 0
        self._uses: dict[Broker, _Use] = {}
        self._timer: threading.Timer | None = None
        # Two processes on one connection would receive each other's responses.
        os.register_at_fork(after_in_child=self._forget)

    def take(self, broker: Broker, settings: ConnectionSettings, within: Deadline | None = None) -> Client:
        """A kept connection with equal arguments, or a new one that is ready ``within`` that time.

        Raises ``ConnectFailed`` (retriable).
        """
        while (client := self._take_kept(broker, settings)) is not None:
            if client.is_quiet():
                return client
            client.close()
        try:
            return Client.connect(broker, settings, within)
        except ConnectFailed as error:
            if not is_out_of_files(error):
                raise
        # Idle connections hold files, too.
        self.close_idle()
        try:
            return Client.connect(broker, settings, within)
        except ConnectFailed as error:
            if not is_out_of_files(error):
                raise
            raise error.advise(
                f"this process may open {counted(files_max(), 'file')}: raise its limit (ulimit -n), or run "
                "fewer tasks and streams in one process"
            ) from error

    def give_back(self, client: Client) -> None:
        """Keep a connection that did not fail, if there is room. One that awaits responses is closed."""
        if client.in_flight:
            client.close()
            return
        with self._lock:
            surplus = self._keep(client)
            self._watch()
        if surplus is not None:
            surplus.close()

    @contextmanager
    def lend(
        self, broker: Broker, settings: ConnectionSettings, within: Deadline | None = None
    ) -> Iterator[Client]:
        """A connection for some requests. It is given back when the block ends, and closed if the block
        raises.

        Raises ``ConnectFailed`` (retriable).
        """
        client = self.take(broker, settings, within)
        try:
            yield client
        except BaseException:
            client.close()
            raise
        self.give_back(client)

    def close_idle(self, idle_s: float = 0.0) -> None:
        """Close the connections that have been idle for ``idle_s`` or longer."""
        oldest_s = self._clock() - idle_s
        self._close(lambda kept: kept.since_s <= oldest_s)

    def _close(self, is_over: Callable[[_Kept], bool]) -> None:
        with self._lock:
            over: list[_Kept] = []
            left: defaultdict[Broker, list[_Kept]] = defaultdict(list)
            for kept in (kept for of_broker in self._kept.values() for kept in of_broker):
                (over if is_over(kept) else left[kept.client.broker]).append(kept)
            self._kept, self.kept_count = dict(left), self.kept_count - len(over)
        for kept in over:
            kept.client.close()

    def _keep(self, client: Client) -> Client | None:
        """Put a connection into the pool. Returns the one that has to be closed for it, or itself.

        A full pool keeps what it has: a stream asks the brokers in the same order again, so the connection
        that is idle for longest is the next one to be used.
        """
        now_s = self._clock()
        last = self._uses.get(client.broker)
        idle_s = self._idle_s if last is None else last.idle_s
        self._uses[client.broker] = _Use(now_s, idle_s)
        of_broker = self._kept.get(client.broker, [])
        surplus = None
        if len(of_broker) >= KEPT_COUNT_MAX:
            surplus = of_broker.pop(0).client
        elif self.kept_count >= files_max() // _FILES_SHARE:
            return client
        else:
            self.kept_count += 1
        self._kept.setdefault(client.broker, of_broker).append(_Kept(client, now_s, now_s + idle_s))
        return surplus

    def _take_kept(self, broker: Broker, settings: ConnectionSettings) -> Client | None:
        with self._lock:
            if (last := self._uses.get(broker)) is not None:
                # Connections are kept for longer than the time since the last use.
                wanted_s = min(_INTERVALS * (self._clock() - last.at_s), IDLE_MAX_S)
                self._uses[broker] = _Use(last.at_s, max(wanted_s, last.idle_s))
            of_broker = self._kept.get(broker, [])
            # The broker is least likely to have closed the one that was given back last.
            for index in range(len(of_broker) - 1, -1, -1):
                if of_broker[index].client.settings == settings:
                    client = of_broker.pop(index).client
                    self.kept_count -= 1
                    if not of_broker:
                        del self._kept[broker]
                    return client
        return None

    def _watch(self) -> None:
        if (self._kept or self._uses) and self._timer is None:
            self._timer = threading.Timer(self._idle_s, self._tick)
            self._timer.daemon = True
            self._timer.start()

    def _tick(self) -> None:
        now_s = self._clock()
        self._close(lambda kept: kept.until_s <= now_s)
        with self._lock:
            # Forget brokers that were not used for IDLE_MAX_S.
            self._uses = {broker: use for broker, use in self._uses.items() if now_s - use.at_s < IDLE_MAX_S}
            self._timer = None
            self._watch()

    def _forget(self) -> None:
        """Close the copies of the parent's connections in a forked process. The parent keeps its own."""
        self._lock, self._timer = threading.Lock(), None
        self.close_idle()


def files_max() -> int:
    """Number of files that this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _FILES_UNLIMITED if soft == resource.RLIM_INFINITY else soft


#: The pool that the tasks of this process share.
POOL: Final = Pool()
atexit.register(POOL.close_idle)
