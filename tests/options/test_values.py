"""Options: their defaults, what good values become, and which values are refused."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import Generation
from spark_kafkawire.net.first_contact import Bootstrap
from spark_kafkawire.options import (
    EARLIEST,
    LATEST,
    OPTIONS,
    STREAM_OPTIONS,
    Discovery,
    FetchOptions,
    OffsetLimits,
    Option,
    WriteOptions,
)
from tests.options.values import (
    READ_VALUES,
    READS,
    WRITE_VALUES,
    WRITES,
    assert_refusal,
    attribute,
    changed,
    read,
    write,
)
from tests.support.cases import for_each
from tests.support.settings import net_07

#: The value of wireFormat that is None.
WITHOUT_PROPOSAL: Final = "0.7"

FIRST_CONTACT: Final = Bootstrap("zookeeper.connect=h:2181", 20.0)


def test_a_read_has_the_documented_defaults() -> None:
    options = read()
    assert options.discovery == Discovery(zookeeper_connect="h:2181")
    assert options.net.known == net_07(30.0, 3, 0.1, 60.0)
    assert options.net.retry.bootstrap == FIRST_CONTACT
    assert options.selection.subscribe == ("t",)
    assert options.starting == OffsetLimits("startingOffsets", for_all=EARLIEST)
    assert options.ending == OffsetLimits("endingOffsets", for_all=LATEST)
    assert not options.latest_if_no_match
    assert options.min_partitions is options.partition_size_max is None
    assert options.fetch == FetchOptions(
        4 << 20, 4, 64 << 20, 256 << 20, fail_on_data_loss=True, retry_timeout_s=60.0
    )


def test_a_write_has_the_documented_defaults() -> None:
    net = net_07(30.0, 3, 0.1, 60.0)
    assert write() == WriteOptions(
        discovery=Discovery(zookeeper_connect="h:2181"),
        net=replace(net, retry=replace(net.retry, bootstrap=FIRST_CONTACT)),
        topic=None,
        partitioner="murmur2",
        compression="none",
        compression_level=None,
        acks="1",
        batch_bytes=1_000_000,
        message_size_max=1_000_000,
    )


@for_each("option", [*OPTIONS, *STREAM_OPTIONS], ids=lambda option: option.name)
def test_a_default_is_a_value_of_its_option(option: Option[Any]) -> None:
    assert (option.value is None) == (option.default in (None, WITHOUT_PROPOSAL))


@for_each(("given", "path", "expected"), READ_VALUES)
def test_a_value_of_a_read_is_parsed(given: dict[str, str | None], path: str, expected: object) -> None:
    assert attribute(read(**given), path) == expected


@for_each(("given", "path", "expected"), WRITE_VALUES)
def test_a_value_of_a_write_is_parsed(given: dict[str, str | None], path: str, expected: object) -> None:
    assert attribute(write(**given), path) == expected


def test_every_option_has_a_value_here() -> None:
    tried = {name for given, *_ in READ_VALUES + WRITE_VALUES for name in given}
    assert tried == {option.name for option in OPTIONS if option.generation is not Generation.MODERN}


@for_each(("name", "value"), [(name, value) for name, row in READS.items() for value in row.bad])
def test_a_bad_value_of_a_read_is_refused(name: str, value: str) -> None:
    with pytest.raises(OptionError) as error:
        read(**changed(name, value))
    assert_refusal(error.value, name, value)


@for_each(("name", "value"), [(name, value) for name, row in WRITES.items() for value in row.bad])
def test_a_bad_value_of_a_write_is_refused(name: str, value: str) -> None:
    with pytest.raises(OptionError) as error:
        write(**{"compression": "gzip", name: value})
    assert_refusal(error.value, name, value)


# Python warns of patterns that a later version may read otherwise, like '[[a]'.
@pytest.mark.filterwarnings("ignore::FutureWarning")
@drawn(
    name=st.sampled_from(
        [option.name for option in OPTIONS if option.read and option.name != "zookeeper.auth"]
    ),
    value=st.text(max_size=30) | st.from_regex(r'\A[\[{]["{}\[\]:,0-9a-z-]{0,30}\Z'),
)
def test_any_value_is_accepted_or_refused_in_one_line(name: str, value: str) -> None:
    try:
        read(**changed(name, value))
        message = name
    except OptionError as error:
        message = str(error)
    assert name in message
    assert len(message.splitlines()) == 1


@for_each(("given", "path", "expected"), READ_VALUES)
def test_read_options_travel_by_pickle(given: dict[str, str | None], path: str, expected: object) -> None:
    options = read(**given)
    copy = pickle.loads(pickle.dumps(options))
    assert copy == options
    assert attribute(copy, path) == expected


def test_write_options_travel_by_pickle() -> None:
    for changes, *_ in WRITE_VALUES:
        assert pickle.loads(pickle.dumps(write(**changes))) == write(**changes)


def test_options_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        read().fetch.fetch_bytes = 1  # type: ignore[misc]
