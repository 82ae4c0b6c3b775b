"""Code that the parts of the chaos share: what an operation is, and errors that must be ours.

An operation has a number. It does the same again with the same seed, counts its outcomes by name, and raises
``AssertionError`` for what is wrong.
"""

from __future__ import annotations

import faulthandler
import itertools
import logging
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Final, TypeVar

from spark_kafkawire.errors import (
    AuthenticationError,
    CorruptDataError,
    KafkaWireError,
    LimitError,
    OptionError,
    ProtocolError,
    RowError,
)
from tests.support.noida import NoidaBroker

T = TypeVar("T")
Operation = Callable[[int], Counter[str]]
#: Opens a part in one of its processes, by a seed and the index of the process.
Opened = Callable[[int, int], AbstractContextManager[Operation]]
#: Characters that an error may have: it names a few foreign texts of 200 each.
ERROR_SIZE_MAX: Final = 3000
#: What options hold that no error may show.
SECRET: Final = "alice-secret"
#: No byte was changed on its way, and options and rows are right: these errors would blame the wrong.
WRONG: Final = (OptionError, RowError, LimitError, AuthenticationError, CorruptDataError, ProtocolError)
#: How it is counted when rows are as they must be.
EXACT: Final = "exact"


def attempt(call: Callable[[], T], wrong: tuple[type[KafkaWireError], ...] = WRONG) -> T | KafkaWireError:
    """Return the call's result, or its error of ours; one that blames what is right, or that nobody may be
    shown, is a failure."""
    try:
        return call()
    except KafkaWireError as error:
        if fault := _fault_of(error, wrong):
            raise AssertionError(fault) from error
        return error


def _fault_of(error: KafkaWireError, wrong: tuple[type[KafkaWireError], ...]) -> str | None:
    message = str(error)
    if isinstance(error, wrong):
        return f"{type(error).__name__} blames what is right: {message}"
    if not message.isprintable():
        return f"an error is not one printable line: {message[:ERROR_SIZE_MAX]!r}"
    if len(message) > ERROR_SIZE_MAX:
        return f"an error has {len(message)} characters: {message[:300]}..."
    return f"an error shows a secret: {message}" if SECRET in message else None


@contextmanager
def alone(operation: Callable[[int, int], Counter[str]], seed: int, _index: int) -> Iterator[Operation]:
    """Operations that need nothing."""
    yield partial(operation, seed)


@contextmanager
def with_broker(operation: Callable[[Any, int, int], Counter[str]], seed: int, _: int) -> Iterator[Operation]:
    """Operations on a noida-db of their own."""
    with NoidaBroker() as noida:
        yield partial(operation, noida, seed)


def counted(operation: Operation, count: int) -> Counter[str]:
    """The outcomes of so many operations."""
    return sum(map(operation, range(count)), start=Counter[str]())


# --- One process of the chaos: does the operations that fall to it, one after the other ---

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
