"""What files of tests share stands in ``tests/support`` or in a module beside them, not in one of them: who
changes a test changes no other one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent


def imported(source: str) -> Iterator[str]:
    """Every name that the imports of a module have, with the dots."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def from_tests(source: str) -> list[str]:
    """The imports that go to a file of tests."""
    return [name for name in imported(source) if any(part.startswith("test_") for part in name.split("."))]


@pytest.mark.parametrize(
    "source",
    [
        "from .test_a import b",
        "from . import test_a",
        "from tests.source.test_a import b",
        "import tests.test_a",
        "def f() -> None:\n    from tests import test_a",
    ],
)
def test_an_import_from_a_file_of_tests_is_found(source: str) -> None:
    assert len(from_tests(source)) == 1


def test_no_file_of_tests_imports_from_another() -> None:
    found = {
        str(path.relative_to(TESTS)): from_tests(path.read_text("utf-8")) for path in TESTS.rglob("*.py")
    }
    assert len(found) > 300
    assert {path: names for path, names in found.items() if names} == {}
