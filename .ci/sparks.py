"""Run the tests of the Spark side with each supported version of Spark and of Python.

    python .ci/sparks.py FOLDER [--only NAME ...] [--short] [--workers COUNT] [-- ARGUMENTS OF PYTEST]

Each combination has a virtual environment in FOLDER, which is made the first time, and again after a change
of setup.cfg. A combination that the machine cannot run is skipped, and the summary says why.
"""

from __future__ import annotations

import argparse
import configparser
import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spark_kafkawire.broker.cluster import find_java, java_version

ROOT: Final = Path(__file__).resolve().parents[1]
WITH_SPARK: Final = ("tests/source", "tests/jobs")
#: Tests of a read, a write, a stream, log directories, a job and their errors, through Spark itself.
SHORT: Final = (
    "tests/source/test_any_spark.py",
    "tests/jobs/ingest",
)
#: Tests that depend on the versions of Arrow, numpy, numba and Spark: records, clients, source, streams and
#: writers.
LOWEST_TESTS: Final = ("tests/records", "tests/clients", "tests/source")
#: The name of the tests of platforms for ``--only``.
PLATFORMS: Final = "platforms"
#: First Java with which Spark 4.0 does not start.
JAVA_TOO_NEW_FOR_4_0: Final = 24
#: Older versions of pyspark leave sockets and files to garbage collection, and Python warns of that.
LEFT_OPEN: Final = ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning")
_RICH: Final = "rich=="
_PIP: Final = ("-m", "pip", "install", "--config-settings", "editable_mode=compat")


class Missing(Exception):
    """Something that the machine lacks."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A Spark and a Python. Without a Spark pip takes the newest one.

    Requirements are the newest that the Python takes, or the ``lowest`` of the ranges in ``setup.cfg``, or
    ``prereleases`` where there are some.
    """

    spark: str | None
    python: str
    tests: Sequence[str]
    requirements: str = "newest"

    @property
    def name(self) -> str:
        """The name for ``--only``."""
        if self.requirements != "newest":
            return self.requirements
        return self.spark or f"python{self.python}"

    @property
    def is_lowest(self) -> bool:
        """True if each requirement has the lowest version of its range."""
        return self.requirements == "lowest"


#: The lowest versions of all; the newest of each line of Spark but the last, which ``make test`` runs; the
#: oldest and the newest Python; and pre-releases. Together they run each Python but the one of ``make``.
ENVIRONMENTS: Final = (
    Environment(None, "3.10", LOWEST_TESTS, requirements="lowest"),
    Environment("4.0.5", "3.12", WITH_SPARK),
    Environment("4.1.4", "3.13", WITH_SPARK),
    Environment("4.2.1", "3.11", WITH_SPARK),
    *(Environment(None, python, ("tests",)) for python in ("3.10", "3.14")),
    Environment(None, "3.13", ("tests",), requirements="prereleases"),
)


def main(arguments: argparse.Namespace) -> int:
    """Run each environment, then print the results."""
    asked = [item for item in ENVIRONMENTS if not arguments.only or item.name in arguments.only]
    results = {item.name: run(item, arguments) for item in asked}
    if not arguments.only or PLATFORMS in arguments.only:
        results[PLATFORMS] = run_platforms(arguments.pytest)
    for name, result in results.items():
        print(f"{name}: {result}")
    return int(any(result.startswith("FAILED") for result in results.values()))


def run(environment: Environment, arguments: argparse.Namespace) -> str:
    """Run one environment. Returns its result."""
    try:
        check_java(environment)
        folder = installed(environment, arguments.folder / environment.name)
    except Missing as error:
        return f"skipped: {error}"
    python = folder / "bin" / "python"
    versions = (
        "import platform, pyspark; print(pyspark.__version__, 'with Python', platform.python_version())"
    )
    reported = subprocess.run(
        [python, "-c", versions], capture_output=True, text=True, check=True
    ).stdout.strip()
    print(f"\n{environment.name}: Spark {reported}", flush=True)
    words = ["--numprocesses", arguments.workers, "--dist", "worksteal", "-m", "not nightly"]
    if environment.spark is not None or environment.is_lowest:
        words += [f"-Wignore::{kind}" for kind in LEFT_OPEN]
    tests = SHORT if arguments.short else environment.tests
    command = [python, "-m", "pytest", *words, *arguments.pytest, *tests]
    failed = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"JAVA_HOME": str(folder / "java")}
    ).returncode
    return f"{'FAILED' if failed else 'passed'}: Spark {reported}"


