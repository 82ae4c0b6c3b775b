"""Options of a write that is there wholly or not at all."""

from __future__ import annotations

import uuid
from typing import Final

from ..errors import OptionError, quoted
from .raw import RawOptions
from .values import DeliveryOptions, TransactionOptions

EXACTLY_ONCE: Final = "exactly-once"
#: Options that mean nothing to other writes.
_OWN: Final = ("kafka.transactional.id", "kafka.transaction.timeout.ms", "batch", "twoPhaseCommit")
#: Longest name of writes, and of a batch, characters: they stand in texts of 4096 bytes that brokers keep.
_NAME_SIZE_MAX: Final = 120
#: Shortest and longest timeout, ms: what a write takes at least, and an int32.
_TIMEOUT_MS: Final = (1_000, (1 << 31) - 1)


def parse_transactions(options: RawOptions, delivery: DeliveryOptions) -> TransactionOptions | None:
    """How to write exactly once; None where that is not asked for. Raises ``OptionError`` (fatal)."""
    if options.choice("delivery", "at-least-once", EXACTLY_ONCE, default="at-least-once") != EXACTLY_ONCE:
        if given := options.given(*_OWN):
            raise OptionError(f"option {given[0]} is of transactions: set delivery={EXACTLY_ONCE} too")
        return None
    if not delivery.idempotent:
        raise OptionError(
            f"option delivery: {EXACTLY_ONCE} needs what idempotent writes do: leave acks, retries, "
            "kafka.enable.idempotence and kafka.max.in.flight.requests.per.connection out"
        )
    name, batch = _name(options, "kafka.transactional.id"), _name(options, "batch")
    if batch is not None and name is None:
        raise OptionError(
            "option batch: it names a write among those of kafka.transactional.id: set that too"
        )
    timeout_ms = options.count("kafka.transaction.timeout.ms", *_TIMEOUT_MS)
    return TransactionOptions(
        prefix=name or f"kafkawire-{uuid.uuid4().hex[:16]}",
        is_named=name is not None,
        batch=batch or "",
        timeout_ms=timeout_ms,
        two_phase_commit=_two_phase_commit(options, name, timeout_ms),
    )


def _two_phase_commit(options: RawOptions, name: str | None, timeout_ms: int | None) -> bool:
    if not options.flag("twoPhaseCommit"):
        return False
    if timeout_ms is not None:
        raise OptionError(
            "option kafka.transaction.timeout.ms: with twoPhaseCommit no timeout ends a transaction; leave "
            "one of the two out"
        )
    if name is None:
        raise OptionError(
            "option twoPhaseCommit: what a write leaves open that dies, no timeout ends, but the next run of "
            "its name: set kafka.transactional.id too"
        )
    return True


def _name(options: RawOptions, option: str) -> str | None:
    if (name := options.get(option)) is None:
        return None
    name = name.strip()
    if not 0 < len(name) <= _NAME_SIZE_MAX or not (name.isascii() and name.isprintable()):
        raise OptionError(
            f"option {option}: {quoted(name)} is no name: they have 1 to {_NAME_SIZE_MAX} ASCII characters"
        )
    return name
