"""Partitions that a topic of 0.7 offers to a write, and rows that are refused before anything is sent."""

from __future__ import annotations

import logging
import random
import socket
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from spark_kafkawire.broker import BrokerConfig, BrokerServer
from spark_kafkawire.clients.writing.rows import Rows
from spark_kafkawire.clients.writing.v07 import V07WritePartitions
from spark_kafkawire.clients.writing.v07.sender import check_rows
from spark_kafkawire.errors import DiscoveryError, RowError
from spark_kafkawire.model import Broker, ClusterView, TopicPartition
from spark_kafkawire.options import Discovery, WriteOptions
from spark_kafkawire.records.message_set.encoding import encode_sets
from spark_kafkawire.records.rows import Records
from tests.support.cases import for_each
from tests.support.golden import Exchange, exchanges
from tests.support.settings import net_07
from tests.support.writing import binary, broker_of, write_options

ZOOKEEPER = Discovery(zookeeper_connect="localhost")
NET = net_07(5.0, 1, 0.001)
#: Accepted by the broker, which then does not start again: seen when it was recorded.
POISON = "produce/topic_emoji"
#: Recorded with a lower max.topic.name.length, and a null name, which a str cannot be.
NOT_COMPARABLE = ("produce/topic_len_21", "produce/topic_null_length_minus1")
RECORDED = [
    item for item in exchanges() if item.name.startswith("produce/topic_") and item.name not in NOT_COMPARABLE
]


def discovered(discovery: Discovery) -> V07WritePartitions:
    options = replace(write_options(broker__list="0:localhost:1"), discovery=discovery, net=NET)
    return V07WritePartitions.discover(options)


def topic_of(exchange: Exchange) -> str:
    size = int.from_bytes(exchange.request[6:8], "big")
    return exchange.request[8 : 8 + size].decode("utf-8", "replace")


@for_each("exchange", RECORDED, ids=lambda exchange: exchange.name)
def test_topic_names_are_refused_as_the_real_broker_refuses_them(exchange: Exchange) -> None:
    refused = V07WritePartitions.topic_fault(topic_of(exchange)) is not None
    assert refused == (exchange.is_closed or exchange.name == POISON)


@for_each("name", ["a\0b", "a\u0085", "a\ufffd", "\ue000", "a" * 256, "a/b", "..", "", "🚀"])
def test_names_that_a_broker_refuses_or_dies_of_have_a_fault(name: str) -> None:
    assert V07WritePartitions.topic_fault(name)


@pytest.mark.parametrize("name", ["a b", "a,b", "größe-日本", "a" * 255, "...", "a*", "\uffef"])
def test_names_that_a_broker_takes_have_none(name: str) -> None:
    assert V07WritePartitions.topic_fault(name) is None


def brokers(*ids: int) -> tuple[Broker, ...]:
    return tuple(Broker(number, "localhost", 1) for number in ids)


def test_logs_of_dead_brokers_are_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    partitions = tuple(TopicPartition("t", 0, broker) for broker in (0, 1, 2))
    targets = V07WritePartitions(ClusterView(brokers(1), partitions), ZOOKEEPER, NET)
    assert [tp.name for tp in targets.selectable("t")] == ["1-0"]
    assert [record.getMessage() for record in caplog.records] == [
        "topic 't': broker 0, 2 is not alive; writing to the others"
    ]


def test_a_topic_whose_brokers_are_all_dead_is_not_taken_for_an_unregistered_one() -> None:
    targets = V07WritePartitions(ClusterView(brokers(1), (TopicPartition("t", 0, 0),)), ZOOKEEPER, NET)
    with pytest.raises(DiscoveryError, match=r"^topic 't': none of its brokers \(0\) is alive; start one$"):
        targets.selectable("t")


def test_rows_may_name_all_partitions_that_a_broker_has_for_an_unregistered_topic(tmp_path: Path) -> None:
    config = BrokerConfig(broker_id=4, log_dir=tmp_path, port=0, num_partitions=3)
    with BrokerServer(config) as server:
        targets = V07WritePartitions(ClusterView((broker_of(server),), ()), ZOOKEEPER, NET).restrict_to_topic(
            "new"
        )
        assert [tp.name for tp in targets.selectable("new")] == ["4-0"]
        assert [tp.name for tp in targets.addressable("new")] == ["4-0", "4-1", "4-2"]


