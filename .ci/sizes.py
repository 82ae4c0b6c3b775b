"""Report long modules, small modules of one user, and long functions: for ``make style``, which forbids none.

    python .ci/sizes.py spark_kafkawire jobs

A module has two users or 200 lines: a smaller one belongs into the only module that imports it as it starts.
Modules that are imported only inside of functions are left out: a query that does not need them does not load
them. A module above 800 lines may hold two ideas. A function is long above 40 lines of code; a kernel, or a
parent function that holds all branches of a recovery, may have a good reason.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MODULE_LINES_MAX: Final = 800
ONE_USER_LINES_MIN: Final = 200
FUNCTION_LINES_MAX: Final = 40


def main(folders: list[str]) -> None:
    """Print a line for each finding."""
    sources = {
        path: path.read_text("utf-8") for folder in folders for path in sorted(Path(folder).rglob("*.py"))
    }
    for path, source in sources.items():
        for name, lines in long_parts(source):
            print(f"long: {path.as_posix()}{name and f' {name}'}: {lines} lines")
    for path, user in of_one_user(sources):
        print(f"one user: {path.as_posix()}: {user.as_posix()}")


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


def of_one_user(sources: dict[Path, str]) -> Iterator[tuple[Path, Path]]:
    """Small modules that one other module imports as it starts, with that one."""
    users: dict[Path, set[Path]] = defaultdict(set)
    for path, source in sources.items():
        for node in ast.parse(source).body:
            if isinstance(node, ast.ImportFrom):
                for file in imported(path, node):
                    users[file].add(path)
    for path, importers in users.items():
        if path in sources and sources[path].count("\n") < ONE_USER_LINES_MIN and len(importers) == 1:
            yield path, next(iter(importers))


def imported(path: Path, node: ast.ImportFrom) -> Iterator[Path]:
    """Files of modules that an import statement may name."""
    base = path.parents[node.level - 1] if node.level else Path()
    base = base.joinpath(*(node.module or "").split("."))
    yield base.with_suffix(".py")
    for alias in node.names:
        yield base / f"{alias.name}.py"


if __name__ == "__main__":
    main(sys.argv[1:])
