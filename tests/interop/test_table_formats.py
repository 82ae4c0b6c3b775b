"""Tables of Delta and Iceberg, by a Spark that both work with: ``merge_changes.py``,
``append_once.py``, ``tables_killed.py`` and ``changes_killed.py``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from .versions import needed_table_formats

#: Kills take most of it.
_TIMEOUT_S: Final = 10_800.0
#: Its own timeout ends a test, not the dump of stacks that setup.cfg sets.
_LONG: Final = (f"--timeout={_TIMEOUT_S:g}", "-o", "faulthandler_timeout=0")
#: That Spark leaves sockets and files to garbage collection, and Python warns of it.
_LEFT_OPEN: Final = ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning")


@pytest.mark.jvm
@pytest.mark.nightly
@pytest.mark.timeout(_TIMEOUT_S + 60)
@pytest.mark.parametrize("module", ["merge_changes", "append_once", "tables_killed", "changes_killed"])
def test_streams_keep_tables_of_delta_and_iceberg(module: str) -> None:
    jars, spark = needed_table_formats()
    tests = Path(__file__).with_name(f"{module}.py")
    ignored = [f"-Wignore::{kind}" for kind in _LEFT_OPEN]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", *_LONG, *ignored, str(tests)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": spark, "TABLE_FORMATS": ",".join(jars)},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout[-20_000:]
