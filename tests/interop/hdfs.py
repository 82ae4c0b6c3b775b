"""Hadoop's HDFS, one name node and one data node, in a process of its own.

with Hdfs(folder) as hdfs:
    hdfs.upload(directory, "/backup/broker-1")
    hdfs.uri("/backup/broker-1")

Users are names, as in a cluster without Kerberos; permissions count.
"""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Final

from spark_kafkawire.broker.java import find_java
from spark_kafkawire.broker.processes import ChildProcess
from tests.support.noida import HOST, free_ports

from .jars import hdfs_jars

#: Three seconds on an idle machine.
START_TIMEOUT_S: Final = 120.0
#: Who owns all files.
OWNER: Final = "backup"
_JAVA_OPTIONS: Final = (
    "-Xmx320m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    f"-DHADOOP_USER_NAME={OWNER}",
)


class Hdfs:
    """The servers during the ``with`` block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port, self._rpc_port = free_ports(2)
        self._process: ChildProcess | None = None

    def path(self, path: str) -> str:
        """A path as Spark writes it."""
        return f"hdfs://{HOST}:{self._rpc_port}{path}"

    def uri(self, path: str, user: str | None = None) -> str:
        """A path as a user writes it."""
        at = "" if user is None else f"{user}@"
        return f"webhdfs://{at}{HOST}:{self.port}{path}"

    def upload(self, folder: Path, path: str) -> None:
        """Put all files below a folder below a path."""
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                self._put(f"{path}/{file.relative_to(folder)}", file.read_bytes())

    def allow(self, path: str, mode: str) -> None:
        """Set the permissions of a file or folder, in octal digits."""
        self._ask("PUT", self.port, f"/webhdfs/v1{path}?op=SETPERMISSION&user.name={OWNER}&permission={mode}")

    def _put(self, path: str, content: bytes) -> None:
        location = self._ask(
            "PUT", self.port, f"/webhdfs/v1{path}?op=CREATE&user.name={OWNER}&noredirect=true"
        )
        _, _, rest = json.loads(location)["Location"].partition("//")
        address, _, target = rest.partition("/")
        self._ask("PUT", int(address.rpartition(":")[2]), f"/{target}", content)

    def _ask(self, method: str, port: int, target: str, body: bytes | None = None) -> bytes:
        connection = http.client.HTTPConnection(HOST, port, timeout=START_TIMEOUT_S)
        try:
            connection.request(method, target, body)
            response = connection.getresponse()
            content = response.read()
            assert response.status < 400, content
            return content
        finally:
            connection.close()

    def _answering(self) -> bool | None:
        try:
            self._put("/started", b"")
        except (OSError, AssertionError, http.client.HTTPException):
            return None
        return True

    def __enter__(self) -> Hdfs:
        words = [
            "org.apache.hadoop.mapreduce.MiniHadoopClusterManager",
            "-nomr",
            "-format",
            "-datanodes",
            "1",
        ]
        words += ["-nnport", str(self._rpc_port), "-nnhttpport", str(self.port)]
        words += ["-D", f"hdfs.minidfs.basedir={self._folder / 'hdfs'}"]
        log = self._folder / "hdfs.log"
        argv = [str(find_java()), *_JAVA_OPTIONS, "-cp", f"{hdfs_jars()}/*", *words]
        self._process = ChildProcess("HDFS", argv, output=log, log=log)
        try:
            self._process.wait_until(self._answering, "answering", START_TIMEOUT_S)
        except BaseException:
            self._process.kill()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._process:
            self._process.kill()
