"""A Spark Connect server in a process of its own, on loopback, until its standard input ends.

The session and its Python are on this side; sources, sinks and their workers are on that one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.support.local_spark import local_spark

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

ROOT: Final = Path(__file__).parents[2]
_PLUGIN: Final = "org.apache.spark.sql.connect.SparkConnectPlugin"
_SETTINGS: Final = {
    "spark.plugins": _PLUGIN,
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
}


class ConnectServer:
    """The server, as long as the ``with`` block lasts."""

    def __enter__(self) -> ConnectServer:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._port = self._process.stdout.readline().strip()
        assert self._port, "the server of Spark Connect did not start"
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._process.communicate()  # closes its standard input, and waits for its end

    def session(self) -> SparkSession:
        """A new session of a client."""
        from pyspark.sql.connect.session import (
            SparkSession,  # refuses a pandas before 2
        )

        return SparkSession.builder.remote(f"sc://127.0.0.1:{self._port}").create()


def main() -> None:
    """Serve."""
    spark = local_spark("Spark Connect", _SETTINGS)
    jvm = spark._jvm
    assert jvm is not None
    service = getattr(getattr(jvm, "org.apache.spark.sql.connect.service.SparkConnectService$"), "MODULE$")
    print(service.localPort(), flush=True)
    sys.stdin.read()
    spark.stop()


@contextlib.contextmanager
def default_connect_port() -> Iterator[None]:
    """Keep port 15002 from other tests.

    A program that starts its own Connect server (``remote("local")``, ``spark-pipelines``) takes this port:
    Spark tries no other.
    """
    lock = os.open(Path(tempfile.gettempdir(), "kafkawire-tests-port-15002"), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


if __name__ == "__main__":
    main()
