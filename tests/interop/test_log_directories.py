"""Log directories of Apache Kafka, read without a broker: rows, and batches and segments."""

from __future__ import annotations

import datetime
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from spark_kafkawire.broker import ZooKeeperServer
from spark_kafkawire.broker.cluster import find_java
from spark_kafkawire.errors import OptionError
from tests.support import kafka_python, librdkafka, ours
from tests.support.certificates import Certificates
from tests.support.codecs import BY_NAME
from tests.support.directory_reading import DirectoryRead
from tests.support.foreign import CLIENT_TIMEOUT_S, CODECS, Record
from tests.support.polling import poll
from tests.support.reading import Read
from tests.support.table_reading import Rows, rows_of

from .apache_kafka import ApacheCluster, ApacheKafka, ZooKeeperKafka
from .compaction import COMPACTED, compacted_topic
from .jars import NoJars, broker_jars
from .versions import NEWEST, VERSIONS, needs_broker

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
    last = {item["key"]: item for item in expected}
    assert {item["key"]: item for item in compacted} == last
    assert all(item in expected for item in compacted)
    assert [item["offset"] for item in compacted][:3] == [offset for offset, _ in COMPACTED]


def records_time(servers: str, topic: str) -> int:
    """The timestamp of a record in the middle of a topic, ms."""
    times = served(servers, [topic]).column("timestamp").cast(pa.int64()).to_pylist()
    return int(sorted(times)[len(times) // 2] // 1000)


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
                plain = [Record(item.value, item.key) for item in records(0, 500)]
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
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    topic = NewTopic("replicated", 3, 3, config={"min.insync.replicas": "2"})
    for done in admin.create_topics([topic]).values():
        done.result(CLIENT_TIMEOUT_S)
    return "replicated"


_TOOL: Final = "kafka.tools.DumpLogSegments"
#: The last release that has it among the broker's jars.
_VERSION: Final = "4.1.1"
_FILE: Final = re.compile(r"Dumping (\S+)")
_FIELD: Final = re.compile(r"(\w+): (\S+)")
#: Numbers that a batch may lack; it is -1 then.
_OPTIONAL: Final = ("producerId", "producerEpoch", "baseSequence", "partitionLeaderEpoch")


def dumped(logs: Sequence[Path]) -> list[dict[str, Any]]:
    """The batches of the files, one after the other, under the names of the columns of ``batches``."""
    try:
        java, jars = find_java(), broker_jars(_VERSION)
    except (OptionError, NoJars) as reason:
        pytest.skip(str(reason))
    files = ",".join(map(str, logs))
    command = [str(java), "-cp", f"{jars}/*", _TOOL, "--skip-record-metadata", "--files", files]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    file, result = "", []
    for line in done.stdout.splitlines():
        if match := _FILE.match(line):
            file = Path(match[1]).name
        elif line.startswith("baseOffset: "):
            result.append(_row(file, dict(_FIELD.findall(line))))
    return result


def _row(file: str, fields: dict[str, str]) -> dict[str, Any]:
    number = {name: int(fields[name]) for name in fields if fields[name].lstrip("-").isdigit()}
    known = {name: None if number[name] < 0 else number[name] for name in _OPTIONAL}
    kind = next(name for name in ("CreateTime", "LogAppendTime") if name in fields)
    return {
        "file": file,
        "position": number["position"],
        "bytes": number["size"],
        "baseOffset": number["baseOffset"],
        "lastOffset": number["lastOffset"],
        "records": number["count"],
        "magic": number["magic"],
        "codec": fields["compresscodec"].lower(),
        "timestampType": kind,
        "maxTimestamp": number[kind] if number[kind] >= 0 else None,
        "producerId": known["producerId"],
        "producerEpoch": known["producerEpoch"],
        "baseSequence": known["baseSequence"],
        "leaderEpoch": known["partitionLeaderEpoch"],
        "isTransactional": fields["isTransactional"] == "true",
        "isControl": fields["isControl"] == "true",
        "crc": number["crc"],
        "isValid": fields["isvalid"] == "true",
    }


def short_records(count: int) -> list[Record]:
    return [Record(b"%d" % item * 100, b"k%d" % item) for item in range(count)]


def write_batches(servers: str) -> None:
    """Batches of all codecs, of transactions that end either way, with times of the broker."""
    for codec in CODECS:
        topic = librdkafka.create_topic(servers, topic_config={"segment.bytes": "1048576"})
        for _ in range(3):
            librdkafka.produce(servers, topic, short_records(1500), codec)
    stamped = librdkafka.create_topic(servers, topic_config={"message.timestamp.type": "LogAppendTime"})
    librdkafka.produce(servers, stamped, short_records(20))
    for _ in range(3):
        librdkafka.commit(servers, stamped, short_records(5))
        librdkafka.abort(servers, stamped, short_records(5))
    with librdkafka.transaction(servers, stamped, short_records(3), outcome="open"):
        librdkafka.commit_offsets(servers, "a group", stamped, {0: 5})


def in_ms(time: datetime.datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)


def batches_of(folder: Path) -> dict[str, Rows]:
    """The rows by the folder of their log, with times as the tool prints them."""
    result: dict[str, Rows] = {}
    for row in rows_of({"table": "batches", "path": str(folder)}):
        row["maxTimestamp"] = in_ms(row["maxTimestamp"])
        result.setdefault(f"{row['topic']}-{row['partition']}", []).append(row)
    return result


def test_batches_are_what_kafka_dump_log_prints(kafka: ApacheKafka, tmp_path: Path) -> None:
    write_batches(kafka.bootstrap_servers())
    kafka.stop()
    data = tmp_path / "data"
    result = batches_of(data)
    assert {"__consumer_offsets-0", "__transaction_state-0"} <= result.keys()
    assert {row["codec"] for rows in result.values() for row in rows} == set(CODECS)
    for name, rows in result.items():
        expected = dumped(sorted((data / name).glob("*.log")))
        assert [{column: row[column] for column in expected[0]} for row in rows] == expected
    segments = rows_of({"table": "segments", "path": str(data)})
    assert any(row["baseOffset"] for row in segments)
    for segment in segments:
        own = [
            row
            for row in result.get(f"{segment['topic']}-{segment['partition']}", [])
            if row["file"] == segment["file"]
        ]
        assert segment["bytes"] == sum(row["bytes"] for row in own)
        if own:
            assert segment["firstOffset"] == own[0]["baseOffset"]
            assert segment["nextOffset"] == own[-1]["lastOffset"] + 1
            times = [row["maxTimestamp"] for row in own if row["maxTimestamp"] is not None]
            assert in_ms(segment["maxTimestamp"]) == max(times, default=None)
