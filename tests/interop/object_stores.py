"""Emulators of GCS and of Azure's blobs, each in a process of its own, which anybody may read.

with GcsEmulator(folder) as server:
    server.upload(directory, "logs", "broker-1")
    server.uri("logs", "broker-1"), server.endpoint

They answer requests as the stores do, and have none of their limits, no TLS and no logins.
"""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import http.client
import os
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Final

import pytest

from spark_kafkawire.broker.processes import ChildProcess
from tests.support.noida import HOST, free_port, listens

_TIMEOUT_S: Final = 120.0
_AZURITE: Final = "3.37.0"
#: Azurite's account. Its documentation has this key: it is no secret.
_ACCOUNT: Final = "devstoreaccount1"
_ACCOUNT_KEY: Final = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


class ObjectStore(ABC):
    """The server during the ``with`` block."""

    def __init__(self, folder: Path) -> None:
        self._port = free_port()
        self._log = folder / f"{type(self).__name__}.log"
        self._process: ChildProcess | None = None

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://{HOST}:{self._port}"

    @abstractmethod
    def uri(self, bucket: str, path: str) -> str:
        """A path as a user writes it who has no login."""

    def upload(self, folder: Path, bucket: str, name: str) -> None:
        """Put all files below a folder into a new bucket, below a name."""
        self._make(bucket)
        system = self._system()
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                with system.open_output_stream(f"{bucket}/{name}/{path.relative_to(folder)}") as stream:
                    stream.write(path.read_bytes())

    @abstractmethod
    def _argv(self) -> list[str]: ...

    @abstractmethod
    def _make(self, bucket: str) -> None: ...

    @abstractmethod
    def _system(self) -> Any: ...

    def __enter__(self) -> ObjectStore:
        name = type(self).__name__
        self._process = ChildProcess(name, self._argv(), output=self._log, log=self._log)
        self._process.wait_until(lambda: listens(HOST, self._port) or None, "answering", _TIMEOUT_S)
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._process:
            self._process.kill()


class GcsEmulator(ObjectStore):
    """GCS of gcp-storage-emulator."""

    def uri(self, bucket: str, path: str) -> str:
        return f"gs://anonymous@{bucket}/{path}"

    def _argv(self) -> list[str]:
        words = ["start", f"--host={HOST}", f"--port={self._port}", "--in-memory"]
        return [sys.executable, "-m", "gcp_storage_emulator", *words]

    def _make(self, bucket: str) -> None:
        self._system().create_dir(bucket)

    def _system(self) -> Any:
        from pyarrow.fs import GcsFileSystem

        address = f"{HOST}:{self._port}"
        return GcsFileSystem(
            anonymous=True,
            scheme="http",
            endpoint_override=address,
            default_bucket_location="US",
            project_id="test",
        )


class Azurite(ObjectStore):
    """Azure's blobs of Azurite, which npm gets once a user."""

    def uri(self, bucket: str, path: str) -> str:
        return f"abfs://{bucket}@{_ACCOUNT}.dfs.core.windows.net/{path}?credential_kind=anonymous"

    def _argv(self) -> list[str]:
        words = ["--blobHost", HOST, "--blobPort", str(self._port), "--inMemoryPersistence", "--silent"]
        program = azurite() / "node_modules" / ".bin" / "azurite-blob"
        return ["node", str(program), *words, "--disableTelemetry", "--skipApiVersionCheck"]

    def _make(self, bucket: str) -> None:
        """Make a container that anybody may read, which pyarrow does not."""
        headers = {
            "x-ms-blob-public-access": "container",
            "x-ms-date": email.utils.formatdate(usegmt=True),
            "x-ms-version": "2021-08-06",
        }
        signed = "PUT" + 12 * "\n" + "".join(f"{name}:{value}\n" for name, value in headers.items())
        signed += f"/{_ACCOUNT}/{_ACCOUNT}/{bucket}\nrestype:container"
        key = base64.b64decode(_ACCOUNT_KEY)
        signature = base64.b64encode(hmac.digest(key, signed.encode(), hashlib.sha256)).decode()
        headers["Authorization"] = f"SharedKey {_ACCOUNT}:{signature}"
        connection = http.client.HTTPConnection(HOST, self._port, timeout=_TIMEOUT_S)
        connection.request("PUT", f"/{_ACCOUNT}/{bucket}?restype=container", headers=headers)
        response = connection.getresponse()
        assert response.status == http.HTTPStatus.CREATED, response.read()
        connection.close()

    def _system(self) -> Any:
        from pyarrow.fs import AzureFileSystem

        address = f"{HOST}:{self._port}"
        return AzureFileSystem(
            _ACCOUNT,
            account_key=_ACCOUNT_KEY,
            blob_storage_authority=address,
            dfs_storage_authority=address,
            blob_storage_scheme="http",
            dfs_storage_scheme="http",
        )


def azurite() -> Path:
    """The folder of Azurite; skips the test where npm is missing or does not get it."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home, "spark-kafkawire-tests", f"azurite-{_AZURITE}")
    done = folder / ".installed"
    if not done.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("Azurite is got with npm: it is not in PATH")
        folder.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--silent", "--prefix", str(folder), f"azurite@{_AZURITE}"]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_TIMEOUT_S)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            pytest.skip(f"npm does not get azurite {_AZURITE}")
        done.touch()
    return folder
