"""What the processes of a run cost: CPU seconds by role, and the memory of the Python workers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Final

import psutil

#: A word of the command of each broker.
_BROKERS: Final = frozenset(("spark_kafkawire.broker", "tests.benchmarks.log_server", "kafka.Kafka"))
#: CPU seconds of processes, by their id and role.
CpuSeconds = dict[tuple[int, str], float]


class CpuMeter:
    """Adds up the CPU time of all processes that this one started, by role, run by run."""

    def __init__(self) -> None:
        self._runs: dict[str, list[dict[str, float]]] = {}

    def metered(self, name: str, run: Callable[[], None]) -> Callable[[], None]:
        """``run``, with its CPU time noted under ``name``."""

        def metered_run() -> None:
            before = cpu_seconds()
            run()
            self._runs.setdefault(name, []).append(spent_seconds(before, cpu_seconds()))

        return metered_run

    def ns_per_row(self, name: str, rows: int) -> dict[str, int]:
        """CPU nanoseconds for a row in the median run, by role; the first run was for warming up."""
        runs = self._runs[name][1:]
        roles = {role for run in runs for role in run}
        medians = {role: median(run.get(role, 0.0) for run in runs) for role in sorted(roles)}
        return {role: round(1e9 * seconds / rows) for role, seconds in medians.items() if seconds}


def workers() -> list[psutil.Process]:
    """The Python processes that run Spark's tasks."""
    return [each for each in psutil.Process().children(recursive=True) if _role(each) == "worker"]


def forget_peaks() -> None:
    """Make the peak memory of the workers what they hold now."""
    for worker in workers():
        Path(f"/proc/{worker.pid}/clear_refs").write_text("5")


def peaks_mib() -> dict[int, float]:
    """The most memory that each worker held at once since ``forget_peaks``, MiB by process id."""
    return {worker.pid: _status_mib(worker, "VmHWM") for worker in workers()}


def held_mib() -> dict[int, float]:
    """The memory that each worker holds now, MiB by process id."""
    return {worker.pid: _status_mib(worker, "VmRSS") for worker in workers()}


def cpu_seconds() -> CpuSeconds:
    """CPU seconds of all processes that this one started and that run now."""
    seconds: CpuSeconds = {}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            times = process.cpu_times()
            seconds[process.pid, _role(process)] = times.user + times.system
    return seconds


def spent_seconds(before: CpuSeconds, after: CpuSeconds) -> dict[str, float]:
    """What was spent between two looks by the processes that are still there, by role."""
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
    if any("org.apache.spark" in word for word in command):
        return "jvm"
    # One for each streaming query: it plans the batches.
    if "pyspark.sql.streaming.python_streaming_source_runner" in command:
        return "source"
    # Tasks run in forks of the daemon for tasks; planning has daemons of its own.
    if "pyspark.daemon" in command:
        return "worker" if command[-1] == "pyspark.worker" else "planner"
    return "other"
