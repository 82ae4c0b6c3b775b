"""Errors: each one survives pickle, keeps its fields when it gets a place, and says what to do."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from spark_kafkawire import errors
from spark_kafkawire.errors import (
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
    printable,
)
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
    advised = error.advised("run again")
    assert type(advised) is type(error)
    assert str(advised) == f"{error}; run again"
    assert advised.__dict__ == error.__dict__


@for_each("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_a_located_error_starts_with_the_place_and_keeps_the_rest(error: KafkaWireError) -> None:
    located = error.located("broker 1").located("t 1-0")
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
