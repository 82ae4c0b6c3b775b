"""Mutation tests: changes one place of the package at a time, and counts the changes that tests notice.

    python -m tests.mutants --seed 1 --count 200

The seed draws places: a comparison, a number or truth value, a returned value, a condition, or a ``raise``.
Annotations, texts and calls of the log are left out. The tests that run the line run until one fails, the
fastest first, for ``SECONDS`` in all. A line that runs only at import has the tests of its module. Changes
that no test notices are printed; 0 tests means that no test runs the line in a process of the tests.

The first run of a commit learns under coverage which test runs which line. All runs work in copies. No
library does this: mutmut puts in trampolines that numba does not compile, and cosmic-ray runs all tests.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import math
import os
import random
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
WORK: Final = ROOT / "build" / "mutants"
#: The tests of one place run for about this long, by their durations in the first run.
SECONDS: Final = 60.0
#: A run that takes longer hangs, so the change is noticed.
DEADLINE_S: Final = 600.0
_NOT_COPIED: Final = shutil.ignore_patterns(".git", ".venv", "build", "dist", ".*_cache", "__pycache__")
_PAIRS: Final = "Lt LtE", "Gt GtE", "Eq NotEq", "Is IsNot", "In NotIn"
_OPPOSITE: Final = {one: other for pair in map(str.split, _PAIRS) for one, other in (pair, pair[::-1])}


class Mutant(NamedTuple):
    """A change of the text between two positions, which are in bytes of the file."""

    path: str
    line: int
    start: int
    stop: int
    text: str


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2, help="processes that run tests")
    parser.add_argument("--tests", nargs="+", default=["-m", "not nightly"], help="of the first run")
    arguments = parser.parse_args()
    trees: SimpleQueue[Path] = SimpleQueue()
    for number in range(arguments.workers):
        tree = WORK / f"tree{number}"
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(ROOT, tree, ignore=_NOT_COPIED, symlinks=True)
        trees.put(tree)
    head = subprocess.check_output(["git", "describe", "--always", "--dirty"], cwd=ROOT, text=True)
    known = WORK / f"{head.strip()}.json"
    if not known.exists() or "dirty" in known.name:
        known.write_text(json.dumps(_learn(WORK / "tree0", arguments.tests, arguments.workers)))
    tests_of, seconds = json.loads(known.read_text())
    files = [path.relative_to(ROOT) for path in sorted((ROOT / "spark_kafkawire").rglob("*.py"))]
    mutants = [item for file in files for item in mutants_of((ROOT / file).read_text(), str(file))]
    drawn = random.Random(arguments.seed).sample(mutants, min(arguments.count, len(mutants)))

    def is_noticed(mutant: Mutant) -> bool:
        lines = tests_of.get(mutant.path, {})
        chosen: list[str] = []
        left_s = SECONDS
        for name in lines.get(str(mutant.line)) or lines.get("0", []):
            left_s -= seconds[name]
            if chosen and left_s < 0:
                break
            chosen.append(name)
        tree = trees.get()
        try:
            noticed = bool(chosen) and _fails(tree, mutant, chosen)
        finally:
            trees.put(tree)
        if not noticed:
            print(f"{mutant.path}:{mutant.line}: {len(chosen)} tests: {mutant.text}", flush=True)
        return noticed

    with ThreadPoolExecutor(arguments.workers) as pool:
        noticed = sum(pool.map(is_noticed, drawn))
    print(f"{noticed} of {len(drawn)} changes noticed, seed {arguments.seed}, {len(mutants)} places")


def mutants_of(source: str, path: str) -> Iterator[Mutant]:
    """All changes of a module."""
    starts = list(itertools.accumulate(map(len, source.encode().splitlines(keepends=True)), initial=0))

    def change(node: Any, text: str) -> Mutant:
        start = starts[node.lineno - 1] + node.col_offset
        return Mutant(path, node.lineno, start, starts[node.end_lineno - 1] + node.end_col_offset, text)

    for node in _nodes(ast.parse(source)):
        match node:
            case ast.Compare(ops=[operator]):
                changed = ast.Compare(
                    node.left, [getattr(ast, _OPPOSITE[type(operator).__name__])()], node.comparators
                )
                yield change(node, f"({ast.unparse(changed)})")
            case ast.Constant(value=int(value)):
                yield change(node, str(not value if isinstance(value, bool) else value + 1))
            case ast.Return(value=ast.AST() as value) if ast.unparse(value) != "None":
                yield change(node, "return None")
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                yield change(test, f"(not ({ast.unparse(test)}))")
            case ast.Raise():
                yield change(node, "pass")


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all below it, without annotations, formatted texts, calls of the log and type imports."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="LOG"))) | ast.JoinedStr():
            return
        case ast.arg() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return
        case ast.AnnAssign() | ast.FunctionDef():
            vars(node).update(annotation=None, returns=None)
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _nodes(child)


def _start(tree: Path, *words: str) -> subprocess.Popen[bytes]:
    """A run of tests in a copy, with the copy before the installed package, for further processes, too."""
    new = {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "MUTANTS_SECONDS": str(tree / "seconds")}
    command = [sys.executable, "-m", "pytest", "--quiet", *words]
    return subprocess.Popen(command, cwd=tree, env=os.environ | new, stdout=2, start_new_session=True)


def _learn(tree: Path, tests: list[str], workers: int) -> tuple[dict[str, Any], dict[str, float]]:
    """For each module the tests of each line, the fastest first, all of them as line 0; their seconds."""
    from coverage import CoverageData

    cover = ("--cov=spark_kafkawire", "--cov-context=test", "--cov-report=")
    _start(tree, *cover, "-n", str(workers), "-p", "tests.mutants", *tests).wait()
    seconds: dict[str, float] = json.loads((tree / "seconds").read_text())
    data = CoverageData(str(tree / ".coverage"))
    data.read()
    tests_of: dict[str, dict[int, list[str]]] = {}
    for file in data.measured_files():
        result = data.contexts_by_lineno(file)
        lines = tests_of[str(Path(file).relative_to(tree))] = {}
        for line, contexts in {**result, 0: itertools.chain(*result.values())}.items():
            names = {context.rpartition("|")[0] for context in contexts} & seconds.keys()
            lines[line] = sorted(names, key=seconds.__getitem__)
    return tests_of, seconds


def _fails(tree: Path, mutant: Mutant, tests: list[str]) -> bool:
    file = tree / mutant.path
    data = file.read_bytes()
    (tree / "names").write_text("\n".join(tests))
    file.write_bytes(data[: mutant.start] + mutant.text.encode() + data[mutant.stop :])
    process = _start(tree, "--exitfirst", "-n", "0", "-p", "no:cacheprovider", f"@{tree / 'names'}")
    try:
        return process.wait(DEADLINE_S) != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        os.killpg(process.pid, 9) if process.poll() is None else None
        process.wait()
        file.write_bytes(data)


_seconds: dict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count the seconds of a test. One that fails in a copy of the tree judges nothing."""
    _seconds[report.nodeid] += report.duration if report.outcome == "passed" else math.inf


def pytest_sessionfinish() -> None:
    """Write the seconds in the process that gets all reports."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        passed = {name: seconds for name, seconds in _seconds.items() if seconds < math.inf}
        Path(os.environ["MUTANTS_SECONDS"]).write_text(json.dumps(passed))


if __name__ == "__main__":
    main()
