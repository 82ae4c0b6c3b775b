"""Three brokers of Apache Kafka in three racks: who serves a read, by the bytes of each broker, and who gets
the rows of a write."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.net.pool import POOL
from tests.support import librdkafka
from tests.support.cases import forget_all
from tests.support.foreign import Record
from tests.support.noida import HOST
from tests.support.polling import GRACE_S, poll
from tests.support.reading import Read, read

from .apache_kafka import ApacheCluster
from .compaction import COMPACTED, compacted_topic
from .versions import VERSIONS, needs_broker

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

RACKS: Final = ("zone-a", "zone-b", "zone-c")
PARTITIONS: Final = 6
COUNT: Final = 6_000
VALUES: Final = [b"%06d" % number * 200 for number in range(COUNT)]
#: Six MiB for each partition.
LATER: Final[list[bytes]] = [b"%06d" % number * 1_000 for number in range(COUNT)]
TIMEOUT_S: Final = 5
THROTTLE: Final = "leader.replication.throttled.rate"
#: Several fetches for one partition, and deadlines that end before those of the test.
SMALL: Final = {
    "fetchBytes": "128KiB",
    "requestTimeout": f"{TIMEOUT_S}s",
    "kafkaConsumer.pollTimeoutMs": "60s",
}


class Relay:
    """A port in front of a broker that counts the bytes which clients get from it."""

    def __init__(self) -> None:
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self.upstream = 0
        self.size = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    broker = socket.create_connection((HOST, self.upstream))
                except OSError:
                    client.close()
                    continue
                for ends in ((client, broker, False), (broker, client, True)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, counts: bool) -> None:
        with source:
            with contextlib.suppress(OSError):
                while data := source.recv(1 << 16):
                    target.sendall(data)
                    self.size += len(data) * counts
            for end in (source, target):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)


class Zones:
    """The cluster, a topic whose partitions the brokers lead in turn, and what each broker has sent."""

    def __init__(self, cluster: ApacheCluster, relays: list[Relay]) -> None:
        self.cluster, self._relays = cluster, relays
        self.servers = cluster.bootstrap_servers()

    def topic(self, **config: str) -> str:
        topic = librdkafka.create_topic(self.servers, PARTITIONS, None, config)
        records = [Record(value, partition=at % PARTITIONS) for at, value in enumerate(VALUES)]
        librdkafka.produce(self.servers, topic, records, batch_num_messages=20)
        return topic

    def shares(self, work: Callable[[], Any], *, forgets: bool = True) -> tuple[Any, list[float]]:
        """The result, and the part of each broker in the bytes that came. ``forgets`` what this process knows
        of the cluster, such as its followers, before."""
        if forgets:
            forget_all()
        before = [relay.size for relay in self._relays]
        result = work()
        sizes = [relay.size - old for relay, old in zip(self._relays, before, strict=True)]
        return result, [size / sum(sizes) for size in sizes]


@pytest.fixture(scope="module", params=VERSIONS)
def zones(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zones]:
    needs_broker(request.param)
    relays = [Relay() for _ in RACKS]
    ports = [relay.port for relay in relays]
    cluster = ApacheCluster(request.param, tmp_path_factory.mktemp("zones"), 3, RACKS, ports)
    for relay, port in zip(relays, cluster.ports, strict=True):
        relay.upstream = port
    with cluster:
        yield Zones(cluster, relays)
        POOL.close_idle()
    for relay in relays:
        relay.close()


def values_in(batches: Iterable[pa.RecordBatch]) -> list[bytes]:
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def values_of(rows: list[dict[str, Any]]) -> list[bytes]:
    return sorted(row["value"] for row in rows)


def test_a_read_gets_its_bytes_from_its_rack(zones: Zones, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = zones.topic()

    def comes_from(number: int, **rack: str) -> bool:
        rows, shares = zones.shares(Read(zones.servers, subscribe=topic, **rack, **SMALL).rows)
        assert values_of(rows) == VALUES
        return shares[number] > 0.95

    for number, rack in enumerate(RACKS):
        monkeypatch.setenv("ZONE", rack)
        assert not comes_from(number), "without a rack the leaders serve"
        # A follower that has just started may be behind, and then the leader serves.
        for option in ({"clientRack": "env:ZONE"}, {"kafka.client.rack": rack}):
            poll(partial(comes_from, number, **option), f"bytes from {rack}")


def test_committed_and_compacted_records_are_the_same_near_and_far(zones: Zones) -> None:
    topic = zones.topic()
    for act in (librdkafka.commit, librdkafka.abort, librdkafka.commit):
        act(zones.servers, topic, [Record(b"t%d" % at, partition=at % PARTITIONS) for at in range(600)])
    options = {"subscribe": topic, "kafka.isolation.level": "read_committed", **SMALL}
    far, near = (Read(zones.servers, **options, **rack).table() for rack in ({}, {"clientRack": RACKS[1]}))
    order = [("partition", "ascending"), ("offset", "ascending")]
    assert near.num_rows == COUNT + 1200
    assert near.sort_by(order) == far.sort_by(order)
    compacted = compacted_topic(zones.servers)
    for rack in RACKS:
        rows = read(zones.servers, subscribe=compacted, clientRack=rack)
        # A follower may have records that the leader has compacted away.
        assert {*COMPACTED} <= {(row["offset"], row["value"]) for row in rows}


@pytest.mark.parametrize("killed", [0, 1], ids=["a leader", "the follower"])
def test_a_broker_that_dies_under_a_read_costs_no_row(zones: Zones, killed: int) -> None:
    """The follower is behind after its start, and may be asked for what it does not have yet."""
    topic = zones.topic()
    batches = Read(zones.servers, subscribe=topic, clientRack=RACKS[1], **SMALL).batches()
    result = values_in([next(batches)])
    zones.cluster.kill(killed)
    assert sorted(result + values_in(batches)) == VALUES
    librdkafka.produce(zones.servers, topic, [Record(b"later" * 50)] * 20_000, batch_num_messages=100)
    zones.cluster.start(killed)
    zones.cluster.await_answer(killed)
    for rack in RACKS:
        rows = read(zones.servers, subscribe=topic, clientRack=rack, **SMALL)
        assert len(rows) == COUNT + 20_000
    poll(lambda: is_balanced(zones, topic), "a balanced cluster")


def test_a_follower_that_hangs_costs_its_deadlines_and_no_row(zones: Zones) -> None:
    """It hangs in the middle of a partition, and is the known follower of three more."""
    topic = zones.topic()
    poll(lambda: is_balanced(zones, topic), "followers that this process knows")
    batches = Read(zones.servers, subscribe=topic, clientRack=RACKS[1], **SMALL).batches()
    result = values_in([next(batches)])
    with zones.cluster.frozen(1):
        began_s = time.monotonic()
        rest, shares = zones.shares(lambda: values_in(batches), forgets=False)
        took_s = time.monotonic() - began_s
    assert sorted(result + rest) == VALUES
    assert shares[1] < 0.05
    waits = 1 + PARTITIONS // len(RACKS)
    assert took_s < waits * TIMEOUT_S + GRACE_S, "one for the follower, and one for each range that it leads"
    poll(lambda: is_balanced(zones, topic), "a balanced cluster")


def test_a_follower_that_lags_gives_what_it_has_and_the_leader_the_rest(zones: Zones) -> None:
    topic = zones.topic(**{"leader.replication.throttled.replicas": "*"})
    poll(lambda: is_balanced(zones, topic), "followers that this process knows")
    # Leaders throttle only followers that are not in sync: this one gets a MiB each 11 s, of 6.
    for leader in (0, 2):
        librdkafka.set_broker(zones.servers, leader, THROTTLE, "1")
    try:
        with zones.cluster.frozen(1):
            poll(lambda: not librdkafka.is_in_sync(zones.servers, topic, 1), "a follower that is behind")
            later = [Record(value, partition=at % PARTITIONS) for at, value in enumerate(LATER)]
            librdkafka.produce(zones.servers, topic, later, batch_num_messages=20, enable_idempotence=True)
            lagging = Read(zones.servers, subscribe=topic, clientRack=RACKS[1], **SMALL)
        rows, shares = zones.shares(lagging.rows, forgets=False)
        assert not librdkafka.is_in_sync(zones.servers, topic, 1)
    finally:
        for leader in (0, 2):
            librdkafka.set_broker(zones.servers, leader, THROTTLE, None)
    assert values_of(rows) == sorted(VALUES + LATER)
    assert 0.05 < shares[1] < 0.2, "the follower has the old rows, which are a sixth of the bytes"
    poll(lambda: is_balanced(zones, topic), "a balanced cluster")


def is_balanced(zones: Zones, topic: str) -> bool:
    _, shares = zones.shares(lambda: read(zones.servers, subscribe=topic, clientRack=RACKS[1], **SMALL))
    return shares[1] > 0.95


def test_rows_without_keys_go_to_leaders_in_the_rack(zones: Zones) -> None:
    topic = librdkafka.create_topic(zones.servers, PARTITIONS)
    aware = {"clientRack": RACKS[2], "kafka.partitioner.rack.aware": "true"}
    options = {"kafka.bootstrap.servers": zones.servers, "topic": topic, **aware}
    writer: Any = KafkaWireDataSource(options).writer(StructType([StructField("value", BinaryType())]), False)
    writer.commit([writer.write(iter([pa.record_batch([pa.array(VALUES)], names=["value"])]))])
    rows = read(zones.servers, subscribe=topic)
    assert values_of(rows) == VALUES
    tasks = Read(zones.servers, subscribe=topic).tasks
    assert {task.leader.broker.id for task in tasks} == {2}
    assert len(Counter(row["partition"] for row in rows)) == PARTITIONS // 3