def run_platforms(words: Sequence[str]) -> str:
    """The result of the tests that make their environments themselves, with the Python of ``make``."""
    print(f"\n{PLATFORMS}: environments as platforms have them", flush=True)
    failed = subprocess.run([sys.executable, "-m", "pytest", "tests/platforms", *words], cwd=ROOT).returncode
    return "FAILED" if failed else "passed"


def check_java(environment: Environment) -> None:
    """Raise ``Missing`` if this Spark does not start with the machine's Java."""
    version = java_version(find_java())
    is_4_0 = environment.is_lowest or (environment.spark or "").startswith("4.0.")
    if is_4_0 and version >= JAVA_TOO_NEW_FOR_4_0:
        raise Missing(f"Spark 4.0 needs Java 17 or 21, and this is {version}: set JAVA_HOME")


def installed(environment: Environment, folder: Path) -> Path:
    """The virtual environment. Raises ``Missing`` if the machine lacks its Python."""
    done, settings = folder / ".installed", ROOT / "setup.cfg"
    if done.exists() and done.stat().st_mtime > settings.stat().st_mtime:
        return folder
    base = find_python(environment.python)
    print(f"Installing {environment.name} into {folder}, some minutes ...", file=sys.stderr, flush=True)
    python = folder / "bin" / "python"
    pins = [f"pyspark=={environment.spark}"] if environment.spark else []
    quiet(base, "-m", "venv", "--clear", folder)
    if environment.is_lowest:
        pins = [pin for pin in lowest_pins() if not pin.startswith(_RICH)]
    quiet(python, *_PIP, "--editable", ".[spark,test]", *pins)
    if environment.is_lowest:
        # In a separate step: import-linter, which this environment does not run, requires a newer one.
        quiet(python, "-m", "pip", "install", *(pin for pin in lowest_pins() if pin.startswith(_RICH)))
    if environment.requirements == "prereleases":
        # In a separate step: the tools of the tests stay what their ranges say.
        quiet(
            python, "-m", "pip", "install", "--pre", "--upgrade", *requirements("install_requires"), "pyspark"
        )
    quiet(python, ".ci/short_lived_java.py", folder / "java")
    done.touch()
    return folder


def lowest_pins() -> list[str]:
    """The requirements of the package and of its extra ``spark``, each at the lowest version of its range."""
    required = (*requirements("install_requires"), *requirements("spark", of="options.extras_require"))
    return [re.sub(r">=([\d.]+).*", r"==\1", item) for item in required]


def requirements(name: str, of: str = "options") -> list[str]:
    """The requirements of a list in ``setup.cfg``."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    return [line for line in settings[of][name].split("\n") if line and not line.startswith("#")]


def quiet(*command: str | Path) -> None:
    """Run a command without its output. If it fails, print the output and exit."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{' '.join(map(str, command))} failed.")


def find_python(version: str) -> str:
    """A Python of this version, in PATH or of pyenv. Raises ``Missing`` without one."""
    for python in pythons(version):
        reported = subprocess.run(
            [python, "-c", "import sys, venv, ensurepip; print(*sys.version_info[:2], sep='.')"],
            capture_output=True,
            text=True,
        )
        if reported.stdout.strip() == version:
            return python
    raise Missing(f"no Python {version} in PATH, and none of pyenv")


def pythons(version: str) -> Iterator[str]:
    """Paths of possible Pythons. One that pyenv puts into PATH may refuse to run."""
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
    names = [*(item.name for item in ENVIRONMENTS), PLATFORMS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME")
    parser.add_argument("--short", action="store_true", help="a few tests only")
    parser.add_argument("--workers", default="4", help="processes that share the tests")
    own = list(itertools.takewhile(lambda word: word != "--", words))
    arguments = parser.parse_args(own)
    arguments.pytest = words[len(own) + 1 :]
    return arguments


if __name__ == "__main__":
    sys.exit(main(parse(sys.argv[1:])))
