"""Every option: its default, what it becomes, and what each bad value is told."""

from __future__ import annotations

import pickle
from typing import Any, Final

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import Broker, Generation, TopicPartition, WireFormat
from spark_kafkawire.options import (
    EARLIEST,
    LATEST,
    OPTIONS,
    STREAM_OPTIONS,
    Discovery,
    FetchOptions,
    LimitKind,
    OffsetLimit,
    OffsetLimits,
    ReadOptions,
    TopicEpochs,
    WriteOptions,
    of_side,
)
from tests.support.settings import net_07

ZOOKEEPER: Final = {"zookeeper.connect": "h:2181"}
READ: Final = {**ZOOKEEPER, "subscribe": "t"}
LOG: Final = TopicPartition("t", 1, 0)
SECRET: Final = "s3cret"


def read(**changes: str | None) -> ReadOptions:
    return ReadOptions.parse(merged(READ, changes))


def write(**changes: str | None) -> WriteOptions:
    return WriteOptions.parse(merged(ZOOKEEPER, changes))


def merged(base: dict[str, str], changes: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in {**base, **changes}.items() if value is not None}


def offset(value: int) -> OffsetLimit:
    return OffsetLimit(LimitKind.OFFSET, value)


def timestamp(value: int) -> OffsetLimit:
    return OffsetLimit(LimitKind.TIMESTAMP, value)


def test_a_read_has_the_documented_defaults() -> None:
    options = read()
    assert options.discovery == Discovery(zookeeper_connect="h:2181")
    assert options.net == net_07(30.0, 3, 0.1, 60.0)
    assert options.selection.subscribe == ("t",)
    assert options.starting == OffsetLimits("startingOffsets", for_all=EARLIEST)
    assert options.ending == OffsetLimits("endingOffsets", for_all=LATEST)
    assert not options.latest_if_no_match
    assert options.min_partitions is options.partition_size_max is None
    assert options.fetch == FetchOptions(
        4 << 20, 4, 64 << 20, 256 << 20, fail_on_data_loss=True, patience_s=60.0
    )


def test_a_write_has_the_documented_defaults() -> None:
    assert write() == WriteOptions(
        discovery=Discovery(zookeeper_connect="h:2181"),
        net=net_07(30.0, 3, 0.1, 60.0),
        topic=None,
        partitioner="murmur2",
        compression="none",
        compression_level=None,
        acks="1",
        batch_bytes=1 << 20,
        message_size_max=1_000_000,
    )


def test_the_values_own_defaults_are_the_documented_ones() -> None:
    assert read().net == net_07(patience_s=60.0)
    assert read().fetch == FetchOptions(patience_s=60.0)


