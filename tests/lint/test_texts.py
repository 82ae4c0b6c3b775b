"""Texts of errors and of the log, as the source has them: foreign text is cut before it is in a message,
and counts agree with their words.

``KafkaWireError`` and the package's log cut a whole message at the last moment: a text that is cut before
leaves the rest of the line readable.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.lint.sources import PACKAGE, nodes_of
from tests.support.cases import for_each
from tests.support.pages import ROOT

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
        "{len(report.partitions)} partitions",
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
            found = COUNTED.match(after)
            is_filled_in = re.fullmatch(r"%[ds]|\{.*\}", count, re.DOTALL)
            is_maximum = re.fullmatch(r"\{_?[A-Z0-9_]+( - 1)?\}", count)
            is_bound = found and after[found.end() :].startswith(" or more")
            if found and is_filled_in and not (is_maximum or is_bound or OF_MANY.search(before)):
                yield f"{count}{found[0]}"


def windows(texts: list[str]) -> Iterator[tuple[str, str, str]]:
    yield from zip(texts, texts[1:], texts[2:], strict=False)


@for_each("path", PACKAGE, ids=lambda path: path.name)
def test_counts_and_their_words_agree(path: Path) -> None:
    """``counted`` and ``plural`` see to that."""
    assert set(counts_with_words(nodes_of(path))) <= ABOVE_ONE


#: Where text of peers and users is kept raw. In a message such a name goes through ``printable``.
FOREIGN: Final = frozenset(
    (
        "topic", "host", "hostname", "group", "group_id", "path", "file", "folder", "detail", "location",
        "text", "data", "pattern", "error_message", "member_id", "username", "client_id", "zookeeper_connect",
        "endpoint_url", "verify_message", "attempt", "columns",
    )
)  # fmt: skip
#: What makes messages.
LOGGERS: Final = ("LOG",)
SAYING: Final = ("located", "advised", "broker_error")
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
    found = [
        f"{path.relative_to(ROOT)}:{message.lineno} {name}"
        for path in PACKAGE
        for message in messages(nodes_of(path))
        for name in raw_names(message)
    ]
    assert not found, "put errors.printable or errors.quoted around it"


def test_the_look_into_the_source_finds_what_it_looks_for() -> None:
    tree = ast.parse(
        'raise OptionError(f"{a}: {self.partition.topic} {name!r} {printable(host)}") ; LOG.info("%s", path)'
    )
    assert [name for message in messages(ast.walk(tree)) for name in raw_names(message)] == [
        "name!r",
        "self.partition.topic",
        "path",
    ]
