"""``make bench ARGS="--before ../before"``: the measures of two trees, turn by turn.

    git worktree add ../before HEAD~1 && make --directory ../before check
    make bench ARGS="--before ../before --only read write --rounds 8"

Two processes live side by side, each in its tree with the Python of that tree, with a Spark and brokers
of its own. One of them works while the other one waits: they hand over after each run, and who begins
changes, so that whatever the machine does meets both. The seconds of a run are compared with those of
the same round of the other tree. Where memory lies differs from one process to the next, and some
figures with it: ``--sessions`` starts both again. The measures of the codec, which run without a task's
``keep_memory``, hang most on whether glibc happens to keep what is freed. For these, let it in both trees:
``MALLOC_TRIM_THRESHOLD_=134217728 MALLOC_MMAP_THRESHOLD_=33554432 make bench ...``. It exits with 1 where the
median of a comparison is below 0.97. The other tree has to have the subjects, by the same names.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any, Final

from .measure import print_table, say

ROOT: Final = Path(__file__).resolve().parents[2]
#: Runs of each: best a multiple of 4.
ROUNDS: Final = 8
#: Where all that both told is kept.
EVENTS: Final = Path("build/turns.jsonl")
#: A turn is a run of some seconds, or writing what is read, or the start of a Spark.
_TURN_S_MAX: Final = 900.0
#: What a process without a turn takes to end, with its Spark.
_END_S_MAX: Final = 60.0


class Ended(Exception):
    """A tree's process ended before its measures did, or without any."""


def compare(asked: argparse.Namespace) -> int:
    """Compare what the arguments name; 1 where this tree is slower. Raises ``Ended``."""
    wanted = {"names": asked.only, "rounds": asked.rounds or ROUNDS}
    wanted |= {"sizes": asked.value_sizes, "compressions": asked.compressions, "size": asked.size}
    sessions, lines = [], []
    for number in range(asked.sessions):
        before, now = session((asked.before, ROOT), wanted)
        sessions.append((Measured.of(before), Measured.of(now)))
        trees = {"before": before, "now": now}
        lines += [{"session": number, "tree": tree, **event} for tree in trees for event in trees[tree]]
    EVENTS.parent.mkdir(parents=True, exist_ok=True)
    EVENTS.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    runs, figures = list(pairs_of_runs(sessions)), list(pairs_of_figures(sessions))
    if not runs and not figures:
        raise Ended("nothing was measured: no measure has these sizes and compressions")
    _print("run", "s", runs, "rounds")
    if figures:
        _print("figure", "value", figures, "sessions")
    return int(any(pair.is_below for pair in (*runs, *figures)))


def session(trees: Sequence[Path], asked: Mapping[str, Any]) -> tuple[list[Event], list[Event]]:
    """Run the requested measures (as ``one_tree`` says) once, by new processes in two trees; return the
    events of each tree. Raises ``Ended``."""
    reported: tuple[list[Event], list[Event]] = ([], [])
    with ExitStack() as stack:
        processes = [stack.enter_context(_process(tree, asked)) for tree in trees]
        waiting, first = {0, 1}, 0
        while waiting:
            for which in sorted(waiting, reverse=first == 1):
                event = _turn(processes[which])
                reported[which].append(event)
                if event["what"] == "end":
                    waiting.remove(which)
                elif event["what"] == "figure" and which == 1:
                    say(f"  {event['name']} {event['value_size'] or ''} {event['compression'] or ''}")
            first = event.get("next", 0)
    return reported


def _turn(tree: Connection) -> dict[str, Any]:
    """Let a tree work until it hands over. Raises ``Ended``."""
    try:
        tree.send("go")
        if not tree.poll(_TURN_S_MAX):
            raise Ended(f"a turn took more than {_TURN_S_MAX:.0f} s")
        event: dict[str, Any] = tree.recv()
    except (EOFError, OSError) as error:
        raise Ended("one of the two processes ended: what it said is above") from error
    return event


@contextmanager
def _process(tree: Path, asked: Mapping[str, Any]) -> Iterator[Connection]:
    """The process of a tree, and the connection to it."""
    ours, theirs = Pipe()
    program = Path(__file__).with_name("one_tree.py")
    words = [tree / ".venv/bin/python", program, theirs.fileno(), json.dumps(asked)]
    # make exports this tree's Python.
    environment = {name: word for name, word in os.environ.items() if not name.startswith("PYSPARK_")}
    process = subprocess.Popen(
        [str(word) for word in words],
        cwd=tree,
        env=environment,
        pass_fds=[theirs.fileno()],
        stdout=subprocess.DEVNULL,
    )
    theirs.close()
    try:
        yield ours
    finally:
        # Nobody who waits for a turn goes on without the other end.
        ours.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S_MAX)
        process.kill()


