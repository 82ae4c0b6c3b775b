"""One core and two, and a standalone cluster beside ``local[2]``: the same read by Sparks that are all warm.

A task of Spark is a thread of its JVM and a Python worker, and the broker works for it, too. So with two
cores in all one task keeps more than one of them busy: ``local[2]`` is compared with ``local[1]``, as a user
sets them, and with ``local[1]`` where Spark and the broker have one core alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Final

from .measure import Figure, Kind, print_took, say, side_by_side
from .processes import confined
from .session import Bench, Spark, standalone
from .sources import PARTITIONS, Side, ready_made, write_topic

_ONE_CORE: Final = "`local[1]` and the broker on one core"
_ONE, _TWO, _CLUSTER = "`local[1]`", "`local[2]`", "standalone, 2 workers of 1 core"
_OURS, _READY = "kafkawire", "ready-made batches"
#: Which Spark is compared with which other one, and how many times as fast kafkawire is to be.
_COMPARED: Final = ((_TWO, _ONE_CORE, 1.8), (_TWO, _ONE, 1.8), (_CLUSTER, _TWO, 0.9))


def scaling(bench: Bench) -> Iterator[Figure]:
    """Reads by all of these Sparks, beside ready-made batches."""
    say(f"scaling: {bench.size:,} rows")
    topic = write_topic(bench.spark, bench.servers, bench.size)
    sides = {_OURS: Side("kafkawire", topic), _READY: ready_made(bench.size // PARTITIONS)}
    with ExitStack() as stack:
        kinds = {
            f"{what}, {where}": Kind(partial(read, side), bench.size)
            for where, read in _sparks(stack).items()
            for what, side in sides.items()
        }
        took = side_by_side(kinds, bench.rounds, twice=True)
    print_took("read", took)
    for where, other, target in _COMPARED:
        for what in sides:
            times = took[f"{what}, {other}"].seconds / took[f"{what}, {where}"].seconds
            asked = target if what == _OURS else None
            yield Figure(f"{what}: {where}, to {other}", "times_as_fast", times, asked)


def _sparks(stack: ExitStack) -> Mapping[str, Callable[[Side], None]]:
    """Read functions, by the Spark that runs them."""
    settings = stack.enter_context(standalone(workers=2))
    core = {min(os.sched_getaffinity(0))}
    one_core = stack.enter_context(Spark({"spark.master": "local[1]"}, core))

    def on_one_core(side: Side) -> None:
        with confined("broker", core):
            one_core.read(side)

    return {
        _ONE_CORE: on_one_core,
        _ONE: stack.enter_context(Spark({"spark.master": "local[1]"})).read,
        _TWO: stack.enter_context(Spark({"spark.master": "local[2]"})).read,
        _CLUSTER: stack.enter_context(Spark(settings)).read,
    }
