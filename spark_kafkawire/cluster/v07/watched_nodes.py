"""Nodes of ZooKeeper that a member of a consumer group of Kafka 0.7 has read and that have not changed.

A member looks at its whole group after each change. With 300 members that come one after the other, each of
them would read 300 nodes 300 times. ZooKeeper reports changes of nodes that were read with a watch, so a look
reads again only what has changed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class WatchedNodes:
    """Answers for nodes that are watched. ``changed`` is called in threads of kazoo after each change.

    An answer is kept from its arrival to the event of its node. kazoo delivers events in another thread than
    answers, so an event may come between a request and ``keep``: that answer is not kept.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        self._requested: set[tuple[str, str]] = set()
        self._answers: dict[tuple[str, str], Any] = {}

    def seen(self, event: Any) -> None:
        """Handle an event of kazoo. One without a path is a broken connection, which ends all watches. kazoo
        keeps every distinct callback of a node until the node changes, so the callback is always this
        method."""
        if event.path is None:
            self.forget_all()
        else:
            self.forget(event.path)
        self._changed()

    def request(self, kind: str, path: str) -> None:
        """Note that a node is requested now; ``kind`` is that of the answer."""
        with self._lock:
            self._requested.add((kind, path))

    def keep(self, kind: str, path: str, answer: Any) -> None:
        """Keep the answer to the request, unless the node has changed since."""
        with self._lock:
            if (kind, path) in self._requested:
                self._answers[kind, path] = answer

    def answer(self, kind: str, path: str) -> Any:
        """The answer that is kept, or None."""
        return self._answers.get((kind, path))

    def forget(self, path: str) -> None:
        """Forget a node that has changed, or is going to."""
        with self._lock:
            for kind in ("children", "node"):
                self._requested.discard((kind, path))
                self._answers.pop((kind, path), None)

    def stir(self, path: str) -> None:
        """Report that a node has changed of which no event will come."""
        self.forget(path)
        self._changed()

    def forget_all(self) -> None:
        """Forget all answers, also those that are awaited."""
        with self._lock:
            self._requested.clear()
            self._answers.clear()
