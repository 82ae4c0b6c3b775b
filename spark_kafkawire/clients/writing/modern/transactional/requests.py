"""What tasks and the driver ask of brokers about transactions, and what comes back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .....cluster.modern.transactions import Transaction
from .meanings import Meaning


@dataclass(frozen=True, slots=True)
class Begin:
    """Take a transactional id over; answered with the ``Transaction``."""

    id: str


@dataclass(frozen=True, slots=True)
class Read:
    """The records of a group that count; answered with them. ``is_stable`` wants no answer while a
    transaction that was ended may still change them."""

    group: str
    is_stable: bool = False


@dataclass(frozen=True, slots=True)
class Hold:
    """Put a record of a group into a transaction; answered with None. ``topic`` is one that is there."""

    transaction: Transaction
    group: str
    topic: str
    record: Record


@dataclass(frozen=True, slots=True)
class End:
    """Commit or abort; answered with the ``Transaction`` that may begin next."""

    transaction: Transaction
    committed: bool


@dataclass(frozen=True, slots=True)
class IsOpen:
    """Whether the transaction can still be committed; answered with that, None where brokers do not tell."""

    transaction: Transaction


@dataclass(frozen=True, slots=True)
class Settle:
    """Wait until a transaction that was committed is complete: its markers are in all partitions. Answered
    with None."""

    transaction: Transaction


@dataclass(frozen=True, slots=True, order=True)
class Record:
    """A number and a text that a group keeps: its offset in a partition, and the metadata beside it."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Refused:
    """An answer that is none: what it means, and the error as one line."""

    meaning: Meaning
    line: str


Request = Begin | Read | Hold | End | IsOpen | Settle
Answer = Transaction | tuple[Record, ...] | Refused | bool | None


def newest(records: Iterable[Record]) -> Record | None:
    """The record with the highest number, None of none."""
    return max(records, default=None)
