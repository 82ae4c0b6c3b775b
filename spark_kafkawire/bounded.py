"""Calls that may never end, such as a function of the user or a look-up of names, in bounded time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class NotEnded(Exception):
    """A call that did not end in time."""


def bounded(call: Callable[[], T], seconds: float | None, name: str) -> T:
    """The result of a call, or its error. It runs in a thread of that name, which is abandoned after that
    time: None waits without a limit. Raises ``NotEnded`` then.
    """
    found: queue.SimpleQueue[tuple[T, None] | tuple[None, BaseException]] = queue.SimpleQueue()

    def run() -> None:
        try:
            found.put((call(), None))
        except BaseException as error:
            found.put((None, error))

    threading.Thread(target=run, name=name, daemon=True).start()
    try:
        result, error = found.get(timeout=seconds)
    except queue.Empty:
        raise NotEnded from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]
