"""Embedded brokers with their ZooKeeper, for quick starts and tests.

    with EmbeddedCluster(brokers=2, partitions=3) as cluster:
        spark.read.format("kafkawire").option("zookeeper.connect", cluster.zookeeper_connect)

Every broker and ZooKeeper run in processes of their own, which end with this one however it ends.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ..errors import OptionError, counted
from .processes import ChildProcess
from .zookeeper import ZooKeeperServer

HOST: Final = "127.0.0.1"
#: A broker is ready in well under a second; recovery of a large log takes longer.
START_TIMEOUT_S: Final = 60.0
_PACKAGE_ROOT: Final = Path(__file__).resolve().parents[2]


class EmbeddedBroker:
    """A broker in its own process. Stopped or killed, it starts again on the same port."""

    def __init__(self, broker_id: int, log_dir: Path, run_dir: Path, properties: Mapping[str, str]) -> None:
        self.id = broker_id
        self.host = HOST
        self.port = 0
        self.log_dir = log_dir
        self._run_dir = run_dir
        self._properties = properties
        self._process: ChildProcess | None = None

    @property
    def address(self) -> str:
        """``host:port``"""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """Process id; None while the broker is not running."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start it and wait until it serves. Raises ``ConnectFailed`` when it does not."""
        self.launch()
        self.await_ready()

    def launch(self) -> None:
        """Start its process without waiting."""
        assert self._process is None, f"broker {self.id} runs already: stop or kill it first"
        output = self._run_dir / f"broker-{self.id}.out"
        output.unlink(missing_ok=True)
        properties = {
            "brokerid": str(self.id),
            "hostname": HOST,
            "port": str(self.port),
            "log.dir": str(self.log_dir),
            **self._properties,
        }
        argv = [sys.executable, "-m", "spark_kafkawire.broker"]
        for name, value in properties.items():
            argv += ["--set", f"{name}={value}"]
        self._process = ChildProcess(
            f"broker {self.id}",
            argv,
            output=output,
            log=self._run_dir / f"broker-{self.id}.log",
            environ={**os.environ, "PYTHONPATH": _python_path()},
        )

    def await_ready(self) -> None:
        """Wait until a launched broker serves, and learn its port."""
        assert self._process is not None
        output = self._run_dir / f"broker-{self.id}.out"

        def port() -> int | None:
            found = re.search(r":(\d+)\n", output.read_text())
            return int(found[1]) if found else None

        try:
            self.port = self._process.wait_until(port, "it was ready", START_TIMEOUT_S)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stop it in order: logs are flushed, its ZooKeeper nodes are gone when this returns."""
        if self._process:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        """End it as ``kill -9`` does; its ZooKeeper nodes stay until the session runs out."""
        if self._process:
            self._process.kill()
            self._process = None

    def pause(self) -> None:
        """Freeze it: connections stay open and silent."""
        assert self._process is not None
        self._process.pause()

    def resume(self) -> None:
        """Resume it after ``pause``."""
        assert self._process is not None
        self._process.resume()


class EmbeddedCluster:
    """``brokers`` brokers with ids from 0 on, and a ZooKeeper server unless ``zookeeper`` is false.

    ``log_dirs`` are the brokers' log folders, used in place and kept: one for each broker. Without
    them the logs are in a temporary folder and end with the cluster. ``properties`` are added to
    every broker's. ``chroot`` is the path of all nodes in ZooKeeper (``/kafka``).
    """

    def __init__(
        self,
        brokers: int = 2,
        partitions: int = 3,
        *,
        zookeeper: bool = True,
        log_dirs: Sequence[Path | str] | None = None,
        properties: Mapping[str, str] | None = None,
        chroot: str = "",
    ) -> None:
        if log_dirs is not None and len(log_dirs) != brokers:
            raise OptionError(
                f"{counted(brokers, 'broker')} and {counted(len(log_dirs), 'folder')} in log_dirs: give one "
                "for each broker"
            )
        self._broker_count = brokers
        self._log_dirs = log_dirs
        self._chroot = chroot
        # An append is visible at once, as a test or a first try expects.
        self._properties = {
            "num.partitions": str(partitions),
            "log.flush.interval": "1",
            **(properties or {}),
        }
        self.zookeeper = ZooKeeperServer() if zookeeper else None
        self.brokers: tuple[EmbeddedBroker, ...] = ()
        self._resources = contextlib.ExitStack()

    @property
    def zookeeper_connect(self) -> str:
        """Value for the option ``zookeeper.connect``: ``host:port/chroot``."""
        if self.zookeeper is None:
            raise OptionError("this cluster has no ZooKeeper: use broker_list")
        return f"{self.zookeeper.connect}{self._chroot}"

    @property
    def broker_list(self) -> str:
        """Value for the option ``broker.list``: ``id:host:port,id:host:port``."""
        return ",".join(f"{broker.id}:{broker.address}" for broker in self.brokers)

    def start(self) -> None:
        """Start ZooKeeper and the brokers and wait until all of them serve.

        Raises ``OptionError`` without Java or pyspark, ``ConnectFailed`` with the last logged line if a
        process does not start. After an error no process is left running.
        """
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        run_dir = Path(
            self._resources.enter_context(tempfile.TemporaryDirectory(prefix="kafkawire-cluster-"))
        )
        properties = dict(self._properties)
        if self.zookeeper:
            self._resources.callback(self.zookeeper.close)
            self.zookeeper.start()
            properties["zk.connect"] = self.zookeeper_connect
        log_dirs = self._log_dirs or [run_dir / f"logs-{index}" for index in range(self._broker_count)]
        self.brokers = tuple(
            EmbeddedBroker(index, Path(log_dir), run_dir, properties)
            for index, log_dir in enumerate(log_dirs)
        )
        for broker in self.brokers:
            self._resources.callback(broker.stop)
            broker.launch()
        for broker in self.brokers:
            broker.await_ready()

    def close(self) -> None:
        """Stop all processes and remove the temporary folders."""
        self._resources.close()

    def __enter__(self) -> EmbeddedCluster:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _python_path() -> str:
    inherited = os.environ.get("PYTHONPATH")
    return f"{_PACKAGE_ROOT}{os.pathsep}{inherited}" if inherited else str(_PACKAGE_ROOT)
