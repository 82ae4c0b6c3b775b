"""Known content of logs, and the rows that a read of them must give.

The truth comes from the programs of others: librdkafka read the logs without a proxy between, and what
it read was compared with what was written. Of Kafka 0.7 it is taken from the brokers' own files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
