"""Errors and messages: each survives pickle, says what to do, and is one short printable line."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire import errors
from spark_kafkawire.errors import (
    LOG,
    MESSAGE_SIZE_MAX,
    TEXT_SIZE_MAX,
    Action,
    BrokerError,
    ConnectionLost,
    CorruptDataError,
    DataLossError,
    DeliveryError,
    DiscoveryError,
    KafkaWireError,
    OptionError,
    ProtocolError,
    TransportError,
    UnknownTopicError,
    close_matches,
    counted,
    list_some,
    one_line,
    printable,
    quote,
)
from spark_kafkawire.model import Broker, OffsetRange, TopicPartition
from spark_kafkawire.planner.stream_offsets import Losses
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
from tests.support.cases import for_each


def tree(kind: type[KafkaWireError]) -> Iterator[type[KafkaWireError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from tree(child)


#: Rooms may have errors of their own, which they do not let out; these are the ones that travel.
CLASSES = sorted(
    {kind for kind in tree(KafkaWireError) if kind.__module__ == errors.__name__},
    key=lambda kind: kind.__name__,
)
SAMPLES = [
    *(kind("what: where") for kind in CLASSES),
    BrokerError("what", 3, Action.REFRESH),
    CorruptDataError("what", 4711),
]


@for_each("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_travels_by_pickle_with_all_it_knows(error: KafkaWireError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__
    assert copy.action is error.action


@for_each("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_an_advised_error_ends_with_the_advice_and_keeps_the_rest(error: KafkaWireError) -> None:
    advised = error.advise("run again")
    assert type(advised) is type(error)
    assert str(advised) == f"{error}; run again"
    assert advised.__dict__ == error.__dict__


@for_each("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_a_located_error_starts_with_the_place_and_keeps_the_rest(error: KafkaWireError) -> None:
    located = error.locate("broker 1").locate("t 1-0")
    assert type(located) is type(error)
    assert str(located) == f"t 1-0: broker 1: {error}"
    assert located.__dict__ == error.__dict__
    assert located.action is error.action
    assert located is not error


@for_each("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_the_module_lists_every_error_with_its_action(kind: type[KafkaWireError]) -> None:
    [row] = [line for line in (errors.__doc__ or "").splitlines() if line.split()[:1] == [kind.__name__]]
    stated = row.split()[1]
    assert stated in (kind.action.name, "by"), row


def test_what_may_be_tried_again_is_retriable() -> None:
    assert ConnectionLost("c").retriable
    assert TransportError("t").retriable
    assert BrokerError("b", 3, Action.REFRESH).retriable
    assert BrokerError("b", 9, Action.RETRY).retriable
    for error in (
        OptionError("o"),
        ProtocolError("p"),
        DataLossError("d"),
        DeliveryError("d"),
        BrokerError("b"),
    ):
        assert not error.retriable


def test_an_unknown_topic_is_a_discovery_error_that_an_option_cures() -> None:
    assert issubclass(UnknownTopicError, DiscoveryError)
    assert UnknownTopicError("t").action is Action.FIX_OPTION


def test_our_errors_are_also_what_python_callers_expect() -> None:
    assert issubclass(OptionError, ValueError)
    assert issubclass(errors.RowError, ValueError)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("größe-日本", "größe-日本"),
        ("a\nFATAL b\x1b[31m\0", "a\\nFATAL b\\x1b[31m\\x00"),
        ("right \u202eto left, \ud800", "right \\u202eto left, \\ud800"),
        (b"caf\xc3\xa9 \xff", "café \\xff"),
        ("x" * 200, "x" * 200),
        ("x" * 500_000, "x" * 200 + "… (500000 characters)"),
        (b"\n" * 1000, "\\n" * 100 + "… (1000 bytes)"),
    ],
)
def test_a_foreign_text_is_shown_on_one_line_that_ends(text: object, line: str) -> None:
    assert printable(text) == line
    assert printable(text).isprintable()


HOSTILE: Final = "x\r\nFATAL \x1b[31m\x1b]0;title\x07\0\x85\u2028\u202e\ud800\U000e0041"
#: What a cut text may be longer than ``TEXT_SIZE_MAX``: it tells how long the whole one is.
CUT_SIZE: Final = 40


def is_one_line(message: str) -> bool:
    return message.isprintable() and len(message) <= MESSAGE_SIZE_MAX


@given(st.text() | st.text(min_size=1000).map(lambda text: text * 10), st.binary())
def test_any_text_is_shown_on_one_line_of_a_bounded_size(text: str, data: bytes) -> None:
    for foreign in (text, data, HOSTILE + text, text + HOSTILE):
        assert printable(foreign).isprintable()
        assert len(printable(foreign)) <= TEXT_SIZE_MAX + CUT_SIZE
        assert quote(foreign) == f"'{printable(foreign)}'"


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
    error = BrokerError(f"topic {text}", 3, errors.Action.REFRESH).locate(text).advise("run it again")
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
    message = str(broker_error(3, f"topic {quote(text)}", text))
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


def test_one_and_many_are_distinguished() -> None:
    assert (counted(0, "partition"), counted(1, "partition")) == ("0 partitions", "1 partition")
    assert counted(2, "log is", "logs are") == "2 logs are"
    assert list_some([1, 2, 3, 4], 3) == "1, 2, 3 and 1 more"
    assert list_some({"b": 0}, 3, quote) == "'b'"
    assert list_some([], 3) == ""
    vanished = tuple((TopicPartition("t", number), 5) for number in range(1000))
    assert str(Losses(vanished=vanished[:1])).startswith("t 0 at offset 5 no longer exists: a topic")
    assert "t 2 at offset 5 and 997 more partitions no longer exist" in str(Losses(vanished=vanished))
    shorter = tuple((TopicPartition("t", number), 9, 5) for number in range(5))
    assert "the end of t 2 was changed from 9 to 5; 2 more partitions: a topic" in str(
        Losses(shorter=shorter)
    )
