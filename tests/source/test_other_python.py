"""A program whose Spark runs a Python without the package: a warning says so, where files prove it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
#: Far more than a program of these tests takes, seconds.
DEADLINE_S: Final = 240.0
IMPORT: Final = "import pyspark; import spark_kafkawire"
READ: Final = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
from spark_kafkawire import in_key_order
spark.read.format("kafkawire").option("subscribe", "topic").load()
"""


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """The Python of an empty environment."""
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    return tmp_path / "bare" / "bin" / "python"


def said(code: str, cwd: Path, **variables: str) -> tuple[str, int]:
    """The standard error of a program that was not started by ``make``, and its exit code."""
    left = {name: value for name, value in os.environ.items() if not name.startswith("PY")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env=left | variables,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    return done.stderr, done.returncode


def warning(python: Path, why: str) -> str:
    return (
        f"A Spark that this program starts runs '{python}' ({why}), where spark-kafkawire is not installed, "
        "and fails with DATA_SOURCE_NOT_FOUND: set PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON to "
        f"'{sys.executable}' before it starts\n"
    )


GONE: Final = """
import os
os.chdir(os.environ["FOLDER"])
os.rmdir(os.environ["FOLDER"])
"""


def test_a_check_that_cannot_look_does_not_break_the_import(bare: Path, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    assert said(f"{GONE}{IMPORT}", tmp_path, FOLDER=str(folder), PYSPARK_PYTHON=str(bare))[1] == 0
    (bare.parents[1] / "pyvenv.cfg").unlink()
    (bare.parents[1] / "pyvenv.cfg").symlink_to("pyvenv.cfg")
    assert said(IMPORT, tmp_path, PYSPARK_PYTHON=str(bare))[1] == 0


@pytest.mark.jvm
def test_a_session_that_fails_with_data_source_not_found_is_warned_of(bare: Path, tmp_path: Path) -> None:
    reported, code = said(READ, tmp_path, PYSPARK_PYTHON=str(bare))
    assert warning(bare, "PYSPARK_PYTHON") in reported
    assert "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafkawire" in reported
    assert code == 1


def test_the_variable_of_the_driver_comes_first(bare: Path, tmp_path: Path) -> None:
    variables = {"PYSPARK_DRIVER_PYTHON": str(bare), "PYSPARK_PYTHON": sys.executable}
    assert said(IMPORT, tmp_path, **variables) == (warning(bare, "PYSPARK_DRIVER_PYTHON"), 0)


def test_without_a_variable_it_is_the_first_python3_in_path(bare: Path, tmp_path: Path) -> None:
    path = f"{bare.parent}{os.pathsep}{os.environ['PATH']}"
    why = "the first python3 in PATH, as PYSPARK_PYTHON is not set"
    assert said(IMPORT, tmp_path, PATH=path) == (warning(bare.with_name("python3"), why), 0)


@pytest.mark.parametrize(
    "variables",
    [
        {"PYSPARK_PYTHON": sys.executable},
        {"PYTHONPATH": str(ROOT)},
        {"PYTHON_WORKER_FACTORY_SECRET": "a worker of Spark's"},
        {"PYSPARK_GATEWAY_PORT": "1"},
        {"SPARK_REMOTE": "sc://127.0.0.1"},
    ],
    ids=lambda variables: next(iter(variables)),
)
def test_a_program_that_spark_finds_the_package_for_is_not_warned(
    variables: dict[str, str], bare: Path, tmp_path: Path
) -> None:
    assert said(IMPORT, tmp_path, **{"PYSPARK_PYTHON": str(bare), **variables}) == ("", 0)


def test_the_current_folder_is_one_in_which_python_looks(bare: Path) -> None:
    assert said(IMPORT, ROOT, PYSPARK_PYTHON=str(bare)) == ("", 0)


def test_an_environment_that_has_the_package_is_not_warned_of(bare: Path, tmp_path: Path) -> None:
    [packages] = (tmp_path / "bare").glob("lib/python*/site-packages")
    shutil.copy(ROOT / "pyspark_kafkawire.py", packages)
    assert said(IMPORT, tmp_path, PYSPARK_PYTHON=str(bare)) == ("", 0)


def test_an_environment_that_sees_packages_of_its_base_is_not_warned_of(tmp_path: Path) -> None:
    venv.create(tmp_path / "wide", with_pip=False, symlinks=True, system_site_packages=True)
    python = tmp_path / "wide" / "bin" / "python"
    assert said(IMPORT, tmp_path, PYSPARK_PYTHON=str(python)) == ("", 0)


def test_a_script_in_front_of_python_is_not_warned_of(tmp_path: Path) -> None:
    script = tmp_path / "shims" / "python3"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    assert said(IMPORT, tmp_path, PYSPARK_PYTHON=str(script)) == ("", 0)


def test_without_pyspark_nothing_is_looked_at(bare: Path, tmp_path: Path) -> None:
    looked = "import sys, spark_kafkawire; assert 'spark_kafkawire.source' not in sys.modules"
    assert said(looked, tmp_path, PYSPARK_PYTHON=str(bare)) == ("", 0)
