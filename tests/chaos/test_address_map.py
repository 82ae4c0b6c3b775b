"""``brokerAddressMap`` with a wrong port: one line within the deadlines, with both addresses and the map."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.model import Broker
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.source.writer import create_writer
from tests.net.peers import Peer, closed_port, stalling
from tests.records.batches import batch, record
from tests.support import librdkafka
from tests.support.cases import for_each
from tests.support.foreign import Record
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.mock_cluster import MockCluster
from tests.support.reading import PlannedRead

ADVERTISED = "kafka-0.svc:9092"
QUICK = {"requestTimeout": "2s", "brokerDownTimeout": "1s", "retries": "1"}


@dataclass(frozen=True)
class Mapped:
    """Options of a topic ``t`` whose brokers are mapped, and an address that errors name."""

    options: dict[str, str]
    place: str


def at_port(port: int) -> Mapped:
    """A broker that is mapped to a port of this machine."""
    address_map = json.dumps({ADVERTISED: f"127.0.0.1:{port}"})
    given = {"kafka.bootstrap.servers": ADVERTISED, "brokerAddressMap": address_map}
    return Mapped(given, f"({ADVERTISED}) at 127.0.0.1:{port} (brokerAddressMap)")


@contextlib.contextmanager
def unused_address() -> Iterator[Mapped]:
    yield at_port(closed_port().port)


@contextlib.contextmanager
def silent() -> Iterator[Mapped]:
    with Peer(stalling()) as peer:
        yield at_port(peer.broker.port)


@contextlib.contextmanager
def another_broker() -> Iterator[Mapped]:
    """Two brokers, each at the address of the other one: neither leads what it is asked about."""
    with MockCluster(brokers=2) as cluster:
        servers = cluster.bootstrap_servers
        cluster.create_topic("t", 2)
        for partition in range(2):
            cluster.set_leader("t", partition, partition + 1)
        librdkafka.produce(servers, "t", [Record(b"v")])
        one, other = servers.split(",")
        given = {"kafka.bootstrap.servers": servers, "brokerAddressMap": json.dumps({one: other, other: one})}
        yield Mapped(given, "(brokerAddressMap)")


def read(options: dict[str, str]) -> object:
    return PlannedRead({**options, "subscribe": "t"}).rows()


def write(options: dict[str, str]) -> object:
    schema = StructType([StructField("value", BinaryType())])
    writer = create_writer(
        WriteOptions.parse({**options, "topic": "t", "kafka.delivery.timeout.ms": "3s"}),
        schema,
        overwrite=False,
    )
    return writer.write(iter([pa.RecordBatch.from_pydict({"value": pa.array([b"v"] * 9, pa.binary())})]))


@for_each(
    ("wrong", "work"),
    [(wrong, work) for wrong in (unused_address, silent, another_broker) for work in (read, write)],
)
def test_a_wrong_port_is_one_line_that_names_the_map(
    wrong: Callable[[], AbstractContextManager[Mapped]], work: Callable[[dict[str, str]], object]
) -> None:
    with wrong() as mapped, pytest.raises(KafkaWireError) as error:
        work({**QUICK, **mapped.options})
    assert mapped.place in str(error.value)
    assert str(error.value).isprintable()


def test_report_entries_of_no_broker_are_logged_once_and_a_missing_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with LogServer({"t": [MemoryLog(batch([record(0, b"v")]))]}) as server:
        server.broker.broker = Broker(0, "kafka-0.svc", 9092)
        given = at_port(server.port).options
        mapped = {**json.loads(given["brokerAddressMap"]), "kafka-9.svc:9092": "127.0.0.1:1"}
        for _ in range(2):
            assert read({**given, "brokerAddressMap": json.dumps(mapped)}) == read(given)
        reported = [line for line in caplog.messages if "is the address of no broker" in line]
        assert reported == [
            "option brokerAddressMap: kafka-9.svc:9092 is the address of no broker; the brokers are "
            "kafka-0.svc:9092"
        ]
        others = json.dumps({"kafka-1.svc:9092": "127.0.0.1:1"})
        servers = {"kafka.bootstrap.servers": server.bootstrap_servers, "brokerAddressMap": others, **QUICK}
        with pytest.raises(KafkaWireError, match=r"kafka-0\.svc:9092.*brokerAddressMap has no entry for it"):
            read(servers)
