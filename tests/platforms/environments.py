"""Virtual environments as users' platforms have them, filled by pip from its index, and what runs in them."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.installing import run

#: Far more than a program of these tests takes, seconds.
DEADLINE_S: Final = 300.0
#: What leads Python or Spark to this checkout begins so.
_OWN_VARIABLES: Final = ("PYTHON", "PYSPARK_", "SPARK_", "VIRTUAL_ENV")


class Environment:
    """An empty virtual environment in ``folder`` with ``packages`` in it."""

    def __init__(self, folder: Path, *packages: str | Path) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self.folder = folder
        self.python = folder / "bin" / "python"
        if packages:
            self.install(*packages)

    def install(self, *packages: str | Path) -> None:
        """``pip install`` of packages or wheels, as a user would."""
        done = self.pip("install", "--quiet", *packages)
        assert done.returncode == 0, done.stdout

    def pip(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """A finished pip of this process for this environment."""
        return run(sys.executable, "-m", "pip", "--python", self.python, *words, cwd=self.folder)

    def versions(self) -> dict[str, str]:
        """The installed distributions and their versions."""
        reported = subprocess.run(
            [sys.executable, "-m", "pip", "--python", self.python, "list", "--format", "json"],
            capture_output=True,
            text=True,
            check=True,
        )
        return {each["name"].lower(): each["version"] for each in json.loads(reported.stdout)}

    def files(self, package: str) -> dict[str, str]:
        """The digest of each file of an installed package but its byte code."""
        [root] = self.folder.glob(f"lib/python*/site-packages/{package}")
        found = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc")
        return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}

    def run(self, code: str, *words: str, **environment: str) -> str:
        """The standard output of a Python program that must end well.

        It is a file: pyspark-client takes the client of a program of ``python -c`` for a doctest.
        """
        program = self.folder / "program.py"
        program.write_text(code)
        return run_program(self.python, program, *words, cwd=self.folder, env=clean(self) | environment)


def run_program(
    *command: str | Path, cwd: Path, env: Mapping[str, str], deadline_s: float = DEADLINE_S
) -> str:
    """The standard output of a command that must end well."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=deadline_s)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"[-6000:]
    return done.stdout


def foreign_variables() -> dict[str, str]:
    """The variables of a process that knows nothing of this checkout and its environment."""
    left = {name: value for name, value in os.environ.items() if not name.startswith(_OWN_VARIABLES)}
    return left | {"SPARK_LOCAL_IP": "127.0.0.1", "KAFKAWIRE_JAVA": "plain"}


def clean(environment: Environment) -> dict[str, str]:
    """The variables of a process in an environment that was not activated: nothing leads to this checkout."""
    own = {"PYSPARK_PYTHON": str(environment.python), "PYSPARK_DRIVER_PYTHON": str(environment.python)}
    return foreign_variables() | own


_SERVER: Final = """
import sys
from pyspark.sql import SparkSession
settings = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "1",
}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
service = getattr(getattr(spark._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$"), "MODULE$")
print(service.localPort(), flush=True)
sys.stdin.read()
"""


@contextmanager
def connect_server(environment: Environment, **variables: str) -> Iterator[str]:
    """A server of Spark Connect with an environment's Python, on loopback; the address for ``remote``."""
    settings: Mapping[str, str] = clean(environment) | variables
    server = subprocess.Popen(
        [environment.python, "-c", _SERVER],
        cwd=environment.folder,
        env=settings,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        assert port, "the server of Spark Connect did not start"
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.communicate(timeout=DEADLINE_S)  # closes its standard input, and waits for its end
