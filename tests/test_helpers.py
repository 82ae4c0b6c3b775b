"""Helpers of several test files: they are in ``tests/support`` or in a module beside the tests, never in
a test file or a conftest, which pytest imports by itself. So a change of a test changes no other test."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent
#: An import as the formatter leaves it: one line, or one bracket.
_IMPORT: Final = re.compile(r"^ *(?:from \S+ )?import (?:\([^)]*\)|.*)", re.MULTILINE)


def from_tests(source: str) -> list[str]:
    """The imports that go to a file of tests or of fixtures."""
    return [item for item in _IMPORT.findall(source) if re.search(r"\b(?:test_|conftest\b)", item)]


@pytest.mark.parametrize(
    "source",
    [
        "from .test_a import b",
        "from . import test_a",
        "from tests.source.test_a import b",
        "import tests.test_a",
        "from .conftest import b",
        "from . import (\n    a,\n    test_a,\n)",
        "def f() -> None:\n    from tests import test_a",
    ],
)
def test_an_import_from_a_file_of_tests_is_found(source: str) -> None:
    assert len(from_tests(source)) == 1


def test_no_file_of_tests_imports_from_another() -> None:
    result = {
        str(path.relative_to(TESTS)): from_tests(path.read_text("utf-8")) for path in TESTS.rglob("*.py")
    }
    assert len(result) > 200
    assert {path: names for path, names in result.items() if names} == {}


def test_what_benchmarks_measure_is_a_spark_as_users_have_it() -> None:
    # That of the tests has workers which are forked with all loaded, and would hide what a task imports.
    folder = TESTS / "benchmarks"
    sources = {str(path.relative_to(folder)): path.read_text("utf-8") for path in folder.rglob("*.py")}
    starts = {path: set(re.findall(r"\b(\w+_spark)\(", source)) for path, source in sources.items()}
    assert {path: calls for path, calls in starts.items() if calls} == {"session.py": {"plain_spark"}}
