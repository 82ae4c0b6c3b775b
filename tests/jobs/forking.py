"""Runs in processes that are forked from one that has loaded everything: they begin at once, can be killed
at any moment, and end by themselves.

    with starting_runs(["tests.jobs.driver", "publish"], folder) as runs:   # a module that calls serve()
        child = runs.start("its", {"arguments": 1})
        child.signal(signal.SIGKILL)
        assert runs.ended(child) == -signal.SIGKILL
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]


class Child:
    """A run in a process of its own; what it printed is in ``output``."""

    def __init__(self, pid: int, output: Path) -> None:
        self.pid = pid
        self.output = output
        self.code: int | None = None

    @property
    def has_ended(self) -> bool:
        """True if the run has written its end, which ``main`` must do last; False if it was killed."""
        return self.output.exists()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens where the process has ended."""
        if self.code is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


class Runs:
    """Starts runs, one after the other."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._count = 0

    def start(self, *arguments: Any) -> Child:
        """Start a run with these arguments, which JSON must have, and the path of its output."""
        self._count += 1
        output = self._folder / f"run-{self._count}"
        return Child(int(self._reported(json.dumps([*arguments, str(output)]))), output)

    def ended(self, child: Child) -> int:
        """Wait until it has ended; how, as ``wait`` has it: below 0 for a signal."""
        if child.code is None:
            child.code = int(self._reported(json.dumps(child.pid)))
        return child.code

    def _reported(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the process that starts runs has ended"
        return answer


@contextlib.contextmanager
def starting_runs(
    module: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Runs]:
    """Yield a starter of runs, until the block ends: runs of a module, with its arguments,
    that calls ``serve``."""
    with subprocess.Popen(
        [sys.executable, "-m", *module],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Runs(process, folder)
        assert process.stdin is not None
        process.stdin.close()


def serve(main: Callable[..., None]) -> None:
    """Fork a process that calls ``main`` for each list of arguments, and wait for the one of each number.

    ``main`` must end its process itself, by ``os._exit``: it shares its parent's exit handlers.
    """
    for line in sys.stdin:
        asked = json.loads(line)
        if isinstance(asked, int):
            answer = os.waitstatus_to_exitcode(os.waitpid(asked, 0)[1])
        else:
            answer = os.fork()
            if answer == 0:
                main(*asked)
        print(answer, flush=True)