READ_VALUES: Final[list[tuple[dict[str, str | None], str, Any]]] = [
    ({"zookeeper.connect": " a:1 , b:2/kafka "}, "discovery.zookeeper_connect", "a:1,b:2/kafka"),
    ({"zookeeper.connect": "[::1]:2181"}, "discovery.zookeeper_connect", "[::1]:2181"),
    ({"zookeeper.connect": "host"}, "discovery.zookeeper_connect", "host"),
    (
        {"zookeeper.auth": f"digest:me:{SECRET}:x"},
        "discovery.zookeeper_auth",
        ("digest", f"me:{SECRET}:x"),
    ),
    (
        {"zookeeper.connect": None, "broker.list": "1:b:9092, 0:[::1]:9093"},
        "discovery.broker_list",
        (Broker(0, "::1", 9093), Broker(1, "b", 9092)),
    ),
    ({"requestTimeout": "500"}, "net.request_timeout_s", 0.5),
    ({"requestTimeout": "1500ms"}, "net.request_timeout_s", 1.5),
    ({"requestTimeout": " 2 S "}, "net.request_timeout_s", 2.0),
    ({"requestTimeout": "3min"}, "net.request_timeout_s", 180.0),
    ({"requestTimeout": "24h"}, "net.request_timeout_s", 86_400.0),
    ({"retries": "0"}, "net.retry.retries", 0),
    # Who says how often, and not how long, means it.
    ({"retries": "3"}, "net.retry.patience_s", 0.0),
    ({"retries": "3", "patience": "7s"}, "net.retry.patience_s", 7.0),
    ({"patience": "0s"}, "fetch.patience_s", 0.0),
    ({"patience": "5m"}, "planning_retry.patience_s", 300.0),
    ({"patience": "5m"}, "net.discovery_timeout_s", 300.0),
    ({"patience": "5s"}, "net.discovery_timeout_s", 30.0),
    ({"expectedBrokers": " 3 "}, "discovery.expected_brokers", 3),
    ({"wireFormat": " Proposal"}, "fetch.wire_format", WireFormat.PROPOSAL),
    ({"wireFormat": "0.7"}, "fetch.wire_format", None),
    ({"expectedBrokers": "2, 0,1"}, "discovery.expected_brokers", frozenset((0, 1, 2))),
    ({"retryBackoff": "2s"}, "net.retry.backoff_s", 2.0),
    ({"subscribe": " b, a ,,b"}, "selection.subscribe", ("a", "b")),
    ({"subscribe": None, "subscribePattern": "debian-.*"}, "selection.pattern", "debian-.*"),
    (
        {"subscribe": None, "assign": '{"t":["1-0","0-2","1-0"],"größe":["0-0"]}'},
        "selection.assign",
        (TopicPartition("größe", 0, 0), TopicPartition("t", 0, 1), TopicPartition("t", 2, 0)),
    ),
    ({"startingOffsets": " Earliest"}, "starting", OffsetLimits("startingOffsets", for_all=EARLIEST)),
    (
        {"startingOffsets": '{"t":{"0-1":123,"0-2":-2}}'},
        "starting",
        OffsetLimits("startingOffsets", by_log={LOG: offset(123), TopicPartition("t", 2, 0): EARLIEST}),
    ),
    (
        {"endingOffsets": '{"t":{"0-1":9223372036854775807,"0-2":-1}}'},
        "ending",
        OffsetLimits("endingOffsets", by_log={LOG: offset(2**63 - 1), TopicPartition("t", 2, 0): LATEST}),
    ),
    ({"startingTimestamp": "0"}, "starting", OffsetLimits("startingTimestamp", for_all=timestamp(0))),
    (
        {"startingTimestamp": "9223372036854775807"},
        "starting.for_all",
        timestamp(2**63 - 1),
    ),
    ({"endingTimestamp": "1700000000000"}, "ending.for_all", timestamp(1_700_000_000_000)),
    (
        {"startingOffsetsByTimestamp": '{"t":{"0-1":7}}'},
        "starting",
        OffsetLimits("startingOffsetsByTimestamp", by_log={LOG: timestamp(7)}),
    ),
    ({"endingOffsetsByTimestamp": '{"t":{"0-1":7}}'}, "ending.by_log", {LOG: timestamp(7)}),
    ({"startingOffsetsByTimestampStrategy": "LATEST"}, "latest_if_no_match", True),
    ({"failOnDataLoss": "False"}, "fetch.fail_on_data_loss", False),
    ({"minPartitions": "40"}, "min_partitions", 40),
    (
        {"keyOrder": "TRUE", "partitionEpochs": '{"t":[{"partitions":{"0":1}}]}'},
        "key_order.topics",
        {"t": TopicEpochs(((TopicPartition("t", 0, 0),),))},
    ),
    ({"maxBytesPerPartition": "8g"}, "partition_size_max", 8 << 30),
    ({"maxBytesPerPartition": "1"}, "partition_size_max", 1),
    ({"fetchBytes": "1024"}, "fetch.fetch_bytes", 1024),
    ({"fetchBytes": "1GiB"}, "fetch.fetch_bytes", 1 << 30),
    ({"fetchBytes": "4 KiB"}, "fetch.fetch_bytes", 4096),
    ({"fetchBytes": "4kb"}, "fetch.fetch_bytes", 4096),
    ({"fetchBytes": "2048B"}, "fetch.fetch_bytes", 2048),
    ({"fetchesInFlight": "1"}, "fetch.fetches_in_flight", 1),
    ({"fetchesInFlight": "64"}, "fetch.fetches_in_flight", 64),
    ({"maxMessageBytes": "1"}, "fetch.message_bytes_max", 1),
    ({"maxMessageBytes": "1GiB"}, "fetch.message_bytes_max", 1 << 30),
    ({"maxDecompressedBytes": "1"}, "fetch.decompressed_bytes_max", 1),
]
WRITE_VALUES: Final[list[tuple[dict[str, str | None], str, Any]]] = [
    ({"topic": " copy "}, "topic", "copy"),
    ({"compression": "Snappy"}, "compression", "snappy"),
    ({"compression": "gzip", "compressionLevel": "9"}, "compression_level", 9),
    ({"acks": "verify"}, "acks", "verify"),
    ({"wireFormat": "PROPOSAL", "acks": "1"}, "wire_format", WireFormat.PROPOSAL),
    ({"partitioner": "Consistent"}, "partitioner", "consistent"),
    ({"partitionerSeed": "0"}, "partitioner_seed", 0),
    ({"compression": "gzip", "compressionLevel": "1"}, "compression_level", 1),
    ({"batchBytes": "1"}, "batch_bytes", 1),
    ({"batchBytes": "64k"}, "batch_bytes", 1 << 16),
    ({"max.message.size": "1"}, "message_size_max", 1),
    ({"max.message.size": "2000000"}, "message_size_max", 2_000_000),
]


