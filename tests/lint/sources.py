"""The project's Python files, parsed once for all checks."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.pages import ROOT

#: Files of the package and of the jobs, whose texts users see.
PACKAGE: Final = sorted(
    path for folder in ("spark_kafkawire", "jobs") for path in (ROOT / folder).rglob("*.py")
)
#: All files.
ALL: Final = [
    ROOT / "conftest.py",
    *PACKAGE,
    *sorted(path for folder in ("tests", ".ci") for path in (ROOT / folder).rglob("*.py")),
]


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """The nodes of a file's syntax tree, which all checks share."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    # They stay: to look at them again and again takes longer than the checks.
    gc.freeze()
    return nodes
