"""Pool of connections that a process keeps between its tasks.

    client = POOL.take(broker, ConnectionSettings(Generation.V07, timeout_s=30))
    ...
    POOL.give_back(client)      # or client.close(), which is right after every error

A kept connection is checked before it is used again, and closed after ``IDLE_S`` without use.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from ..model import Broker
from .client import Client
from .settings import ConnectionSettings
from .transport import Deadline

#: Time for which an idle connection is kept, seconds. Tasks of one stage follow each other at once, and each
#: connection takes a thread or a slot of its broker.
IDLE_S: Final = 10.0
#: Connections kept at once; the one that is idle for longest makes room.
KEPT_COUNT_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class _Kept:
    client: Client
    since_s: float


class Pool:
    """Idle connections. Thread-safe; a forked process starts without any."""

    def __init__(self, idle_s: float = IDLE_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._idle_s, self._clock = idle_s, clock
        self._lock = threading.Lock()
        self._kept: list[_Kept] = []
        self._timer: threading.Timer | None = None
        # Two processes on one connection would receive each other's responses.
        os.register_at_fork(after_in_child=self._forget)

    @property
    def kept_count(self) -> int:
        """Connections that are kept now."""
        return len(self._kept)

    def take(self, broker: Broker, settings: ConnectionSettings, within: Deadline | None = None) -> Client:
        """A kept connection with equal arguments, or a new one that is ready ``within`` that time.

        Raises ``ConnectFailed`` (retriable).
        """
        while (client := self._take_kept(broker, settings)) is not None:
            if client.is_quiet():
                return client
            client.close()
        return Client.connect(broker, settings, within)

    def give_back(self, client: Client) -> None:
        """Keep a connection that did not fail. One that still awaits responses is closed."""
        if client.in_flight:
            client.close()
            return
        with self._lock:
            self._kept.append(_Kept(client, self._clock()))
            surplus = self._kept[:-KEPT_COUNT_MAX]
            self._kept = self._kept[-KEPT_COUNT_MAX:]
            self._watch()
        for kept in surplus:
            kept.client.close()

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
        with self._lock:
            oldest_s = self._clock() - idle_s
            idle = [kept for kept in self._kept if kept.since_s <= oldest_s]
            self._kept = [kept for kept in self._kept if kept.since_s > oldest_s]
        for kept in idle:
            kept.client.close()

    def _take_kept(self, broker: Broker, settings: ConnectionSettings) -> Client | None:
        with self._lock:
            # The broker is least likely to have closed the one that was given back last.
            for kept in reversed(self._kept):
                if (kept.client.broker, kept.client.settings) == (broker, settings):
                    self._kept.remove(kept)
                    return kept.client
        return None

    def _watch(self) -> None:
        if self._kept and self._timer is None:
            self._timer = threading.Timer(self._idle_s, self._tick)
            self._timer.daemon = True
            self._timer.start()

    def _tick(self) -> None:
        self.close_idle(self._idle_s)
        with self._lock:
            self._timer = None
            self._watch()

    def _forget(self) -> None:
        """Close the copies of the parent's connections in a forked process. The parent keeps its own."""
        self._lock, self._timer = threading.Lock(), None
        self.close_idle()


#: The pool that the tasks of this process share.
POOL: Final = Pool()
atexit.register(POOL.close_idle)
