"""Report long modules and long functions of folders: ``make style`` prints them, and forbids none.

    python .ci/sizes.py spark_kafkawire jobs

A module is long above 400 lines, a function above 40 lines of code. A kernel, or a parent function that holds
all branches of a recovery, may have a good reason; most others are easier to read in parts.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MODULE_LINES_MAX: Final = 400
FUNCTION_LINES_MAX: Final = 40


def main(folders: list[str]) -> None:
    """Print a line for each long module and for each long function."""
    for path in sorted(path for folder in folders for path in Path(folder).rglob("*.py")):
        for name, lines in long_parts(path.read_text("utf-8")):
            print(f"long: {path.as_posix()}{name and f' {name}'}: {lines} lines")


def long_parts(source: str) -> Iterator[tuple[str, int]]:
    """Names and lines of what is long in a module; the module itself has the name ""."""
    lines = source.count("\n")
    if lines > MODULE_LINES_MAX:
        yield "", lines
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = code_lines(node)
            if lines > FUNCTION_LINES_MAX:
                yield node.name, lines


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function from its first statement after the docstring to its last."""
    body = function.body[ast.get_docstring(function) is not None :]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


if __name__ == "__main__":
    main(sys.argv[1:])
