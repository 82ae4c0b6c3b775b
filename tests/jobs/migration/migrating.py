"""What the tests of migrations share: runs without Spark, here or in a process that can be killed.

``python -m tests.jobs.migration.migrating`` takes a line of arguments for each run, and forks a
process for it: a run begins at once, and ends with nobody's help but its own.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.jobs.migration.clusters import Clusters, source_options, target_options
from spark_kafkawire.jobs.migration.run import Runner, Settings, migrate
from spark_kafkawire.jobs.progress import progress_on

ROOT = Path(__file__).parents[3]
#: Deadlines and sizes for tests: a small log is many pieces, and each of them some batches.
SOURCE = {"retryBackoff": "5ms", "requestTimeout": "10s", "fetchBytes": "16KiB"}
TARGET = {"retryBackoff": "5ms", "requestTimeout": "10s", "batchBytes": "8KiB"}
PIECE_BYTES = 20_000


def clusters_of(
    zookeeper_connect: str,
    bootstrap_servers: str,
    topics: Sequence[str],
    *,
    source_headers: bool = False,
    **source: str,
) -> Clusters:
    """Both clusters, as the job makes them of its arguments."""
    given = {"zookeeper.connect": zookeeper_connect, **SOURCE, **source}
    return Clusters(
        source_options(given, {"subscribe": ",".join(topics)}),
        *target_options({"kafka.bootstrap.servers": bootstrap_servers, **TARGET}),
        source_headers,
    )


def one_by_one(function: Any, tasks: Sequence[Any]) -> list[Any]:
    """Runs tasks as Spark does, without Spark."""
    return [function(task) for task in tasks]


def run(
    clusters: Clusters,
    state: Path,
    names: Mapping[str, str],
    piece_bytes: int = PIECE_BYTES,
    runner: Runner = one_by_one,
) -> dict[str, Any]:
    """One run to its end; the summary."""
    settings = Settings(state, names, create_topics=True, piece_bytes=piece_bytes)
    return migrate(clusters, settings, runner, progress_on(io.StringIO(), "migrate", quiet=True))


class Child:
    """A run in a process of its own; what it printed is in ``output``."""

    def __init__(self, pid: int, output: Path) -> None:
        self.pid = pid
        self.output = output

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens where the process has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


class Runs:
    """Starts runs in processes, one after the other, from one that has loaded everything."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._count = 0

    def start(
        self, zookeeper_connect: str, bootstrap_servers: str, state: Path, names: Mapping[str, str]
    ) -> Child:
        """Start a run."""
        self._count += 1
        output = self._folder / f"run-{self._count}"
        arguments = [zookeeper_connect, bootstrap_servers, str(state), dict(names), str(output)]
        return Child(int(self._told(json.dumps(arguments))), output)

    def ended(self, child: Child) -> int:
        """Wait until it has ended; how, as ``wait`` has it: below 0 for a signal."""
        return int(self._told(json.dumps(child.pid)))

    def _told(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the process that starts runs has ended"
        return answer


@contextlib.contextmanager
def starting_runs(folder: Path) -> Iterator[Runs]:
    """What starts runs, until the block ends."""
    command = [sys.executable, "-m", "tests.jobs.migration.migrating"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Runs(process, folder)
        assert process.stdin is not None
        process.stdin.close()


def serve() -> None:
    """Fork a run for each list of arguments, and wait for the one of each number."""
    for line in sys.stdin:
        asked = json.loads(line)
        if isinstance(asked, int):
            answer = os.waitstatus_to_exitcode(os.waitpid(asked, 0)[1])
        else:
            answer = os.fork()
            if answer == 0:
                fork_main(*asked)
        print(answer, flush=True)


def fork_main(connect: str, servers: str, state: str, names: dict[str, str], output: str) -> None:
    """What a forked process does: a run, and nothing that its parent would do on the way out."""
    try:
        summary = run(clusters_of(connect, servers, sorted(names)), Path(state), names)
        Path(output).write_text(json.dumps(summary))
        os._exit(0 if not summary["failed"] else 3)
    except KafkaWireError as error:
        Path(output).write_text(str(error))
        os._exit(1)
    finally:
        os._exit(2)


if __name__ == "__main__":
    serve()
