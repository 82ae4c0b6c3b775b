"""Calls of foreign code that may never end, such as a function of the user, within a deadline."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from spark_kafkawire.errors import RequestTimedOut
from spark_kafkawire.net.transport import Deadline

T = TypeVar("T")


def within(deadline: Deadline, what: str, call: Callable[[], T]) -> T:
    """The result of a call, or its error. It runs in a thread of its own, which is abandoned at the deadline.

    Raises ``RequestTimedOut`` (retriable) after the deadline.
    """
    found: queue.SimpleQueue[tuple[T, None] | tuple[None, BaseException]] = queue.SimpleQueue()

    def run() -> None:
        try:
            found.put((call(), None))
        except BaseException as error:
            found.put((None, error))

    threading.Thread(target=run, name="kafkawire-login", daemon=True).start()
    try:
        result, error = found.get(timeout=deadline.remaining_s())
    except queue.Empty:
        raise RequestTimedOut(f"{what}: no answer within {deadline}") from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]
