"""The cost of the processes of a run: CPU seconds by role, and the memory of the Python workers."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

#: A word of the command of each broker.
_BROKERS: Final = frozenset(
    ("spark_kafkawire.broker", "tests.benchmarks.log_server", "tests.support.fake_cluster", "kafka.Kafka")
)
#: CPU seconds of processes, by their id and role.
CpuSeconds = dict[tuple[int, str], float]


def processes_of(role: str, above: psutil.Process | None = None) -> list[psutil.Process]:
    """Processes of a role below this process, or below ``above``: "jvm" is Spark's, "executor" that of an
    executor by itself, "worker" a Python process that runs Spark's tasks."""
    return [item for item in (above or psutil.Process()).children(recursive=True) if _role(item) == role]


@contextmanager
def confined(role: str, cpus: Collection[int]) -> Iterator[None]:
    """Its processes have these CPUs alone during the block."""

    def allow(cpus: Collection[int]) -> None:
        for process in processes_of(role):
            for thread in os.listdir(f"/proc/{process.pid}/task"):
                # Threads that wait for work end after a while.
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(int(thread), cpus)

    allowed = os.sched_getaffinity(0)
    allow(cpus)
    try:
        yield
    finally:
        allow(allowed)


def forget_peaks() -> None:
    """Make the peak memory of the workers what they hold now."""
    for worker in processes_of("worker"):
        Path(f"/proc/{worker.pid}/clear_refs").write_text("5")


def peaks_mib() -> dict[int, float]:
    """The most memory that each worker held at once since ``forget_peaks``, MiB by process id."""
    return {worker.pid: _status_mib(worker, "VmHWM") for worker in processes_of("worker")}


def held_mib(role: str = "worker", above: psutil.Process | None = None) -> dict[int, float]:
    """The memory that each process of a role holds now, MiB by process id."""
    return {item.pid: _status_mib(item, "VmRSS") for item in processes_of(role, above)}


def cpu_seconds() -> CpuSeconds:
    """CPU seconds of this process and of all that it started and that run now."""
    seconds: CpuSeconds = {}
    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            times = process.cpu_times()
            seconds[process.pid, _role(process)] = times.user + times.system
    return seconds


def spent_seconds(before: CpuSeconds, after: CpuSeconds) -> dict[str, float]:
    """CPU seconds by role between two looks, of the processes that are still there."""
    seconds: dict[str, float] = {}
    for (pid, role), spent in after.items():
        seconds[role] = seconds.get(role, 0.0) + spent - before.get((pid, role), 0.0)
    return seconds


def _status_mib(process: psutil.Process, name: str) -> float:
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _role(process: psutil.Process) -> str:
    command: list[str] = []
    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        command = process.cmdline()
    if not _BROKERS.isdisjoint(command):
        return "broker"
    if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in command:
        return "executor"
    if any("org.apache.spark" in word for word in command):
        return "jvm"
    # One for each streaming query: it plans the batches.
    if "pyspark.sql.streaming.python_streaming_source_runner" in command:
        return "source"
    # Tasks run in forks of the daemon for tasks; planning has daemons of its own.
    if "pyspark.daemon" in command:
        return "worker" if command[-1] == "pyspark.worker" else "planner"
    return "other"


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
    result = {}
    for kind, first in before.items():
        for look in looks:
            if look[kind].keys() != first.keys():
                raise AssertionError(f"{kind} was replaced: there were {first}, then {look[kind]} MiB")
        held = [max(look[kind].values()) for look in looks]
        middle = len(held) // 2
        result[kind] = Peaks(max(first.values()), max(held[:middle]), max(held[middle:]))
    return result


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