def _print(what: str, unit: str, pairs: Sequence[Pair], each: str) -> None:
    header = [what, f"before, {unit}", f"now, {unit}", "now to before", f"of {each}", ""]
    print_table(header, [pair.cells() for pair in pairs])


def tree(word: str) -> Path:
    """A checkout of another commit in which ``make check`` has run."""
    path = Path(word).absolute()
    for needed in (".venv/bin/python", "tests/benchmarks/measure.py"):
        if not (path / needed).exists():
            raise argparse.ArgumentTypeError(f"{path} has no {needed}: run make check in a checkout there")
    return path


#: What a process tells: a run, a figure, or its end.
Event = Mapping[str, Any]
#: The tree that is looked at may be this many times as fast as the one before: 3 % less.
RATIO_MIN: Final = 0.97
#: Runs that nothing of this package is part of: how far they are from 1 is what the machine does.
YARDSTICKS: Final = frozenset(("ceiling", "limit", "plain", "confluent-kafka", "kafka-python"))


@dataclass(frozen=True, slots=True)
class Pair:
    """A measure of both trees. ``ratios`` are of the tree that is looked at to the one before, one for each
    round or session: above 1 it is faster, or needs less."""

    name: str
    before: float
    now: float
    ratios: tuple[float, ...]
    is_yardstick: bool = False

    @property
    def ratio(self) -> float:
        """The median."""
        return median(self.ratios)

    @property
    def is_below(self) -> bool:
        """True if this tree has lost more than 3 %."""
        return not self.is_yardstick and self.ratio < RATIO_MIN

    def cells(self) -> list[str]:
        """A row of the table."""
        spread = f"{min(self.ratios):.2f} to {max(self.ratios):.2f}"
        verdict = "yardstick" if self.is_yardstick else "**below**" if self.is_below else ""
        return [self.name, f"{self.before:.4g}", f"{self.now:.4g}", f"{self.ratio:.3f}", spread, verdict]


@dataclass(frozen=True, slots=True)
class Measured:
    """Results of one tree in one session: the seconds of each run by its rounds, without the warm-up, and the
    figures that come from no runs, each with True if less of it is better."""

    seconds: Mapping[tuple[str, str], Mapping[int, float]]
    figures: Mapping[str, tuple[float, bool]]

    @classmethod
    def of(cls, events: Iterable[Event]) -> Measured:
        """Runs are named after the first figure that is made of them."""
        seconds: dict[tuple[str, str], dict[int, float]] = {}
        figures: dict[str, tuple[float, bool]] = {}
        runs: list[Event] = []
        made_of_runs: set[str] = set()
        for event in events:
            if event["what"] == "run":
                runs.append(event)
            elif event["what"] == "figure":
                if runs:
                    made_of_runs.add(event["name"])
                elif event["name"] not in made_of_runs:
                    figures[event["name"]] = (event["value"], event["at_most"])
                named = _name(event, {run["name"] for run in runs})
                for run in (each for each in runs if each["round"] > 0):
                    seconds.setdefault((named, run["name"]), {})[run["round"]] = run["seconds"]
                runs = []
        return cls(seconds, figures)


def _name(figure: Event, runs: Container[str]) -> str:
    """Of what runs are compared for: without a compression where they are runs of several ones."""
    size, compression = figure["value_size"], figure["compression"]
    reported = (f"{size} B" if size else None, None if compression in runs else compression)
    return ", ".join((figure["name"], *filter(None, reported)))


def pairs_of_runs(sessions: Iterable[tuple[Measured, Measured]]) -> Iterator[Pair]:
    """The speed of each run that both trees made, pair by pair of its rounds."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for before, now in sessions:
        for key in (each for each in now.seconds if each in before.seconds):
            ours, theirs = now.seconds[key], before.seconds[key]
            found.setdefault(key, []).extend((theirs[each], ours[each]) for each in ours if each in theirs)
    for (named, run), both in found.items():
        ratios = tuple(theirs / ours for theirs, ours in both)
        before_s, now_s = (median(each[side] for each in both) for side in (0, 1))
        yield Pair(f"{named}: {run}", before_s, now_s, ratios, run in YARDSTICKS)


def pairs_of_figures(sessions: Iterable[tuple[Measured, Measured]]) -> Iterator[Pair]:
    """The figures that both trees told, one pair for each session."""
    found: dict[str, list[tuple[float, float, bool]]] = {}
    for before, now in sessions:
        for name in (each for each in now.figures if each in before.figures):
            value, at_most = now.figures[name]
            found.setdefault(name, []).append((before.figures[name][0], value, at_most))
    for name, reported in found.items():
        ratios = tuple(before / now if at_most else now / before for before, now, at_most in reported)
        before_value, now_value = (median(each[side] for each in reported) for side in (0, 1))
        # Such as "into Arrow by confluent-kafka".
        is_yardstick = name.rpartition(" ")[2] in YARDSTICKS
        yield Pair(name, before_value, now_value, ratios, is_yardstick)
