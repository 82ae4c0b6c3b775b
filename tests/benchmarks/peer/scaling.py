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

from pyspark.sql import SparkSession

from ..backlog import Side, ready_made, write_topic
from ..measure import Figure, interleaved, one_after_the_other, say
from ..processes import CpuMeter, confined
from ..tables import print_table
from ..writing import PARTITIONS
from .sparks import Spark, standalone

_ONE_CORE: Final = "`local[1]` and the broker on one core"
_ONE, _TWO, _CLUSTER = "`local[1]`", "`local[2]`", "standalone, 2 workers of 1 core"
_OURS, _READY = "kafkawire", "ready-made batches"
#: Which Spark is compared with which other one, and how many times as fast kafkawire is to be.
_COMPARED: Final = ((_TWO, _ONE_CORE, 1.8), (_TWO, _ONE, 1.8), (_CLUSTER, _TWO, 0.9))
#: The roles of the table's columns.
_ROLES: Final = {"JVM": ("jvm", "executor"), "Python": ("worker", "other"), "broker": ("broker",)}


def scaling(spark: SparkSession, servers: str, rounds: int, rows: int) -> Iterator[Figure]:
    """Each read is made twice, and the second one counts, as all of them do."""
    say(f"scaling: {rows:,} rows")
    topic = write_topic(spark, servers, "scaling", rows)
    sides = {_OURS: Side("kafkawire", topic), _READY: ready_made(rows // PARTITIONS)}
    meter = CpuMeter()
    with ExitStack() as stack:
        reads = {
            _name(where, what): partial(read, side)
            for where, read in _sparks(stack).items()
            for what, side in sides.items()
        }
        turns = {name: one_after_the_other(read, meter.metered(name, read)) for name, read in reads.items()}
        interleaved(turns, rounds)
    _print(meter, list(turns), rows)
    for where, other, target in _COMPARED:
        for what in sides:
            times = meter.seconds(_name(other, what)) / meter.seconds(_name(where, what))
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


def _name(where: str, what: str) -> str:
    return f"{what}, {where}"


def _print(meter: CpuMeter, names: list[str], rows: int) -> None:
    lines = []
    for name in names:
        seconds, cpu_ns = meter.seconds(name), meter.ns_per_row(name, rows)
        of_parts = [sum(cpu_ns.get(role, 0) for role in roles) for roles in _ROLES.values()]
        busy = sum(of_parts) * rows / 1e9 / seconds
        speed = f"{rows / seconds / 1e6:.2f}"
        lines.append([name, f"{seconds:.2f}", speed, *map(str, of_parts), f"{busy:.2f}"])
    cpu = [f"CPU ns/row: {part}" for part in _ROLES]
    print_table(["read", "s", "million rows/s", *cpu, "cores busy"], lines)
