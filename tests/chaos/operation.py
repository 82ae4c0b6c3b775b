"""Code that operations of the chaos share: their seeds, their outcomes, and errors that must be ours."""

from __future__ import annotations

import random
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from spark_kafkawire.errors import (
    AuthenticationError,
    CorruptDataError,
    KafkaWireError,
    LimitError,
    OptionError,
    ProtocolError,
    RowError,
)

from .faults import FaultKind, Plan

#: Characters that an error may have: it names a few foreign texts of 200 each.
ERROR_SIZE_MAX: Final = 3000
#: What options hold that no error may show.
SECRET: Final = "alice-secret"
#: No byte was changed on its way, and options and rows are right: these errors would blame the wrong.
_WRONG: Final = (
    OptionError,
    RowError,
    LimitError,
    AuthenticationError,
    CorruptDataError,
    ProtocolError,
)
#: How it is counted when rows are as they must be.
EXACT: Final = "exact"
#: An operation that takes longer hangs: all its deadlines together are a tenth of that, seconds.
HANG_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Seed:
    """Names an operation: the same again does the same again."""

    base: str
    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.base} {self.kind} {self.number}"

    @property
    def plan(self) -> Plan:
        """The faults of this operation."""
        return Plan.drawn(str(self))

    def chance(self) -> random.Random:
        """Source of everything else that the operation draws."""
        return random.Random(f"{self} operation")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of an operation.

    ``ended`` is ``EXACT`` or the name of one of our errors. ``failure`` says what is wrong, None where
    nothing is.
    """

    number: int
    what: str
    ended: str
    failure: str | None = None
    seconds: float = 0.0
    rows: int = 0
    made: int = 0
    broken: Counter[FaultKind] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Ended:
    """Result of a call: a value, or an error of ours."""

    result: object = None
    error: KafkaWireError | None = None
    failure: str | None = None

    @property
    def name(self) -> str:
        """Name under which the result is counted."""
        return EXACT if self.error is None else type(self.error).__name__


def attempt(call: Callable[[], object]) -> Ended:
    """Call it. An error that is none of ours, or none that may be shown, is a failure."""
    try:
        return Ended(call())
    except KafkaWireError as error:
        return Ended(error=error, failure=_fault_of(error))
    except Exception as error:
        lines = " / ".join(traceback.format_exc().splitlines()[-8:])
        return Ended(failure=f"{type(error).__name__} is no error of ours: {lines}")


def _fault_of(error: KafkaWireError) -> str | None:
    message = str(error)
    if isinstance(error, _WRONG):
        return f"{type(error).__name__} blames what is right: {message}"
    if not message.isprintable():
        return f"an error is not one printable line: {message!r}"
    if len(message) > ERROR_SIZE_MAX:
        return f"an error has {len(message)} characters: {message[:300]}..."
    return f"an error shows a secret: {message}" if SECRET in message else None
