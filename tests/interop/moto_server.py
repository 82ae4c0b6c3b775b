"""An S3 of moto in a process of its own: it answers requests as S3 does, and has none of its limits.

with MotoServer(folder) as server:
    server.endpoint
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from spark_kafkawire.broker.processes import ChildProcess
from tests.support.noida import HOST, free_port, listens

START_TIMEOUT_S: Final = 120.0
#: Credentials of anybody, in the environment, where pyarrow looks for them.
ENVIRONMENT: Final = {
    "AWS_ACCESS_KEY_ID": "anybody",
    "AWS_SECRET_ACCESS_KEY": "anything",
    "AWS_EC2_METADATA_DISABLED": "true",
}
REGION: Final = "us-east-1"


class MotoServer:
    """The server during the ``with`` block."""

    def __init__(self, folder: Path) -> None:
        self._port = free_port()
        self._log = folder / "moto.log"
        self._process: ChildProcess | None = None

    @property
    def endpoint(self) -> str:
        """The address of its S3."""
        return f"http://{HOST}:{self._port}"

    def upload(self, folder: Path, bucket: str, name: str) -> None:
        """Put all files below a folder into a new bucket, below a name."""
        system = self._system()
        system.create_dir(bucket)
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                with system.open_output_stream(f"{bucket}/{name}/{path.relative_to(folder)}") as stream:
                    stream.write(path.read_bytes())

    def _system(self) -> Any:
        from pyarrow.fs import S3FileSystem

        return S3FileSystem(
            access_key=ENVIRONMENT["AWS_ACCESS_KEY_ID"],
            secret_key=ENVIRONMENT["AWS_SECRET_ACCESS_KEY"],
            endpoint_override=f"{HOST}:{self._port}",
            scheme="http",
            region=REGION,
            allow_bucket_creation=True,
        )

    def __enter__(self) -> MotoServer:
        argv = [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(self._port)]
        self._process = ChildProcess("moto", argv, output=self._log, log=self._log)
        self._process.wait_until(lambda: listens(HOST, self._port) or None, "answering", START_TIMEOUT_S)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._process:
            self._process.kill()
