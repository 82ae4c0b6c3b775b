"""Calls that may never end, such as a function of the user or a look-up of names, in bounded time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")


class NotEnded(Exception):
    """A call that did not end in time."""


def call_bounded(call: Callable[[], T], seconds: float, name: str) -> T:
    """The result of a call, or its error. It runs in a thread of that name, which is abandoned after that
    time. Raises ``NotEnded`` then."""
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    # The call may end in a TimeoutError of its own.
    if not wait((result,), seconds).done:
        raise NotEnded
    return result.result()
