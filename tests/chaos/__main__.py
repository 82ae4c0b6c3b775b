"""``make chaos``: operations through a proxy that breaks connections at random, for some minutes.

    python -m tests.chaos --minutes 10 --seed 1
    python -m tests.chaos --only kafka-4.1 --reads 2000 --writes 1000
    python -m tests.chaos --only kafka-4.1 --seed 1 --operation 4711        that one again

Each operation ends in exact rows or in an error of ours; what does not is told with its seed, and the exit
code is 1.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import queue
import signal
import sys
import time
from typing import Any, Final

from . import (
    contradictions,
    damage,
    decoders,
    fencing,
    lies,
    missing_files,
    repeats,
    worker,
)
from .kinds import KINDS, Cluster, Skipped, running
from .operation import Outcome
from .operations import Target
from .report import Tally, table
from .worker import Work

#: Parts that run for some seconds by a seed, and raise ``AssertionError`` that names what failed.
_PARTS: Final = {
    "decoders": decoders.run,
    "lies": lies.run,
    "contradictions": contradictions.run,
    "damage": damage.run,
    "fencing": fencing.run,
    "repeats": repeats.run,
    "missing-files": missing_files.run,
}
#: How much of the time a part gets, where a cluster gets 1.
_PART_SHARE: Final = 0.5
_PROGRESS_S: Final = 30.0
_NO_LIMIT: Final = 1_000_000_000
#: Beyond this a worker that says nothing is gone, seconds.
_SILENCE_S: Final = 300.0


def main() -> int:
    """Run what the arguments name; the exit code."""
    # Brokers and workers end with this process, also where it is told to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    # What retries log is not judged, and there are thousands of lines of it.
    logging.disable(logging.CRITICAL)
    arguments = _arguments()
    names = arguments.only
    shares = {name: _PART_SHARE if name in _PARTS else 1.0 for name in names}
    tallies, failures = [], []
    for name, share in shares.items():
        seconds = arguments.minutes * 60 * share / sum(shares.values())
        if name in _PARTS:
            failures += _run_part(name, arguments.seed, seconds)
        else:
            tallies.append(_run_kind(name, arguments, seconds))
            failures += tallies[-1].failures
    if tallies:
        print(table(tallies), flush=True)
    print(f"chaos, seed {arguments.seed}: {len(failures)} failures", flush=True)
    return 1 if failures else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make chaos", description="Read and write through a proxy that breaks connections."
    )
    names = [*KINDS, *_PARTS]
    parser.add_argument("--minutes", type=float, help="for all parts together (10, or no limit with --reads)")
    parser.add_argument("--seed", type=int, default=1, help="what all is drawn from (1)")
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="only these parts")
    parser.add_argument("--reads", type=int, help="so many reads of each kind of cluster")
    parser.add_argument("--writes", type=int, help="so many writes")
    parser.add_argument("--operation", type=int, nargs="+", default=[], help="these operations alone")
    parser.add_argument("--workers", type=int, default=4, help="operations at the same time (4)")
    arguments = parser.parse_args()
    is_counted = arguments.reads is not None or arguments.writes is not None
    if arguments.minutes is None:
        arguments.minutes = 24 * 60.0 if is_counted or arguments.operation else 10.0
    for name in ("reads", "writes"):
        if getattr(arguments, name) is None:
            setattr(arguments, name, 0 if is_counted else _NO_LIMIT)
    if arguments.operation:
        arguments.workers = 1
    return arguments


def _run_part(name: str, seed: int, seconds: float) -> list[str]:
    try:
        counts = _PARTS[name](seed, seconds)
    except AssertionError as failure:
        print(f"FAILED {name}: {failure}", flush=True)
        return [str(failure)]
    print(f"{name}: {', '.join(f'{count} {what}' for what, count in counts.most_common())}", flush=True)
    return []


def _run_kind(kind: str, arguments: argparse.Namespace, seconds: float) -> Tally:
    tally = Tally(kind)
    began_s = time.monotonic()
    try:
        with running(kind, str(arguments.seed), arguments.workers) as cluster:
            _Run(cluster, arguments, tally, began_s, seconds).all()
    except Skipped as reason:
        tally.skipped = str(reason)
    tally.seconds = time.monotonic() - began_s
    return tally


class _Run:
    """The workers of one kind, and what they tell."""

    def __init__(
        self, cluster: Cluster, arguments: argparse.Namespace, tally: Tally, began_s: float, seconds: float
    ) -> None:
        self._cluster, self._arguments, self._tally, self._began_s = cluster, arguments, tally, began_s
        # A new interpreter for each: threads and native libraries do not survive a fork.
        context = multiprocessing.get_context("spawn")
        self._reported: Any = context.Queue()
        self._at = context.Array("q", [-1] * arguments.workers)
        self._processes = [
            context.Process(
                target=worker.run,
                args=(cluster.target, self._work(index, began_s + seconds), self._reported, self._at),
                daemon=True,
            )
            for index in range(arguments.workers)
        ]

    def _work(self, index: int, until_s: float) -> Work:
        arguments = self._arguments
        only = tuple(arguments.operation)
        return Work(
            str(arguments.seed), index, arguments.workers, arguments.reads, arguments.writes, until_s, only
        )

    def all(self) -> None:
        """Until every worker is done, or gone."""
        try:
            for process in self._processes:
                process.start()
            self._listen()
        finally:
            # Before the brokers end: else those that are still at work would tell of that.
            for process in self._processes:
                if process.pid is not None:
                    process.kill()
        self._tally.disturbances = self._cluster.disturbances

    def _listen(self) -> None:
        said_s, done = time.monotonic(), 0
        while done < len(self._processes):
            self._cluster.disturb()
            try:
                outcome = self._reported.get(timeout=1.0)
                done += outcome is None
                if outcome is not None:
                    self._take(outcome)
            except queue.Empty:
                if any(process.exitcode for process in self._processes):
                    break
            if time.monotonic() - said_s > _PROGRESS_S:
                said_s = time.monotonic()
                self._tally.seconds = said_s - self._began_s
                print(self._tally.line(), flush=True)
        self._bury()

    def _take(self, outcome: Outcome) -> None:
        before = len(self._tally.failures)
        self._tally.add(outcome, self._again(self._cluster.target, outcome.number))
        for failure in self._tally.failures[before:]:
            print(f"FAILED {failure}", flush=True)

    def _again(self, target: Target, number: int) -> str:
        return f'make chaos ARGS="--seed {self._arguments.seed} --only {target.kind} --operation {number}"'

    def _bury(self) -> None:
        """A process that ended early hung, or died: that is a failure of the operation it was at."""
        for index, process in enumerate(self._processes):
            if process.exitcode:
                what = f"its process ended with {process.exitcode}: it hung, or died (see above)"
                kind = "write" if worker.is_a_write(self._at[index]) else "read"
                self._take(Outcome(self._at[index], kind, "dead", failure=what))
            elif process.is_alive():
                process.join(_SILENCE_S)


if __name__ == "__main__":
    sys.exit(main())
