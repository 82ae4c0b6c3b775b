"""The package as pip installs it: its wheel, and new environments with that in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = "spark_kafkawire"
_FILES: Final = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "pyspark_kafkawire.py")


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A finished command, stdout and stderr in one."""
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def copy_package(target: Path) -> Path:
    """What a wheel is built from, in a folder of its own: building leaves files behind."""
    shutil.copytree(ROOT / PACKAGE, target / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _FILES:
        shutil.copy(ROOT / name, target)
    return target


def build_wheel(folder: Path) -> Path:
    """The wheel, built in an empty folder."""
    source = copy_package(folder)
    options = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", folder / "dist")
    built = run(sys.executable, "-m", "pip", "wheel", *options, source, cwd=folder)
    assert built.returncode == 0, built.stdout
    return next((folder / "dist").glob("*.whl"))


def install_wheel(folder: Path, wheel: Path) -> Path:
    """A new environment with the wheel in it and nothing else; its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    command = (sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel)
    installed = run(*command, cwd=folder)
    assert installed.returncode == 0, installed.stdout
    return python
