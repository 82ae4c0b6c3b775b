"""``make chaos``: operations on brokers that fail, lie and keep damaged logs, for some minutes.

    python -m tests.chaos --minutes 10 --seed 1
    python -m tests.chaos --only kafka-4.1 lies --count 2000
    python -m tests.chaos --only kafka-4.1 --seed 1 --operation 4711        that one again

Each operation ends in exact rows or in an error of ours; what does not is told with its seed, and the exit
code is 1.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Final

from . import lies, operation, parts
from .clusters import CLUSTERS, Skipped, running
from .operation import Done, Opened, Work, alone, with_broker
from .operations import on_cluster

#: Parts beside the clusters.
PARTS: Final[dict[str, Opened]] = {
    "lies": partial(alone, lies.lie),
    "contradictions": partial(alone, lies.contradiction),
    "damage": partial(alone, parts.damage),
    "near": partial(alone, parts.near),
    "fencing": partial(with_broker, parts.fencing),
}
#: How much of the time a part gets, where a cluster gets 1.
_PART_SHARE: Final = 0.5
#: Processes of a part that needs processors, and waits for nobody.
_PART_WORKERS: Final = 2
_PROGRESS_S: Final = 30.0
_NO_LIMIT: Final = 1 << 62
#: A process that has nothing more to tell ends within that time, seconds.
_SILENCE_S: Final = 300.0


def main(texts: list[str]) -> int:
    """Run what the arguments name; the exit code."""
    arguments = _arguments(texts)
    shares = {name: _PART_SHARE if name in PARTS else 1.0 for name in arguments.only}
    failures = 0
    for name, share in shares.items():
        until_s = time.monotonic() + arguments.minutes * 60 * share / sum(shares.values())
        try:
            with _opened(name, arguments) as (opened, disturb):
                failures += _Run(name, arguments, opened, until_s).all(disturb)
        except Skipped as reason:
            print(f"{name} skipped: {reason}", flush=True)
    print(f"chaos, seed {arguments.seed}: {failures} failures", flush=True)
    return 1 if failures else 0


def _arguments(texts: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__.splitlines()[0])
    names = [*CLUSTERS, *PARTS]
    parser.add_argument("--minutes", type=float, help="for all parts together (10, or no limit with --count)")
    parser.add_argument("--seed", type=int, default=1, help="what all is drawn from (1)")
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="only these parts")
    parser.add_argument("--count", type=int, default=_NO_LIMIT, help="so many operations of each part")
    parser.add_argument("--operation", type=int, nargs="+", default=[], help="these operations alone")
    parser.add_argument("--workers", type=int, default=4, help="operations at the same time (4)")
    arguments = parser.parse_args(texts)
    if arguments.minutes is None:
        arguments.minutes = 24 * 60.0 if arguments.count < _NO_LIMIT or arguments.operation else 10.0
    if arguments.operation:
        arguments.workers = 1
    return arguments


@contextmanager
def _opened(name: str, arguments: argparse.Namespace) -> Iterator[tuple[Opened, Callable[[], None]]]:
    """Opener of a part, and disturbance of it, which is called again and again. Raises ``Skipped``."""
    if name in PARTS:
        yield PARTS[name], lambda: None
    else:
        with running(name, arguments.seed, arguments.workers) as (target, disturb):
            yield partial(on_cluster, target), disturb


class _Run:
    """The workers of one part, and what they tell."""

    def __init__(self, name: str, arguments: argparse.Namespace, opened: Opened, until_s: float) -> None:
        self._name, self._seed, self._began_s = name, arguments.seed, time.monotonic()
        self._ended, self._failures, self._slowest_s = Counter[str](), 0, 0.0
        # A new interpreter for each: threads and native libraries do not survive a fork.
        context = multiprocessing.get_context("spawn")
        count, only = arguments.count, tuple(arguments.operation)
        #: Processes by what they tell, and the operations that they are at.
        self._workers: dict[Connection, BaseProcess] = {}
        self._at: dict[Connection, int] = {}
        workers = min(arguments.workers, _PART_WORKERS) if name in PARTS else arguments.workers
        for index in range(workers):
            work = Work(self._seed, index, workers, until_s, count, only)
            heard, telling = context.Pipe(duplex=False)
            process = context.Process(target=operation.run, args=(opened, work, telling), daemon=True)
            process.start()
            telling.close()
            self._workers[heard], self._at[heard] = process, -1

    def all(self, disturb: Callable[[], None]) -> int:
        """Until every worker is done, or gone. Returns how many operations failed."""
        said_s, left = time.monotonic(), set(self._workers)
        try:
            while left:
                disturb()
                for heard in wait(left, timeout=1.0):
                    assert isinstance(heard, Connection)
                    try:
                        self._take(heard, heard.recv())
                    except EOFError:
                        left.remove(heard)
                        self._bury(heard)
                if time.monotonic() - said_s > _PROGRESS_S:
                    said_s = time.monotonic()
                    self._tell()
        finally:
            # Before the brokers end: else those that are still at work would tell of that.
            for process in self._workers.values():
                process.kill()
        self._tell(f", the longest took {self._slowest_s:.1f} s")
        return self._failures

    def _take(self, heard: Connection, told: Done | int) -> None:
        """The result of an operation, or the number of the next one."""
        if isinstance(told, int):
            self._at[heard] = told
            return
        self._ended += told.outcomes
        self._slowest_s = max(self._slowest_s, told.seconds)
        if told.failure is not None:
            self._failures += 1
            again = f"--seed {self._seed} --only {self._name} --operation {self._at[heard]}"
            what = f"{self._name} operation {self._at[heard]}: {told.failure}"
            print(f'FAILED {what}; again: make chaos ARGS="{again}"', flush=True)

    def _bury(self, heard: Connection) -> None:
        """A process that ended early hung, or died: that is a failure of the operation it was at."""
        process = self._workers[heard]
        process.join(_SILENCE_S)
        if process.exitcode != 0:
            what = f"its process ended with {process.exitcode}: it hung, or died (see above)"
            self._take(heard, Done(Counter(), what))

    def _tell(self, more: str = "") -> None:
        ended = ", ".join(f"{count} {what}" for what, count in self._ended.most_common())
        seconds = time.monotonic() - self._began_s
        print(f"{self._name}: {ended}; {self._failures} failures, {seconds:.0f} s{more}", flush=True)


if __name__ == "__main__":
    # Brokers and workers end with this process, also where a signal ends it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    logging.disable(logging.CRITICAL)
    sys.exit(main(sys.argv[1:]))
