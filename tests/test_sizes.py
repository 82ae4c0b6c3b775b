"""Sizes of modules and functions, with a reason for each exception."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
SOURCES: Final = sorted(
    path for folder in ("spark_kafkawire", "jobs") for path in (ROOT / folder).rglob("*.py")
)
MODULE_LINES_MAX: Final = 400
#: Of a function's code, without its signature and docstring: twenty, and the text of an error.
FUNCTION_LINES_MAX: Final = 24

_KERNEL: Final = "a compiled loop over bytes, in which a call or another loop costs more than what it does"
_NATIVE: Final = "what numba makes of one function, which sees all of it at once"
_KINDS: Final = "one short case for each kind of a type"
_LIST: Final = "a list of arguments, one after the other"
_COLUMNS: Final = "room for each column, the kernel's call, and what became of each"
#: What is longer: how long it may be, and why it is.
LONG_MODULES: Final[dict[str, tuple[int, str]]] = {}
LONG_FUNCTIONS: Final = {
    "records/batch/read_kernels.py read_records": (81, _KERNEL),
    "records/batch/write_kernels.py plan_batches": (40, _KERNEL),
    "records/batch/write_kernels.py write_records": (28, _KERNEL),
    "records/batch/header_kernels.py read_headers": (25, _KERNEL),
    "records/checksum_kernels.py crc32_of": (37, _KERNEL),
    "records/log_kernels.py index_batches": (45, _KERNEL),
    "records/message_set/kernels.py index_messages": (26, _KERNEL),
    "values/avro/kernels.py decode_each": (170, _KERNEL),
    "values/avro/kernels.py is_utf8": (29, _KERNEL),
    "values/avro/resolution.py _constants_of": (48, _KINDS),
    "values/avro/resolution.py _leaf": (29, _KINDS),
    "values/avro/resolution.py _record": (25, _KINDS),
    "values/avro/resolution.py _skip": (30, _KINDS),
    "records/native.py _compile_copy": (28, _NATIVE),
    "records/native.py _compile_library_crc32": (27, _NATIVE),
    "records/batch/decoding.py _columns": (26, _COLUMNS),
    "records/legacy/decoding.py _parts": (25, "where a part of messages ends, by one sum of what they take"),
    "clients/reading/fetcher.py _recover": (49, "a case for each error, and none in what it calls"),
    "clients/writing/modern/batch_sender.py _recover": (39, "a case for each step, none in what it calls"),
    "clients/writing/modern/transactional/driver.py _after": (32, "a case for each answer"),
    "commands/ingest.py add_output": (27, _LIST),
    "commands/stream_copy.py add_read": (27, _LIST),
    "jobs/stream_copy/run.py run": (35, "what is open while the query runs, and what came of it"),
}


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function from its first statement after the docstring to its last."""
    body = function.body[ast.get_docstring(function) is not None :]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def functions(source: str) -> Iterator[tuple[str, int]]:
    """The functions of a module by their names, and how long they are."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, code_lines(node)


def name_of(path: Path) -> str:
    """As the lists have it."""
    return path.relative_to(ROOT).as_posix().removeprefix("spark_kafkawire/")


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("def f(\n    a,\n):\n    return (\n        a\n    )", 3),
        ('def f():\n    """Text\n\n    and more."""\n    x = 1\n\n    return x', 3),
        ('async def f():\n    """Text."""', 0),
        ("class C:\n    def f(self):\n        return 1  # why", 1),
    ],
)
def test_signatures_and_docstrings_are_no_code(source: str, count: int) -> None:
    assert list(functions(source)) == [("f", count)]


def test_modules_are_short_or_named_with_a_reason() -> None:
    lines = {name_of(path): path.read_text().count("\n") for path in SOURCES}
    assert len(lines) > 300
    check({name: count for name, count in lines.items() if count > MODULE_LINES_MAX}, LONG_MODULES)


def test_functions_are_short_or_named_with_a_reason() -> None:
    found = ((path, *each) for path in SOURCES for each in functions(path.read_text()))
    check(
        {f"{name_of(path)} {name}": count for path, name, count in found if count > FUNCTION_LINES_MAX},
        LONG_FUNCTIONS,
    )


def check(long: dict[str, int], allowed: dict[str, tuple[int, str]]) -> None:
    """Assert that long functions are named and no longer than allowed, and that named functions
    are still long."""
    assert {name: count for name, count in long.items() if count > allowed.get(name, (0, ""))[0]} == {}
    assert allowed.keys() - long.keys() == set(), "not long any more: take them from the list"