def attribute(options: Any, path: str) -> Any:
    for name in path.split("."):
        options = getattr(options, name)
    return options


@pytest.mark.parametrize(("given", "path", "expected"), READ_VALUES)
def test_a_value_of_a_read_is_parsed(given: dict[str, str | None], path: str, expected: object) -> None:
    assert attribute(read(**given), path) == expected


@pytest.mark.parametrize(("given", "path", "expected"), WRITE_VALUES)
def test_a_value_of_a_write_is_parsed(given: dict[str, str | None], path: str, expected: object) -> None:
    assert attribute(write(**given), path) == expected


def test_every_option_has_a_value_here() -> None:
    tried = {name for given, *_ in READ_VALUES + WRITE_VALUES for name in given}
    assert tried == {option.name for option in OPTIONS if option.generation is not Generation.MODERN}


OFFSETS: Final = '{"t":{"0-1":123}}'
BAD_READ_VALUES: Final[dict[str, list[str]]] = {
    "zookeeper.connect": ["", "/kafka", "h:port", "h:123456", "h:65536", "h:0", "h:1,,h:2", "h:1 h:2",
                          "h:1//a", "h:1/a b", "h:1/a/../b", "h:1/./a", "[h:1", "[::1:1", "http://h:2181"],
    "requestTimeout": ["", "0", "0s", "-1", "1d", "1.5s", "s", "30 seconds", "25h", "999999999999h"],
    "retries": ["", "-1", "1001", "1.0", "many"],
    "retryBackoff": ["", "0ms", "soon"],
    "patience": ["", "-1s", "25h", "for ever"],
    "wireFormat": ["", "0.8", "kafka", "proposal,0.7", "07"],
    "expectedBrokers": ["", "00,1", "0", "-1", "0,", "0,0", "a", "0,1;2", "1.0", "\u0663"],
    "subscribe": ["", " , "],
    "startingOffsets": ["", "latest", "first", "0", "[]", "{}", '{"t":{}}', '{"t":1}', '{"t":{"1":5}}',
                        '{"t":{"0-1":1.5}}', '{"t":{"0-1":true}}', '{"t":{"0-1":"5"}}', '{"t":{"0-1":-1}}',
                        '{"t":{"0-1":-3}}', '{"t":{"0-1":9223372036854775808}}', '{"":{"0-1":5}}',
                        '{"t":{"0-1":5', '{"t":{"a-b":5}}', "[" * 100_000],
    "endingOffsets": ["", "earliest", '{"t":{"0-1":-2}}', '{"t":{"0-1":-3}}', '{"t":["0-1"]}'],
    "startingTimestamp": ["", "-1", "now", "9223372036854775808", "1.5"],
    "endingTimestamp": ["", "-1", "now"],
    "startingOffsetsByTimestamp": ["", "5", '{"t":{"0-1":-1}}', '{"t":{"0-1":-5}}', '{"t":{"0-1":"now"}}'],
    "endingOffsetsByTimestamp": ["", "5", '{"t":{"0-1":-5}}'],
    "startingOffsetsByTimestampStrategy": ["", "fail"],
    "failOnDataLoss": ["", "yes", "0"],
    "minPartitions": ["", "0", "-5", "1e3", "1000001"],
    "maxBytesPerPartition": ["", "0", "-1", "4X", "99999999999G"],
    "fetchBytes": ["", "0", "1023", "2GiB", "1 MiBB", "1.5m", "-4k"],
    "fetchesInFlight": ["", "0", "65", "four"],
    "maxMessageBytes": ["", "0", "2g"],
    "maxDecompressedBytes": ["", "0", "2g"],
}  # fmt: skip
BAD_WRITE_VALUES: Final[dict[str, list[str]]] = {
    "compression": ["", "lz4", "deflate"],
    "compressionLevel": ["", "-1", "0", "10"],
    "acks": ["", "2", "all", "-1"],
    "wireFormat": ["", "1.0", "proposals"],
    "partitioner": ["", "murmur3"],
    "partitionerSeed": ["", "-1", "today"],
    "batchBytes": ["", "0", "2g"],
    "max.message.size": ["", "0", "2g"],
}


