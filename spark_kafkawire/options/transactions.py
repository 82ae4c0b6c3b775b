"""Options of exactly-once writes (``delivery=exactly-once``) to Kafka 0.11 to 4.x."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final

from ..errors import OptionError, quoted
from .delivery import DeliveryOptions
from .option import INT32_MAX, MODERN, WRITE, choice, count, flag, option
from .raw import RawOptions

EXACTLY_ONCE: Final = "exactly-once"
#: Longest name of writes, and of a batch, characters: they are part of texts of 4096 bytes that brokers keep.
_NAME_SIZE_MAX: Final = 120
#: Shortest timeout, ms: a write takes that long.
_TIMEOUT_MS_MIN: Final = 1_000


def _name(option: str, given: str) -> str:
    name = given.strip()
    if not 0 < len(name) <= _NAME_SIZE_MAX or not (name.isascii() and name.isprintable()):
        raise OptionError(
            f"option {option}: {quoted(name)} is not a name: set one of 1 to {_NAME_SIZE_MAX} ASCII "
            "characters"
        )
    return name


DELIVERY: Final = option(
    "delivery",
    choice("at-least-once", EXACTLY_ONCE),
    default="at-least-once",
    sides=WRITE,
    generation=MODERN,
    meaning="`exactly-once`: the write is all or nothing; see [Exactly once](exactly-once.md)",
)
TRANSACTIONAL_ID: Final = option(
    "kafka.transactional.id",
    _name,
    sides=WRITE,
    generation=MODERN,
    meaning="names the write, or the stream, for `delivery=exactly-once`: a second run writes nothing; "
    "required for streams",
)
BATCH: Final = option(
    "batch",
    _name,
    sides=WRITE,
    generation=MODERN,
    meaning="names one of the writes of one `kafka.transactional.id`; not for streams, which number theirs",
)
TRANSACTION_TIMEOUT: Final = option(
    "kafka.transaction.timeout.ms",
    count(_TIMEOUT_MS_MIN, INT32_MAX),
    sides=WRITE,
    generation=MODERN,
    meaning="the time that a task's transaction may stay open; by default 15 min, or the brokers' maximum if "
    "that is less",
)
TWO_PHASE_COMMIT: Final = option(
    "twoPhaseCommit",
    flag,
    default="false",
    sides=WRITE,
    generation=MODERN,
    meaning="`true`: no timeout ends transactions, if brokers allow that (KIP-939)",
)
#: Options that other writes ignore.
_OWN: Final = (TRANSACTIONAL_ID, TRANSACTION_TIMEOUT, BATCH, TWO_PHASE_COMMIT)


@dataclass(frozen=True, slots=True)
class TransactionOptions:
    """An exactly-once write: its rows are committed in one step.

    ``prefix`` begins its transactional ids; ``is_named`` is true if the user gave it. ``batch`` identifies
    the write among those of that name. ``timeout_ms`` is None for the brokers' own timeout, or if
    ``two_phase_commit`` switches the timeout of transactions off.
    """

    prefix: str
    is_named: bool
    batch: str = ""
    timeout_ms: int | None = None
    two_phase_commit: bool = False


def parse_transactions(options: RawOptions, delivery: DeliveryOptions) -> TransactionOptions | None:
    """Settings of an exactly-once write; None for other writes. Raises ``OptionError`` (fatal)."""
    if options[DELIVERY] != EXACTLY_ONCE:
        if given := options.given(*_OWN):
            raise OptionError(f"option {given[0]} is for transactions: set delivery={EXACTLY_ONCE} too")
        return None
    if not delivery.idempotent:
        raise OptionError(
            f"option delivery: {EXACTLY_ONCE} needs what idempotent writes do: leave acks, retries, "
            "kafka.enable.idempotence and kafka.max.in.flight.requests.per.connection out"
        )
    name, batch = options[TRANSACTIONAL_ID], options[BATCH]
    if batch is not None and name is None:
        raise OptionError(
            "option batch distinguishes writes of one kafka.transactional.id, which is not set: set that "
            "too, or leave batch out"
        )
    timeout_ms = options[TRANSACTION_TIMEOUT]
    return TransactionOptions(
        prefix=name or f"kafkawire-{uuid.uuid4().hex[:16]}",
        is_named=name is not None,
        batch=batch or "",
        timeout_ms=timeout_ms,
        two_phase_commit=_two_phase_commit(options, name, timeout_ms),
    )


def _two_phase_commit(options: RawOptions, name: str | None, timeout_ms: int | None) -> bool:
    if not options[TWO_PHASE_COMMIT]:
        return False
    if timeout_ms is not None:
        raise OptionError(
            "option kafka.transaction.timeout.ms: with twoPhaseCommit no timeout ends a transaction; leave "
            "one of the two out"
        )
    if name is None:
        raise OptionError(
            "option twoPhaseCommit: no timeout ends the transactions of a write that dies, only its next run "
            "with the same name does: set kafka.transactional.id too"
        )
    return True
