"""A topic that is many times larger than the executor that reads it: what its processes hold meanwhile."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from time import perf_counter
from typing import Final

from .measure import Figure, print_table, say
from .memory import WORKER, Watch
from .session import Bench, Spark, standalone
from .sources import Side, check, write_topic

_VALUE_SIZE: Final = 1024
#: Rows of a read that starts the executor's worker.
_FEW: Final = 1_000
#: The most that the second half of a read may hold, to what the first half held.
_GROWTH_MAX: Final = 1.1
#: What the disk has left beside the topic.
_SPARE_BYTES: Final = 4 << 30


def large_topic(bench: Bench) -> Iterator[Figure]:
    """It is read once, by one executor of 1 GiB with one core.

    Nothing is asked of the JVM but that it is the same process at the end: it grows to what its heap may be.
    """
    gib, spark, servers = bench.size, bench.spark, bench.servers
    rows = (gib << 30) // _VALUE_SIZE
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < (gib << 30) + _SPARE_BYTES:
        raise OSError(f"{gib} GiB are to be written where {free >> 30} are free: ask for fewer with --size")
    say(f"large topic: {gib} GiB, {rows:,} rows of {_VALUE_SIZE} bytes")
    few = Side("kafkawire", write_topic(spark, servers, _FEW))
    large = Side("kafkawire", write_topic(spark, servers, rows, _VALUE_SIZE))
    with standalone(1) as settings, Spark(settings) as reader:
        check("the few rows", reader.count(few), _FEW)
        with Watch() as watch:
            began_s = perf_counter()
            check("the large topic", reader.count(large), rows)
            seconds = perf_counter() - began_s
        held = watch.peaks()
    halves = [
        [name, *(f"{mib:.0f}" for mib in (each.before, each.first_half, each.second_half))]
        for name, each in held.items()
    ]
    print_table(["MiB held at once", "before", "first half", "second half"], halves)
    yield Figure(f"million rows/s of {gib} GiB by one core", "rows", rows / seconds / 1e6)
    for name, each in held.items():
        asked = _GROWTH_MAX if name == WORKER else None
        yield Figure(f"{name}: most of the second half, to the first", "times", each.growth, asked, True)