def assert_told(error: OptionError, name: str, value: str) -> None:
    """One short line that names the option, and the value's beginning or the log it is for."""
    message = str(error)
    assert "\n" not in message
    assert len(message) < 500
    assert message.startswith(f"option {name}: ")
    assert repr(value.strip())[1:21].lower() in message.lower() or " t 0-1 " in message


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD_READ_VALUES.items() for value in values]
)
def test_a_bad_value_of_a_read_is_told(name: str, value: str) -> None:
    with pytest.raises(OptionError) as error:
        read(**{name: value})
    assert_told(error.value, name, value)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD_WRITE_VALUES.items() for value in values]
)
def test_a_bad_value_of_a_write_is_told(name: str, value: str) -> None:
    with pytest.raises(OptionError) as error:
        write(**{"compression": "gzip", name: value})
    assert_told(error.value, name, value)


@pytest.mark.parametrize(
    "value",
    ["", "h:9092", "0:h", "0:h:p", "0:h:0", "0:h:65536", "a:h:1", "-1:h:1", "0:h:1,", "0:h:1;1:h:2",
     "0:[::1:1", "0:h h:1", "0:h:1,0:i:2"],
)  # fmt: skip
def test_a_bad_broker_list_is_told(value: str) -> None:
    with pytest.raises(OptionError) as error:
        read(**{"zookeeper.connect": None, "broker.list": value})
    assert_told(error.value, "broker.list", value)


@pytest.mark.parametrize(
    "value",
    ["", "t", "[]", "{}", '{"t":[]}', '{"t":{"0-1":1}}', '{"t":["1"]}', '{"t":[1]}', '{"t":["0-1-2"]}',
     '{"":["0-1"]}', '{"t":"0-1"}'],
)  # fmt: skip
def test_a_bad_assignment_is_told(value: str) -> None:
    with pytest.raises(OptionError) as error:
        read(subscribe=None, assign=value)
    assert_told(error.value, "assign", value)


@pytest.mark.parametrize(
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
            {"startingOffsetsByTimestamp": '{"t":{"0-1":-1}}'},
            "option startingOffsetsByTimestamp: the timestamp of t 0-1 is negative",
        ),
        (
            {"subscribe": None, "subscribePattern": "("},
            "option subscribePattern: '(' is not a regular expression of Java's that is read here: a ( is "
            "not closed; write \\( for the character",
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
def test_a_message_says_what_may_stand_there(changes: dict[str, str | None], message: str) -> None:
    with pytest.raises(OptionError) as error:
        read(**changes)
    assert str(error.value) == message


@pytest.mark.parametrize("value", ["", "(", "*", "[a", "a{99999999999999999999}", "(?<x"])
def test_a_bad_pattern_is_told(value: str) -> None:
    with pytest.raises(OptionError) as error:
        read(subscribe=None, subscribePattern=value)
    assert_told(error.value, "subscribePattern", value)


# Python warns of patterns that a later version may read otherwise, like '[[a]'.
@pytest.mark.filterwarnings("ignore::FutureWarning")
@drawn(
    name=st.sampled_from(
        [option.name for option in OPTIONS if option.read and option.name != "zookeeper.auth"]
    ),
    value=st.text(max_size=30) | st.from_regex(r'\A[\[{]["{}\[\]:,0-9a-z-]{0,30}\Z'),
)
def test_any_value_is_taken_or_told_in_one_line(name: str, value: str) -> None:
    changes: dict[str, str | None] = {name: value}
    if name in ("assign", "subscribePattern"):
        changes["subscribe"] = None
    if name == "broker.list":
        changes["zookeeper.connect"] = None
    try:
        read(**changes)
        told = name
    except OptionError as error:
        told = str(error)
    assert name in told
    assert len(told.splitlines()) == 1


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
            "option zookeeper.auth goes with zookeeper.connect, not with broker.list",
        ),
        (
            {"startingTimestamp": "6", "endingTimestamp": "5"},
            "option startingTimestamp: 6 is after endingTimestamp=5",
        ),
        (
            {"wireFormat": "proposal", "fetchesInFlight": "4"},
            "option fetchesInFlight does not go with wireFormat=proposal: its fetches have no size, the "
            "broker gives what one answer holds; leave out one of the two",
        ),
    ],
)
def test_contradicting_options_are_told(changes: dict[str, str | None], message: str) -> None:
    with pytest.raises(OptionError) as error:
        read(**changes)
    assert str(error.value) == message


