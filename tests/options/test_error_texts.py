"""Errors of bad values: what they say, word by word."""

from __future__ import annotations

import pytest

from spark_kafkawire.errors import OptionError
from tests.options.values import (
    read,
)
from tests.support.cases import for_each


@for_each(
    ("changes", "message"),
    [
        (
            {"startingOffsets": "Latest"},
            "option startingOffsets: 'Latest': starting offset can't be latest for batch queries on Kafka; "
            'give earliest or {"t":{"0-1":123}}',
        ),
        (
            {"endingOffsets": '{"t":{"0-1":-2}}'},
            "option endingOffsets: ending offset for t 0-1 can't be earliest (-2) for batch queries on "
            "Kafka; give an offset or latest",
        ),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0-1":-3}}'},
            "option startingOffsetsByTimestamp: the timestamp of t 0-1 is negative; -1 is latest, -2 "
            "earliest",
        ),
        (
            {"subscribe": None, "subscribePattern": "("},
            "option subscribePattern: '(' is not a supported Java regular expression: a ( is "
            "not closed; write \\( for the character",
        ),
        (
            {"startingOffsets": str({"t": {"0-1": 5}})},
            "option startingOffsets: '{'t': {'0-1': 5}}' is not JSON: JSON needs double quotes, as "
            'json.dumps gives them to a Python dict; give earliest or {"t":{"0-1":123}}',
        ),
        (
            {"startingOffsetsByTimestamp": "{ 't': {0: 5}}"},
            "option startingOffsetsByTimestamp: '{ 't': {0: 5}}' is not JSON: JSON needs double "
            'quotes, as json.dumps gives them to a Python dict; give {"t":{"0-1":1700000000000}}',
        ),
        (
            {"subscribe": None, "assign": str({"t": ["0-1"]})},
            "option assign: '{'t': ['0-1']}' is not JSON: JSON needs double quotes, as json.dumps gives them "
            'to a Python dict; give {"t":["0-0","1-2"]} (broker-partition)',
        ),
        ({"retries": "x" * 200}, f"option retries: '{'x' * 200}' is not a whole number from 0 to 1000"),
        (
            {"retries": "x" * 500_000},
            f"option retries: '{'x' * 200}… (500000 characters)' is not a whole number from 0 to 1000",
        ),
        (
            {"requestTimeout": "24h1"},
            "option requestTimeout: '24h1' is not a time above zero and up to 24h, like 500ms or 30s",
        ),
    ],
)
def test_an_error_says_which_values_are_allowed(changes: dict[str, str | None], message: str) -> None:
    with pytest.raises(OptionError) as error:
        read(**changes)
    assert str(error.value) == message


@for_each(
    ("name", "word", "meant"),
    [
        ("startingOffsets", "beginning", "earliest"),
        ("startingOffsets", " Smallest ", "earliest"),
        ("startingOffsets", "first", "earliest"),
        ("startingOffsets", "oldest", "earliest"),
        ("startingOffsets", "earlist", "earliest"),
        ("endingOffsets", "end", "latest"),
        ("endingOffsets", "largest", "latest"),
        ("endingOffsets", "newest", "latest"),
        ("endingOffsets", "lastest", "latest"),
    ],
)
def test_a_word_of_other_clients_is_refused_with_ours(name: str, word: str, meant: str) -> None:
    with pytest.raises(OptionError) as error:
        read(**{name: word})
    assert str(error.value) == (
        f'option {name}: \'{word.strip()}\' is not of the form {meant} or {{"t":{{"0-1":123}}}}; '
        f"did you mean {meant}?"
    )


@pytest.mark.parametrize(
    ("name", "word", "meant"), [("startingOffsets", "end", "latest"), ("endingOffsets", "start", "earliest")]
)
def test_a_word_for_the_wrong_end_of_a_batch_is_refused(name: str, word: str, meant: str) -> None:
    with pytest.raises(OptionError, match=f"; {meant} is not for {name} of batch queries$"):
        read(**{name: word})
