"""`.ci/sizes.py`: the report of long modules and functions in `make style`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.pages import ROOT

#: Signature and docstring are no code: three lines more than the list has items.
FUNCTION = 'async def f(\n    a,\n):\n    """Text\n\n    and more."""\n\n    x = [\n{}\n    ]\n    return x\n'


def reported(folder: Path) -> str:
    """Output of the script, which always exits with 0."""
    script = ROOT / ".ci" / "sizes.py"
    return subprocess.run(
        [sys.executable, script, "."], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


def test_the_report_names_what_is_above_its_limits(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("x = 1\n" * 401)
    (tmp_path / "short.py").write_text("x = 1\n" * 400)
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "long_function.py").write_text(FUNCTION.format("\n".join(["        1,"] * 38)))
    (inner / "short_function.py").write_text(FUNCTION.format("\n".join(["        1,"] * 37)))
    assert reported(tmp_path) == "long: inner/long_function.py f: 41 lines\nlong: long.py: 401 lines\n"