def test_with_broker_list_the_brokers_are_asked_for_their_partitions(tmp_path: Path) -> None:
    first = BrokerConfig(broker_id=0, log_dir=tmp_path / "0", port=0, num_partitions=2)
    second = BrokerConfig(broker_id=1, log_dir=tmp_path / "1", port=0, num_partitions=1)
    with BrokerServer(first) as server, BrokerServer(second) as other:
        discovery = Discovery(broker_list=(broker_of(server), broker_of(other)))
        targets = discovered(discovery).restrict_to_topic("new")
    # The tasks ask nobody again: the brokers are gone.
    assert [tp.name for tp in targets.selectable("new")] == ["0-0", "0-1", "1-0"]
    assert targets.addressable("new") == targets.selectable("new")


def test_a_broker_of_the_list_that_is_not_there_is_left_out_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = BrokerConfig(broker_id=0, log_dir=tmp_path, port=0, num_partitions=1)
    with BrokerServer(config) as server, socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        absent = Broker(1, "127.0.0.1", unused.getsockname()[1])
        targets = discovered(Discovery(broker_list=(broker_of(server), absent)))
        assert [tp.name for tp in targets.selectable("t")] == ["0-0"]
    assert any("broker 1" in record.getMessage() for record in caplog.records)
    assert {record.levelno for record in caplog.records if record.name == "spark_kafkawire"} == {
        logging.WARNING
    }


def test_no_broker_alive_is_an_error() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        absent = Broker(1, "127.0.0.1", unused.getsockname()[1])
        with pytest.raises(DiscoveryError, match=r"^no broker is alive; start one$"):
            discovered(Discovery(broker_list=(absent,)))


def check(values: pa.Array, topic: str | pa.Array, options: WriteOptions) -> None:
    check_rows(Rows(Records(values), topic), options)


def options(**raw: object) -> WriteOptions:
    return write_options(broker__list="0:localhost:1", **raw)


@for_each(
    ("values", "topic", "fault"),
    [
        ([b"", b"a", None, None], "t", "row 2: value is null; "),
        ([b"a", b"b"], pa.array(["t", None]), "row 1: topic is null; fill it, or set the option topic$"),
        ([b"", b"x" * 1001], "t", r"row 1: its value of 1001 bytes .* max\.message\.size=1000,"),
    ],
)
def test_a_row_that_brokers_refuse_is_named(
    values: list[bytes | None], topic: str | pa.Array, fault: str
) -> None:
    with pytest.raises(RowError, match=f"^{fault}"):
        check(binary(values), topic, options(max__message__size=1000))
    check(binary([b"x" * 1000]), "t", options(max__message__size=1000))
    check(binary([]), pa.array([], pa.string()), options())


@pytest.mark.parametrize("compression", ["gzip", "snappy"])
def test_a_value_above_the_limit_passes_where_it_compresses_below_it(compression: str) -> None:
    check(binary([b"x" * 100_000]), "t", options(max__message__size=10_000, compression=compression))


@pytest.mark.parametrize("compression", ["gzip", "snappy"])
def test_a_value_that_compression_makes_larger_than_the_limit_is_refused(compression: str) -> None:
    noise = random.Random(7).randbytes(10_000)
    with pytest.raises(RowError, match=rf"^row 1: its value of 10000 bytes is, also as {compression},"):
        check(binary([b"", noise]), "t", options(max__message__size=10_000, compression=compression))


@for_each("compression", ["gzip", "snappy"])
@for_each("size", [16, 100, 9_000, 120_000])
def test_a_value_that_passes_can_be_encoded_below_the_limit(compression: str, size: int) -> None:
    values = binary([random.Random(size).randbytes(size)])
    for limit in range(size, size * 6 // 5 + 120, max(1, size // 50)):
        chosen = options(max__message__size=limit, compression=compression)
        sets = encode_sets(values, compression=compression, set_bytes_max=1 << 20, message_size_max=limit)
        try:
            check(values, "t", chosen)
        except RowError:
            with pytest.raises(RowError):
                list(sets)
        else:
            assert sum(item.count for item in sets) == 1
