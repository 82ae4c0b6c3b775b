"""One tree's side of a comparison: its own ``make bench``, which stops wherever it may hand over.

    python tests/benchmarks/one_tree.py FD ASKED

It is run in the folder, and by the Python, of the tree that is measured, which may be one without this
file: of that tree it takes ``measure.interleaved``, which its measures run through, and the measures by
their names. ``FD`` is a connection: a message from there gives this process its turn, and each one to
there ends it. ``ASKED`` is JSON: the measures' ``names``, the ``rounds``, their ``size`` where it is not
their own, and the ``sizes`` of values and ``compressions`` to measure; an empty list measures all.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any


def main() -> None:
    """Run the measures, turn by turn."""
    turn, asked = Turn(Connection(int(sys.argv[1]))), json.loads(sys.argv[2])
    sys.path[0] = os.getcwd()
    turn.begin()
    # Before the measures import it from there.
    measure: Any = importlib.import_module("tests.benchmarks.measure")
    measure.interleaved = turn.interleaved
    bench = importlib.import_module("tests.benchmarks.__main__")
    narrow(asked["sizes"], asked["compressions"])
    # Trees from before --size have no such argument.
    size = {} if asked["size"] is None else {"size": asked["size"]}
    for figure in bench._figures(asked["names"], asked["rounds"], **size):
        details = {name: figure.details.get(name) for name in ("value_size", "compression")}
        reported = {"name": figure.name, "value": figure.value, "at_most": figure.at_most}
        turn.hand_over(what="figure", **reported, **details, line=figure.line())
    turn.end(what="end")


def narrow(sizes: Sequence[int], compressions: Sequence[str]) -> None:
    """Measure these alone: modules of measures tell what they go through by constants of such names."""
    for module in [module for name, module in sys.modules.items() if name.startswith("tests.benchmarks.")]:
        for name, given in list(vars(module).items()):
            wanted = sizes if name.endswith("VALUE_SIZES") else compressions
            if wanted and name.endswith(("VALUE_SIZES", "COMPRESSIONS")):
                setattr(module, name, tuple(each for each in given if each in wanted))


class Turn:
    """Says what was done, and waits until it is this process' turn again."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def begin(self) -> None:
        try:
            self._connection.recv()
        except EOFError:
            # The other tree's process has ended, and says why.
            sys.exit(1)

    def end(self, **event: Any) -> None:
        self._connection.send(event)

    def hand_over(self, **event: Any) -> None:
        self.end(**event)
        self.begin()

    def interleaved(
        self,
        runs: Mapping[str, Callable[[], None]],
        rounds: int,
        clock: Callable[[], float] = time.perf_counter,
    ) -> dict[str, list[float]]:
        """``measure.interleaved``, which hands over after each run. Round 0 is for warming up.

        With each run comes who begins the next turn. Each tree begins one of every two turns of a run, and
        both come equally often after themselves, with their caches warm: rounds 3 and 4 are rounds 1 and 2
        with the trees changed.
        """
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        order = list(enumerate(runs))
        turns = [
            ((number // 2 + which) % 2, number, name)
            for number in range(rounds + 1)
            for which, name in (order if number % 2 == 0 else order[::-1])
        ]
        begins = [first for first, *_ in turns[1:]] + [0]
        for (_, number, name), first in zip(turns, begins, strict=True):
            began_s = clock()
            runs[name]()
            took_s = clock() - began_s
            seconds[name].append(took_s)
            self.hand_over(what="run", name=name, round=number, seconds=took_s, next=first)
        return {name: measured for name, (_, *measured) in seconds.items()}


if __name__ == "__main__":
    main()
