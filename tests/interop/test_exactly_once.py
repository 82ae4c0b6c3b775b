"""Writes with delivery=exactly-once that die at every request, against Apache Kafka."""

from __future__ import annotations

from typing import Final

import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transactions
from spark_kafkawire.errors import DeliveryError
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol.modern.list_transactions import ONGOING
from tests.support import librdkafka
from tests.support.exactly_once import OnceWrite, committed, dying
from tests.support.polling import poll

from .apache_cluster import ApacheCluster
from .apache_kafka import ApacheKafka
from .versions import NEWEST, replicated

pytestmark = replicated

PARTITIONS: Final = 2
#: More requests about transactions than the write makes.
REQUESTS_MAX: Final = 40
#: The protocol of transactions that a new cluster has.
PROTOCOLS: Final = {"3.9.1": 1, NEWEST: 2}


def tasks(mark: int, *values: bytes) -> list[list[tuple[bytes, int]]]:
    """One row for each task, and a last task without rows."""
    return [[(b"%d %s" % (mark, value), index % PARTITIONS)] for index, value in enumerate(values)] + [[]]


def named(name: str, batch: str) -> dict[str, str]:
    return {"kafka.transactional.id": name, "batch": batch}


@pytest.fixture
def topic(kafka: ApacheKafka | ApacheCluster) -> str:
    return librdkafka.create_topic(kafka.bootstrap_servers(), PARTITIONS, None, {})


@pytest.mark.parametrize(
    ("is_given_up", "after_it"), [(False, False), (True, True)], ids=["run again", "given up"]
)
def test_a_write_that_died_anywhere_is_there_once_or_not_at_all_after_the_next_run(
    kafka: ApacheKafka | ApacheCluster, topic: str, is_given_up: bool, after_it: bool
) -> None:
    servers = kafka.bootstrap_servers()
    for at in range(REQUESTS_MAX):
        name = f"once-{topic}-{at}"
        write = OnceWrite(servers, topic, tasks(at, b"a", b"b"), named(name, "1"))
        with dying(at, after_it=after_it) as died:
            write.run()
        if not died:
            break
        if is_given_up:
            OnceWrite(servers, topic, tasks(at, b"x", b"y"), named(name, "2")).run()
        else:
            write.run()
    assert at > 15
    found = committed(servers, topic, PARTITIONS)
    for mark in range(at):
        there = [value.split()[1] for value in found if int(value.split()[0]) == mark]
        all_or_none = [[b"x", b"y"], [b"a", b"b", b"x", b"y"]]
        assert there in (all_or_none if is_given_up else [[b"a", b"b"]]), mark


@pytest.mark.parametrize("remade", [0, 1], ids=["the first topic", "the last topic"])
def test_a_write_whose_topic_was_made_again_doubles_no_rows_of_others(
    kafka: ApacheKafka | ApacheCluster, topic: str, remade: int
) -> None:
    """Brokers drop the offsets of a deleted topic."""
    servers = kafka.bootstrap_servers()
    topics = [topic, librdkafka.create_topic(servers, PARTITIONS, None, {})]
    schema = StructType([StructField("topic", StringType()), StructField("value", BinaryType())])
    mixed = [[(each, b"%d" % number) for each in topics] for number in range(2)]
    apart = [[(each, b"apart")] for each in topics]
    writes = [
        OnceWrite(servers, "", rows, {"kafka.transactional.id": f"{name}-{topic}"}, schema)
        for name, rows in (("mixed", mixed), ("apart", apart))
    ]
    alone = OnceWrite(servers, topics[remade], tasks(0, b"x"), {"kafka.transactional.id": f"alone-{topic}"})
    for write in (*writes, alone):
        write.run()
        write.run()
    librdkafka.delete_topic_and_wait(servers, topics[remade])
    librdkafka.create_topic(servers, PARTITIONS, topics[remade], {})
    for write in writes:
        with pytest.raises(DeliveryError, match=f"topic '{topics[remade]}'.*made again since"):
            write.run()
    # Nothing of this one is left.
    alone.run()
    assert committed(servers, topics[remade], PARTITIONS) == [b"0 x"]
    assert committed(servers, topics[1 - remade], PARTITIONS) == [b"0", b"1", b"apart"]


def test_the_protocol_is_the_one_that_the_cluster_agreed_on(
    kafka: ApacheKafka | ApacheCluster, topic: str
) -> None:
    write = OnceWrite(kafka.bootstrap_servers(), topic, tasks(0, b"a"), named(f"protocol-{topic}", "1"))
    made = write.writer()
    message = write.message(made, 0)
    assert message.transaction.version == PROTOCOLS[kafka.version]
    made.abort([message, None])
    assert committed(kafka.bootstrap_servers(), topic, PARTITIONS) == []


def test_a_transaction_that_brokers_timed_out_is_no_part_of_a_write(
    kafka: ApacheKafka | ApacheCluster, topic: str
) -> None:
    """A broker looks for transactions that have had their time every 10 s."""
    options = {**named(f"late-{topic}", "1"), "kafka.transaction.timeout.ms": "1000"}
    write = OnceWrite(kafka.bootstrap_servers(), topic, tasks(0, b"a", b"b"), options)
    made = write.writer()
    messages = [write.message(made, number) for number in range(3)]
    discovery = WriteOptions.parse({"kafka.bootstrap.servers": kafka.bootstrap_servers()})
    metadata = Metadata(discovery.discovery.bootstrap_servers, discovery.net)
    transactions = Transactions(metadata, discovery.net)
    poll(
        lambda: transactions.describe(messages[0].transaction.id).transaction_state != ONGOING, "it timed out"
    )
    with pytest.raises(DeliveryError, match="is not open any more: it took longer than kafka"):
        made.commit(messages)
    assert committed(kafka.bootstrap_servers(), topic, PARTITIONS) == []
    OnceWrite(kafka.bootstrap_servers(), topic, tasks(0, b"a", b"b"), named(f"late-{topic}", "1")).run()
    assert committed(kafka.bootstrap_servers(), topic, PARTITIONS) == [b"0 a", b"0 b"]
