"""Driver programs of jobs, in processes that can be killed, stopped, and started in the same moment.

    child = drivers.start("ingest", {"output": …})
    drivers.kill(child)
    drivers.summary(drivers.start("ingest", {"output": …}))

Those of ingest and publish run in the JVM of the tests' own session, and what Spark still does for one that
was killed goes on until ``end_jobs``. The others run without Spark.

Runs are forked from a process that has loaded everything: they begin at once, can be killed at any moment,
and end by themselves.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil

from tests.support.polling import poll

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .work import Work

#: Far above what a run takes to begin, or Spark to end a job, on a machine with other work.
DEADLINE_S: Final = 420.0


class Drivers:
    """Starts them."""

    def __init__(self, runs: Runs, spark: SparkSession, folder: Path) -> None:
        self._runs = runs
        self._spark = spark
        self._gates = (folder / f"gate-{number}" for number in itertools.count())

    def start(
        self, job: str, given: Mapping[str, Any], *, clock_s: float = 0.0, stops: bool = False
    ) -> Child:
        """Start one, whose clock may be wrong by some seconds, or which stops (``await_stop``) when it has
        made its first file."""
        return self._start(job, given, clock_s=clock_s, stops=stops)

    def start_at_once(self, job: str, *given: Mapping[str, Any]) -> list[Child]:
        """Start one for each of the arguments, in the same moment: all are loaded and connected by then."""
        gate = next(self._gates)
        with gate.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            children = [self._start(job, item, gate=str(gate)) for item in given]
            for child in children:
                poll(Path(f"{child.output}-ready").exists, "a driver to be ready", DEADLINE_S)
        return children

    def _start(
        self,
        job: str,
        given: Mapping[str, Any],
        gate: str | None = None,
        clock_s: float = 0.0,
        stops: bool = False,
    ) -> Child:
        return self._runs.start(job, given, {"gate": gate, "clock_s": clock_s, "stops": stops})

    def await_stop(self, child: Child) -> None:
        """Wait until it has stopped."""
        process = psutil.Process(child.pid)
        poll(lambda: process.status() == psutil.STATUS_STOPPED, "a driver to stop", DEADLINE_S)

    def await_progress(self, work: Work, before: int, child: Child) -> None:
        """Wait until a run has begun to change something, or has ended."""
        poll(lambda: child.has_ended or work.progress() > before, "a run to begin its work", DEADLINE_S)

    def ended(self, child: Child) -> int:
        """Wait for its end: 0 for a run that did its work, 1 for one that failed, below 0 for a signal."""
        code = self._runs.ended(child)
        assert code in (0, 1, -signal.SIGKILL), child.output.read_text()
        return code

    def kill(self, child: Child) -> int:
        """End it now, if it has not ended; how it has."""
        child.signal(signal.SIGKILL)
        return self.ended(child)

    def summary(self, child: Child) -> dict[str, Any]:
        """Wait for the end of one that does its work; what it tells."""
        code = self.ended(child)
        text = child.output.read_text()
        assert code == 0, text
        summary: dict[str, Any] = json.loads(text)
        return summary

    def complaint(self, child: Child) -> str:
        """Wait for the end of one that fails; its one line."""
        code = self.ended(child)
        assert code == 1
        return child.output.read_text()

    def end_jobs(self) -> None:
        """End all that Spark runs, as executors end when they notice that their driver is gone."""
        context: Any = self._spark.sparkContext._jsc.sc()
        context.cancelAllJobs()

        def is_idle() -> bool:
            executors = context.statusTracker().getExecutorInfos()
            return not any(executor.numRunningTasks() for executor in executors)

        poll(is_idle, "the tasks of a driver that was killed to end", DEADLINE_S)


@contextlib.contextmanager
def driving(spark: SparkSession, folder: Path) -> Iterator[Drivers]:
    """Yield a starter of drivers in the JVM of a session, until the block ends."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    parameters = gateway.gateway_parameters
    environment = {
        **os.environ,
        "PYSPARK_GATEWAY_PORT": str(parameters.port),
        "PYSPARK_GATEWAY_SECRET": parameters.auth_token,
    }
    with starting_runs(["tests.jobs.driver"], folder, environment) as runs:
        yield Drivers(runs, spark, folder)


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
