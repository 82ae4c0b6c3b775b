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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from .measure import print_table, say
from .pairs import Event, Measured, Pair, pairs_of_figures, pairs_of_runs

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
