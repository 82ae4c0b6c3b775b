"""Options that go together, and options that do not."""

from __future__ import annotations

from typing import Final

import pytest

from spark_kafkawire.errors import OptionError
from spark_kafkawire.options import (
    WriteOptions,
)
from tests.options.values import (
    SECRET,
    read,
    timestamp,
    write,
)

OFFSETS: Final = '{"t":{"0-1":123}}'


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"zookeeper.connect": None},
            "set exactly one of the options kafka.bootstrap.servers, zookeeper.connect and broker.list:"
            " none is set",
        ),
        (
            {"broker.list": "0:h:1"},
            "set exactly one of the options kafka.bootstrap.servers, zookeeper.connect and broker.list:"
            " zookeeper.connect and broker.list are set",
        ),
        (
            {"subscribe": None},
            "set exactly one of the options subscribe, subscribePattern and assign: none is set",
        ),
        (
            {"assign": '{"t":["0-0"]}'},
            "set exactly one of the options subscribe, subscribePattern and assign:"
            " subscribe and assign are set",
        ),
        (
            {"zookeeper.connect": None, "broker.list": "0:h:1", "zookeeper.auth": f"digest:u:{SECRET}"},
            "option zookeeper.auth needs zookeeper.connect: with broker.list nothing logs in to ZooKeeper; "
            "leave one of the two out",
        ),
        (
            {"startingTimestamp": "6", "endingTimestamp": "5"},
            "option startingTimestamp: 6 is after endingTimestamp=5",
        ),
        (
            {"wireFormat": "proposal", "fetchesInFlight": "4"},
            "option fetchesInFlight cannot be combined with wireFormat=proposal: its fetches have no size, "
            "the "
            "broker gives what one answer holds; leave out one of the two",
        ),
    ],
)
def test_contradicting_options_are_refused(changes: dict[str, str | None], message: str) -> None:
    with pytest.raises(OptionError) as error:
        read(**changes)
    assert str(error.value) == message


def test_what_is_acknowledged_is_not_read_back() -> None:
    with pytest.raises(OptionError) as error:
        write(wireFormat="proposal", acks="verify")
    assert str(error.value) == (
        "option acks cannot be combined with wireFormat=proposal: verify reads back what brokers do not "
        "acknowledge, and there they do, by acks=1; leave out one of the two"
    )
    with pytest.raises(
        OptionError, match=r"option wireFormat does not apply to Kafka 0\.8\+, which kafka\.boot"
    ):
        WriteOptions.parse({"kafka.bootstrap.servers": "h:1", "wireFormat": "proposal"})


def test_a_range_of_time_may_be_empty() -> None:
    options = read(startingTimestamp="5", endingTimestamp="5")
    assert options.starting.for_all == options.ending.for_all == timestamp(5)


def test_a_compression_level_needs_gzip() -> None:
    with pytest.raises(OptionError, match="compressionLevel is not for compression=snappy; leave it out"):
        write(compression="snappy", compressionLevel="1")


@pytest.mark.parametrize(
    ("given", "option"),
    [
        (("startingOffsets", "startingOffsetsByTimestamp"), "startingOffsetsByTimestamp"),
        (("startingOffsetsByTimestamp", "startingTimestamp"), "startingTimestamp"),
        (("startingOffsets", "startingTimestamp"), "startingTimestamp"),
    ],
)
def test_of_several_starts_the_most_specific_option_wins(given: tuple[str, ...], option: str) -> None:
    values = {"startingTimestamp": "5"}
    assert read(**{name: values.get(name, OFFSETS) for name in given}).starting.option == option
