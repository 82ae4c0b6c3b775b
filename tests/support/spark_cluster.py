"""A standalone Spark cluster of the installed pyspark: a master and workers, all on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import psutil

from spark_kafkawire.broker.cluster import ChildProcess

from .noida import HOST, free_ports

#: A JVM is up in seconds; a busy machine takes longer.
START_TIMEOUT_S: Final = 200.0
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_LAUNCHER_MEMORY: Final = "256m"


class SparkCluster:
    """The cluster; ``environ`` has SPARK_HOME. Each worker offers a core and ``memory``, on the next one of
    ``hosts``."""

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        *,
        workers: int = 2,
        memory: str = "1g",
        hosts: Sequence[str] = (HOST,),
    ) -> None:
        self._folder = folder
        self._environ = {**environ, "SPARK_DAEMON_MEMORY": _LAUNCHER_MEMORY}
        self._worker_count = workers
        self._memory = memory
        self._hosts = hosts
        self._ports = free_ports(2)
        self._master: ChildProcess | None = None
        self._workers: list[ChildProcess] = []
        self._started_count = 0

    @property
    def master(self) -> str:
        """The master's address, as ``spark-submit --master`` takes it."""
        return f"spark://{HOST}:{self._ports[0]}"

    def __enter__(self) -> SparkCluster:
        port, page_port = map(str, self._ports)
        ports = ("--host", HOST, "--port", port, "--webui-port", page_port)
        try:
            self._master = self._start("master", _MASTER, *ports)
            self._wait_for_workers(0)
            self.replace_workers()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        for process in (*self._workers, *([self._master] if self._master else ())):
            _kill_with_children(process)

    def kill_worker(self) -> None:
        """End a worker and its executors as ``kill -9`` does."""
        _kill_with_children(self._workers.pop(0))

    def replace_workers(self) -> None:
        """Start workers in the place of those that were killed, and wait until the master has them."""
        # Else a job might be given to one that the master does not miss yet.
        self._wait_for_workers(len(self._workers))
        while len(self._workers) < self._worker_count:
            self._workers.append(self._start_worker())
        self._wait_for_workers(self._worker_count)

    def _start_worker(self) -> ChildProcess:
        host = self._hosts[self._started_count % len(self._hosts)]
        self._started_count += 1
        name = f"worker-{self._started_count}"
        offered = ("--cores", "1", "--memory", self._memory, "--work-dir", str(self._folder / name))
        ports = ("--host", host, "--port", "0", "--webui-port", "0")
        return self._start(name, _WORKER, *ports, *offered, self.master)

    def _start(self, name: str, main_class: str, *arguments: str) -> ChildProcess:
        spark_class = str(Path(self._environ["SPARK_HOME"]) / "bin" / "spark-class")
        log = self._folder / f"{name}.log"
        argv = [spark_class, main_class, *arguments]
        return ChildProcess(name, argv, output=log, log=log, environ={**os.environ, **self._environ})

    def _wait_for_workers(self, count: int) -> None:
        assert self._master is not None
        what = f"serving {count} worker(s)"
        self._master.wait_until(lambda: self._workers_alive() == count or None, what, START_TIMEOUT_S)

    def _workers_alive(self) -> int | None:
        """As the master's own page tells; None while it serves none."""
        with (
            contextlib.suppress(OSError, ValueError),
            urllib.request.urlopen(f"http://{HOST}:{self._ports[1]}/json/", timeout=30) as page,
        ):
            reported: dict[str, Any] = json.load(page)
            return int(reported["aliveworkers"])
        return None


def _kill_with_children(process: ChildProcess) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
    process.kill()
