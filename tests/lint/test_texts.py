"""Texts of the sources: messages, counts and their words, plain words, and the report of long functions."""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.cases import for_each
from tests.support.pages import PAGES, ROOT

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


# --- Texts of errors and of the log, as the source has them: foreign text is cut before it is in a messag ---

#: A count that a word follows which is right for more than one.
COUNTED: Final = re.compile(
    r" (more |written |such |compressed |message )?(partitions|logs|topics|brokers|groups|records|messages|"
    r"rows|tasks|transactions|offsets|times|files|batches|members|consumers|sets|segments|nodes|headers|columns|"
    r"attempts|failures|moments)\b(?!/s)"
)
#: What is right for one, too: a part of so many, and a bound.
OF_MANY: Final = re.compile(r"\b(of|of the|than)( \S+)? $")
#: Messages whose count is above one wherever they are made.
ABOVE_ONE: Final = frozenset(
    (
        "{len(abandoned)} such nodes",
        "{len(came)} partitions",
        "{len(report.logs)} partitions",
    )
)


def pieces(node: ast.AST) -> list[str]:
    """The texts of a message and between them what is filled in, as ``{count}`` or ``%d``."""
    if isinstance(node, ast.JoinedStr):
        return [
            str(part.value) if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
            for part in node.values
            if isinstance(part, ast.Constant | ast.FormattedValue)
        ]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.split(r"(%[ds])", node.value)
    return []


def counts_with_words(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """A count and the words after it in each text that is filled in."""
    for node in nodes:
        for before, count, after in windows(["", *pieces(node)]):
            match = COUNTED.match(after)
            is_filled_in = re.fullmatch(r"%[ds]|\{.*\}", count, re.DOTALL)
            is_maximum = re.fullmatch(r"\{_?[A-Z0-9_]+( - 1)?\}", count)
            is_bound = match and after[match.end() :].startswith(" or more")
            if match and is_filled_in and not (is_maximum or is_bound or OF_MANY.search(before)):
                yield f"{count}{match[0]}"


def windows(texts: list[str]) -> Iterator[tuple[str, str, str]]:
    yield from zip(texts, texts[1:], texts[2:], strict=False)


@for_each("path", PACKAGE, ids=lambda path: path.name)
def test_counts_and_their_words_agree(path: Path) -> None:
    """``counted`` and ``plural`` see to that."""
    assert set(counts_with_words(nodes_of(path))) <= ABOVE_ONE


#: Where text of peers and users is kept raw. In a message such a name goes through ``printable``.
FOREIGN: Final = frozenset(
    (
        "topic", "host", "hostname", "group", "group_id", "path", "file", "folder", "detail",
        "text", "data", "pattern", "error_message", "member_id", "username", "client_id", "zookeeper_connect",
        "endpoint_url", "verify_message", "attempt", "columns",
    )
)  # fmt: skip
#: What makes messages.
LOGGERS: Final = ("LOG",)
SAYING: Final = ("locate", "advise", "broker_error")
ERROR_ENDINGS: Final = ("Error", "Failed", "Lost", "TimedOut")


def messages(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """Texts of errors and of the log."""
    for node in nodes:
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            is_log = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") in LOGGERS
            is_error = name in SAYING or (name.endswith(ERROR_ENDINGS) and name != "AttributeError")
            if is_log or is_error:
                # What a broker says is the last argument of its error, which cuts it.
                yield from node.args[: 2 if name == "broker_error" else None]


def raw_names(message: ast.expr) -> Iterator[str]:
    """Foreign text in a message that goes through no function; conversions by ``!r`` cut nothing."""
    parts: list[ast.expr] = [message]
    for node in ast.walk(message):
        if isinstance(node, ast.FormattedValue):
            parts.append(node.value)
            if node.conversion != -1 and not ast.unparse(node.value).startswith("bytes("):
                yield f"{ast.unparse(node.value)}!{chr(node.conversion)}"
    for part in parts:
        name = part.attr if isinstance(part, ast.Attribute) else getattr(part, "id", "")
        if name in FOREIGN:
            yield ast.unparse(part)


def test_no_message_holds_foreign_text_that_is_not_cut() -> None:
    result = [
        f"{path.relative_to(ROOT)}:{message.lineno} {name}"
        for path in PACKAGE
        for message in messages(nodes_of(path))
        for name in raw_names(message)
    ]
    assert not result, "put errors.printable or errors.quoted around it"


def test_the_look_into_the_source_finds_what_it_looks_for() -> None:
    tree = ast.parse(
        'raise OptionError(f"{a}: {self.partition.topic} {name!r} {printable(host)}") ; LOG.info("%s", path)'
    )
    assert [name for message in messages(ast.walk(tree)) for name in raw_names(message)] == [
        "name!r",
        "self.partition.topic",
        "path",
    ]


# --- Plain words: the word list of CONTRIBUTING.md over pages and strings, and first words of docstrings ---

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
    result = {number: line for number, line in _prose(ROOT / page) if WORDS.search(MEANT.sub("", line))}
    assert result == {}


def test_messages_use_plain_words() -> None:
    result = []
    for path in ALL:
        nodes = nodes_of(path)
        documented = set(map(id, _docstrings(nodes)))
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
                text = MEANT.sub("", node.value)
                if " " in text and node.value != WORDS.pattern and WORDS.search(text):
                    result.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}")
    assert result == []


def test_names_use_plain_words() -> None:
    """Names of functions, of classes and of tests."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}"
        for path in ALL
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and WORDS.search(MEANT.sub("", node.name.replace("_", " ").strip()))
    ]
    assert found == []


def test_docstrings_begin_with_their_subject() -> None:
    result = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value.splitlines()[0]}"
        for path in ALL
        for node in _docstrings(nodes_of(path))
        if isinstance(node.value, str) and FIRST_WORDS.match(node.value.strip())
    ]
    assert result == []


# --- `.ci/sizes.py`: the report of `make style` ---

#: Signature and docstring are no code: three lines more than the list has items.
FUNCTION = 'async def f(\n    a,\n):\n    """Text\n\n    and more."""\n\n    x = [\n{}\n    ]\n    return x\n'


def reported(folder: Path) -> str:
    """Output of the script, which always exits with 0."""
    script = ROOT / ".ci" / "sizes.py"
    return subprocess.run(
        [sys.executable, script, "."], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


def test_the_report_names_what_is_long_and_modules_of_one_user(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("x = 1\n" * 801)
    (tmp_path / "short.py").write_text("x = 1\n" * 800)
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "long_function.py").write_text(FUNCTION.format("\n".join(["        1,"] * 38)))
    (inner / "short_function.py").write_text(FUNCTION.format("\n".join(["        1,"] * 37)))
    for name, count in (("shared", 1), ("single", 199), ("enough", 200), ("lazy", 1)):
        (inner / f"{name}.py").write_text("x = 1\n" * count)
    (inner / "first.py").write_text(
        "from . import shared\nfrom .single import x\nfrom inner.enough import x\n"
    )
    (tmp_path / "second.py").write_text(
        "from inner.shared import x\ndef f():\n    from inner.lazy import x\n"
    )
    assert reported(tmp_path).splitlines() == [
        "long: inner/long_function.py f: 41 lines",
        "long: long.py: 801 lines",
        "one user: inner/single.py: inner/first.py",
    ]
