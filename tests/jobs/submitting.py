"""Jobs as a user runs them: spark-submit with the package's zip and nothing else of the checkout; and their
command lines, tried in this process."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from spark_kafkawire.jobs.command_line import JobParser
from spark_kafkawire.jobs.ending import ExitCode
from tests.support.local_spark import home_with_byte_code

ROOT: Final = Path(__file__).parents[2]
_SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    # A JVM that lives for seconds is faster when it compiles little, on one thread.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def make_zip(folder: Path) -> Path:
    """The zip that ``make zip`` makes."""
    target = folder / "spark_kafkawire.zip"
    subprocess.run([sys.executable, ROOT / ".ci" / "zip_package.py", target], check=True)
    return target


def submit_command(
    package: Path,
    script: Path,
    *arguments: str,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
) -> list[str]:
    """The words of a spark-submit."""
    return [*submit_words(master, conf), "--py-files", str(package), str(script), *arguments]


def submit_words(master: str, conf: Mapping[str, str] | None = None) -> list[str]:
    """The words of a spark-submit, as far as its settings."""
    words = [str(Path(sys.executable).with_name("spark-submit")), "--master", master]
    for key, value in {**_SETTINGS, **(conf or {})}.items():
        words += ["--conf", f"{key}={value}"]
    return words


def environment(folder: Path) -> dict[str, str]:
    """Environment of a job: its Python has the dependencies and not this checkout.

    A ``.pth`` file may lead from the environment to the checkout; ``-S`` leaves those out, and a
    path entry brings back what is installed.
    """
    python = folder / "python"
    if not python.exists():
        paths = f"$PYTHONPATH:{sysconfig.get_path('purelib')}"
        python.write_text(f'#!/bin/sh\nPYTHONPATH="{paths}" exec {sys.executable} -S "$@"\n')
        python.chmod(0o755)
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SPARK_HOME")}
    return {
        **kept,
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "SPARK_HOME": home_with_byte_code(),
        "SPARK_CONF_DIR": str(ROOT / "jobs" / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def submit(
    package: Path, folder: Path, script: Path, *arguments: str, conf: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a job to its end."""
    return subprocess.run(
        submit_command(package, script, *arguments, conf=conf),
        cwd=folder,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


#: Runs a job by its name and arguments in the tests' own session: exit code, stdout, stderr.
RunHere = Callable[..., tuple[int, str, str]]
#: What every job takes, and asks nothing of.
FLAGS: Final = frozenset(("--help", "--json", "--quiet", "--dry-run", "--create-topics", "--source-headers"))


def command(name: str) -> ModuleType:
    """The module of a job's command line."""
    return importlib.import_module(f"spark_kafkawire.commands.{name}")


def arguments_of(parser: JobParser) -> set[str]:
    """Its arguments that take a value."""
    return {words[-1] for action in parser._actions if (words := action.option_strings)} - FLAGS


def complaint(module: ModuleType, argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line in which a job refuses its arguments; it exits with 2."""
    try:
        code = module.JOB.main(argv)
    except SystemExit as ended:
        code = int(ended.code or 0)
    reported = capsys.readouterr()
    assert code == ExitCode.USAGE, reported.err
    assert reported.out == ""
    *steps, line = reported.err.splitlines()
    assert all(step.endswith(" ...") for step in steps)
    return line
