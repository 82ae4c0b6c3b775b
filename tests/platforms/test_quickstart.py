"""docs/quickstart.md as it is written, for a user with a checkout, a Python and a Java."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from tests.support.installing import copy_package
from tests.support.noida import free_port
from tests.support.pages import blocks

from .environments import DEADLINE_S, foreign_variables, run_program

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(1200)]

PAGE = "docs/quickstart.md"
#: The port of the broker and the folder of the checkpoint that the page names.
PORT, FOLDER = "9092", "/data/"


def test_the_quickstart_runs_in_an_empty_environment(tmp_path: Path) -> None:
    install, start, jobs, stop = (block.text for block in blocks("sh") if block.page == PAGE)
    program = "".join(block.text for block in blocks("python") if block.page == PAGE)
    port = str(free_port())
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    copy_package(checkout)
    (checkout / "quickstart.py").write_text(program.replace(PORT, port).replace(FOLDER, f"{tmp_path}/"))
    started, stopped = start.replace(PORT, port), f"trap {shlex.quote(stop)} EXIT"
    ran = jobs.replace(PORT, port).replace(FOLDER, f"{tmp_path}/")
    script = "\n".join(("set -e", install, started, stopped, "python quickstart.py", ran))
    # The page's python3 is the one that runs this.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = foreign_variables() | {"PATH": path}
    done = run_program("bash", "-c", script, cwd=checkout, env=variables, deadline_s=3 * DEADLINE_S)
    assert "|partition|offset|" in done
    assert list((tmp_path / "quickstart").rglob("*.parquet"))
