"""Spark sends the reader, or the writer, with each task: it must not grow with the partitions of a read."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import Final

import pytest
from pyspark import cloudpickle
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.model import Broker, ClusterView, Leader, TopicPartition
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.source.stream_reader import KafkaWireStreamReader
from spark_kafkawire.source.writer import KafkaWireBatchWriter, create_writer
from tests.support.certificates import Certificates
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.noida import NoidaBroker
from tests.support.sparks import READ_LIMITS, STREAM_SINKS, needs, since_spark

#: Most bytes of a pickled reader or writer, but for the texts named below.
SIZE_MAX: Final = 4 << 10
COUNT: Final = 10_000
SERVER: Final = {"kafka.bootstrap.servers": "127.0.0.1:1"}
SERVERS: Final = {
    "kafka.bootstrap.servers": ",".join(
        f"b-{id}.events.c7.kafka.eu-west-1.example.com:9094" for id in range(100)
    )
}
ZOOKEEPER: Final = {"zookeeper.connect": "zk1:2181,zk2:2181,zk3:2181/kafka"}
BROKER_LIST: Final = {"broker.list": ",".join(f"{id}:kafka-{id}.example.com:9092" for id in range(200))}
OFFSETS: Final = json.dumps({"t": {str(number): 5 + number for number in range(COUNT)}})
EARLIER: Final = json.dumps({"t": dict.fromkeys(map(str, range(COUNT)), 1_700_000_000_000)})
ASSIGNED: Final = json.dumps({"t": list(range(COUNT))})
GROWN: Final = {"partitions": 2 * COUNT, "boundaries": dict.fromkeys(map(str, range(COUNT)), 70)}
LAYOUTS: Final = json.dumps({"t": [{"partitions": COUNT}, GROWN]})
OFFSETS_07: Final = json.dumps({"t": {f"{id}-{part}": 5 for id in range(200) for part in range(50)}})
ASSIGNED_07: Final = json.dumps({"t": [f"{id}-{part}" for id in range(200) for part in range(50)]})
TOPICS: Final = ",".join(f"topic-{number}" for number in range(COUNT))
JAAS: Final = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="s3cret";'
)
VALUE: Final = StructType([StructField("value", BinaryType())])

#: Of batch reads and streams.
READS: Final[Mapping[str, Mapping[str, str]]] = {
    "offsets": {**SERVER, "subscribe": "t", "startingOffsets": OFFSETS},
    "times": {**SERVER, "subscribe": "t", "startingOffsetsByTimestamp": EARLIER},
    "assign": {**SERVER, "assign": ASSIGNED},
    "assigned offsets": {**SERVER, "assign": ASSIGNED, "startingOffsets": OFFSETS},
    "topics": {**SERVER, "subscribe": TOPICS},
    "pattern": {**SERVER, "subscribePattern": "|".join(TOPICS.split(",")[:80])},
    "layouts": {**SERVER, "subscribe": "t", "keyOrder": "true", "partitionLayouts": LAYOUTS},
    "servers": {**SERVERS, "subscribe": "t", "kafka.group.id": "g" * 249},
    "login": {
        **SERVERS,
        "subscribe": "t",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": JAAS,
    },
    "0.7 offsets": {**ZOOKEEPER, "subscribe": "t", "startingOffsets": OFFSETS_07},
    "0.7 assign": {**ZOOKEEPER, "assign": ASSIGNED_07},
    "0.7 brokers": {**BROKER_LIST, "subscribe": "t"},
}
ENDS: Final[Mapping[str, Mapping[str, str]]] = {
    "ends": {**SERVER, "subscribe": "t", "startingOffsets": OFFSETS, "endingOffsets": OFFSETS},
    "ending times": {**SERVER, "subscribe": "t", "endingOffsetsByTimestamp": EARLIER},
    "0.7 ends": {**ZOOKEEPER, "subscribe": "t", "endingOffsets": OFFSETS_07},
}
LIMITS: Final = {"maxOffsetsPerTrigger": "10", "minOffsetsPerTrigger": "5"}
STREAMS: Final[Mapping[str, Mapping[str, str]]] = {
    "limits": {**READS["offsets"], **LIMITS},
    "group": {**READS["offsets"], "commitOffsets": "true", "kafka.group.id": "g" * 249},
    "0.7 group": {
        **ZOOKEEPER,
        "subscribe": TOPICS,
        "groupMembership": "join",
        "kafka.group.id": "g",
        "zookeeper.auth": "digest:user:s3cret",
    },
}


def pickled(value: object) -> bytes:
    """As Spark pickles what it sends to tasks."""
    data: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return data


def stream_reader(options: Mapping[str, str]) -> KafkaWireStreamReader:
    source = KafkaWireDataSource(dict(options))
    made = source.streamReader(source.schema())
    assert isinstance(made, KafkaWireStreamReader)
    return made


@pytest.mark.parametrize("name", [*READS, *ENDS])
def test_what_a_task_of_a_batch_read_gets_is_small(name: str) -> None:
    source = KafkaWireDataSource(dict({**READS, **ENDS}[name]))
    assert len(pickled(source.reader(source.schema()))) < SIZE_MAX


@pytest.mark.parametrize("name", [*READS, *STREAMS])
def test_what_a_task_of_a_stream_gets_is_small(name: str) -> None:
    if {"maxOffsetsPerTrigger", "groupMembership"} & {*{**READS, **STREAMS}[name]}:
        needs(READ_LIMITS)
    assert len(pickled(stream_reader({**READS, **STREAMS}[name]))) < SIZE_MAX


def test_texts_of_tls_are_all_that_makes_it_larger(certificates: Certificates) -> None:
    """A connection needs them whole, and an executor has no file of the driver's."""
    secured = {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.location": str(certificates.authority),
        "kafka.ssl.keystore.location": str(certificates.client),
    }
    texts = len(certificates.authority.read_bytes()) + len(certificates.client.read_bytes())
    source = KafkaWireDataSource({**READS["assigned offsets"], **secured})
    size = len(pickled(source.reader(source.schema())))
    assert texts // 2 < size < SIZE_MAX + texts


