"""A topic that is many times larger than the executor that reads it: what its processes hold meanwhile."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Final

import psutil

from .measure import Figure, print_table, say
from .processes import held_mib, processes_of
from .session import Bench, Spark, standalone
from .sources import Side, check, write_topic

EXECUTOR, WORKER = "the executor's JVM", "its Python worker"
#: How often they are looked at, seconds.
_LOOK_S: Final = 0.25
#: MiB by process id, of either. Of a worker's role is its daemon, too.
Look = Mapping[str, dict[int, float]]

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


@dataclass(frozen=True, slots=True)
class Peaks:
    """MiB of the largest process of a kind: before a run, and the most of each half of its looks."""

    before: float
    first_half: float
    second_half: float

    @property
    def growth(self) -> float:
        """The second half's, to the first half's."""
        return self.second_half / self.first_half


def peaks(before: Look, looks: Sequence[Look]) -> dict[str, Peaks]:
    """Of each kind, from two looks or more. Raises ``AssertionError`` where a process is another one than
    before: that one had run out of memory, and Spark started the next one."""
    found = {}
    for kind, first in before.items():
        for look in looks:
            if look[kind].keys() != first.keys():
                raise AssertionError(f"{kind} was replaced: there were {first}, then {look[kind]} MiB")
        held = [max(look[kind].values()) for look in looks]
        middle = len(held) // 2
        found[kind] = Peaks(max(first.values()), max(held[:middle]), max(held[middle:]))
    return found


class Watch:
    """Looks at the one executor from ``with`` on, until its end."""

    def __init__(self) -> None:
        [self._executor] = processes_of("executor")
        self._before = self._look()
        self._looks: list[Look] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def peaks(self) -> dict[str, Peaks]:
        """Of both, from all looks and one more."""
        return peaks(self._before, [*self._looks, self._look()])

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_LOOK_S):
            self._looks.append(self._look())

    def _look(self) -> Look:
        # One that ends while it is looked at is missing.
        with suppress(psutil.NoSuchProcess, FileNotFoundError):
            return {EXECUTOR: held_mib("executor"), WORKER: held_mib("worker", self._executor)}
        return {EXECUTOR: {}, WORKER: {}}
