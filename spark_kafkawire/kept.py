"""Caches of a process: tokens, tickets, schemas, decoders.

TICKETS: Final = Kept[Login, Ticket](100)
ticket = TICKETS.get(login) or TICKETS.keep(login, asked(login), used_s=480.0)
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Kept(Generic[K, V]):
    """The newest ``count_max`` values by their keys. Threads may share it.

    With ``counts_sleep`` the times are of the clock of the day, because the monotonic one stops while a
    machine sleeps.
    """

    def __init__(self, count_max: int = 10_000, *, counts_sleep: bool = False) -> None:
        self._count_max, self._counts_sleep = count_max, counts_sleep
        self._lock = threading.Lock()
        #: Each value, when it is to be renewed, and when it ends.
        self._entries: dict[K, tuple[V, float, float]] = {}
        _ALL.add(self)

    def get(self, key: K) -> V | None:
        """The value; None if there is none or it is time to renew it."""
        entry = self._entries.get(key)
        return entry[0] if entry is not None and self._now_s() < entry[1] else None

    def last(self, key: K) -> V | None:
        """The value, also if it is time to renew it; None if it has ended."""
        entry = self._entries.get(key)
        return entry[0] if entry is not None and self._now_s() < entry[2] else None

    def keep(self, key: K, value: V, used_s: float = math.inf, lasts_s: float = math.inf) -> V:
        """Keep a value, which is to be renewed after ``used_s`` and ends after ``lasts_s``. Return it."""
        now_s = self._now_s()
        with self._lock:
            self._entries.pop(key, None)
            self._entries[key] = value, now_s + used_s, now_s + lasts_s
            if len(self._entries) > self._count_max:
                del self._entries[next(iter(self._entries))]
        return value

    def forget(self, is_meant: Callable[[K], bool] = lambda _: True) -> None:
        """Forget all values, or those with some keys."""
        with self._lock:
            for key in list(filter(is_meant, self._entries)):
                del self._entries[key]

    def _now_s(self) -> float:
        return time.time() if self._counts_sleep else time.monotonic()


_ALL: Final[weakref.WeakSet[Kept[Any, Any]]] = weakref.WeakSet()


def forget_all() -> None:
    """Forget all values of all caches: an address may belong to another server later, as in tests."""
    for cache in list(_ALL):
        cache.forget()
