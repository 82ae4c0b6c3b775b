"""An option that can be read in two ways is refused: neither can be what its user is sure of."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.errors import MESSAGE_SIZE_MAX, OptionError
from spark_kafkawire.options import ReadOptions, WriteOptions
from tests.support.cases import for_each

MODERN = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t"}
V07 = {"zookeeper.connect": "h:2181", "subscribe": "t"}


def read(base: dict[str, str], **changes: str | None) -> ReadOptions:
    given = {**base, **changes}
    return ReadOptions.parse({name: value for name, value in given.items() if value is not None})


def refusal(base: dict[str, str], **changes: str | None) -> str:
    with pytest.raises(OptionError) as error:
        read(base, **changes)
    message = str(error.value)
    assert message.isprintable()
    assert len(message) <= MESSAGE_SIZE_MAX
    return message


@pytest.mark.parametrize(
    ("base", "name", "text", "key"),
    [
        (MODERN, "assign", '{"t":[0],"t":[1]}', "t"),
        (MODERN, "startingOffsets", '{"t":{"0":1,"0":2}}', "0"),
        (MODERN, "startingOffsets", '{"t":{"0":1},"u":{"0":1},"t":{"1":1}}', "t"),
        (MODERN, "endingOffsets", '{"t":{"0":1,"\\u0030":2}}', "0"),
        (MODERN, "startingOffsetsByTimestamp", '{"t":{"0":1,"0":1}}', "0"),
        (V07, "assign", '{"t":["0-0"],"t":["0-1"]}', "t"),
        (V07, "startingOffsets", '{"t":{"0-1":1,"0-1":2}}', "0-1"),
    ],
)
def test_a_key_that_json_has_twice_is_named(base: dict[str, str], name: str, text: str, key: str) -> None:
    changes = {"subscribe": None} if name == "assign" else {}
    assert refusal(base, **changes, **{name: text}) == f"option {name}: '{key}' occurs twice in '{text}'"


@for_each(
    "text",
    [
        '{"t":{"00":1}}',
        '{"t":{"0":1,"00":2}}',
        '{"t":{"\u0663":1}}',
        '{"t":{"0":1.0}}',
        '{"t":{"0":1e3}}',
        '{"t":{"0":true}}',
        '{"t":{"0":"1"}}',
        '{"t":{"0":NaN}}',
        '{"t":{"0":Infinity}}',
        '{"t":{"0":9223372036854775808}}',
        '{"t":{"0":' + "9" * 5000 + "}}",
        '{"t":{"0":1}} x',
        '{"t":{"0":1}}{"t":{"0":2}}',
        '\u00a0{"t":{"0":1}}',
        '\ufeff{"t":{"0":1}}',
        '{"t":{" 0":1}}',
        '{"t":{"+0":1}}',
        '{"t":{"-0":1}}',
        '{"t":{"0x0":1}}',
        '{"t":{"0_0":1}}',
        '{"":{"0":1}}',
        '{"\\ud800":{"0":1}}',
        "[" * 100_000,
        '{"t":' * 100_000,
        '{"t":{"4294967296":1}}',
    ],
)
@for_each("name", ["startingOffsets", "endingOffsets", "startingOffsetsByTimestamp"])
def test_an_offset_has_one_spelling(name: str, text: str) -> None:
    assert "is not of the form" in refusal(MODERN, **{name: text})


@for_each("key", ["00-0", "0-00", "0-\u0663", "0- 1", "0--1", "0", "0-1-2", "01-1", "1-01"])
def test_a_partition_of_07_has_one_spelling(key: str) -> None:
    assert "is not of the form" in refusal(V07, startingOffsets=f'{{"t":{{"{key}":1}}}}')
    assert "is not of the form" in refusal(V07, subscribe=None, assign=f'{{"t":["{key}"]}}')


@for_each("number", ["0.0", "1e0", "true", '"0"', "null", "[0]", "9" * 30, "-1"])
def test_a_partition_that_is_assigned_is_a_number(number: str) -> None:
    assert "is not of the form" in refusal(MODERN, subscribe=None, assign=f'{{"t":[{number}]}}')


@for_each(
    ("name", "text"),
    [
        ("retries", "\u0663"),
        ("retries", "1_0"),
        ("retries", "\u00a03"),
        ("retries", "3.0"),
        ("retries", "1e1"),
        ("requestTimeout", "\u0663\u0660s"),
        ("requestTimeout", "30\u00a0s"),
        ("requestTimeout", "30 \u017f"),
        ("fetchBytes", "4\u212aiB"),
        ("fetchBytes", "4 \u00a0MiB"),
        ("fetchBytes", "\uff14MiB"),
        (
            "startingTimestamp",
            "\u0661\u0667\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0660\u0660",
        ),
        ("failOnDataLoss", "true\u2003"),
        ("kafka.security.protocol", "\u017f\u017fl"),
        ("kafka.isolation.level", "read_committed\u200b"),
        ("kafka.bootstrap.servers", "h:\uff19\uff10\uff19\uff12"),
        ("kafka.bootstrap.servers", "\u017f\u017fl://h:9092"),
        ("kafka.bootstrap.servers", "h\x1b[31m:9092"),
        ("kafka.bootstrap.servers", "h\0:9092"),
    ],
)
def test_digits_and_blanks_are_ascii(name: str, text: str) -> None:
    assert refusal(MODERN, **{name: text}).startswith(f"option {name}: ")


@pytest.mark.parametrize(
    "changes",
    [
        {"zookeeper.connect": "h:\uff12\uff11\uff18\uff11"},
        {"zookeeper.connect": "h\x1b[31m:2181"},
        {"zookeeper.connect": None, "broker.list": "\u0660:h:9092"},
        {"zookeeper.connect": None, "broker.list": "0:h:\u0669\u0660\u0669\u0662"},
        {"zookeeper.connect": None, "broker.list": "0:h\x7f:9092"},
    ],
)
def test_digits_of_addresses_of_07_are_ascii(changes: dict[str, str | None]) -> None:
    assert "is not of the form" in refusal(V07, **changes)


def test_names_that_differ_by_case_alone_are_one_option() -> None:
    message = refusal(MODERN, SUBSCRIBE="u")
    assert message == "options subscribe and SUBSCRIBE are the same one; set it once"
    with pytest.raises(OptionError, match=r"^options topic and Topic are the same one; set it once$"):
        WriteOptions.parse({**MODERN, "topic": "t", "Topic": "u"})


@pytest.mark.parametrize("name", ["subscribe", "kafka.group.id", "kafka.sasl.jaas.config", "kafka.x"])
def test_half_of_a_surrogate_pair_is_no_text(name: str) -> None:
    message = refusal(MODERN, **{name: "secret\ud800"})
    assert message.startswith(f"option {name}: its value, which is not shown, holds half of a surrogate pair")
    assert "secret" not in message


NAMES = st.sampled_from(
    [
        "subscribe",
        "assign",
        "subscribePattern",
        "startingOffsets",
        "endingOffsets",
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "requestTimeout",
        "retries",
        "retryBackoff",
        "fetchBytes",
        "minPartitions",
        "maxBytesPerPartition",
        "failOnDataLoss",
        "includeHeaders",
        "kafka.bootstrap.servers",
        "zookeeper.connect",
        "broker.list",
        "zookeeper.auth",
        "kafka.group.id",
        "kafka.security.protocol",
        "kafka.ssl.truststore.type",
        "kafka.ssl.truststore.location",
        "kafka.sasl.mechanism",
        "kafka.sasl.jaas.config",
        "kafka.client.id",
        "kafka.isolation.level",
        "path",
        "topic",
    ]
)
HOSTILE = st.text(st.characters() | st.sampled_from("\n\r\0\x1b\x85\u2028\ud800{}[]\":,'0-()&\\"))


@given(
    st.dictionaries(NAMES | HOSTILE, HOSTILE | HOSTILE.map(lambda text: text * 1000), max_size=4),
    st.booleans(),
)
def test_whatever_options_hold_they_are_read_or_refused_in_one_line(raw: dict[str, Any], reads: bool) -> None:
    message = ""
    try:
        (ReadOptions if reads else WriteOptions).parse(raw)
    except OptionError as error:
        message = str(error)
    assert message.isprintable()
    assert len(message) <= MESSAGE_SIZE_MAX
