"""Processor time of the client over the work, on fake clusters, and the exponent of its growth."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from kazoo.client import KazooClient
from pyspark.sql.types import StructType

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.broker import ZooKeeperServer
from spark_kafkawire.clients.writing.modern.transactional.write_state import (
    BatchId,
    attempt_id,
)
from spark_kafkawire.clients.writing.sender import PartitionReceipt, WriteTotals
from spark_kafkawire.cluster.modern.transactions import Transaction
from spark_kafkawire.cluster.v07.member import Member, subscription
from spark_kafkawire.cluster.v07.view import TOPICS
from spark_kafkawire.cluster.v07.zookeeper_client import Tree
from spark_kafkawire.model import Broker, TopicPartition
from spark_kafkawire.net.pool import POOL, Pool
from spark_kafkawire.net.retry import RetryPolicy
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import Discovery, ReadOptions
from spark_kafkawire.protocol.modern.metadata import MetadataRequest
from spark_kafkawire.source.exactly_once import TransactionMessage
from tests.net.login_broker import SECRET, USER, login_broker
from tests.net.modern_peers import broker
from tests.net.peers import Peer, server_of, serving
from tests.support.certificates import SERVER_NAME, make
from tests.support.fake_cluster import TOPIC, FakeCluster
from tests.support.log_broker import PRODUCER_ID

from .bars import Curve, Point
from .measure import Figure, print_table, say
from .session import Bench

#: Brokers of the clusters with more and more partitions, and the most partitions of those with more brokers.
_BROKERS: Final = 10
_PARTITIONS_MAX: Final = 10_000
#: Partitions for each broker of the clusters with the most brokers.
_PARTITIONS_OF_A_BROKER: Final = 100
#: A small run of each measure, unmeasured: it imports, and loads compiled kernels.
_WARM_PARTITIONS: Final = 10
_ROWS_MAX: Final = 20_000
#: Tasks of a write that is exactly once, at most.
_TRANSACTIONS_MAX: Final = 10_000
#: Time for which an idle stream runs, and the interval at which Spark asks it, seconds.
#: Source: ``spark.sql.streaming.pollingDelay``.
_IDLE_S: Final = 3.0
_SPARK_POLLS_S: Final = 0.01
#: Partitions with new records in a micro-batch, one in so many.
_IDLE_OF_A_BATCH: Final = 100
#: Threads of each member of a group, and seconds that joining it may take.
_THREADS: Final = 20
_JOIN_S: Final = 300.0


@dataclass(slots=True)
class CpuClock:
    """Processor time of a block, with all threads of the process."""

    seconds: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the block."""
        began_s = time.process_time()
        yield
        self.seconds += time.process_time() - began_s


def _source(cluster: FakeCluster, **options: str) -> KafkaWireDataSource:
    return KafkaWireDataSource({"kafka.bootstrap.servers": cluster.bootstrap, **options})


def planning(cluster: FakeCluster) -> Point:
    """Plan a batch read of all partitions."""
    source, clock = _source(cluster, subscribe=TOPIC), CpuClock()
    with clock.running():
        partitions = source.reader(source.schema()).partitions()
    assert len(partitions) == cluster.partitions
    return Point(cluster.partitions, clock.seconds)


def pickling(cluster: FakeCluster) -> Point:
    """Pickle the tasks of a batch read as Spark does, one by one."""
    source, clock = _source(cluster, subscribe=TOPIC), CpuClock()
    partitions = source.reader(source.schema()).partitions()
    with clock.running():
        for partition in partitions:
            pickle.dumps(partition)
    return Point(len(partitions), clock.seconds)


class _Query:
    """A stream as the process that plans it sees Spark: offsets come and go as texts."""

    def __init__(self, cluster: FakeCluster) -> None:
        source = _source(cluster, subscribe=TOPIC, startingOffsets="earliest")
        self._reader: Any = source.streamReader(source.schema())
        self._limit = self._reader.getDefaultReadLimit()
        self._at = json.dumps(self._reader.initialOffset())
        while self.batch():
            pass

    def batch(self) -> int:
        """Run one micro-batch; the number of its tasks, 0 if there is nothing to read."""
        start = json.loads(self._at)
        end = json.dumps(self._reader.latestOffset(start, self._limit))
        json.dumps(self._reader.reportLatestOffset())
        if end == self._at:
            return 0
        tasks = self._reader.partitions(json.loads(self._at), json.loads(end))
        for task in tasks:
            pickle.dumps(task)
        self._at = end
        return len(tasks)


def idle_polls(cluster: FakeCluster) -> Point:
    """Ask a stream without new records for its end."""
    query, clock = _Query(cluster), CpuClock()
    with clock.running():
        assert query.batch() == 0
    return Point(cluster.partitions, clock.seconds)


