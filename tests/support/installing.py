"""Installation of the package by pip: its wheel, and new environments that contain it."""

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
_FILES: Final = ("setup.cfg", "setup.py", "pyproject.toml", "README.md", "LICENSE", "pyspark_kafkawire.py")
#: What is left out of a copy of the checkout: what commands have made, the recordings for their size.
_NOT_COPIED: Final = (".*", "build", "dist", "golden", "__pycache__", "*.egg-info", "compiled_kernels")


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
    """Copy the files that a wheel is built from into a folder of their own: building leaves files behind."""
    shutil.copytree(ROOT / PACKAGE, target / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _FILES:
        shutil.copy(ROOT / name, target)
    return target


def build_sdist(folder: Path) -> Path:
    """The sdist, built from a copy of the checkout."""
    source = shutil.copytree(ROOT, folder / "checkout", ignore=shutil.ignore_patterns(*_NOT_COPIED))
    build = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
    (folder / "dist").mkdir()
    built = run(sys.executable, "-c", build, folder / "dist", cwd=source)
    assert built.returncode == 0, built.stdout
    return next((folder / "dist").glob("*.tar.gz"))


def build_wheel(folder: Path, sdist: Path | None = None) -> Path:
    """The wheel, built in an empty folder from what is here or from an sdist."""
    source = sdist or copy_package(folder)
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
