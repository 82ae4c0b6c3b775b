"""Drawn parameters of exactly-once writes: the write, the fault that strikes, and the next run.

    run = drawn("seed 1, run 7", 7, WEIGHTS[1])

The same text gives the same run. Where a fault strikes by a step of the exchange that says all of it; by
chance, it also depends on how fast the machine is.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .exchange_steps import Fault, Step

TOPIC: Final = "killed-writes"
#: Names that writes share: each finds what another one has left.
NAMES: Final = 3
_BASE: Final = {
    "topic": TOPIC,
    "delivery": "exactly-once",
    "kafka.transaction.timeout.ms": "60000",
    "requestTimeout": "6s",
    "brokerDownTimeout": "30s",
    # Rows are sent while there are more.
    "batchBytes": "100",
    "kafka.buffer.memory": "200",
}
#: Where the network is gone, that is noticed soon.
_IMPATIENT: Final = {
    "requestTimeout": "1500ms",
    "brokerDownTimeout": "1s",
    "kafka.delivery.timeout.ms": "3s",
    "kafka.max.block.ms": "3s",
}


class Kind(enum.Enum):
    """Kinds of faults."""

    DRIVER = "the driver is killed"
    WORKER = "a Python worker is killed"
    CUT = "a connection is cut"
    GONE = "all connections are cut, for a while or until the write has failed"
    BROKER = "the broker is killed and started again"
    MOVED = "the coordinator's broker is killed or stopped"
    LATE = "a request takes longer than the transaction may"
    FAILING = "tasks fail at random"


#: How often each strikes writes to one node, and to three; those that a real Spark does, and
#: those whose processes only are killed.
WEIGHTS: Final = {
    1: {Kind.DRIVER: 26, Kind.WORKER: 18, Kind.CUT: 18, Kind.GONE: 10, Kind.BROKER: 14, Kind.LATE: 14},
    3: {Kind.MOVED: 14, Kind.DRIVER: 3, Kind.CUT: 3},
}
SPARK_WEIGHTS: Final = {Kind.DRIVER: 4, Kind.WORKER: 6, Kind.CUT: 4, Kind.BROKER: 1, Kind.FAILING: 5}
KILLS_WEIGHTS: Final = {Kind.DRIVER: 2, Kind.WORKER: 1}
#: Where faults strike; what comes once for each task three times as often.
_STEPS: Final = (
    *(Step.TAKE_OVER, Step.READ, Step.SWEEP, Step.TASK_READ, Step.CHECK, Step.DECIDE, Step.MARK, Step.DONE),
    *(Step.BEGIN, Step.AWAITED, Step.ROWS, Step.HOLD, Step.COMPLETE) * 2,
    *(Step.DECISION, Step.FINISH) * 3,
)
#: Where an open transaction can have its time.
_LATE_STEPS: Final = (Step.ROWS, Step.HOLD, Step.CHECK, Step.DECISION, Step.FINISH, Step.COMPLETE)
_OF_EACH_TASK: Final = (
    Step.BEGIN,
    Step.AWAITED,
    Step.ROWS,
    Step.HOLD,
    Step.FINISH,
    Step.COMPLETE,
    Step.TASK_READ,
)
_FOR_EVER_S: Final = 1000.0
#: How many faults strike by chance and not at a step, how many of the second attempts one strikes, too, how
#: many writes are given up when they fail first, and how many are run again when they have ended.
_BY_CHANCE_SHARE, _AGAIN_SHARE, _GIVEN_UP_SHARE, _REPEATED_SHARE = 0.2, 0.3, 0.35, 0.3


@dataclass(frozen=True, slots=True)
class Write:
    """A write of some tasks, each with so many rows."""

    name: str
    mark: str
    tasks: int
    rows: int
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def values(self) -> set[str]:
        """All its rows."""
        return {f"{self.mark} {number}" for number in range(self.tasks * self.rows)}

    def question(self, servers: str) -> dict[str, Any]:
        """Question to the process that writes."""
        named = {"kafka.bootstrap.servers": servers, "kafka.transactional.id": self.name, "batch": self.mark}
        options = {**_BASE, **self.options, **named}
        return {"write": options, "mark": self.mark, "tasks": self.tasks, "rows": self.rows}


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault, and when it strikes."""

    kind: Kind
    fault: Fault
    #: How long a request is held, or the network gone.
    seconds: float = 0.0
    #: Whether a broker is stopped in order.
    in_order: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """A write, what strikes, and what follows: where the first attempt fails another write may take its
    place, and where it is done at once it may be run once more."""

    write: Write
    strikes: tuple[Strike, ...]
    gives_up: bool
    repeats: bool


def drawn(text: str, number: int, weights: Mapping[Kind, int]) -> Run:
    """The run that belongs to a seed's text."""
    draw = random.Random(text)
    kind = draw.choices(tuple(weights), tuple(weights.values()))[0]
    tasks = draw.choice((1, 2, 3, 3, 3, 5))
    options = {Kind.GONE: _IMPATIENT, Kind.LATE: {"kafka.transaction.timeout.ms": "2500"}}.get(kind, {})
    name = f"{TOPIC}-{draw.randrange(NAMES)}"
    write = Write(name, f"{number}", tasks, draw.choice((1, 7, 20)), options)
    strikes = [_strike_of(kind, tasks, draw)]
    if draw.random() < _AGAIN_SHARE:
        strikes.append(_strike_of(draw.choice((Kind.DRIVER, Kind.CUT)), tasks, draw))
    # One of which a part has had its time may not be given up: its name is refused to others.
    gives_up = kind is not Kind.LATE and draw.random() < _GIVEN_UP_SHARE
    return Run(write, tuple(strikes), gives_up, draw.random() < _REPEATED_SHARE)


def _strike_of(kind: Kind, tasks: int, draw: random.Random) -> Strike:
    if kind is Kind.FAILING:
        return Strike(kind, Fault(None, delay=_FOR_EVER_S), draw.choice((0.3, 0.5, 0.8)))
    if kind is not Kind.LATE and draw.random() < _BY_CHANCE_SHARE:
        fault = Fault(None, delay=draw.random())
    else:
        step = draw.choice(_LATE_STEPS if kind is Kind.LATE else _STEPS)
        nth = draw.randint(1, tasks) if step in _OF_EACH_TASK else 1
        fault = Fault(step, nth, draw.random() < 0.5)
    seconds = {
        Kind.GONE: draw.choice((0.5, _FOR_EVER_S)),
        Kind.LATE: draw.choice((4.0, 5.5)),
        Kind.CUT: 0.05,
    }.get(kind, draw.random())
    return Strike(kind, fault, seconds, draw.random() < 0.4)
