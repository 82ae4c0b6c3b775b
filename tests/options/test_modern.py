"""Options of modern brokers: connections, the properties ``kafka.*``, reads, streams and writes."""

from __future__ import annotations

import logging
import pickle
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import Broker, Generation, TopicPartition
from spark_kafkawire.net.client_rack import ClientRack
from spark_kafkawire.net.retry import Bootstrap, RetryPolicy
from spark_kafkawire.options import (
    COMMITTED,
    EARLIEST,
    LATEST,
    OPTIONS,
    STREAM_OPTIONS,
    DeliveryOptions,
    LimitKind,
    NetOptions,
    OffsetLimit,
    Option,
    ReadOptions,
    StreamLimits,
    StreamOptions,
    TransactionOptions,
    WriteOptions,
    option,
    read_options_of,
)
from spark_kafkawire.options.delivery import LEVEL_OPTIONS, LEVELS
from spark_kafkawire.protocol.modern.limits import (
    ACKS_ALL,
    ACKS_LEADER,
    ACKS_NONE,
    READ_COMMITTED,
    READ_UNCOMMITTED,
)
from spark_kafkawire.records.compression import Format, codec_named
from tests.options.values import attribute
from tests.support.cases import for_each

MODERN: Final = {"kafka.bootstrap.servers": "a:9092"}


def read(**changes: str) -> ReadOptions:
    return ReadOptions.parse({**MODERN, "subscribe": "t", **changes})


