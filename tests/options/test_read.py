"""Options of a modern read, and their values."""

from __future__ import annotations

from typing import Any

import pytest

from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.net.first_contact import Bootstrap
from spark_kafkawire.net.retry import RetryPolicy
from spark_kafkawire.options import COMMITTED, EARLIEST, LATEST, LimitKind, OffsetLimit, ReadOptions
from spark_kafkawire.protocol.modern.limits import READ_COMMITTED, READ_UNCOMMITTED
from tests.support.cases import for_each


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


def field_of(options: ReadOptions, name: str) -> Any:
    value: Any = options
    for part in name.split("."):
        value = getattr(value, part)
    return value


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
    assert field_of(parse(**given), name) == expected


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
        ({"startingOffsetsByTimestamp": '{"t":{"0":-5}}'}, "the timestamp of t 0 is negative"),
        (
            {"startingTimestamp": "9", "endingTimestamp": "8"},
            "startingTimestamp: 9 is after endingTimestamp=8",
        ),
        ({"kafka__group__id": " "}, "option kafka.group.id: ' ' is not the name of a consumer group"),
        ({"fetchBytes": "4m", "kafka__max__partition__fetch__bytes": "1"}, "name the same setting"),
        ({"fetchesInFlight": "2"}, "option fetchesInFlight does not apply to Kafka 0.8+"),
    ],
)
def test_a_bad_value_is_told(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse(**given)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "option",
    ["maxRecordsPerPartition", "includeHeaders", "kafka.group.id", "kafkaConsumer.pollTimeoutMs"],
)
def test_options_of_modern_brokers_are_refused_for_0_7(option: str) -> None:
    with pytest.raises(OptionError, match=rf"option {option} does not apply to Kafka 0\.7"):
        ReadOptions.parse({"zookeeper.connect": "h:1", "subscribe": "t", option: "1"})
