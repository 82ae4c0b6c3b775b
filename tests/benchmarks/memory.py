"""The memory of an executor and of its Python worker while they run."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import psutil

from .processes import held_mib, processes_of

EXECUTOR, WORKER = "the executor's JVM", "its Python worker"
#: How often they are looked at, seconds.
_LOOK_S: Final = 0.25
#: MiB by process id, of either. Of a worker's role is its daemon, too.
Look = Mapping[str, dict[int, float]]


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
