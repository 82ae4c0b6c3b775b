"""The judges: rows that differ from those of the logs, and writes that break their promises."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

READ_UNCOMMITTED: Final = "read_uncommitted"
READ_COMMITTED: Final = "read_committed"


class Row(NamedTuple):
    """One row of a read, with all that can be known of it. ``inner`` is the column ``index``."""

    topic: str
    broker: int | None
    partition: int
    offset: int
    inner: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int | None
    timestamp_type: int
    next_offset: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """A log that nobody writes to any more.

    ``aborted`` are offsets of records that do not count with ``read_committed``. ``at_times`` tells for
    some times the first offset that is as young, as the broker itself told librdkafka. ``bounds`` are
    offsets at which a read may begin and end.
    """

    topic: str
    partition: int
    start: int
    stop: int
    rows: tuple[Row, ...]
    bounds: tuple[int, ...]
    broker: int | None = None
    aborted: frozenset[int] = frozenset()
    at_times: Mapping[int, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the partition in options, within its topic."""
        return str(self.partition) if self.broker is None else f"{self.broker}-{self.partition}"

    def between(self, start: int, stop: int, isolation: str) -> Iterable[Row]:
        """The rows of a range that a reader of this isolation level sees."""
        hidden = self.aborted if isolation == READ_COMMITTED else frozenset()
        return (row for row in self.rows if start <= row.offset < stop and row.offset not in hidden)


#: Logs by topic.
Truth = Mapping[str, tuple[Log, ...]]


def difference(found: list[Row], expected: list[Row]) -> str | None:
    """In one line what is wrong with the rows of a read; None where they are exact."""
    if (found := sorted(found, key=place)) == (expected := sorted(expected, key=place)):
        return None
    places, due = [place(row) for row in found], [place(row) for row in expected]
    doubled = len(places) - len(set(places))
    missing, foreign = sorted(set(due) - set(places)), sorted(set(places) - set(due))
    wrong = [
        f"{ours} instead of {true}"
        for ours, true in zip(found, expected, strict=False)
        if place(ours) == place(true) and ours != true
    ]
    return (
        f"{len(found)} rows of {len(expected)}: {len(missing)} missing {missing[:3]}, {len(foreign)} foreign "
        f"{foreign[:3]}, {doubled} doubled, {len(wrong)} changed {wrong[:1]}"
    )


def place(row: Row) -> tuple[str, int, int, int, int]:
    """Identity of a row."""
    return row.topic, -1 if row.broker is None else row.broker, row.partition, row.offset, row.inner


class Promise(enum.Enum):
    """Promises of a write: how often each row is in the logs after its operation ended, at least and at most.
    Rows that are there once at most are in order."""

    ONCE = "exactly once, in order", 1, 1
    AT_LEAST_ONCE = "once or more", 1, float("inf")
    AT_MOST_ONCE = "once or not at all, in order", 0, 1
    ANY = "any number of times", 0, float("inf")


@dataclass(frozen=True, slots=True)
class Found:
    """A row as a log has it: its place, whose it is, and its content."""

    log: str
    operation: int
    number: int
    content: object


@dataclass(slots=True)
class Entry:
    """One write: the content of each row, the log of those that had to go to one, and what was found."""

    rows: Sequence[object]
    logs: Sequence[str | None]
    promise: Promise = Promise.ANY
    found: list[Found] = field(default_factory=list)

    def fault(self) -> str | None:
        """Description of how the rows that were found break the promise; None if they keep it."""
        _, low, high = self.promise.value
        counts = Counter(row.number for row in self.found)
        missing = [number for number in range(len(self.rows)) if counts[number] < low]
        doubled = [number for number, count in counts.items() if count > high]
        if missing or doubled:
            what = f"{len(missing)} are missing {missing[:5]}, {len(doubled)} are doubled {doubled[:5]}"
            return f"of {len(self.rows)} rows {what}"
        for log in {row.log for row in self.found} if high == 1 else ():
            numbers = [row.number for row in self.found if row.log == log]
            if numbers != sorted(numbers):
                return f"rows are out of order in {log}: {numbers[:20]}"
        return None


class Ledger:
    """All writes to the logs of one writer."""

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}

    def begin(self, operation: int, rows: Sequence[object], logs: Sequence[str | None]) -> None:
        """A write is about to happen."""
        self._entries[operation] = Entry(rows, logs)

    def end(self, operation: int, promise: Promise) -> None:
        """It has ended with this promise."""
        self._entries[operation].promise = promise

    def judge(self, found: Iterable[Found], operation: int | None = None) -> str | None:
        """Description of what these rows, found after that operation, show to be wrong; None
        if nothing is."""
        met = set() if operation is None else {operation}
        for row in found:
            entry = self._entries.get(row.operation)
            if entry is None or not 0 <= row.number < len(entry.rows):
                return f"a foreign row is in {row.log}: {row}"
            if entry.rows[row.number] != row.content:
                return (
                    f"a row has changed in {row.log}: {row.content!r} instead of {entry.rows[row.number]!r}"
                )
            if entry.logs[row.number] not in (None, row.log):
                return f"a row is in {row.log} instead of {entry.logs[row.number]}: {row}"
            entry.found.append(row)
            met.add(row.operation)
        wrong = [
            f"the write of operation {item}, {self._entries[item].promise.value[0]}: {fault}"
            for item in sorted(met)
            if (fault := self._entries[item].fault())
        ]
        return "; ".join(wrong) or None
