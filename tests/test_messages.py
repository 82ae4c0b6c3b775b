"""Messages of the package: each is one short printable line, whatever peers and users put into it.

``KafkaWireError`` and the package's log see to that at the last moment; what is checked in the source is
that foreign text is cut before it is there, so that the rest of the line can still be read.
"""

from __future__ import annotations

import ast
import logging
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import spark_kafkawire
from spark_kafkawire import errors
from spark_kafkawire.errors import (
    LOG,
    MESSAGE_SIZE_MAX,
    TEXT_SIZE_MAX,
    BrokerError,
    KafkaWireError,
    OptionError,
    close_matches,
    counted,
    listed_some,
    one_line,
    printable,
    quoted,
)
from spark_kafkawire.model import Broker, OffsetRange, TopicPartition
from spark_kafkawire.planner.stream_losses import Losses
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error

HOSTILE: Final = "x\r\nFATAL \x1b[31m\x1b]0;title\x07\0\x85\u2028\u202e\ud800\U000e0041"
#: What a cut text may be longer than ``TEXT_SIZE_MAX``: it tells how long the whole one is.
CUT_SIZE: Final = 40
ROOT: Final = Path(spark_kafkawire.__file__).parent
SOURCES: Final = sorted([*ROOT.rglob("*.py"), *ROOT.parent.glob("jobs/*.py")])


def is_one_line(message: str) -> bool:
    return message.isprintable() and len(message) <= MESSAGE_SIZE_MAX


@given(st.text() | st.text(min_size=1000).map(lambda text: text * 10), st.binary())
def test_any_text_is_shown_on_one_line_of_a_bounded_size(text: str, data: bytes) -> None:
    for foreign in (text, data, HOSTILE + text, text + HOSTILE):
        assert printable(foreign).isprintable()
        assert len(printable(foreign)) <= TEXT_SIZE_MAX + CUT_SIZE
        assert quoted(foreign) == f"'{printable(foreign)}'"


@given(st.text(), st.integers(1, 3000), st.text())
def test_any_message_is_one_line_and_stays_so(start: str, count: int, end: str) -> None:
    line = one_line((start + HOSTILE) * count + end)
    assert is_one_line(line)
    assert one_line(line) == line


def test_a_long_message_keeps_its_beginning_and_its_end() -> None:
    line = one_line("broker 1: " + "\n" * 500_000 + "; run it again")
    assert line.startswith("broker 1: \\n\\n")
    assert "… (500024 characters) …" in line
    assert line.endswith("\\n; run it again")


def test_a_message_that_can_be_read_stays_as_it_is() -> None:
    for message in ("", "größe-日本: a\\b 'c'", "x" * MESSAGE_SIZE_MAX):
        assert str(KafkaWireError(message)) == message


@pytest.mark.parametrize("text", [HOSTILE, "x" * 500_000, HOSTILE * 50_000])
def test_an_error_of_foreign_text_is_one_line_and_travels(text: str) -> None:
    error = BrokerError(f"topic {text}", 3, errors.Action.REFRESH).located(text).advised("run it again")
    assert is_one_line(str(error))
    assert str(error).endswith("; run it again")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.__dict__) == (str(error), error.__dict__)
    assert is_one_line(str(OptionError(text)))


@pytest.mark.parametrize("text", [HOSTILE, "x" * 500_000])
def test_names_of_the_cluster_are_shown_on_one_line(text: str) -> None:
    partition = TopicPartition(text, 3)
    for name in (Broker(1, text, 9092), partition, TopicPartition(text, 1, 0), OffsetRange(partition, 0, 9)):
        assert str(name).isprintable()
        assert len(str(name)) < TEXT_SIZE_MAX + 100
    message = str(broker_error(3, f"topic {quoted(text)}", text))
    assert is_one_line(message)
    assert message.endswith("(error 3 UNKNOWN_TOPIC_OR_PARTITION); " + ErrorCode(3).remedy)


def test_a_line_of_the_log_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    for log in (LOG, errors.log_of("spark_kafkawire.broker.server")):
        with caplog.at_level(logging.DEBUG, log.name):
            log.debug("topic %s of %d", HOSTILE, 5)
            log.warning(HOSTILE * 50_000)
    assert len(caplog.records) == 4
    for record in caplog.records:
        assert is_one_line(record.getMessage())
    assert caplog.records[0].getMessage() == f"topic {printable(HOSTILE)} of 5"


def test_what_may_be_meant_is_found_in_a_bounded_time() -> None:
    assert close_matches("debian-gzp", ["debian-gzip", "other"]) == ["debian-gzip"]
    assert close_matches("x" * 500_000, ["x" * 500_000]) == []
    anagrams = ("ab" * 16 + "ba" * 16 for _ in range(10_000_000))
    assert len(close_matches("ab" * 32, anagrams)) == 3


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


def counts_with_words(tree: ast.AST) -> Iterator[str]:
    """A count and the words after it in each text that is filled in."""
    for node in ast.walk(tree):
        for before, count, after in windows(["", *pieces(node)]):
            found = COUNTED.match(after)
            is_filled_in = re.fullmatch(r"%[ds]|\{.*\}", count, re.DOTALL)
            is_maximum = re.fullmatch(r"\{_?[A-Z0-9_]+( - 1)?\}", count)
            is_bound = found and after[found.end() :].startswith(" or more")
            if found and is_filled_in and not (is_maximum or is_bound or OF_MANY.search(before)):
                yield f"{count}{found[0]}"


def windows(texts: list[str]) -> Iterator[tuple[str, str, str]]:
    yield from zip(texts, texts[1:], texts[2:], strict=False)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_counts_and_their_words_agree(path: Path) -> None:
    """``counted`` and ``plural`` see to that."""
    assert set(counts_with_words(ast.parse(path.read_text()))) <= ABOVE_ONE


def test_one_and_many_are_told_apart() -> None:
    assert (counted(0, "partition"), counted(1, "partition")) == ("0 partitions", "1 partition")
    assert counted(2, "log is", "logs are") == "2 logs are"
    assert listed_some([1, 2, 3, 4], 3) == "1, 2, 3 and 1 more"
    assert listed_some({"b": 0}, 3, quoted) == "'b'"
    assert listed_some([], 3) == ""
    vanished = tuple((TopicPartition("t", number), 5) for number in range(1_000_000))
    assert str(Losses(vanished=vanished[:1])).startswith("t 0 at offset 5 no longer exists: a topic")
    assert "t 2 at offset 5 and 999997 more partitions no longer exist" in str(Losses(vanished=vanished))
    shorter = tuple((TopicPartition("t", number), 9, 5) for number in range(5))
    assert "the end of t 2 was changed from 9 to 5; 2 more partitions: a topic" in str(
        Losses(shorter=shorter)
    )


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


def messages(tree: ast.AST) -> Iterator[ast.expr]:
    """Texts of errors and of the log."""
    for node in ast.walk(tree):
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
        f"{path.relative_to(ROOT.parent)}:{message.lineno} {name}"
        for path in SOURCES
        for message in messages(ast.parse(path.read_text("utf-8")))
        for name in raw_names(message)
    ]
    assert not found, "put errors.printable or errors.quoted around it"


def test_the_look_into_the_source_finds_what_it_looks_for() -> None:
    tree = ast.parse(
        'raise OptionError(f"{a}: {self.partition.topic} {name!r} {printable(host)}") ; LOG.info("%s", path)'
    )
    assert [name for message in messages(tree) for name in raw_names(message)] == [
        "name!r",
        "self.partition.topic",
        "path",
    ]
