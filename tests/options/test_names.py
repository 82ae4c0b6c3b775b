"""Names of options: their case, their side, and hints for unknown ones."""

from __future__ import annotations

import re
from typing import Any

import pytest

from spark_kafkawire.errors import OptionError
from spark_kafkawire.options import (
    OPTIONS,
    STREAM_OPTIONS,
    Option,
    ReadOptions,
    WriteOptions,
    of_side,
)
from spark_kafkawire.options.kafka_properties import is_kafka_property
from tests.options.values import (
    ZOOKEEPER,
    read,
    write,
)
from tests.support.cases import for_each


@pytest.mark.parametrize("name", ["ZooKeeper.Connect", "ZOOKEEPER.CONNECT"])
def test_option_names_are_case_insensitive(name: str) -> None:
    assert ReadOptions.parse({name: "h:1", "SUBSCRIBE": "t"}).discovery.zookeeper_connect == "h:1"


@for_each("option", OPTIONS, ids=lambda option: option.name)
def test_a_suggestion_has_the_spelling_of_the_tables(option: Option[Any]) -> None:
    """Spark hands names on in small letters."""
    kind = ReadOptions if option.read else WriteOptions
    base = {"subscribe": "t"} if option.read else {}
    if is_kafka_property(option.name):  # silently ignored, with a warning that may be of another test
        return
    with pytest.raises(OptionError) as error:
        kind.parse({**ZOOKEEPER, **base, f"{option.name.lower()}x": "1"})
    assert str(error.value).endswith(f"; did you mean {option.name}?")
    other = WriteOptions if option.read else ReadOptions
    if option.read != option.write:
        with pytest.raises(OptionError, match=rf"^option {re.escape(option.name)} is for "):
            other.parse({**ZOOKEEPER, option.name.lower(): "1"})


@pytest.mark.parametrize(
    ("name", "close"),
    [
        ("subscribes", "subscribe"),
        ("startingOffset", "startingOffsets"),
        ("fetchbyte", "fetchBytes"),
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("zookeper.connect", "zookeeper.connect"),
        ("request.timeout", "requestTimeout"),
    ],
)
def test_an_unknown_option_suggests_the_close_one(name: str, close: str) -> None:
    with pytest.raises(OptionError) as error:
        read(**{name: "1"})
    assert str(error.value) == f"unknown option {name} for a read; did you mean {close}?"


def test_the_checkpoint_of_a_query_is_no_option_of_its_source() -> None:
    with pytest.raises(OptionError, match=r"^option checkpointLocation is for writeStream, not for a read$"):
        read(checkpointLocation="/data/checkpoint")
    with pytest.raises(OptionError, match=r"^option checkpointLocation is for writeStream, not for a write$"):
        write(checkpointLocation="/data/checkpoint")


@for_each("name", [option.name for option in STREAM_OPTIONS if not option.name.startswith("kafka.")])
def test_an_option_of_streaming_reads_is_refused_by_a_write(name: str) -> None:
    with pytest.raises(OptionError, match=f"^option {name} is for reading, not for a write$"):
        write(**{name: "1"})


def test_an_unknown_option_like_no_other_lists_the_known_ones() -> None:
    with pytest.raises(OptionError) as error:
        write(xyzzy="1")
    assert str(error.value).startswith("unknown option xyzzy for a write; known are: kafka.bootstrap.")
    for option in OPTIONS:
        assert (option.name in str(error.value)) == option.write


@for_each(
    "option",
    [option for option in OPTIONS if not option.write and not option.name.startswith("kafka.")],
)
def test_a_reads_option_is_refused_by_a_write(option: Any) -> None:
    with pytest.raises(OptionError, match=f"option {option.name} is for reading, not for a write"):
        write(**{option.name: "1"})


@for_each(
    "option",
    [option for option in OPTIONS if not option.read and not option.name.startswith("kafka.")],
)
def test_a_writes_option_is_refused_by_a_read(option: Any) -> None:
    with pytest.raises(OptionError, match=f"option {option.name} is for writing, not for a read"):
        read(**{option.name: "1"})


def test_options_that_name_one_side_are_of_that_side() -> None:
    for given in ({"subscribe": "t", "acks": "1"}, {"topic": "t", "failOnDataLoss": "false"}):
        assert of_side(given, read=True) == of_side(given, read=False) == given


@pytest.mark.parametrize(
    ("selection", "value"), [("subscribe", "t"), ("subscribePattern", "t.*"), ("assign", '{"t":["0-0"]}')]
)
def test_options_that_name_what_to_read_and_where_to_write_are_of_both_sides(
    selection: str, value: str
) -> None:
    given = {**ZOOKEEPER, selection: value, "Topic": "copy", "acks": "verify", "failOnDataLoss": "false"}
    given |= {"maxBytesPerTrigger": "1m", "ackz": "1"}
    reading, writing = (of_side(given, read=read) for read in (True, False))
    assert given.items() - reading.items() == {("Topic", "copy"), ("acks", "verify")}
    others = {(selection, value), ("failOnDataLoss", "false"), ("maxBytesPerTrigger", "1m")}
    assert given.items() - writing.items() == others
    for parse, side in ((ReadOptions.parse, reading), (WriteOptions.parse, writing)):
        with pytest.raises(OptionError, match="unknown option ackz for a"):
            parse(side)


def test_a_path_is_refused_by_name() -> None:
    with pytest.raises(OptionError, match=r"save\(\) and start\(\) take no path, topics are options$"):
        write(path="/tmp")
