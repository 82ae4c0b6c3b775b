"""Code that the parts of the chaos share: what an operation is, and errors that must be ours.

An operation has a number. It does the same again with the same seed, counts its outcomes by name, and raises
``AssertionError`` for what is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
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
