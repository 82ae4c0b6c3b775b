"""One process of the chaos: does the operations that fall to it, one after the other."""

from __future__ import annotations

import faulthandler
import itertools
import logging
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final

from .operation import Opened

#: Operations that a worker does at least.
_AT_LEAST: Final = 3
#: An operation that takes longer hangs: all its deadlines together are a fraction of that, seconds.
_HANG_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Work:
    """Share of a worker: each ``step``-th operation from ``index`` on, below ``count``, or those of ``only``.

    Time may be over before the first one: so much is done nevertheless that it says something.
    """

    seed: int
    index: int
    step: int
    until_s: float
    count: int
    only: tuple[int, ...] = ()

    def numbers(self) -> Iterator[int]:
        """The numbers of operations that are due, until time is over."""
        for done, number in enumerate(self.only or itertools.count(self.index, self.step)):
            is_late = time.monotonic() >= self.until_s and done >= _AT_LEAST
            if is_late or (number >= self.count and not self.only):
                return
            yield number


@dataclass(frozen=True, slots=True)
class Done:
    """Result of an operation. ``failure`` says what is wrong, None where nothing is."""

    outcomes: Counter[str]
    failure: str | None = None
    seconds: float = 0.0


def run(opened: Opened, work: Work, telling: Connection) -> None:
    """Do the work; tell the number of each operation, and its result."""
    # What retries log is not judged, and there are thousands of lines of it.
    logging.disable(logging.CRITICAL)
    try:
        with opened(work.seed, work.index) as operation:
            for number in work.numbers():
                telling.send(number)
                faulthandler.dump_traceback_later(_HANG_S, exit=True)
                began_s, outcomes, failure = time.monotonic(), Counter[str](), None
                try:
                    outcomes = operation(number)
                except Exception as error:
                    failure = _described(error)
                faulthandler.cancel_dump_traceback_later()
                telling.send(Done(outcomes, failure, time.monotonic() - began_s))
    except Exception as error:
        telling.send(Done(Counter(), f"before its first or after its last one: {_described(error)}"))


def _described(error: Exception) -> str:
    if isinstance(error, AssertionError):
        return str(error)
    lines = " / ".join(traceback.format_exc().splitlines()[-8:])
    return f"{type(error).__name__} is no error of ours: {lines}"
