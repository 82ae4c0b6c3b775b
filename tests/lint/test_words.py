"""Plain words: the word list of CONTRIBUTING.md over pages and strings, and first words of docstrings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.lint.sources import ALL, nodes_of
from tests.support.cases import for_each
from tests.support.pages import PAGES, ROOT

#: Words that a reader stumbles on, as CONTRIBUTING.md lists them in its section on writing.
WORDS: Final = re.compile(
    r"\b(told|stands?|anew|somebody|nobody|is none|are none|wholly|in silence|for who|but for)\b"
)
#: First words of a docstring that put off its subject.
FIRST_WORDS: Final = re.compile(r"(What|Who|Whether|How|Which|Where|All of|Those)\b")
#: A value that stands for another one is plain enough.
MEANT: Final = re.compile(r"\bstands? for\b")


def _docstrings(nodes: Iterable[ast.AST]) -> Iterator[ast.Constant]:
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            for statement in node.body:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    yield statement.value


def _prose(page: Path) -> Iterator[tuple[int, str]]:
    """Lines of a page with their numbers, without the table that shows the words to avoid."""
    is_shown = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        is_shown = line.startswith("| not |") or (is_shown and line.startswith("|"))
        if not is_shown:
            yield number, line


@for_each("page", PAGES)
def test_pages_use_plain_words(page: str) -> None:
    found = {number: line for number, line in _prose(ROOT / page) if WORDS.search(MEANT.sub("", line))}
    assert found == {}


def test_messages_use_plain_words() -> None:
    found = []
    for path in ALL:
        nodes = nodes_of(path)
        documented = set(map(id, _docstrings(nodes)))
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
                text = MEANT.sub("", node.value)
                if " " in text and node.value != WORDS.pattern and WORDS.search(text):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}")
    assert found == []


def test_docstrings_begin_with_their_subject() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value.splitlines()[0]}"
        for path in ALL
        for node in _docstrings(nodes_of(path))
        if isinstance(node.value, str) and FIRST_WORDS.match(node.value.strip())
    ]
    assert found == []
