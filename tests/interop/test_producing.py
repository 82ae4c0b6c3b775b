"""Our writes to Apache Kafka: its own checks of sequences, sizes and times are the judge."""

from __future__ import annotations

import dataclasses
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, DataType, MapType, StringType, StructField, StructType

from spark_kafkawire.clients.writing.modern.batch_sender import BatchSender
from spark_kafkawire.clients.writing.modern.batches import ProducerPosition, init_producer_id
from spark_kafkawire.clients.writing.modern.producer import Producer
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.errors import DeliveryError, KafkaWireError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import BrokerVersions, VersionRange
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.modern.negotiation import list_offered
from spark_kafkawire.source.writer import create_writer
from tests.support import librdkafka
from tests.support.certificates import Certificates
from tests.support.foreign import values
from tests.support.producing import (
    FINE,
    ResponseFaults,
    in_parts,
    int64,
    numbered,
    options_of,
    producer,
    records,
)
from tests.support.writing import binary

from .apache_kafka import ApacheKafka
from .versions import newest

VALUES: Final = numbered(3000)
#: Takes records of any time.
FOREVER: Final = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**62)}


def struct_of(**columns: DataType) -> StructType:
    return StructType([StructField(name, data_type) for name, data_type in columns.items()])


def write_in_parts(servers: str, topic: str, **raw: Any) -> None:
    with producer(options_of(servers, **{"batchBytes": 1000, **raw})) as sending:
        for part in in_parts(VALUES, 100):
            sending.add(TopicPartition(topic, 0), records(part))
        sending.finish()


def test_what_is_sent_again_is_stored_once_and_in_order(
    kafka: ApacheKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers)
    ResponseFaults(monkeypatch).plan.extend(["lost", "lost", FINE, ErrorCode.REQUEST_TIMED_OUT, FINE, "lost"])
    write_in_parts(servers, topic, compression="snappy")
    assert values(librdkafka.consume(servers, topic)) == VALUES


def test_headers_of_a_map_are_read_by_another_client(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers)
    values_of = (pa.string(), StringType(), "shop"), (pa.binary(), BinaryType(), b"\0shop")
    for arrow_type, spark_type, value in values_of:
        schema = struct_of(value=BinaryType(), headers=MapType(StringType(), spark_type))
        maps = [[("source", value), ("empty", None)], [], None]
        columns = {"value": binary([b"v"] * 3), "headers": pa.array(maps, pa.map_(pa.string(), arrow_type))}
        options = WriteOptions.parse({"kafka.bootstrap.servers": servers, "topic": topic})
        writer = create_writer(options, schema, overwrite=False)
        writer.write(iter([pa.RecordBatch.from_pydict(columns)]))
    written = [record.headers for record in librdkafka.consume(servers, topic)]
    assert written == [
        item for value in (b"shop", b"\0shop") for item in ((("source", value), ("empty", None)), (), ())
    ]


def test_writers_create_a_topic_at_once(kafka: ApacheKafka) -> None:
    servers, name = kafka.bootstrap_servers(), f"created-{uuid.uuid4().hex}"
    created = {"createTopic": "true", "topicPartitions": "3", "topicReplicationFactor": "1"}

    def write(column: str, **raw: str) -> None:
        options = WriteOptions.parse({"kafka.bootstrap.servers": servers, **created, **raw})
        rows = pa.RecordBatch.from_pydict({"value": binary([b"v"]), "topic": pa.array([column])})
        schema = struct_of(value=BinaryType(), topic=StringType())
        create_writer(options, schema, overwrite=False).write(iter([rows]))

    with ThreadPoolExecutor(4) as threads:  # by the option, and by the column in a task
        givens = [{"topic": name}, {}] * 2
        for done in [threads.submit(write, name, **given) for given in givens]:
            done.result()
    assert sum(len(librdkafka.consume(servers, name, partition)) for partition in range(3)) == 4
    with pytest.raises(KafkaWireError, match=r"'many-.*INVALID_REPLICATION_FACTOR") as refused:
        write("", topic=f"many-{name}", topicReplicationFactor="9")
    assert str(refused.value).isprintable()


def test_batches_above_the_topics_limit_are_split_while_others_are_in_flight(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers, topic_config={"max.message.bytes": "700"})
    write_in_parts(servers, topic, batchBytes=5000)
    assert values(librdkafka.consume(servers, topic)) == VALUES


def test_a_timestamp_that_the_topic_refuses_is_an_error_that_names_it(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers, topic_config={"message.timestamp.after.max.ms": "1000"})
    late = dataclasses.replace(records([b"a", b"b"]), timestamps_ms=int64([None, 2**45]))
    with producer(options_of(servers)) as sending:
        sending.add(TopicPartition(topic, 0), late)
        with pytest.raises(DeliveryError, match="INVALID_TIMESTAMP") as raised:
            sending.finish()
    assert "\n" not in str(raised.value)


