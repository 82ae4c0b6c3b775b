"""One process of the chaos: does the operations that fall to it, one after the other.

Each has a proxy of its own, on ports that nobody has used, so that nothing but the process's kernels is
left over from the one before.
"""

from __future__ import annotations

import faulthandler
import itertools
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from multiprocessing import Queue
from typing import Any, Final

from spark_kafkawire.protocol.modern import DIALECT

from .faults import NO_FAULTS
from .frames import Spoken
from .operation import EXACT, HANG_S, Outcome, Seed
from .operations import Operations, Target, operations_on

#: Every so many operations one is a write.
WRITE_EVERY: Final = 3
#: Operations that a worker does at least.
_AT_LEAST: Final = 12
#: Operations without faults at a worker's start, which tell the versions that are spoken.
_CALM: Final = 24


@dataclass(frozen=True, slots=True)
class Work:
    """Share of a worker: the operations from ``index`` on, each ``step``-th, or those of ``only``.

    Time may be over before the first one: so much is done nevertheless that it says something.
    """

    seed: str
    index: int
    step: int
    reads: int
    writes: int
    until_s: float
    only: tuple[int, ...] = ()

    def numbers(self) -> Iterator[int]:
        """The numbers of operations that are due, until time is over."""
        done = 0
        for number in self.only or itertools.count(self.index, self.step):
            is_write = is_a_write(number)
            place = number // WRITE_EVERY if is_write else number - number // WRITE_EVERY
            if time.monotonic() >= self.until_s and done >= _AT_LEAST:
                return
            if not self.only and number // WRITE_EVERY >= max(self.writes, self.reads):
                return
            if place < (self.writes if is_write else self.reads):
                done += 1
                yield number


def is_a_write(number: int) -> bool:
    """True if operation ``number`` is a write, False if it is a read."""
    return number % WRITE_EVERY == WRITE_EVERY - 1


def run(target: Target, work: Work, reported: Queue[Outcome | None], at: Any) -> None:
    """Do the work; tell of each operation. ``at`` holds the number of the one under way, of each worker."""
    # As in the process that started this one.
    logging.disable(logging.CRITICAL)
    operations = operations_on(target, target.topics[work.index % len(target.topics)])
    lowest = _versions_without_faults(operations, work, target.kind)
    number = -1
    for number in work.numbers():
        at[work.index] = number
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        reported.put(_done(operations, Seed(work.seed, target.kind, number), lowest))
        faulthandler.cancel_dump_traceback_later()
    if fault := operations.last_look():
        reported.put(Outcome(number, "write", "late", failure=fault))
    reported.put(None)


def _done(operations: Operations, seed: Seed, lowest: Mapping[int, int]) -> Outcome:
    began_s = time.monotonic()
    do = operations.write if is_a_write(seed.number) else operations.read
    outcome, spoken = do(seed, seed.plan)
    fallen = version_fault(spoken, lowest)
    return replace(outcome, failure=outcome.failure or fallen, seconds=time.monotonic() - began_s)


def _versions_without_faults(operations: Operations, work: Work, kind: str) -> dict[int, int]:
    """The lowest version of each API that operations without faults speak."""
    lowest: dict[int, int] = {}
    for number in range(_CALM):
        # Numbers that no operation has.
        seed = Seed(work.seed, kind, -1 - (number * work.step + work.index))
        do = operations.write if number % WRITE_EVERY == 0 else operations.read
        outcome, spoken = do(seed, NO_FAULTS)
        wrong = outcome.failure or (outcome.ended != EXACT and outcome.ended)
        assert not wrong, f"without any fault: {outcome.what} {seed}: {wrong}"
        for key, version in spoken:
            lowest[key] = min(version, lowest.get(key, version))
    return lowest


def version_fault(spoken: Spoken, lowest: Mapping[int, int]) -> str | None:
    """Report of APIs that were spoken in versions below the lowest of operations without faults; None
    if none was."""
    names = {api.key: api.name for api in DIALECT.apis}
    fallen = [
        f"{names.get(key, key)} in version {version} instead of {lowest[key]}"
        for key, version in sorted(spoken)
        if version < lowest.get(key, version)
    ]
    return f"a modern broker was spoken to as an older one: {', '.join(fallen)}" if fallen else None