def idle_streams(cluster: FakeCluster) -> Point:
    """Run an idle stream with its own clock for some seconds. The result is the time in one second."""
    query, clock = _Query(cluster), CpuClock()
    assert query.batch() == 0
    began_s = time.monotonic()
    with clock.running():
        while time.monotonic() - began_s < _IDLE_S:
            assert query.batch() == 0
            time.sleep(_SPARK_POLLS_S)
    return Point(cluster.partitions, clock.seconds / (time.monotonic() - began_s))


def micro_batches(cluster: FakeCluster) -> Point:
    """Plan and pickle a micro-batch where one partition in a hundred has new records."""
    query, clock = _Query(cluster), CpuClock()
    grown = -(-cluster.partitions // _IDLE_OF_A_BATCH)
    cluster.grow(grown)
    with clock.running():
        assert query.batch() == grown
    return Point(cluster.partitions, clock.seconds)


def writes(cluster: FakeCluster) -> Point:
    """Write two rows for each partition, by key, in one task."""
    count = min(2 * cluster.partitions, _ROWS_MAX)
    columns = [pa.array([f"{number:08}".encode() for number in range(count)]), pa.array([bytes(100)] * count)]
    rows = pa.RecordBatch.from_arrays(columns, names=["key", "value"])
    schema = StructType().add("key", "binary").add("value", "binary")
    writer = pickle.loads(pickle.dumps(_source(cluster, topic=TOPIC).writer(schema, overwrite=False)))
    clock = CpuClock()
    with clock.running():
        message = pickle.loads(pickle.dumps(writer.write(iter([rows]))))
    assert message.totals.message_count == count
    return Point(count, clock.seconds)


def exactly_once(cluster: FakeCluster) -> Point:
    """Begin and commit a write of many tasks on the driver, where each task has written to ten partitions."""
    count = min(cluster.partitions, _TRANSACTIONS_MAX)
    options = {"delivery": "exactly-once", "kafka.transactional.id": "scale"}
    schema = StructType().add("value", "binary")
    cluster.requests()
    messages = [pickle.dumps(_of_task(task, cluster.partitions)) for task in range(count)]
    clock = CpuClock()
    with clock.running():
        writer = _source(cluster, topic=TOPIC, **options).writer(schema, overwrite=False)
        writer = pickle.loads(pickle.dumps(writer))
        writer.commit([pickle.loads(message) for message in messages])
    assert cluster.requests()["EndTxn"] == count + 2  # the decision, and that the write is done
    return Point(count, clock.seconds)


def _of_task(task: int, partition_count: int) -> TransactionMessage:
    tps = (TopicPartition(TOPIC, (task + number) % partition_count) for number in range(10))
    totals = WriteTotals.of(PartitionReceipt(tp, 1, 100, 0, 1) for tp in tps)
    transaction = Transaction(attempt_id("scale", task, f"{time.monotonic_ns()}.0.{task}"), PRODUCER_ID, 0, 1)
    return TransactionMessage(
        totals, batch=BatchId(""), row_count=10, topics=(TOPIC,), transaction=transaction
    )


def joins(cluster: FakeCluster) -> Point:
    """Join a consumer group of Kafka 0.7 in a real ZooKeeper that has a thread for each partition."""
    members = max(cluster.partitions // _THREADS, 1)
    root, clock = "/consumers/g/ids", CpuClock()
    with ZooKeeperServer() as zookeeper:
        others = KazooClient(zookeeper.connect)
        others.start()
        others.ensure_path(root)
        tree = Tree(others, Deadline.after(_JOIN_S))
        brokers = min(cluster.brokers, cluster.partitions)
        count = str(cluster.partitions // brokers).encode()
        tree.put({f"{TOPICS}/{TOPIC}/{broker}": count for broker in range(brokers)})
        registered = subscription([TOPIC], _THREADS)
        tree.claim({f"{root}/g_{number:06}": registered for number in range(members - 1)})
        discovery, retry = Discovery(zookeeper_connect=zookeeper.connect), RetryPolicy(3, 0.1, _JOIN_S)
        with clock.running():
            member = Member(discovery, "g", [TOPIC], _THREADS, retry, _JOIN_S)
            owned = member.hold()
        member.close()
        others.stop()
        others.close()
    assert len(owned) == min(_THREADS, cluster.partitions)
    return Point(members * _THREADS + cluster.partitions, clock.seconds)


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure: ``run`` measures it once, ``unit`` is its work."""

    name: str
    unit: str
    run: Callable[[FakeCluster], Point]

    def __call__(self, bench: Bench) -> Iterator[Figure]:
        """Figures of clusters of up to ``size`` partitions, and of more and more brokers."""
        self._measured([(_WARM_PARTITIONS, 1)], 1)
        say(f"scale: {self.name}")
        points = self._measured([(count, _BROKERS) for count in _powers(10, bench.size)], bench.rounds)
        # Larger clusters than a measure has work for would give a second point at the same work.
        different = {point.work: point for point in reversed(points)}
        curves = [Curve(self.name, self.unit, list(different.values())[::-1])]
        partitions = min(bench.size, _PARTITIONS_MAX)
        clusters = [(partitions, count) for count in _powers(1, bench.size // _PARTITIONS_OF_A_BROKER)]
        points = self._measured(clusters, bench.rounds)
        by_brokers = [Point(count, item.seconds) for (_, count), item in zip(clusters, points, strict=True)]
        curves.append(Curve(f"{self.name}, {partitions:,} partitions", "brokers", by_brokers))
        rows = [row for curve in curves for row in curve.rows()]
        print_table(["measure", "work", "CPU s", "CPU us each"], rows)
        yield from (curve.figure() for curve in curves)

    def _measured(self, clusters: Sequence[tuple[int, int]], rounds: int) -> list[Point]:
        """A point for each cluster, given as partitions and brokers."""
        points = []
        for partitions, brokers in clusters:
            with FakeCluster(partitions=partitions, brokers=brokers) as cluster:
                points.append(self.least(cluster, rounds))
        return points

    def least(self, cluster: FakeCluster, rounds: int) -> Point:
        """Point with the least time of some rounds, each of which connects first."""
        points = []
        for _ in range(rounds):
            POOL.close_idle()
            points.append(self.run(cluster))
        return min(points, key=lambda point: point.seconds)


def _powers(least_count: int, largest: int) -> list[int]:
    """Powers of ten between two, and the greater one itself."""
    counts = []
    while least_count < largest:
        counts.append(least_count)
        least_count *= 10
    return [*counts, largest]


MEASURES: Final[Mapping[str, Measure]] = {
    "planning": Measure("planning", "partitions", planning),
    "pickling": Measure("pickling", "partitions", pickling),
    "idle-poll": Measure("idle poll", "partitions", idle_polls),
    "idle-stream": Measure("idle stream, of a core", "partitions", idle_streams),
    "micro-batch": Measure("micro-batch with 1 % new", "partitions", micro_batches),
    "07-group": Measure("0.7 group", "threads and partitions", joins),
    "keyed-write": Measure("keyed write", "rows", writes),
    "exactly-once": Measure("exactly once, driver", "tasks", exactly_once),
}
_PASSWORD: Final = SECRET.replace("\\", "\\\\")
_LOGIN: Final = {
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": f'ScramLoginModule required username="{USER}" password="{_PASSWORD}";',
}
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def _serve(protocol: str, pem: str) -> None:
    script = login_broker() if protocol.startswith("SASL") else broker()
    with Peer(serving(server_of(Path(pem)), script) if protocol.endswith("SSL") else script) as peer:
        print(peer.broker.port, flush=True)
        sys.stdin.read()


def _measured(protocol: str, port: int, authority: Path, count: int) -> tuple[float, float]:
    """Milliseconds for each broker: with a new connection, and with a kept one."""
    options = {
        "kafka.bootstrap.servers": f"{SERVER_NAME}:{port}",
        "subscribe": "t",
        "kafka.security.protocol": protocol,
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(authority),
        **(_LOGIN if protocol.startswith("SASL") else {}),
    }
    if not protocol.endswith("SSL"):
        options = {name: value for name, value in options.items() if ".ssl." not in name}
    settings = ReadOptions.parse(options).net.connection
    pool, polls = Pool(), [CpuClock(), CpuClock()]
    with pool.lend(Broker(-1, SERVER_NAME, port), settings) as client:
        client.request(MetadataRequest(topics=()))
    for poll in polls:
        with poll.running():
            for number in range(count):
                with pool.lend(Broker(number, SERVER_NAME, port), settings) as client:
                    client.request(MetadataRequest(topics=()))
    pool.close_idle()
    new, kept = (poll.seconds / count * 1e3 for poll in polls)
    return new, kept


def connections(bench: Bench) -> Iterator[Figure]:
    """Milliseconds of a new and of a kept connection, by protocol."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        files = make(Path(folder))
        for protocol in _PROTOCOLS:
            command = [sys.executable, "-m", __name__, protocol, str(files.server)]
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as server:
                assert server.stdin is not None
                assert server.stdout is not None
                port = int(server.stdout.readline())
                new, kept = _measured(protocol, port, files.authority, bench.size)
                server.stdin.close()
            rows.append([protocol, f"{new:.2f}", f"{kept:.2f}"])
            yield Figure(f"new connection, {protocol}", "ms", new)
            yield Figure(f"kept connection, {protocol}", "ms", kept)
    print_table(["kafka.security.protocol", "new connection, ms", "kept connection, ms"], rows)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