def test_a_producer_goes_on_where_all_that_it_wrote_was_deleted(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers)
    with producer(options_of(servers, batchBytes=1)) as sending:
        for number, value in enumerate(VALUES[:20]):
            sending.add(TopicPartition(topic, 0), records([value]))
            if number == 10:
                sending.finish()
                librdkafka.delete_records(servers, topic, 0, 11)
        sending.finish()
    assert values(librdkafka.consume(servers, topic)) == VALUES[11:20]


@pytest.mark.parametrize("version", range(10))
def test_every_version_of_produce_is_understood(
    kafka: ApacheKafka, only: Callable[[VersionRange], None], version: int
) -> None:
    if version < 3 and kafka.version.startswith("4"):
        pytest.skip("Kafka 4 begins with Produce 3 (KIP-896)")
    only(VersionRange(version, version))
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers, topic_config=FOREVER)
    for codec in ("none", "gzip", "lz4"):
        with producer(options_of(servers, compression=codec, batchBytes=3000)) as sending:
            rows = dataclasses.replace(records(VALUES), keys=binary([None, *VALUES[1:]]))
            sending.add(TopicPartition(topic, 0), dataclasses.replace(rows, headers=None))
            sending.finish()
    result = librdkafka.consume(servers, topic)
    assert values(result) == VALUES * 3
    assert [row.key for row in result[: len(VALUES)]] == [None, *VALUES[1:]]


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[VersionRange], None]]:
    """Speaks these versions of Produce, and no others, until the test ends."""

    def narrow(versions: VersionRange) -> None:
        def narrowed(response: Any) -> BrokerVersions:
            return BrokerVersions({**list_offered(response).ranges, modern.PRODUCE.key: versions})

        POOL.close_idle()
        monkeypatch.setattr("spark_kafkawire.net.client.list_offered", narrowed)

    yield narrow
    POOL.close_idle()


def test_a_broker_that_is_restarted_in_the_middle_loses_and_doubles_nothing(
    kafka: ApacheKafka, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ApacheKafka(kafka.version, tmp_path, certificates) as broker:
        servers = broker.bootstrap_servers()
        topic = librdkafka.create_topic(servers)
        pump, count = BatchSender.pump, [0]

        def restart() -> None:
            broker.stop()
            broker.start()

        restarting = threading.Thread(target=restart)

        def pumped(delivery: BatchSender) -> None:
            count[0] += 1
            if count[0] == 7:
                restarting.start()
                time.sleep(0.05)
            pump(delivery)

        monkeypatch.setattr(BatchSender, "pump", pumped)
        try:
            # A broker may take minutes to start on a machine with other work.
            write_in_parts(servers, topic, kafka__delivery__timeout__ms=400_000)
        finally:
            restarting.join()
        assert values(librdkafka.consume(servers, topic)) == VALUES


def test_of_two_producers_in_one_position_each_record_is_appended_once(kafka: ApacheKafka) -> None:
    """A frozen producer may go on after another one took its place: it is refused."""
    servers = kafka.bootstrap_servers()
    partition, options = TopicPartition(librdkafka.create_topic(servers), 0), options_of(servers)
    metadata = Metadata(options.discovery.bootstrap_servers, options.net)
    identity = init_producer_id(metadata, options)

    def write_at(start: int, stop: int) -> None:
        with Producer(metadata, options, {partition: ProducerPosition(identity, start)}) as sending:
            sending.add(partition, records(VALUES[start:stop]))
            sending.finish()

    write_at(0, 70)
    for start, stop in ((0, 100), (40, 60), (69, 71), (71, 80)):
        with pytest.raises(DeliveryError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
            write_at(start, stop)
    write_at(0, 70)
    write_at(70, 100)
    assert values(librdkafka.consume(servers, partition.topic)) == VALUES[:100]


@newest
def test_rows_of_a_topic_do_not_go_into_the_next_one_of_its_name(kafka: ApacheKafka) -> None:
    """Only the broker can tell: the leader is where it was. It gets the topic's id with Produce 13."""
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers)
    with producer(options_of(servers, batchBytes=1000)) as sending:
        sending.add(TopicPartition(topic, 0), records(VALUES))
        sending.finish()
        librdkafka.delete_topic_and_wait(servers, topic)
        librdkafka.create_topic(servers, name=topic)
        gone = rf"^topic '{topic}' was deleted and created again: .* those written before are gone, too$"
        with pytest.raises(DeliveryError, match=gone):
            sending.add(TopicPartition(topic, 0), records(VALUES))  # of many requests
    assert librdkafka.consume(servers, topic) == []
