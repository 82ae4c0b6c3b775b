"""Log directories of Apache Kafka from 0.8.2 to 4.1, read without a broker: row for row what the broker
served before it was stopped or killed; also from S3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from spark_kafkawire.broker import ZooKeeperServer
from spark_kafkawire.directories.files import FileAccessError
from tests.support import kafka_python, librdkafka, ours
from tests.support.certificates import Certificates
from tests.support.codecs import BY_NAME
from tests.support.directory_reading import DirectoryRead
from tests.support.foreign import CLIENT_TIMEOUT_S, CODECS, Record
from tests.support.golden import CORPUS
from tests.support.log_folders import KILLED
from tests.support.polling import poll
from tests.support.reading import Read

from .apache_cluster import ApacheCluster
from .apache_kafka import ApacheKafka
from .compaction import COMPACTED, compacted_topic
from .moto_server import ENVIRONMENT, REGION, MotoServer
from .needs import needs_broker
from .versions import NEWEST, VERSIONS
from .zookeeper_kafka import ZooKeeperKafka

COMMITTED: Final = {"kafka.isolation.level": "read_committed"}
SMALL_SEGMENTS: Final = {"segment.bytes": "1048576", "segment.index.bytes": "8192"}


def records(start: int, stop: int, size: int = 200) -> list[Record]:
    return [
        Record(b"%d " % number + b"v" * size, b"k%d" % (number % 11), (("h", b"%d" % number),))
        for number in range(start, stop)
    ]


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")])


def served(servers: str, topics: list[str], **options: str) -> pa.Table:
    return in_order(Read(servers, subscribe=",".join(topics), includeHeaders="true", **options).table())


def found(*paths: Path, topics: list[str], **options: str) -> pa.Table:
    return in_order(
        DirectoryRead(*paths, subscribe=",".join(topics), includeHeaders="true", **options).table()
    )


@pytest.fixture(params=VERSIONS)
def kafka(
    request: pytest.FixtureRequest, tmp_path: Path, certificates: Certificates
) -> Iterator[ApacheKafka]:
    """A broker that the test stops."""
    needs_broker(request.param)
    with ApacheKafka(request.param, tmp_path, certificates) as broker:
        yield broker


def write_all(servers: str) -> list[str]:
    """Topics with all that a log can hold; their names."""
    topics = [librdkafka.create_topic(servers, topic_config=SMALL_SEGMENTS) for _ in CODECS]
    for topic, codec in zip(topics, CODECS, strict=True):
        for start in range(0, 6000, 1000):
            librdkafka.produce(servers, topic, records(start, start + 1000, 800), codec)
    transactional = librdkafka.create_topic(servers)
    for start in range(0, 100, 20):
        librdkafka.produce(servers, transactional, records(start, start + 5))
        librdkafka.commit(servers, transactional, records(start + 5, start + 10))
        librdkafka.abort(servers, transactional, records(start + 10, start + 20))
    trimmed = librdkafka.create_topic(servers)
    librdkafka.produce(servers, trimmed, records(0, 50))
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for done in admin.delete_records([TopicPartition(trimmed, 0, 17)]).values():
        done.result(CLIENT_TIMEOUT_S)
    return [*topics, transactional, trimmed]


def test_a_directory_has_the_rows_that_its_broker_served(kafka: ApacheKafka, tmp_path: Path) -> None:
    servers = kafka.bootstrap_servers()
    topics = write_all(servers)
    middle = str(records_time(servers, topics[0]))
    cases: list[Mapping[str, str]] = [
        {},
        COMMITTED,
        {"startingTimestamp": middle},
        {"endingTimestamp": middle},
    ]
    expected = [served(servers, topics[:1] if "Timestamp" in str(case) else topics, **case) for case in cases]
    # Everything is in the files, also while the broker runs: but it writes starts down every minute.
    assert found(tmp_path / "data", topics=topics[:-1]) == served(servers, topics[:-1])
    kafka.stop()
    for case, table in zip(cases, expected, strict=True):
        asked = topics[:1] if "Timestamp" in str(case) else topics
        assert len(table)
        assert found(tmp_path / "data", topics=asked, **case) == table
        for split in ({"minPartitions": "40"}, {"maxBytesPerPartition": "300000"}):
            assert found(tmp_path / "data", topics=asked, **case, **split) == table


def test_a_directory_that_was_compacted(kafka: ApacheKafka, tmp_path: Path) -> None:
    servers = kafka.bootstrap_servers()
    topic = compacted_topic(servers)
    expected = served(servers, [topic]).to_pylist()
    kafka.stop()
    compacted = found(tmp_path / "data", topics=[topic]).to_pylist()
    # The log cleaner may have gone on meanwhile: it leaves the last record of each key.
    last = {each["key"]: each for each in expected}
    assert {each["key"]: each for each in compacted} == last
    assert all(each in expected for each in compacted)
    assert [each["offset"] for each in compacted][:3] == [offset for offset, _ in COMPACTED]


def records_time(servers: str, topic: str) -> int:
    """The timestamp of a record in the middle of a topic, ms."""
    times = served(servers, [topic]).column("timestamp").cast(pa.int64()).to_pylist()
    return int(sorted(times)[len(times) // 2] // 1000)


def test_a_directory_of_a_broker_that_was_killed(kafka: ApacheKafka, tmp_path: Path) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers, topic_config=SMALL_SEGMENTS)
    librdkafka.produce(servers, topic, records(0, 3000, 800))
    kafka.kill()
    kafka.start()
    librdkafka.produce(servers, topic, records(3000, 4000, 800))
    with librdkafka.transaction(servers, topic, records(4000, 4010), outcome="open"):
        librdkafka.produce(servers, topic, records(4010, 4020))
        expected, committed = served(servers, [topic]), served(servers, [topic], **COMMITTED)
        kafka.kill()
        assert len(expected) > len(committed) > 0
        assert found(tmp_path / "data", topics=[topic]) == expected
        assert found(tmp_path / "data", topics=[topic], **COMMITTED) == committed
        kafka.start()


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeperServer]:
    """ZooKeeper of old brokers."""
    with ZooKeeperServer() as server:
        yield server


@pytest.mark.parametrize("version", ["0.8.2.2", "0.10.2.2", "2.8.2"])
def test_a_directory_of_an_old_broker(version: str, zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    needs_broker(version)
    with ZooKeeperKafka(version, tmp_path, zookeeper.connect) as broker:
        servers = broker.bootstrap_servers
        topics = []
        for codec in CODECS:
            if codec == "none" or broker.release >= BY_NAME[codec].since:
                topic = f"directory-{codec}"
                plain = [Record(each.value, each.key) for each in records(0, 500)]
                ours.produce(servers, topic, plain, codec)
                if codec in kafka_python.CODECS:
                    old = {"api_version": broker.release[:3]} if broker.release < (0, 10) else {}
                    kafka_python.produce(servers, topic, plain, codec, **old)
                topics.append(topic)
        expected = in_order(Read(servers, subscribe=",".join(topics)).table())
        broker.kill()
    assert len(expected) >= 500 * len(topics)
    assert in_order(DirectoryRead(tmp_path / "data", subscribe=",".join(topics)).table()) == expected
    split = DirectoryRead(tmp_path / "data", subscribe=",".join(topics), minPartitions="9")
    assert in_order(split.table()) == expected


def test_three_replicas_with_a_leader_that_was_killed(tmp_path: Path) -> None:
    needs_broker(NEWEST)
    with ApacheCluster(NEWEST, tmp_path, nodes=3) as cluster:
        servers = cluster.bootstrap_servers()
        topic = replicated_topic(servers)
        librdkafka.produce(servers, topic, records(0, 1000))
        cluster.kill(0)
        librdkafka.produce(servers, topic, records(1000, 2000))
        cluster.start(0)
        cluster.await_answer(0)
        cluster.kill(1)
        librdkafka.produce(servers, topic, records(2000, 3000))
        cluster.start(1)
        cluster.await_answer(1)
        librdkafka.produce(servers, topic, records(3000, 3100))
        expected = served(servers, [topic])
        poll(lambda: marks(tmp_path, topic) >= len(expected), "checkpoints of high watermarks")
    assert len(expected) == 3100
    paths = [tmp_path / f"node-{node}" / "data" for node in range(3)]
    assert found(*paths, topics=[topic]) == expected
    assert found(*reversed(paths), topics=[topic], minPartitions="11") == expected


def marks(folder: Path, topic: str) -> int:
    """The sum of the highest high watermarks that brokers have written down for a topic."""
    highest: dict[str, int] = {}
    for path in folder.glob("node-*/data/replication-offset-checkpoint"):
        for line in path.read_text().splitlines():
            name, _, rest = line.partition(" ")
            if name == topic:
                partition, offset = rest.split()
                highest[partition] = max(int(offset), highest.get(partition, 0))
    return sum(highest.values())


def replicated_topic(servers: str) -> str:
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    topic = NewTopic("replicated", 3, 3, config={"min.insync.replicas": "2"})
    for done in admin.create_topics([topic]).values():
        done.result(CLIENT_TIMEOUT_S)
    return "replicated"


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoServer]:
    """An S3 with a directory of each kind."""
    pytest.importorskip("moto", reason="the extra interop has an S3")
    with MotoServer(tmp_path_factory.mktemp("moto")) as server:
        server.upload(KILLED, "logs", "broker-1")
        server.upload(CORPUS / "broker0", "old-logs", "broker-0")
        yield server


def test_directories_in_s3(s3: MotoServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    where = {"fs__endpoint": s3.endpoint, "fs__region": REGION}
    for uri, local in (("s3://logs/broker-1", KILLED), ("s3a://old-logs/broker-0/", CORPUS / "broker0")):
        expected = DirectoryRead(local).table()
        assert DirectoryRead(uri, **where).table() == expected
        assert in_order(DirectoryRead(uri, minPartitions="5", **where).table()) == in_order(expected)
    committed = DirectoryRead("s3://logs/broker-1", **where, kafka__isolation__level="read_committed").table()
    assert committed == DirectoryRead(KILLED, kafka__isolation__level="read_committed").table()
    with pytest.raises(FileAccessError, match=r"does not exist$"):
        DirectoryRead("s3://logs/missing", **where)
    with pytest.raises(FileAccessError, match=r"there are some below .*broker-1; give these paths"):
        DirectoryRead("s3://logs", **where)


def test_an_s3_that_does_not_answer_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**ENVIRONMENT, "AWS_MAX_ATTEMPTS": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(FileAccessError) as error:
        DirectoryRead("s3://logs/broker-1", fs__endpoint="http://127.0.0.1:9", fs__region=REGION)
    assert "s3://logs/broker-1 cannot be" in str(error.value)
    assert len(str(error.value)) < 600
