"""Compilation of all kernels before the first task, and the line that explains why it failed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import spark_kafkawire
from spark_kafkawire import compile_kernels
from spark_kafkawire.records import compiler

PACKAGE = Path(spark_kafkawire.__file__).parent


def compiled(**environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "spark_kafkawire.compile_kernels"]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300
    )


def test_no_module_that_declares_kernels_is_forgotten() -> None:
    declaring = {
        str(path.relative_to(PACKAGE.parent).with_suffix("")).replace(os.sep, ".")
        for path in PACKAGE.rglob("*.py")
        if "\n@kernel(" in path.read_text()
    }
    assert {module.__name__ for module in compile_kernels.MODULES} == declaring


@pytest.mark.nightly
def test_all_kernels_are_kept_in_the_users_cache(tmp_path: Path) -> None:
    done = compiled(XDG_CACHE_HOME=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"compile_kernels: {len(compiler._kernels)} kernels are compiled\n"
    kept = list(tmp_path.glob("spark-kafkawire/**/*.nbc"))
    assert len(kept) == len(compiler._kernels)


@pytest.mark.slow
def test_kernels_that_stay_interpreted_fail_in_one_line() -> None:
    done = compiled(NUMBA_DISABLE_JIT="1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "compile_kernels: the kernels stay interpreted: numba is switched off by NUMBA_DISABLE_JIT\n"
    )
