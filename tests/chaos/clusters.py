"""Topics of all shapes that a modern broker keeps, written and read again by librdkafka."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.broker.cluster import find_java
from spark_kafkawire.errors import OptionError
from tests.interop.apache_kafka import ApacheKafka
from tests.interop.compaction import compacted_topic
from tests.interop.jars import NoJars, broker_jars
from tests.support import certificates, librdkafka, replay
from tests.support.foreign import CLIENT_TIMEOUT_S, CODECS, Record
from tests.support.message_sets import message
from tests.support.noida import NoidaBroker

from . import v07
from .operations import Target
from .proxy import Upstream
from .truth import READ_COMMITTED, READ_UNCOMMITTED, Log, Row, Truth
from .writing import PARTITION_COUNT

_DAY_MS: Final = 24 * 3600 * 1000
#: Sizes of values around the smallest ``fetchBytes`` there is, and common ones.
_SIZES: Final = (0, 1, 7, 50, 200, 1000, 1023, 1024, 1025, 3000)
_TIMES_COUNT: Final = 9
_APPEND_TIME: Final = "append-time"
#: A log that the cleaner may still change is looked at again after this time.
_STILL_S: Final = 1.5


def prepare(servers: str, seed: str, *, is_apache: bool) -> Truth:
    """Write the topics; what they hold."""
    chance = random.Random(f"{seed} topics")
    written: dict[str, list[Record]] = {}
    first_ms = int(time.time() * 1000) - _DAY_MS

    def topic(name: str, partitions: int, **config: str) -> None:
        written[name] = []
        librdkafka.create_topic(servers, partitions, name, {"retention.ms": "-1", **config})

    def drawn(name: str, count: int, partition: int) -> list[Record]:
        batch = [_record(chance, name, first_ms, partition) for _ in range(count)]
        written[name] += batch
        return batch

    def write(name: str, count: int, partition: int, codec: str) -> None:
        librdkafka.produce(servers, name, drawn(name, count, partition), codec, linger_ms=20)

    for codec in CODECS:
        topic(f"{codec}-coded", 2)
        for partition in (0, 1):
            for count in (40, 1, 25):
                write(f"{codec}-coded", count, partition, codec)
    topic("mixed", 3)
    for _ in range(14):
        write("mixed", chance.randrange(1, 30), chance.randrange(2), chance.choice(CODECS))
    topic(_APPEND_TIME, 1, **{"message.timestamp.type": "LogAppendTime"})
    for codec in CODECS:
        write(_APPEND_TIME, 12, 0, codec)
    topic("empty", 2)
    topic("trimmed", 1)
    for codec in ("none", "gzip", "zstd"):
        write("trimmed", 20, 0, codec)
    librdkafka.delete_records(servers, "trimmed", 0, 27)
    # Transactions one after the other and between plain records. noida-db (0.2.3) names aborted ones that
    # ended before the offset that is asked for, so that what their producers committed later seems aborted:
    # there each has a producer of its own.
    topic("transactions", 2)
    for number in range(12):
        batch = [*drawn("transactions", 6, 0), *drawn("transactions", 6, 1)]
        codec, id_ = chance.choice(CODECS), f"chaos-{number % 3 if is_apache else number}"
        if end := chance.choice((librdkafka.commit, librdkafka.abort, None)):
            end(servers, "transactions", batch, transactional_id=id_, compression_codec=codec)
        else:
            librdkafka.produce(servers, "transactions", batch, codec)
    return learned(servers, written, [_compacted(servers)] if is_apache else ())


def _compacted(servers: str) -> str:
    """A log with holes, which the cleaner then leaves alone."""
    name = compacted_topic(servers)
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    entries = [
        ConfigEntry(key, str(value), incremental_operation=AlterConfigOpType.SET)
        for key, value in (
            ("max.compaction.lag.ms", 2**63 - 1),
            ("min.compaction.lag.ms", 365 * _DAY_MS),
            ("segment.ms", 365 * _DAY_MS),
        )
    ]
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(CLIENT_TIMEOUT_S)
    before: list[Record] = []
    while (result := librdkafka.consume(servers, name)) != before:
        before = result
        time.sleep(_STILL_S)
    return name


def _record(chance: random.Random, name: str, first_ms: int, partition: int) -> Record:
    is_tombstone = chance.random() < 0.08
    names, count = ("h", "header", "ä"), chance.choice((0, 0, 0, 1, 3))
    # noida-db (0.2.3) rewrites records where it sets their time, and keeps one header of a name.
    drawn = chance.sample(names, count) if name == _APPEND_TIME else chance.choices(names, k=count)
    headers = [(key, chance.choice((None, b"", b"v", chance.randbytes(30)))) for key in drawn]
    return Record(
        value=None if is_tombstone else chance.randbytes(chance.choice(_SIZES) // 2) * 2,
        key=None if chance.random() < 0.3 else b"%s-%d" % (name.encode(), chance.randrange(50)),
        headers=tuple(headers),
        timestamp_ms=first_ms + chance.randrange(_DAY_MS // 2),
        partition=partition,
    )


def learned(servers: str, written: Mapping[str, Sequence[Record]], others: Sequence[str] = ()) -> Truth:
    """Records that librdkafka reads of the topics, compared with the written ones where those are known."""
    asked = Consumer({"bootstrap.servers": servers, "group.id": "chaos-truth", "log_level": 0})
    try:
        places = [
            (name, partition)
            for name in (*written, *others)
            for partition in asked.list_topics(name, CLIENT_TIMEOUT_S).topics[name].partitions
        ]
        records, committed = (
            librdkafka.consume_partitions(servers, places, isolation_level=isolation)
            for isolation in (READ_UNCOMMITTED, READ_COMMITTED)
        )
        times = _times([item.timestamp_ms or 0 for result in records.values() for item in result])
        logs = [_log(asked, location, records[location], committed[location], times) for location in places]
    finally:
        asked.close()
    for log in logs:
        if log.topic in written:
            _compare(log, [item for item in written[log.topic] if item.partition == log.partition])
    return {name: tuple(log for log in logs if log.topic == name) for name in (*written, *others)}


def _log(
    asked: Consumer,
    place: tuple[str, int],
    records: Sequence[Record],
    committed: Sequence[Record],
    times: Sequence[int],
) -> Log:
    """A log, with what its broker says of its ends and of times."""
    start, stop = asked.get_watermark_offsets(TopicPartition(*place), CLIENT_TIMEOUT_S)
    at_times = {}
    for stamp in times:
        [reported] = asked.offsets_for_times([TopicPartition(*place, stamp)], CLIENT_TIMEOUT_S)
        at_times[stamp] = stop if reported.offset < 0 else reported.offset
    return Log(
        *place,
        start,
        stop,
        tuple(_row(place[0], item) for item in records),
        bounds=tuple(range(start, stop + 1)),
        aborted=frozenset(item.offset for item in records) - {item.offset for item in committed},
        at_times=at_times,
    )


def _compare(log: Log, records: Sequence[Record]) -> None:
    written = [(item.key, item.value, item.headers) for item in records]
    read = [(row.key, row.value, row.headers) for row in log.rows]
    # The beginning of a log may have been deleted.
    pairs = zip(read, written[len(written) - len(read) :], strict=True)
    changed = [pair for pair in pairs if pair[0] != pair[1]]
    assert not changed, f"librdkafka does not read what it wrote to {log.topic}: {changed[:2]}"


def _row(topic: str, record: Record) -> Row:
    at = topic, None, record.partition, record.offset, 0
    return Row(*at, record.key, record.value, record.headers, record.timestamp_ms, record.timestamp_type)


def _times(stamps: Iterable[int]) -> list[int]:
    """Some times of records, one before all and one after all."""
    known = sorted(set(stamps))
    return [known[0] - 1, *known[:: max(1, len(known) // _TIMES_COUNT)], known[-1] + _DAY_MS]


#: Between two disturbances of a 0.7 cluster, seconds.
_CALM_S: Final = (15.0, 40.0)
#: A running cluster: what workers get of it, and a function that runs again and again while they work.
Running = tuple[Target, Callable[[], None]]


class Skipped(Exception):
    """Why a cluster cannot run on this machine, in one line."""


def running(name: str, seed: int, workers: int) -> AbstractContextManager[Running]:
    """The cluster of that name, its topics written. Raises ``Skipped``."""
    return CLUSTERS[name](name, seed, workers)


@contextmanager
def _noida(name: str, seed: int, workers: int) -> Iterator[Running]:
    with NoidaBroker() as broker:
        ports = (Upstream("broker", broker.port, "kafka"),)
        yield _modern(name, broker.bootstrap_servers, ports, seed, workers), _nothing


@contextmanager
def _apache(version: str, name: str, seed: int, workers: int) -> Iterator[Running]:
    try:
        find_java()
        broker_jars(version)
    except (OptionError, NoJars) as reason:
        raise Skipped(str(reason)) from reason
    with tempfile.TemporaryDirectory(prefix="kafkawire-chaos-") as folder:
        tls = Path(folder) / "tls"
        tls.mkdir()
        with ApacheKafka(version, Path(folder), certificates.make(tls)) as broker:
            ports = (
                Upstream("broker", broker.ports["PLAINTEXT"], "kafka"),
                Upstream("sasl", broker.ports["SASL_PLAINTEXT"], "kafka"),
            )
            yield _modern(name, broker.bootstrap_servers(), ports, seed, workers), _nothing


def _nothing() -> None:
    """Disturb nothing: the cluster is left alone."""


def _modern(name: str, servers: str, upstreams: tuple[Upstream, ...], seed: int, workers: int) -> Target:
    truth = prepare(servers, str(seed), is_apache=len(upstreams) > 1)
    written = tuple(f"written-{index}" for index in range(workers))
    for topic in written:
        librdkafka.create_topic(servers, PARTITION_COUNT, topic, {"retention.ms": "-1"})
    return Target(name, upstreams, truth, written, servers)


@contextmanager
def _v07(name: str, seed: int, workers: int) -> Iterator[Running]:
    try:
        find_java()
    except OptionError as reason:
        raise Skipped(str(reason)) from reason
    properties = {
        "topic.log.file.size": f"{v07.SEGMENTED}:{v07.SEGMENT_BYTES}",
        # What a killed broker leaves in ZooKeeper goes soon, and it may register again.
        "zk.sessiontimeout.ms": "2000",
    }
    with EmbeddedCluster(v07.BROKER_COUNT, v07.PARTITION_COUNT, properties=properties) as cluster:
        assert cluster.zookeeper is not None
        ports = {broker.id: broker.port for broker in cluster.brokers}
        folders = {broker.id: broker.log_dir for broker in cluster.brokers}
        truth = v07.prepare(ports, folders, str(seed))
        written = tuple(f"written-{index}" for index in range(workers))
        for topic in written:
            for port in ports.values():
                replay.produce(port, (topic, 0), message(b"the first message makes the topic"))
        upstreams = (
            Upstream("zookeeper", cluster.zookeeper.port, "zookeeper"),
            *(Upstream(f"broker {broker}", port, "kafka 0.7") for broker, port in ports.items()),
        )
        target = Target(name, upstreams, truth, written, logs_in=folders)
        yield target, partial(next, _disturbances(cluster, seed))


def _disturbances(cluster: EmbeddedCluster, seed: int) -> Iterator[None]:
    """Brokers of 0.7 that are killed and start again, and a ZooKeeper that restarts, at drawn moments."""
    chance = random.Random(f"{seed} disturbances")
    assert cluster.zookeeper is not None
    while True:
        next_s = time.monotonic() + chance.uniform(*_CALM_S)
        while time.monotonic() < next_s:
            yield
        if chance.random() < 0.5:
            broker = chance.choice(cluster.brokers)
            broker.kill()
            broker.start()
        else:
            cluster.zookeeper.stop()
            cluster.zookeeper.start()


CLUSTERS: Final[dict[str, Callable[[str, int, int], AbstractContextManager[Running]]]] = {
    "kafka-4.1": partial(_apache, "4.1.1"),
    "kafka-3.9": partial(_apache, "3.9.1"),
    "noida-db": _noida,
    "kafka-0.7": _v07,
}