def test_what_is_acknowledged_is_not_read_back() -> None:
    with pytest.raises(OptionError) as error:
        write(wireFormat="proposal", acks="verify")
    assert str(error.value) == (
        "option acks does not go with wireFormat=proposal: verify reads back what brokers do not "
        "acknowledge, and there they do, by acks=1; leave out one of the two"
    )
    with pytest.raises(
        OptionError, match=r"option wireFormat means nothing to Kafka 0\.8\+, which kafka\.boot"
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


@pytest.mark.parametrize("name", ["ZooKeeper.Connect", "ZOOKEEPER.CONNECT"])
def test_option_names_know_no_case(name: str) -> None:
    assert ReadOptions.parse({name: "h:1", "SUBSCRIBE": "t"}).discovery.zookeeper_connect == "h:1"


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


@pytest.mark.parametrize(
    "name", [option.name for option in STREAM_OPTIONS if not option.name.startswith("kafka.")]
)
def test_an_option_of_streaming_reads_is_refused_by_a_write(name: str) -> None:
    with pytest.raises(OptionError, match=f"^option {name} is for reading, not for a write$"):
        write(**{name: "1"})


def test_an_unknown_option_like_no_other_lists_those_there_are() -> None:
    with pytest.raises(OptionError) as error:
        write(xyzzy="1")
    assert str(error.value).startswith("unknown option xyzzy for a write; known are: kafka.bootstrap.")
    for option in OPTIONS:
        assert (option.name in str(error.value)) == option.write


@pytest.mark.parametrize(
    "option",
    [option for option in OPTIONS if not option.write and not option.name.startswith("kafka.")],
)
def test_a_reads_option_is_refused_by_a_write(option: Any) -> None:
    with pytest.raises(OptionError, match=f"option {option.name} is for reading, not for a write"):
        write(**{option.name: "1"})


@pytest.mark.parametrize(
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
    with pytest.raises(OptionError, match=r"^load\(\) takes no path: topics are options$"):
        read(path="/tmp")
    with pytest.raises(OptionError, match=r"^save\(\) and start\(\) take no path: topics are options$"):
        write(path="/tmp")


@pytest.mark.parametrize(
    "value", [SECRET, f"digest:{SECRET}", f"sasl:u:{SECRET}", f"u:{SECRET}", f"DIGEST:u:{SECRET}", ""]
)
def test_a_bad_credential_is_told_and_never_shown(value: str) -> None:
    with pytest.raises(OptionError, match=r"option zookeeper\.auth") as error:
        read(**{"zookeeper.auth": value})
    assert SECRET not in str(error.value)
    assert SECRET not in repr(error.value)


def test_a_credential_is_in_no_repr() -> None:
    for options in (
        read(**{"zookeeper.auth": f"digest:u:{SECRET}"}),
        write(**{"zookeeper.auth": f"digest:u:{SECRET}"}),
    ):
        assert SECRET not in repr(options)
        assert SECRET not in str(options)


@pytest.mark.parametrize(("given", "path", "expected"), READ_VALUES)
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
