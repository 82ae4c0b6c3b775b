"""Jobs as a user runs them: spark-submit with the package's zip and nothing else of the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Final

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
