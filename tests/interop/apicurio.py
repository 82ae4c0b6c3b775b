"""Apicurio Registry in a process on loopback, with its schemas in memory: a registry with Confluent's API.

    with Apicurio(folder) as registry:
        registry.url

It has no look-up of schemas by GUID.
"""

from __future__ import annotations

import contextlib
import os
import tarfile
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_kafkawire.broker.java import find_java
from spark_kafkawire.broker.processes import ChildProcess
from tests.support.noida import HOST, free_port

from .jars import apicurio_archive

if TYPE_CHECKING:
    from typing_extensions import Self

#: Six seconds on an idle machine.
START_TIMEOUT_S: Final = 180.0
_PATH: Final = "/apis/ccompat/v7"
_JAVA_OPTIONS: Final = ("-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_RUNNER: Final = "apicurio-registry-app-3.0.9-runner.jar"


class Apicurio:
    """A registry from ``with`` to its end, without its schemas after that."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._folder = folder
        self._process: ChildProcess | None = None

    @property
    def url(self) -> str:
        """Its address, as ``schema.registry.url`` has it."""
        return f"http://{HOST}:{self.port}{_PATH}"

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises ``NoJars`` and ``OptionError`` where Maven or Java is missing, ``ConnectFailed`` when it does
        not start.
        """
        assert self._process is None, "Apicurio runs already"
        program, log = self._folder / "program", self._folder / "registry.log"
        if not program.exists():
            with tarfile.open(apicurio_archive()) as archive:
                archive.extractall(program)
        environ = {**os.environ, "QUARKUS_HTTP_HOST": HOST, "QUARKUS_HTTP_PORT": str(self.port)}
        argv = [str(find_java()), *_JAVA_OPTIONS, "-jar", str(program / _RUNNER)]
        self._process = ChildProcess("Apicurio", argv, output=log, log=log, environ=environ)
        self._process.wait_until(self._answering, "answering", START_TIMEOUT_S)

    def kill(self) -> None:
        """End it as ``kill -9`` does. Its schemas are gone."""
        if self._process:
            self._process.kill()
            self._process = None

    def _answering(self) -> bool | None:
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"{self.url}/subjects", timeout=5) as answer,
        ):
            return True if answer.status == 200 else None
        return None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