def net(**changes: str) -> NetOptions:
    return read(**changes).net


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Warnings of this test; each is given once in a process."""
    option.warn_once.cache_clear()
    caplog.set_level(logging.WARNING, "spark_kafkawire")
    yield caplog
    option.warn_once.cache_clear()


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("a:9092", [("a", 9092)]),
        (" b:2 ,a:1", [("b", 2), ("a", 1)]),
        ("a:1,,a:1,a:2,", [("a", 1), ("a", 2)]),
        ("[::1]:9092", [("::1", 9092)]),
        ("SSL://a.b-c:65535", [("a.b-c", 65535)]),
    ],
)
def test_bootstrap_servers_are_in_order_with_ids_below_0(text: str, addresses: list[tuple[str, int]]) -> None:
    discovery = read(**{"kafka.bootstrap.servers": text}).discovery
    assert discovery.bootstrap_servers == tuple(
        Broker(-number, host, port) for number, (host, port) in enumerate(addresses, 1)
    )


@for_each("text", ["", " , ", "a", "a:", ":1", "a:0", "a:65536", "a:x", "a b:1", "a:1;b:2"])
def test_report_bad_bootstrap_servers(text: str) -> None:
    with pytest.raises(OptionError) as error:
        read(**{"kafka.bootstrap.servers": text})
    form = "of the form host:port,host:port"
    assert str(error.value) == f"option kafka.bootstrap.servers: {text!r} is not {form}"


def test_the_discovery_option_chooses_generation_and_cluster() -> None:
    assert net().connection.generation is Generation.MODERN
    for old in ({"zookeeper.connect": "h:1"}, {"broker.list": "0:h:1"}):
        assert ReadOptions.parse({**old, "subscribe": "t"}).net.connection.generation is Generation.V07
    assert net().connection.bootstrap_servers == (Broker(-1, "a", 9092),)
    assert net().connection.client_id == "spark-kafkawire"


@pytest.mark.parametrize(
    ("option", "given", "place"),
    [
        ("kafka.bootstrap.servers", "b:2, SSL://a:1", "kafka.bootstrap.servers=a:1,b:2"),
        ("zookeeper.connect", "z:2181, y:2181/kafka", "zookeeper.connect=z:2181,y:2181/kafka"),
        ("broker.list", "1:a:1,0:b:2", "broker.list=0:b:2,1:a:1"),
    ],
)
def test_a_place_does_not_depend_on_the_order_of_brokers(option: str, given: str, place: str) -> None:
    assert ReadOptions.parse({option: given, "subscribe": "t"}).discovery.place == place


MODERN_VALUES: Final[list[tuple[str, str, str, Any]]] = [
    ("kafka.bootstrap.servers", "b:1", "discovery.bootstrap_servers", (Broker(-1, "b", 1),)),
    ("kafka.client.id", "me", "net.connection.client_id", "me"),
    ("clientRack", " use1-az1 ", "fetch.rack", ClientRack("text", "use1-az1")),
    ("clientRack", "env:NODE_ZONE", "fetch.rack", ClientRack("env", "NODE_ZONE")),
    ("clientRack", "aws", "fetch.rack", ClientRack("aws")),
    ("clientRack", "gcp", "fetch.rack", ClientRack("gcp")),
    ("kafka.client.rack", "aws", "fetch.rack", ClientRack("text", "aws")),
    ("kafka.client.rack", "", "fetch.rack", None),
    ("kafka.request.timeout.ms", "40000", "net.request_timeout_s", 40.0),
    ("kafka.retries", "5", "net.retry.retries", 5),
    ("kafka.retries", "2147483647", "net.retry.retries", 1000),
    ("kafka.retry.backoff.ms", "250", "net.retry.backoff_s", 0.25),
    ("kafka.metadata.recovery.strategy", "REBOOTSTRAP", "net.rebootstrap_after_s", 300.0),
    ("kafka.metadata.recovery.strategy", "none", "net.rebootstrap_after_s", None),
    ("kafka.metadata.recovery.rebootstrap.trigger.ms", "0", "net.rebootstrap_after_s", 0.0),
]


@pytest.mark.parametrize(("name", "value", "path", "expected"), MODERN_VALUES)
def test_a_property_of_kafkas_clients_is_parsed(name: str, value: str, path: str, expected: object) -> None:
    assert attribute(read(**{name: value}), path) == expected


@pytest.mark.parametrize(
    ("text", "release"), [("0.8", "0.8"), ("0.8.2.2", "0.8"), (" 0.9.0 ", "0.9"), ("0.9.0.1", "0.9")]
)
def test_take_the_release_of_brokers_from_the_user_without_a_request(text: str, release: str) -> None:
    said = {"kafka.api.version.request": "false", "kafka.broker.version.fallback": text}
    assert net(**said).connection.assumed_release == release
    assert WriteOptions.parse({**MODERN, **said}).net.connection.assumed_release == release
    assert net().connection.assumed_release is None


@for_each("text", ["0.10.0", "0.7.2", "1.0", "0.9.x", "0.9.", "0.90", "0.9.0.1.1", "\u0660.9", ""])
def test_refuse_an_unknown_release_or_one_that_brokers_report_in_one_line(text: str) -> None:
    for asks in ("true", "false"):
        with pytest.raises(
            OptionError, match=r"^option kafka\.broker\.version\.fallback: .* is not 0\.8 or 0\.9"
        ):
            read(**{"kafka.api.version.request": asks, "kafka.broker.version.fallback": text})


def test_a_release_alone_means_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert net(**{"kafka.broker.version.fallback": "0.9.0"}).connection.assumed_release is None
    assert caplog.messages == [
        "option kafka.broker.version.fallback has no effect unless kafka.api.version.request=false, because "
        "brokers report their versions themselves"
    ]


@for_each("option", [item for item in OPTIONS if item.generation is not None], ids=lambda option: option.name)
def test_an_option_of_one_generation_means_nothing_to_the_other(option: Option[Any]) -> None:
    side, own = (ReadOptions, {"subscribe": "t"}) if option.sides.read else (WriteOptions, {})
    is_modern = option.generation is Generation.MODERN
    base, other = (
        ({"zookeeper.connect": "h:1"}, "0.7, which zoo") if is_modern else (MODERN, "0.8+, which kafka")
    )
    told = f"option {option.name} does not apply to Kafka {other}"
    if option.name in ("kafka.bootstrap.servers", "zookeeper.connect", "broker.list"):
        told = "set exactly one of the options kafka.bootstrap.servers"
    with pytest.raises(OptionError) as error:
        side.parse({**base, **own, option.name: "1"})
    assert str(error.value).startswith(told)


def test_an_unknown_property_is_logged_once_without_its_value(warnings: pytest.LogCaptureFixture) -> None:
    read(**{"kafka.security.protcol": "SSL"})
    assert [line.partition("; ")[2] for line in warnings.messages] == [
        "did you mean kafka.security.protocol?"
    ]
    with pytest.raises(OptionError, match=r"none is set; did you mean kafka\.bootstrap\.servers\?$"):
        ReadOptions.parse({"kafka.bootstrap.server": "127.0.0.1:1", "subscribe": "t"})
    warnings.clear()
    for _ in range(3):
        assert read(**{"kafka.Metric.Reporters": "s3cret", "kafka.linger": "1"}) == read()
    assert warnings.messages == [
        "option kafka.Metric.Reporters has no effect in kafkawire and is ignored",
        "option kafka.linger has no effect in kafkawire and is ignored",
    ]


def test_properties_that_a_read_does_not_take_are_refused_with_advice() -> None:
    with pytest.raises(OptionError, match=r"^option kafka\.linger does not apply to Kafka 0\.7, which zoo"):
        ReadOptions.parse({"zookeeper.connect": "h:1", "subscribe": "t", "kafka.linger": "1"})
    with pytest.raises(OptionError, match="startingOffsets says where a query starts") as error:
        read(**{"kafka.auto.offset.reset": "earliest"})
    assert "latest" not in str(error.value)  # a batch cannot start there
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers and zookeeper\.connect are set$"):
        read(**{"zookeeper.connect": "h:1"})
    with pytest.raises(OptionError, match=r"^option kafka\.api\.version\.request: false needs kafka\.broker"):
        read(**{"kafka.api.version.request": "false"})


_REFUSED_BY_READS: Final = (
    "kafka.auto.offset.reset",
    "KAFKA.Auto.Offset.Reset",
    "kafka.key.deserializer",
    "kafka.value.deserializer",
    "kafka.enable.auto.commit",
    "kafka.interceptor.classes",
    "kafka.transactional.id",
)
_REFUSED_BY_WRITES: Final = ("kafka.key.serializer", "kafka.value.serializer", "kafka.interceptor.classes")


@for_each(
    ("side", "name"),
    [
        *((ReadOptions, name) for name in _REFUSED_BY_READS),
        *((WriteOptions, name) for name in _REFUSED_BY_WRITES),
    ],
)
def test_what_spark_refuses_is_refused_with_advice(side: type[ReadOptions | WriteOptions], name: str) -> None:
    with pytest.raises(OptionError) as error:
        side.parse({**MODERN, name: "s3cret"})
    assert str(error.value).startswith(f"option {name} is not supported: ")
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    ("side", "name"),
    [
        (ReadOptions, "kafka.key.serializer"),
        (ReadOptions, "kafka.value.serializer"),
        (WriteOptions, "kafka.auto.offset.reset"),
        (WriteOptions, "kafka.enable.auto.commit"),
        (WriteOptions, "kafka.key.deserializer"),
    ],
)
def test_what_spark_refuses_on_the_other_side_only_is_passed_over(
    side: type[ReadOptions | WriteOptions], name: str, warnings: pytest.LogCaptureFixture
) -> None:
    selection = {"subscribe": "t"} if side is ReadOptions else {}
    side.parse({**MODERN, **selection, name: "s3cret"})
    assert warnings.messages == [f"option {name} has no effect in kafkawire and is ignored"]


# --- Options of a modern read, and their values ---


def parse(**options: str) -> ReadOptions:
    given = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t", **options}
    return ReadOptions.parse({name.replace("__", "."): value for name, value in given.items() if value})


def test_defaults_are_those_of_sparks_connector_and_kafkas_consumer() -> None:
    options = parse()
    assert (options.starting.for_all, options.ending.for_all) == (EARLIEST, LATEST)
    assert options.fetch.isolation_level == READ_UNCOMMITTED
    assert options.fetch.fail_on_data_loss
    assert (options.fetch.retry_timeout_s, options.fetch.wait_ms) == (120.0, 500)
    assert (options.min_partitions, options.partition_size_max, options.group_id) == (None, None, None)
    assert not options.include_headers
    assert options.planning_retry == options.net.retry
    assert options.net.retry == RetryPolicy(3, 0.1, 60.0, Bootstrap("kafka.bootstrap.servers=h:9092", 20.0))


@for_each(
    ("given", "name", "expected"),
    [
        ({"kafka__isolation__level": "READ_COMMITTED"}, "fetch.isolation_level", READ_COMMITTED),
        ({"kafkaConsumer.pollTimeoutMs": "512"}, "fetch.retry_timeout_s", 0.512),
        ({"kafka__fetch__max__wait__ms": "20"}, "fetch.wait_ms", 20),
        # A broker that waited for longer than the client would be taken for a silent one.
        ({"requestTimeout": "200ms"}, "fetch.wait_ms", 100),
        ({}, "fetch.fetch_bytes", 12 << 20),
        ({"kafka__max__partition__fetch__bytes": "1048576"}, "fetch.fetch_bytes", 1 << 20),
        ({"fetchBytes": "1m"}, "fetch.fetch_bytes", 1 << 20),
        ({"kafka__max__partition__fetch__bytes": "0"}, "fetch.fetch_bytes", 1 << 10),
        ({"maxRecordsPerPartition": str(2**63 - 1)}, "partition_size_max", 2**63 - 1),
        ({"includeHeaders": "TRUE"}, "include_headers", True),
        ({"kafka__group__id": "g"}, "group_id", "g"),
        ({"fetchOffset.numRetries": "7"}, "planning_retry.known", RetryPolicy(7, 0.1, 60.0)),
        ({"fetchOffset.retryIntervalMs": "1000"}, "planning_retry.known", RetryPolicy(3, 1.0, 60.0)),
        ({"retries": "9"}, "planning_retry.known", RetryPolicy(9, 0.1)),
        ({"startingOffsets": "Committed"}, "starting.for_all", COMMITTED),
        ({"startingOffsetsFromEnd": " 9 "}, "starting.for_all", OffsetLimit(LimitKind.FROM_END, 9)),
        (
            {"startingOffsetsFromEnd": '{"t":{"1":0}}'},
            "starting.by_partition",
            {TopicPartition("t", 1): OffsetLimit(LimitKind.FROM_END, 0)},
        ),
        ({"groupIdPrefix": "mine"}, "group_id", None),
        (
            {"subscribe": "", "assign": '{"b":[1],"a":[2,0,2]}'},
            "selection.assign",
            (TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)),
        ),
        (
            {"startingOffsets": '{"t":{"0":23,"1":-2}}'},
            "starting.by_partition",
            {TopicPartition("t", 0): OffsetLimit(LimitKind.OFFSET, 23), TopicPartition("t", 1): EARLIEST},
        ),
    ],
)
def test_each_option_becomes_its_value(given: dict[str, str], name: str, expected: Any) -> None:
    assert attribute(parse(**given), name) == expected


@for_each(
    ("given", "message"),
    [
        ({"assign": '{"t":[true]}', "subscribe": ""}, 'is not of the form {"topicA":[0,1],"topicB":[0,1]}'),
        ({"assign": '{"t":[-1]}', "subscribe": ""}, "is not of the form"),
        ({"assign": '{"":[1]}', "subscribe": ""}, "is not of the form"),
        ({"startingOffsets": '{"t":{"zero":1}}'}, 'is not of the form earliest or {"t":{"0":123}}'),
        ({"startingOffsets": '{"t":{"0":"1"}}'}, "is not of the form"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "starting offset for t 0 can't be negative (-3)"),
        ({"endingOffsets": "committed"}, "is not of the form latest or"),
        ({"startingOffsetsByTimestamp": '{"t":{"0":-5}}'}, "the timestamp of t 0 is -5"),
        ({"startingOffsetsFromEnd": "-5"}, "'-5' is not a whole number from 0"),
        ({"startingOffsetsFromEnd": '{"t":{"0":-5}}'}, "-5 for t 0 is negative"),
        ({"startingOffsetsFromEnd": '{"t":{"0":1.5}}'}, 'is not of the form 1000 or {"t":{"0":100}}'),
        (
            {"startingTimestamp": "9", "endingTimestamp": "8"},
            "startingTimestamp: 9 is after endingTimestamp=8",
        ),
        ({"kafka__group__id": " "}, "option kafka.group.id: ' ' is not the name of a consumer group"),
        ({"fetchBytes": "4m", "kafka__max__partition__fetch__bytes": "1"}, "name the same setting"),
        ({"fetchesInFlight": "2"}, "option fetchesInFlight does not apply to Kafka 0.8+"),
        *(
            ({f"kafka.{name}": "soon"}, f"option kafka.{name}: 'soon' is not ")
            for name in ("request.timeout.ms", "retries", "retry.backoff.ms")
        ),
        (
            {
                "kafka.api.version.request": "false",
                "kafka.broker.version.fallback": "0.9.0",
                "kafka.security.protocol": "SASL_PLAINTEXT",
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.jaas.config": "PlainLoginModule required username='a' password='b';",
            },
            "no login but Kerberos",
        ),
    ],
)
def test_report_a_bad_value(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse(**given)
    assert message in str(caught.value)


# --- Options of a stream: all of a batch read's but its end, the limits of a batch, and what is refused ---

STREAM_MODERN = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
V07 = {"broker.list": "0:h:1", "subscribe": "t"}
V07_GROUP = {"zookeeper.connect": "h:1", "subscribe": "t", "kafka.group.id": "etl"}


def stream(given: dict[str, str], base: dict[str, str] = STREAM_MODERN) -> StreamOptions:
    return StreamOptions.parse({**base, **given})


def test_a_stream_starts_at_the_latest_offsets_by_default() -> None:
    assert stream({}).read.starting.for_all == LATEST
    assert stream({}, V07).read.starting.for_all == LATEST
    assert ReadOptions.parse(STREAM_MODERN).starting.for_all == EARLIEST
    assert stream({"startingOffsets": "earliest"}).read.starting.for_all == EARLIEST
    assert stream({"startingOffsets": " Latest"}).read.starting.for_all == LATEST
    assert stream({"startingOffsets": "committed"}).read.starting.for_all == COMMITTED
    assert stream({"startingTimestamp": "5"}).read.starting.for_all == OffsetLimit(LimitKind.TIMESTAMP, 5)
    given = stream({"startingOffsets": '{"t":{"0":-1,"1":-2,"2":7}}'}).read.starting.by_partition
    assert [given[TopicPartition("t", number)] for number in range(3)] == [
        LATEST,
        EARLIEST,
        OffsetLimit(LimitKind.OFFSET, 7),
    ]


@pytest.mark.parametrize(
    ("given", "base", "limits"),
    [
        ({}, STREAM_MODERN, StreamLimits(None, None, 900.0)),
        ({"maxOffsetsPerTrigger": "9223372036854775807"}, STREAM_MODERN, StreamLimits((1 << 63) - 1)),
        (
            {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "5", "maxTriggerDelay": "10s"},
            STREAM_MODERN,
            StreamLimits(5, 5, 10.0),
        ),
        *(
            ({"MAXBYTESPERTRIGGER": "1g"}, base, StreamLimits(bytes_max=1 << 30))
            for base in (V07, STREAM_MODERN)
        ),
        ({"queryTrigger": "processingTime"}, V07, StreamLimits(knows_trigger=True)),
        ({"maxTriggerDelay": "1d"}, STREAM_MODERN, StreamLimits(delay_max_s=86_400.0)),
        ({"maxTriggerDelay": "30d"}, STREAM_MODERN, StreamLimits(delay_max_s=30 * 86_400.0)),
        ({"maxTriggerDelay": "7us"}, STREAM_MODERN, StreamLimits(delay_max_s=7e-6)),
    ],
)
def test_batch_limits_are_parsed(given: dict[str, str], base: dict[str, str], limits: StreamLimits) -> None:
    assert stream(given, base).limits == limits


@for_each(
    ("given", "base", "reported"),
    [
        *(({name: value}, STREAM_MODERN, f"option {name}: {kind} moves when the query starts again")
          for name, value, kind in (
            ("endingOffsets", "latest", "latest"), ("endingOffsets", '{"t":{"0":-2}}', "earliest"),
            ("endingTimestamp", "-1", "latest"), ("endingTimestamp", "-1 h", "a time before now"))),
        ({"endingOffsets": "5"}, V07, "option endingOffsets: '5' is not of the form {\"t\":{\"0-1\":123}}"),
        ({"startingTimestamp": "6", "endingTimestamp": "5"}, V07, "6 is after endingTimestamp=5"),
        ({"startingOffsetsFromEnd": "5"}, V07, "option startingOffsetsFromEnd does not apply to Kafka 0.7"),
        ({"startingOffsetsFromEnd": "5", "startingTimestamp": "5"}, STREAM_MODERN,
         "options startingOffsetsFromEnd and startingTimestamp both set the start; set one of them"),
        ({"fs.region": "eu"}, STREAM_MODERN, "option fs.region is for log directories, and a stream reads"),
        ({"maxOffsetsPerTrigger": "0"}, STREAM_MODERN,
         "option maxOffsetsPerTrigger: '0' is not a whole number from 1"),
        ({"maxOffsetsPerTrigger": "-5"}, STREAM_MODERN, "option maxOffsetsPerTrigger: '-5' is not"),
        ({"minOffsetsPerTrigger": "many"}, STREAM_MODERN, "option minOffsetsPerTrigger: 'many' is not"),
        ({"maxTriggerDelay": "0s"}, STREAM_MODERN, "option maxTriggerDelay: '0s' is not a time above zero"),
        ({"maxTriggerDelay": "1 week"}, STREAM_MODERN,
         "option maxTriggerDelay: '1 week' is not a time above zero"),
        ({"minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"}, STREAM_MODERN,
         "option minOffsetsPerTrigger: 6 is more than maxOffsetsPerTrigger=5"),
        ({"queryTrigger": "once"}, STREAM_MODERN,
         "option queryTrigger: 'once' is not unknown or processingtime"),
        ({"maxBytesPerTrigger": "0"}, V07, "option maxBytesPerTrigger: '0' is not a size from 1"),
        ({"maxOffsetsPerTrigger": "5"}, V07, "option maxOffsetsPerTrigger does not apply to Kafka 0.7"),
        ({"minOffsetsPerTrigger": "5"}, V07, "option minOffsetsPerTrigger does not apply to Kafka 0.7"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, STREAM_MODERN,
         "starting offset for t 0 can't be negative (-3); give"),
        ({"startingOffsets": "newest"}, STREAM_MODERN, "option startingOffsets: 'newest' is not of the form"),
        ({"maxOffsetPerTrigger": "5"}, STREAM_MODERN,
         "unknown option maxOffsetPerTrigger for a stream; did you mean "),
        *(({"startingOffsets": word}, STREAM_MODERN, f"; did you mean {meant}?") for word, meant in (
            ("beginning", "earliest"), ("END", "latest"), ("largest", "latest"), ("commited", "committed"))),
        ({"commitOffsets": "true"}, STREAM_MODERN,
         "commitOffsets needs kafka.group.id, which is not set: set it to the group"),
        ({"commitOffsets": "true", "kafka.group.id": " "}, STREAM_MODERN,
         "option kafka.group.id: ' ' is not the name of a consumer group"),
        ({"commitOffsets": "yes"}, STREAM_MODERN, "option commitOffsets: 'yes' is not true or false"),
        ({"commitOffsets": "true", "kafka.group.id": "etl"}, V07,
         "commitOffsets: 0.7 keeps groups in ZooKeeper; set zookeeper.connect"),
        ({"commitOffsets": "true", "kafka.group.id": "a/b"}, V07_GROUP,
         "option kafka.group.id: 'a/b' is not the name of a node"),
        ({"commitOffsets": "true", "kafka.group.id": ".."}, V07_GROUP,
         "option kafka.group.id: '..' is not the name of a node"),
    ],
)  # fmt: skip
def test_report_what_a_stream_refuses(given: dict[str, str], base: dict[str, str], reported: str) -> None:
    with pytest.raises(OptionError, match=re.escape(reported)) as error:
        stream(given, base)
    assert str(error.value).isprintable()


def test_a_group_follows_a_stream_of_either_generation_if_it_is_set() -> None:
    assert not stream({"kafka.group.id": "etl"}).commits_offsets
    assert stream({"kafka.group.id": "etl", "commitOffsets": "TRUE"}).commits_offsets
    of_07 = stream({"commitOffsets": "true"}, V07_GROUP)
    assert (of_07.commits_offsets, of_07.read.group_id) == (True, "etl")
    assert stream({}, V07_GROUP).read.group_id == "etl"
    assert read_options_of(V07_GROUP).group_id == "etl"
    with pytest.raises(OptionError, match=r"option kafka\.group\.id does not apply to Kafka 0\.7"):
        ReadOptions.parse(V07_GROUP)


def test_a_broker_that_is_away_for_a_minute_is_waited_for() -> None:
    assert stream({}).read.net.retry.retry_timeout_s == stream({}).read.planning_retry.retry_timeout_s == 120
    assert stream({"brokerDownTimeout": "5s"}).read.net.retry.retry_timeout_s == 5
    assert stream({"retries": "1"}).read.net.retry.retry_timeout_s == 0
    assert ReadOptions.parse(STREAM_MODERN).net.retry.retry_timeout_s == 60


def test_every_option_of_a_batch_read_is_taken_or_refused_as_such() -> None:
    of_directories = {"path", "paths", "brokers", "fs.endpoint", "fs.region"}
    assert {option.name for option in OPTIONS if not option.sides.stream} == of_directories
    assert all(option.sides.read and not option.sides.write for option in STREAM_OPTIONS)


def test_batch_reads_pass_over_the_limits_of_streams(caplog: pytest.LogCaptureFixture) -> None:
    option.warn_once.cache_clear()  # each is logged once in a process
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        ReadOptions.parse({**STREAM_MODERN, "maxoffsetspertrigger": "1", "maxTriggerDelay": "1"})
    assert [record.getMessage() for record in caplog.records] == [
        f"option {name} is for readStream and has no effect in a batch read"
        for name in ("maxOffsetsPerTrigger", "maxTriggerDelay")
    ]


def test_a_load_that_may_be_of_either_is_checked_when_it_begins(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert read_options_of({**STREAM_MODERN, "startingOffsets": "latest"}).starting.for_all == LATEST
        assert read_options_of(
            {**STREAM_MODERN, "endingOffsets": "latest", "includeHeaders": "true"}
        ).include_headers
        read_options_of({**STREAM_MODERN, "maxOffsetsPerTrigger": "5"})
    assert not caplog.records
    for given, reported in [
        ({"includeHeaders": "maybe"}, "option includeHeaders: 'maybe'"),
        ({"maxOffsetsPerTrigger": "x"}, "option maxOffsetsPerTrigger: 'x'"),
        ({"endingOffsets": "earliest"}, "option endingOffsets: 'earliest'"),
    ]:
        with pytest.raises(OptionError, match=reported):
            read_options_of({**STREAM_MODERN, **given})


# --- Options of a write to brokers of Kafka 0.8 and later: Java's producer reads them so ---

SERVERS: Final = {"kafka.bootstrap.servers": "a:9092"}
IDEMPOTENCE: Final = "kafka.enable.idempotence"
IN_FLIGHT: Final = "kafka.max.in.flight.requests.per.connection"
ADAPTIVE: Final = "kafka.partitioner.adaptive.partitioning.enable"
AVAILABILITY: Final = "kafka.partitioner.availability.timeout.ms"
RACK_AWARE: Final = "kafka.partitioner.rack.aware"


def write(**changes: str) -> WriteOptions:
    return WriteOptions.parse({**SERVERS, **changes})


def test_a_write_has_javas_defaults_except_for_requests_that_event_hubs_takes() -> None:
    options = write()
    assert (options.acks, options.compression, options.compression_level) == ("all", "none", None)
    assert (options.topic, options.partitioner) == (None, "murmur2")
    assert (options.batch_bytes, options.message_size_max) == (1_000_000, 1 << 20)
    assert options.delivery == DeliveryOptions(
        acks=ACKS_ALL,
        idempotent=True,
        insists_on_idempotence=False,
        requests_in_flight=5,
        request_bytes_max=1_000_000,
        buffer_bytes=32 << 20,
        retry=RetryPolicy(2**31 - 1, 0.1),
        timeout_s=120.0,
        metadata_timeout_s=60.0,
        adapts=True,
        available_s=None,
    )


VALUES: Final[list[tuple[str, str, str, Any]]] = [
    ("partitioner", "consistent", "partitioner", "consistent"),
    ("partitioner", "consistent_random", "partitioner", "consistent_random"),
    ("partitioner", "roundrobin", "partitioner", "roundrobin"),
    ("partitioner", "sticky", "partitioner", "sticky"),
    ("kafka.partitioner.ignore.keys", "false", "partitioner", "murmur2"),
    ("kafka.partitioner.ignore.keys", "TRUE", "partitioner", "sticky"),
    ("kafka.partitioner.class", "org.apache.kafka.clients.producer.RoundRobinPartitioner", "partitioner",
     "roundrobin"),
    ("kafka.partitioner.class", "org.apache.kafka.clients.producer.internals.DefaultPartitioner",
     "partitioner", "murmur2"),
    ("kafka.partitioner.class", "org.apache.kafka.clients.producer.UniformStickyPartitioner", "partitioner",
     "sticky"),
    ("compression", "lz4", "compression", "lz4"),
    ("kafka.compression.type", "ZSTD", "compression", "zstd"),
    ("kafka.compression.type", "GZIP", "compression", "gzip"),
    ("kafka.acks", "ALL", "delivery.acks", ACKS_ALL),
    ("acks", "0", "delivery.acks", ACKS_NONE),
    ("kafka.acks", "1", "delivery.acks", ACKS_LEADER),
    ("kafka.acks", "-1", "delivery.acks", ACKS_ALL),
    ("kafka.acks", "-1", "acks", "all"),
    ("batchBytes", "64KiB", "batch_bytes", 1 << 16),
    ("kafka.batch.size", "16384", "batch_bytes", 16384),
    ("kafka.batch.size", "0", "batch_bytes", 1),
    ("kafka.batch.size", "2097152", "batch_bytes", 1_000_000),
    (IDEMPOTENCE, "false", "delivery.idempotent", False),
    (IDEMPOTENCE, "false", "delivery.insists_on_idempotence", False),
    (IDEMPOTENCE, "true", "delivery.insists_on_idempotence", True),
    ("kafka.max.request.size", "2097152", "delivery.request_bytes_max", 2 << 20),
    ("kafka.max.request.size", "2097152", "message_size_max", 2 << 20),
    ("kafka.buffer.memory", "1000", "delivery.buffer_bytes", 1000),
    (IN_FLIGHT, "1", "delivery.requests_in_flight", 1),
    ("kafka.delivery.timeout.ms", "50000", "delivery.timeout_s", 50.0),
    ("createTopic", "TRUE", "delivery.creates_topics", True),
    ("kafka.max.block.ms", "250", "delivery.metadata_timeout_s", 0.25),
    ("kafka.delivery.timeout.ms", "2147483647", "delivery.timeout_s", 86_400.0),
    ("kafka.max.block.ms", "9223372036854775807", "delivery.metadata_timeout_s", 86_400.0),
    ("kafka.request.timeout.ms", "2147483647", "net.request_timeout_s", 86_400.0),
    ("kafka.buffer.memory", "4294967296", "delivery.buffer_bytes", 1 << 30),
    ("kafka.max.request.size", "2147483647", "delivery.request_bytes_max", 1 << 30),
    ("kafka.linger.ms", "5", "acks", "all"),
    (ADAPTIVE, "FALSE", "delivery.adapts", False),
    (ADAPTIVE, "true", "delivery.adapts", True),
    ("partitionerSeed", "1", "delivery.adapts", False),
    (RACK_AWARE, "false", "delivery.rack", None),
    (AVAILABILITY, "0", "delivery.available_s", None),
    (AVAILABILITY, "1500", "delivery.available_s", 1.5),
    (AVAILABILITY, "9223372036854775807", "delivery.available_s", 86_400.0),
    ("includeHeaders", "true", "acks", "all"),
    ("retries", "7", "delivery.retry", RetryPolicy(7, 0.1)),
    ("kafka.retries", "7", "delivery.retry", RetryPolicy(7, 0.1)),
]  # fmt: skip


@for_each(("name", "value", "path", "expected"), VALUES)
def test_a_value_is_parsed(name: str, value: str, path: str, expected: object) -> None:
    options = write(**{name: value})
    assert attribute(options, path) == expected
    assert pickle.loads(pickle.dumps(options)) == options


def test_every_option_of_a_modern_write_has_a_value_here() -> None:
    tried = {name for name, *_ in VALUES}
    own = {item.name for item in OPTIONS if not item.sides.read and item.generation is Generation.MODERN}
    # Those of transactions go together, and are tried below.
    of_transactions = {"delivery", "batch", "kafka.transactional.id", "kafka.transaction.timeout.ms"}
    of_transactions |= {"twoPhaseCommit"}
    numbers = {"topicPartitions": "6", "topicReplicationFactor": "3"}
    created = write(createTopic="true", **numbers).delivery
    assert (created.topic_partitions, created.topic_replicas) == (6, 3)
    assert (
        own - tried == {option.name for option in LEVEL_OPTIONS.values()} | of_transactions | numbers.keys()
    )


@pytest.mark.parametrize("codec", LEVELS)
def test_a_level_is_for_the_codec_that_has_it(codec: str) -> None:
    lowest, highest = LEVELS[codec]
    for name in ("compressionLevel", f"kafka.compression.{codec}.level"):
        for level in (lowest, highest):
            options = write(compression=codec, **{name: str(level)})
            assert options.compression_level == level
            compress = codec_named(codec, Format.MAGIC_2)
            assert compress
            assert len(compress.compress(b"text" * 1000, level)) < 1000
        with pytest.raises(OptionError, match=f"^option {name}: '{highest + 1}' is not a whole number"):
            write(compression=codec, **{name: str(highest + 1)})


def test_the_level_of_another_codec_means_nothing() -> None:
    options = write(compression="gzip", **{"kafka.compression.zstd.level": "3"})
    assert options.compression_level is None


@pytest.mark.parametrize(
    ("changes", "needs"),
    [
        ({"acks": "1"}, "acks=all"),
        ({"kafka.acks": "0"}, "acks=all"),
        ({IN_FLIGHT: "6"}, f"{IN_FLIGHT} of at most 5 (it is 6)"),
        ({"retries": "0"}, "retries above 0"),
        ({"acks": "1", "retries": "0"}, "acks=all and retries above 0"),
    ],
)
def test_what_excludes_idempotence_ends_it_or_contradicts_it(changes: dict[str, str], needs: str) -> None:
    assert not write(**changes).delivery.idempotent
    assert not write(**changes, **{IDEMPOTENCE: "false"}).delivery.idempotent
    with pytest.raises(OptionError) as error:
        write(**changes, **{IDEMPOTENCE: "true"})
    assert (
        str(error.value) == f"option {IDEMPOTENCE}: true needs {needs}; set it so, or leave {IDEMPOTENCE} out"
    )


@for_each(
    ("name", "value"),
    [
        ("acks", "verify"),
        ("acks", "2"),
        ("kafka.acks", ""),
        ("compression", "brotli"),
        ("kafka.compression.type", "gzip1"),
        ("partitioner", "random"),
        ("kafka.partitioner.class", "com.example.Mine"),
        ("kafka.partitioner.ignore.keys", "maybe"),
        ("batchBytes", "much"),
        ("kafka.batch.size", "-1"),
        (IDEMPOTENCE, "maybe"),
        ("kafka.max.request.size", "0"),
        ("kafka.buffer.memory", "0"),
        (IN_FLIGHT, "0"),
        ("kafka.delivery.timeout.ms", "0"),
        ("kafka.max.block.ms", "-1"),
        *(("createTopic", "yes"), ("topicPartitions", "0"), ("topicReplicationFactor", "32768")),
        ("kafka.linger.ms", "x"),
        (ADAPTIVE, "yes"),
        (ADAPTIVE, ""),
        (RACK_AWARE, "near"),
        (AVAILABILITY, "-1"),
        (AVAILABILITY, "soon"),
        ("includeHeaders", "maybe"),
    ],
)
def test_report_a_bad_value_of_a_write(name: str, value: str) -> None:
    with pytest.raises(OptionError) as error:
        write(**{name: value})
    assert str(error.value).startswith(f"option {name}: {value!r} is ")
    assert "\n" not in str(error.value)


def test_a_batch_has_the_time_of_one_request() -> None:
    assert write(**{"kafka.delivery.timeout.ms": "5000", "requestTimeout": "5s"}).delivery.timeout_s == 5.0
    assert write(requestTimeout="10m").delivery.timeout_s == 600.0


ONCE: Final = {"delivery": "exactly-once"}
NAMED: Final = {"kafka.transactional.id": "a"}
#: Options of this package, and those of Kafka that are the same.
TWO_NAMES: Final = {
    "acks": "kafka.acks",
    "compression": "kafka.compression.type",
    "batchBytes": "kafka.batch.size",
    "partitioner": "kafka.partitioner.class",
    "compressionLevel": "kafka.compression.gzip.level",
    "requestTimeout": "kafka.request.timeout.ms",
    "retries": "kafka.retries",
    "retryBackoff": "kafka.retry.backoff.ms",
}


def test_a_write_that_is_to_be_there_once_has_a_name_of_its_own_or_a_given_one() -> None:
    made = [write(**ONCE).transactions for _ in range(2)]
    assert all(item is not None and not item.is_named and item.batch == "" for item in made)
    assert made[0] != made[1]
    given = write(
        **ONCE, **{"kafka.transactional.id": " a ", "batch": "7", "kafka.transaction.timeout.ms": "5000"}
    )
    assert given.transactions == TransactionOptions("a", is_named=True, batch="7", timeout_ms=5000)
    in_two_phases = write(**ONCE, **{"kafka.transactional.id": "a"}, twoPhaseCommit="true")
    assert in_two_phases.transactions == TransactionOptions("a", is_named=True, two_phase_commit=True)
    assert write().transactions is None
    assert write(delivery="at-least-once").transactions is None


@for_each(
    ("changes", "message"),
    [
        ({"kafka.transactional.id": "a"},
         "option kafka.transactional.id is for transactions: set delivery=exactly-"),
        ({"batch": "a"}, "option batch is for transactions: set delivery=exactly-once too"),
        ({**ONCE, "batch": "a"},
         "option batch distinguishes writes of one kafka.transactional.id, which is not set"),
        ({**ONCE, "acks": "1"},
         "option delivery: exactly-once needs what idempotent writes do: leave acks, "),
        ({**ONCE, "kafka.transactional.id": " "},
         "option kafka.transactional.id: '' is not a name: set one of 1 to 120"),
        ({**ONCE, "kafka.transactional.id": "a" * 121},
         " is not a name: set one of 1 to 120 ASCII characters"),
        ({**ONCE, "kafka.transactional.id": "\u00e9"}, "'\u00e9' is not a name"),
        ({**ONCE, "kafka.transaction.timeout.ms": "1"}, "option kafka.transaction.timeout.ms"),
        ({"twoPhaseCommit": "true"}, "option twoPhaseCommit is for transactions: set delivery=exactly-once "),
        ({**ONCE, "twoPhaseCommit": "true"},
         "only its next run with the same name does: set kafka.transactional.id too"),
        ({**ONCE, **NAMED, "twoPhaseCommit": "true", "kafka.transaction.timeout.ms": "5000"},
         "option kafka.transaction.timeout.ms: with twoPhaseCommit no timeout ends a transaction; leave"),
        ({**ONCE, **NAMED, "twoPhaseCommit": "yes"}, "option twoPhaseCommit: 'yes' is not true or false"),
        ({"delivery": "once"}, "option delivery: 'once' is not at-least-once or exactly-once"),
        ({"kafka.delivery.timeout.ms": "5000"},
         "option kafka.delivery.timeout.ms: 5 s is less than the 30 s of requestTimeout, the time in which a "
         "broker may answer; raise the one, or lower the other"),
        ({ADAPTIVE: "true", "partitionerSeed": "1"}, "partitionerSeed makes them the same"),
        ({RACK_AWARE: "true"}, f"option {RACK_AWARE}=true needs the rack of the executors: set clientRack"),
        ({RACK_AWARE: "true", "kafka.client.rack": ""}, f"option {RACK_AWARE}=true needs the rack"),
        ({RACK_AWARE: "true", "clientRack": "a", "partitionerSeed": "1"}, "partitionerSeed makes them the"),
        ({"kafka.client.rack": "a", "clientRack": "a"},
         "options clientRack and kafka.client.rack name the same setting"),
        *(({"compression": codec, "compressionLevel": "1"},
           f"option compressionLevel is not for compression={codec}") for codec in ("none", "snappy")),
        *(({"compression": "gzip", name: "1", kafkas: "1"},
           f"options {name} and {kafkas} name the same setting") for name, kafkas in TWO_NAMES.items()),
    ],
)  # fmt: skip
def test_options_of_a_write_that_conflict_are_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as error:
        write(**changes)
    assert message in str(error.value)


def test_a_rack_is_of_the_partitioner_where_that_is_aware_of_it() -> None:
    assert write(clientRack="a").delivery.rack is None
    assert write(clientRack="env:A", **{RACK_AWARE: "true"}).delivery.rack == ClientRack("env", "A")


@for_each(
    ("changes", "message"),
    [
        ({"clientRack": ""}, "option clientRack: '' is not the rack of the executors, env:NAME, aws or gcp"),
        ({"clientRack": "env:"}, "option clientRack: 'env:' is not the rack of the executors"),
        ({"clientRack": "env:A-B"}, "option clientRack: 'env:A-B' is not the rack of the executors"),
        ({"clientRack": "a\nb"}, "is not the rack of the executors"),
        ({"clientRack": "a", "kafka.client.rack": "a"}, "name the same setting; set one of them"),
        ({"clientRack": "a", "packSmallPartitions": "true"},
         "option packSmallPartitions=true packs ranges of one leader, and clientRack reads from other repli"),
        ({"clientRack": "a", "broker.list": "0:h:1", "kafka.bootstrap.servers": ""},
         "option clientRack does not apply to Kafka 0.7"),
        ({"clientRack": "a", "path": "/logs", "kafka.bootstrap.servers": ""},
         "options path and clientRack are both set: a path is read without brokers"),
    ],
)  # fmt: skip
def test_a_rack_that_nothing_can_serve_is_refused(changes: dict[str, str], message: str) -> None:
    given = {**MODERN, "subscribe": "t", **changes}
    with pytest.raises(OptionError) as error:
        ReadOptions.parse({name: text for name, text in given.items() if text or name == "clientRack"})
    assert message in str(error.value)
    assert str(error.value).isprintable()


def test_what_is_alike_in_each_run_does_not_go_by_how_fast_brokers_are() -> None:
    assert not write(**{ADAPTIVE: "false", "partitionerSeed": "1"}).delivery.adapts
    assert write(topic=" t ").topic == "t"
