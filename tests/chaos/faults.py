"""Faults of a proxy, as data, drawn from a seed.

A fault strikes one connection, once so many of its bytes have passed in one direction: what strikes
where follows from the seed alone, and how fast the machine is plays no part. A client that connects
in the same order meets the same faults again.
"""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass
from typing import Final

#: Half of the faults strike within so many bytes: there the questions for versions and brokers are.
_EARLY_BYTES: Final = 700
_LATE_BYTES_MAX: Final = 60_000
#: How often a fault strikes the connections of an operation: some meet none at all.
_SHARES: Final = (0.0, 0.3, 0.5, 0.7, 0.9)
#: Waits that end before a deadline of the operations does, and one that never does, seconds.
_SHORT_S: Final = (0.005, 0.02, 0.05)
FOR_EVER_S: Final = 60.0


class FaultKind(enum.Enum):
    """Kinds of faults of a connection."""

    RESET = "both ends are reset (RST)"
    CUT = "both ends are closed (FIN)"
    HALF_CLOSE = "one direction ends, the other goes on"
    STALL = "one direction falls silent, for a while or for ever"
    BYTE_BY_BYTE = "bytes of one direction come one at a time"
    LATE = "the client is reset, its bytes reach the broker after a later connection was answered"
    REORDERED = "nothing passes until a later connection was answered"
    SLOW_START = "nothing passes for a while"
    CLOSED_AT_ONCE = "it is taken and closed (FIN)"
    RESET_AT_ONCE = "it is taken and reset (RST)"
    REFUSED = "it is taken and reset, and the port refuses connections for a while"


class Way(enum.Enum):
    """A direction."""

    TO_BROKER = "to broker"
    TO_CLIENT = "to client"


#: Those that strike before any byte has passed, whatever ``at`` says.
AT_ONCE: Final = frozenset(
    (
        FaultKind.REORDERED,
        FaultKind.SLOW_START,
        FaultKind.CLOSED_AT_ONCE,
        FaultKind.RESET_AT_ONCE,
        FaultKind.REFUSED,
    )
)
_WEIGHTS: Final = {
    FaultKind.RESET: 5,
    FaultKind.CUT: 5,
    FaultKind.HALF_CLOSE: 3,
    FaultKind.STALL: 3,
    FaultKind.BYTE_BY_BYTE: 3,
    FaultKind.LATE: 4,
    FaultKind.REORDERED: 1,
    FaultKind.SLOW_START: 1,
    FaultKind.CLOSED_AT_ONCE: 1,
    FaultKind.RESET_AT_ONCE: 1,
    FaultKind.REFUSED: 1,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that strikes once ``at`` bytes have passed in the direction ``way``.

    ``size`` is how many bytes come one at a time, ``seconds`` how long silence and refusal last.
    """

    kind: FaultKind
    way: Way = Way.TO_CLIENT
    at: int = 0
    size: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The faults of one operation: the same text gives the same ones.

    ``share`` is how many of the connections one strikes, from 0 to 1.
    """

    text: str
    share: float

    @classmethod
    def drawn(cls, text: str) -> Plan:
        """The faults that belong to a seed's text."""
        return cls(text, random.Random(f"{text} share").choice(_SHARES))

    def fault(self, upstream: str, number: int) -> Fault | None:
        """Fault of connection ``number`` (from 0) to an upstream; None for no fault."""
        chance = random.Random(f"{self.text} {upstream} {number}")
        return _drawn(chance) if chance.random() < self.share else None


#: Lets everything pass.
NO_FAULTS: Final = Plan("none", 0.0)


def _drawn(chance: random.Random) -> Fault:
    kind = chance.choices(tuple(_WEIGHTS), tuple(_WEIGHTS.values()))[0]
    # A client that waits for a broker waits for its deadline: most silences are shorter than that.
    seconds = FOR_EVER_S if kind is FaultKind.STALL and chance.random() < 0.25 else chance.choice(_SHORT_S)
    return Fault(
        kind,
        Way.TO_BROKER if kind is FaultKind.LATE else chance.choice(tuple(Way)),
        _position(chance),
        chance.choice((1, 10, 100, 1000)),
        seconds,
    )


def _position(chance: random.Random) -> int:
    if chance.random() < 0.5:
        return chance.randrange(_EARLY_BYTES)
    return int(_LATE_BYTES_MAX ** chance.random())
