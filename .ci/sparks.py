"""Run the tests of what Spark runs with each Spark and each Python that the package is for.

    python .ci/sparks.py FOLDER [--only NAME ...] [--short] [--workers COUNT] [-- ARGUMENTS OF PYTEST]

Each has a virtual environment in FOLDER, which is made the first time, and again after a change of setup.cfg.
What the machine lacks is skipped, and the end says why.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spark_kafkawire.broker.java import find_java, java_version

ROOT: Final = Path(__file__).resolve().parents[1]
WITH_SPARK: Final = ("tests/source", "tests/jobs")
#: A read, a write, a stream, a job and their errors, through Spark itself.
SHORT: Final = (
    "tests/source/test_batch_reader.py",
    "tests/source/test_modern_writer_spark.py",
    "tests/source/test_streams_of_any_spark.py",
    "tests/jobs/ingest",
)
#: Spark 4.0 does not start with a Java from this one on.
JAVA_TOO_NEW_FOR_4_0: Final = 24
#: Older pysparks leave sockets and files to the collector, which Python warns of.
LEFT_OPEN: Final = ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning")
_PIP: Final = ("-m", "pip", "install", "--config-settings", "editable_mode=compat")


class Missing(Exception):
    """What the machine lacks."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A Spark and a Python: None is the newest Spark that the Python takes, and the Python that runs this."""

    spark: str | None
    python: str | None
    tests: Sequence[str]

    @property
    def name(self) -> str:
        """What ``--only`` names it by."""
        return self.spark or f"python{self.python}"


#: The newest of each line but the last, which ``make test`` runs; and each Python but the one of ``make``.
ENVIRONMENTS: Final = (
    *(Environment(spark, None, WITH_SPARK) for spark in ("4.0.5", "4.1.4", "4.2.1")),
    *(Environment(None, python, ("tests",)) for python in ("3.10", "3.12", "3.13")),
)


def main(arguments: argparse.Namespace) -> int:
    """Run each, then say what came of it."""
    asked = [each for each in ENVIRONMENTS if not arguments.only or each.name in arguments.only]
    results = {each.name: run(each, arguments) for each in asked}
    for name, result in results.items():
        print(f"{name}: {result}")
    return int(any(result.startswith("FAILED") for result in results.values()))


def run(environment: Environment, arguments: argparse.Namespace) -> str:
    """What came of one."""
    try:
        check_java(environment)
        folder = installed(environment, arguments.folder / environment.name)
    except Missing as error:
        return f"skipped: {error}"
    python = folder / "bin" / "python"
    versions = (
        "import platform, pyspark; print(pyspark.__version__, 'with Python', platform.python_version())"
    )
    told = subprocess.run([python, "-c", versions], capture_output=True, text=True, check=True).stdout.strip()
    print(f"\n{environment.name}: Spark {told}", flush=True)
    words = ["--numprocesses", arguments.workers, "--dist", "worksteal", "-m", "not endurance"]
    if environment.spark is not None:
        words += [f"-Wignore::{kind}" for kind in LEFT_OPEN]
    tests = SHORT if arguments.short else environment.tests
    command = [python, "-m", "pytest", *words, *arguments.pytest, *tests]
    failed = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"JAVA_HOME": str(folder / "java")}
    ).returncode
    return f"{'FAILED' if failed else 'passed'}: Spark {told}"


def check_java(environment: Environment) -> None:
    """Raise ``Missing`` where this Spark does not start with the machine's Java."""
    version = java_version(find_java())
    if (environment.spark or "").startswith("4.0.") and version >= JAVA_TOO_NEW_FOR_4_0:
        raise Missing(f"Spark 4.0 needs Java 17 or 21, and this is {version}: set JAVA_HOME")


def installed(environment: Environment, folder: Path) -> Path:
    """The virtual environment. Raises ``Missing`` where the machine lacks its Python."""
    done, settings = folder / ".installed", ROOT / "setup.cfg"
    if done.exists() and done.stat().st_mtime > settings.stat().st_mtime:
        return folder
    base = sys.executable if environment.python is None else find_python(environment.python)
    print(f"Installing {environment.name} into {folder}, some minutes ...", file=sys.stderr, flush=True)
    python = folder / "bin" / "python"
    spark = [f"pyspark=={environment.spark}"] if environment.spark else []
    quiet(base, "-m", "venv", "--clear", folder)
    quiet(python, *_PIP, "--editable", ".[test]", *spark)
    quiet(python, ".ci/brief_java.py", folder / "java")
    done.touch()
    return folder


def quiet(*command: str | Path) -> None:
    """Run a command, which is seen only if it fails; then this ends."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{' '.join(map(str, command))} failed.")


def find_python(version: str) -> str:
    """A Python of this version, in PATH or of pyenv. Raises ``Missing`` where there is none."""
    for python in pythons(version):
        told = subprocess.run(
            [python, "-c", "import sys, venv, ensurepip; print(*sys.version_info[:2], sep='.')"],
            capture_output=True,
            text=True,
        )
        if told.stdout.strip() == version:
            return python
    raise Missing(f"no Python {version} in PATH, and none of pyenv")


def pythons(version: str) -> Iterator[str]:
    """Where one might be. What pyenv puts into PATH may refuse to run."""
    name = f"python{version}"
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    yield from filter(None, [shutil.which(name)])
    yield from map(str, sorted(root.glob(f"{version}.*/bin/{name}"), reverse=True))


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The arguments; those after ``--`` are pytest's."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=lambda path: Path(path).absolute())
    parser.add_argument("--only", nargs="+", choices=[each.name for each in ENVIRONMENTS], metavar="NAME")
    parser.add_argument("--short", action="store_true", help="a few tests only")
    parser.add_argument("--workers", default="4", help="processes that share the tests")
    own = list(itertools.takewhile(lambda word: word != "--", words))
    arguments = parser.parse_args(own)
    arguments.pytest = words[len(own) + 1 :]
    return arguments


if __name__ == "__main__":
    sys.exit(main(parse(sys.argv[1:])))
