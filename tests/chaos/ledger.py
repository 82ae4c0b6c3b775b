"""A ledger of written rows, of rows that logs hold, and of promises: it judges whether they agree.

Each row that is written names its operation and its number in a header or, in Kafka 0.7, in its value. So
what arrives late, after its operation has ended, is judged by what that operation promised.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

T = TypeVar("T")


class Promise(enum.Enum):
    """Promises of a write: the count of each row in the logs after its operation ended."""

    ONCE = "exactly once, in order"
    AT_LEAST_ONCE = "once or more"
    AT_MOST_ONCE = "once or not at all, in order"
    ANY = "any number of times"


#: How often each row must be there at least, and may be at most.
_COUNTS: Final[Mapping[Promise, tuple[int, float]]] = {
    Promise.ONCE: (1, 1),
    Promise.AT_LEAST_ONCE: (1, float("inf")),
    Promise.AT_MOST_ONCE: (0, 1),
    Promise.ANY: (0, float("inf")),
}
_IN_ORDER: Final = frozenset((Promise.ONCE, Promise.AT_MOST_ONCE))


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """A row as a log has it: its place, whose it is, and its content."""

    log: str
    operation: int
    number: int
    content: T


@dataclass(slots=True)
class Entry(Generic[T]):
    """One write: the content of each row, the log of those that had to go to one, and what was found."""

    rows: Sequence[T]
    logs: Sequence[str | None]
    promise: Promise = Promise.ANY
    found: list[Found[T]] = field(default_factory=list)


class Ledger(Generic[T]):
    """All writes to the logs of one writer."""

    def __init__(self) -> None:
        self._entries: dict[int, Entry[T]] = {}

    def begin(self, operation: int, rows: Sequence[T], logs: Sequence[str | None]) -> None:
        """A write is about to happen."""
        self._entries[operation] = Entry(rows, logs)

    def end(self, operation: int, promise: Promise) -> None:
        """It has ended with this promise."""
        self._entries[operation].promise = promise

    def judge(self, found: Iterable[Found[T]], operation: int | None = None) -> str | None:
        """Description of what these rows, found after that operation, show to be wrong; None
        if nothing is."""
        met = set() if operation is None else {operation}
        for row in found:
            entry = self._entries.get(row.operation)
            if entry is None or not 0 <= row.number < len(entry.rows):
                return f"a foreign row is in {row.log}: {row}"
            if entry.rows[row.number] != row.content:
                return f"a row has changed in {row.log}: {row.content} instead of {entry.rows[row.number]}"
            if entry.logs[row.number] not in (None, row.log):
                return f"a row is in {row.log} instead of {entry.logs[row.number]}: {row}"
            entry.found.append(row)
            met.add(row.operation)
        faults = {each: fault_of(self._entries[each]) for each in sorted(met)}
        wrong = [
            f"the write of operation {each}, {self._entries[each].promise.value}: {fault}"
            for each, fault in faults.items()
            if fault
        ]
        return "; ".join(wrong) or None


def fault_of(entry: Entry[T]) -> str | None:
    """Description of how the rows that were found break the promise; None if they keep it."""
    counts = Counter(row.number for row in entry.found)
    low, high = _COUNTS[entry.promise]
    missing = [number for number in range(len(entry.rows)) if counts[number] < low]
    doubled = [number for number, count in counts.items() if count > high]
    if missing or doubled:
        return (
            f"of {len(entry.rows)} rows {len(missing)} are missing {missing[:5]}, {len(doubled)} are doubled "
            f"{doubled[:5]}"
        )
    if entry.promise in _IN_ORDER:
        for log in {row.log for row in entry.found}:
            numbers = [row.number for row in entry.found if row.log == log]
            if numbers != sorted(numbers):
                return f"rows are out of order in {log}: {numbers[:20]}"
    return None