def sent(options: Mapping[str, str], *, stream: bool = False) -> int:
    """Bytes of the command that Spark's planning makes for all tasks: a function that holds the reader."""
    from pyspark.sql.worker.plan_data_source_read import write_read_func_and_partitions

    source = KafkaWireDataSource(dict(options))
    schema = source.schema()
    source = pickle.loads(pickled(source))  # from one planning process to the next
    reader = source.streamReader(schema) if stream else source.reader(schema)
    out = io.BytesIO()
    with pytest.raises(KafkaWireError) if not stream else nullcontext():  # it plans the partitions after it
        write_read_func_and_partitions(
            out,
            reader=reader,
            data_source=source,
            schema=schema,
            max_arrow_batch_size=10_000,
            binary_as_bytes=True,
        )
    return int.from_bytes(out.getvalue()[:4], "big")


@since_spark(4, 2, "makes the command in a function that cannot be called")
@pytest.mark.parametrize("stream", [False, True])
def test_the_command_of_a_task_does_not_grow_with_the_options(stream: bool) -> None:
    nobody = {**SERVER, "retries": "0", "requestTimeout": "5s"}
    few = sent({**nobody, "subscribe": "t"}, stream=stream)
    assert sent({**READS["offsets"], **nobody}, stream=stream) == few
    assert sent({**READS["assign"], **nobody}, stream=stream) == few
    assert sent({**READS["topics"], **nobody}, stream=stream) == few


def test_a_source_travels_with_its_options_until_a_reader_has_them() -> None:
    source = KafkaWireDataSource(dict(READS["offsets"]))
    arrived = pickle.loads(pickled(source))
    arrived.reader(source.schema())
    assert len(pickled(arrived)) < 200
    assert arrived.options == source.options


@pytest.mark.parametrize("step", [1, 10])
def test_what_a_task_of_a_write_gets_is_small_and_whole(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All partitions have a leader with step 1; every tenth has none with step 10."""
    known_leaders = Metadata.known_leaders

    def some(metadata: Metadata, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Leader]:
        found = known_leaders(metadata, partitions)
        return {tp: found[tp] for tp in found if step == 1 or tp.partition % step}

    monkeypatch.setattr(Metadata, "known_leaders", some)
    with LogServer({"t": [MemoryLog()] * COUNT}) as server:
        writer = writer_of({"kafka.bootstrap.servers": server.bootstrap_servers})
        data = pickled(writer)
        targets = pickle.loads(data)._targets
        assert targets.selectable("t") == tuple(TopicPartition("t", number) for number in range(COUNT))
        assert targets.available("t") == writer._targets.available("t")
        assert len(targets.available("t")) == (COUNT if step == 1 else COUNT * 9 // 10)
    assert len(data) < SIZE_MAX


def writer_of(options: Mapping[str, str]) -> KafkaWireBatchWriter:
    made = KafkaWireDataSource({"topic": "t", **options}).writer(VALUE, False)
    assert isinstance(made, KafkaWireBatchWriter)
    return made


@STREAM_SINKS
def test_what_a_task_of_a_stream_sink_gets_is_small() -> None:
    with LogServer({"t": [MemoryLog()] * COUNT}) as server:
        options = {"topic": "t", "checkpointLocation": "/" + 200 * "c"}
        options["kafka.bootstrap.servers"] = server.bootstrap_servers
        made = KafkaWireDataSource(options).streamWriter(VALUE, False)
        assert len(pickled(made)) < SIZE_MAX


def test_what_a_task_of_an_exactly_once_write_gets_is_small(noida: NoidaBroker) -> None:
    servers = ",".join([noida.bootstrap_servers, *SERVERS["kafka.bootstrap.servers"].split(",")])
    topic = noida.create_topic(partitions=3)
    options = {"kafka.bootstrap.servers": servers, "topic": topic, "delivery": "exactly-once"}
    assert len(pickled(writer_of(options))) < SIZE_MAX


def test_what_a_task_of_a_write_to_0_7_gets_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = tuple(Broker(id, f"kafka-{id}.example.com", 9092) for id in range(100))
    partitions = tuple(TopicPartition("t", part, id) for part in range(10) for id in range(100))
    view = ClusterView(brokers, partitions)
    monkeypatch.setattr("spark_kafkawire.clients.writing.v07.write_partitions.view", lambda *_: view)
    options = WriteOptions.parse({**ZOOKEEPER, "topic": "t"})
    writer = create_writer(options, VALUE, overwrite=False)
    data = pickled(writer)
    assert pickle.loads(data)._targets == writer._targets
    assert len(data) < SIZE_MAX
