"""Brokers from 0.8.2 to 2.8: old versions of requests, records of magic 0 and 1, and all three in one
partition."""

from __future__ import annotations

import itertools
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from spark_kafkawire.broker import EmbeddedCluster, ZooKeeperServer
from spark_kafkawire.errors import OptionError, UnsupportedVersionError
from spark_kafkawire.jobs.migration.run import check
from spark_kafkawire.net.known_versions import BROKER_VERSIONS
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from tests.jobs.migration.migrating import (
    FETCH,
    PIECE_BYTES,
    VALUES,
    Died,
    Killed,
    clusters_of,
    dying,
    killed_after,
    pieces_to_copy,
    run,
    unheard,
)
from tests.support import interrupted, kafka_python, librdkafka, ours
from tests.support.codecs import BY_NAME, of_magic
from tests.support.exactly_once import committed
from tests.support.exactly_once import dying as dying_write
from tests.support.foreign import CLIENT_TIMEOUT_S, CODECS, Record, values
from tests.support.interrupted import TransactionsJob
from tests.support.late_requests import failed_and_late, waiting
from tests.support.noida import HOST
from tests.support.old_brokers import LAST_KEYS, OldLogServer
from tests.support.polling import poll

from .apache_kafka import ApacheKafka, ZooKeeperKafka
from .versions import needs_broker

#: Each is the first or the last of its kind: magic 0, a broker that ignores ApiVersions, magic 1,
#: magic 2, and the last one but one to need ZooKeeper.
VERSIONS: Final = ("0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "2.8.2")
STAMP_MS: Final = int(time.time() * 1000) - 60_000
RECORDS: Final = [
    Record(b"%d" % number * 20, b"k%d" % number, (), STAMP_MS + number) for number in range(300)
]
_TOPICS: Final = itertools.count()


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeperServer]:
    """ZooKeeper of these brokers' cluster."""
    with ZooKeeperServer() as server:
        yield server


@pytest.fixture(scope="module", params=VERSIONS)
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ZooKeeperKafka]:
    """A broker of one version."""
    needs_broker(request.param)
    zookeeper: ZooKeeperServer = request.getfixturevalue("zookeeper")
    folder = tmp_path_factory.mktemp(f"kafka-{request.param}")
    with ZooKeeperKafka(request.param, folder, zookeeper.connect) as server:
        yield server


def topic_name() -> str:
    return f"topic-{next(_TOPICS)}"


def old(broker: ZooKeeperKafka) -> dict[str, Any]:
    """Options of kafka-python for brokers whose version it cannot ask for."""
    return {"api_version": broker.release[:3]} if broker.release < (0, 10) else {}


def in_log(broker: ZooKeeperKafka, records: list[Record]) -> list[Record]:
    """The records as the broker's log has them: before 0.10 without time."""
    if broker.release < (0, 10):
        records = [replace(record, timestamp_ms=None, timestamp_type=-1) for record in records]
    return [replace(record, offset=offset) for offset, record in enumerate(records)]


def codecs(broker: ZooKeeperKafka) -> list[str]:
    return [codec for codec in CODECS if codec == "none" or broker.release >= BY_NAME[codec].since]


def test_what_we_write_is_read_by_us_and_by_others(broker: ZooKeeperKafka) -> None:
    for codec in codecs(broker):
        topic = topic_name()
        ours.produce(broker.bootstrap_servers, topic, RECORDS, codec)
        assert ours.consume(broker.bootstrap_servers, topic) == in_log(broker, RECORDS)
        if codec in kafka_python.CODECS:
            result = kafka_python.consume(broker.bootstrap_servers, topic, **old(broker))
            assert [(item.key, item.value) for item in result] == [(item.key, item.value) for item in RECORDS]


def test_what_others_write_is_read_by_us(broker: ZooKeeperKafka) -> None:
    for codec in kafka_python.CODECS:
        topic = topic_name()
        kafka_python.produce(broker.bootstrap_servers, topic, RECORDS, codec, **old(broker))
        assert ours.consume(broker.bootstrap_servers, topic) == in_log(broker, RECORDS)


def test_a_time_is_a_start_where_brokers_know_times(broker: ZooKeeperKafka) -> None:
    topic = topic_name()
    ours.produce(broker.bootstrap_servers, topic, RECORDS)
    start: dict[str, Any] = {"startingTimestamp": str(STAMP_MS + 100)}
    if broker.release < (0, 10, 1):
        with pytest.raises(UnsupportedVersionError):
            ours.consume(broker.bootstrap_servers, topic, **start)
    else:
        assert ours.consume(broker.bootstrap_servers, topic, **start) == in_log(broker, RECORDS)[100:]


def test_what_a_broker_is_too_old_for_is_an_error_that_says_so(broker: ZooKeeperKafka) -> None:
    if broker.release < (0, 11):
        with pytest.raises(OptionError, match="idempoten"):
            ours.produce(broker.bootstrap_servers, topic_name(), RECORDS, kafka__enable__idempotence="true")
    if broker.release < (2, 1):
        with pytest.raises(OptionError, match="zstd"):
            ours.produce(broker.bootstrap_servers, topic_name(), RECORDS, "zstd")


#: How long the answers to two Fetches are, and which of two other questions are answered: see ``probe``.
PROOFS: Final[dict[tuple[int, ...], tuple[list[int | None], list[int] | None]]] = {
    (0, 8): ([8, 8], None),
    (0, 9): ([12, 12], [1]),
    (0, 10): ([12, None], [0, 1]),
}
OLD_RELEASES: Final[dict[tuple[int, ...], str]] = {(0, 8): "0.8", (0, 9): "0.9"}


def test_brokers_before_0_10_alone_give_a_proof_of_their_age(broker: ZooKeeperKafka) -> None:
    proofs = PROOFS[min(broker.release[:2], (0, 10))]
    assert probe(broker.port) == proofs
    # The brokers that other tests take for old ones do the same.
    release = f"{broker.release[0]}.{broker.release[1]}"
    if release in LAST_KEYS:
        with OldLogServer(release, {}) as fake:
            assert probe(fake.port) == proofs


def test_report_what_an_old_broker_lacks(broker: ZooKeeperKafka, caplog: pytest.LogCaptureFixture) -> None:
    topic = topic_name()
    ours.produce(broker.bootstrap_servers, topic, RECORDS)
    [known] = {item.release for item in BROKER_VERSIONS._known.values()}
    assert known == OLD_RELEASES.get(broker.release[:2])
    reported = [message for message in caplog.messages if message.startswith("column")]
    lacking = ["headers"] if broker.release < (0, 11) else []
    lacking = ["timestamp", *lacking] if known else lacking
    assert [message.split(":")[0] for message in reported] == [f"column {name}" for name in lacking]
    caplog.clear()
    assert ours.consume(broker.bootstrap_servers, topic) == in_log(broker, RECORDS)
    reported = [message for message in caplog.messages if message.startswith("column")]
    names = "timestamp, timestampType, headers" if known else "headers"
    assert [message.split(":")[0] for message in reported] == ([f"columns {names}"] if lacking else [])


def test_a_migration_in_transactions_goes_on_where_brokers_have_them(
    broker: ZooKeeperKafka, corpus: EmbeddedCluster, tmp_path: Path
) -> None:
    servers, topic = broker.bootstrap_servers, pieces_to_copy(corpus)
    clusters = clusters_of(corpus.zookeeper_connect, servers, [topic], exactly_once=True, fetchBytes=FETCH)
    if broker.release < (0, 11):
        said = (
            r"^argument --exactly-once: option delivery: .* Kafka has from 0\.11 on; leave the option out: "
        )
        with pytest.raises(OptionError, match=said):
            run(clusters, tmp_path, {topic: topic}, PIECE_BYTES)
        assert not any(tmp_path.glob("migration-*"))
        return
    librdkafka.create_topic(servers, 3, topic)  # before 2.4 the job would have to be told of replicas
    for runner in (unheard, killed_after(1)):
        with pytest.raises(Killed):
            run(clusters, tmp_path, {topic: topic}, PIECE_BYTES, runner)
    # What is open is aborted by the next run.
    with dying("commit_offsets", after_it=True), pytest.raises(Died):
        run(clusters, tmp_path, {topic: topic}, PIECE_BYTES)
    check(run(clusters, tmp_path, {topic: topic}, PIECE_BYTES))
    result = librdkafka.consume(servers, topic, isolation_level="read_committed")
    assert [item.value for item in result] == VALUES


def test_a_decision_is_finished_by_the_job_also_where_brokers_list_no_transactions(
    broker: ZooKeeperKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    if broker.release < (0, 11):
        pytest.skip("it has no transactions")
    servers = broker.bootstrap_servers
    job = TransactionsJob(servers, capsys)
    for at in range(interrupted.REQUESTS_MAX):
        topic = interrupted.new_topic(servers)
        with dying_write(at, after_it=True):
            interrupted.once(servers, topic, topic).run()
        code, out, err = job.run("--json", "--transactional-id", topic, "--finish")
        if code == 0:
            break
        # Nothing was decided yet: it times out, and never counts.
        assert f"know no transaction of '{topic}', and no decision" in err
        assert committed(servers, topic, interrupted.PARTITIONS) == []
    ended = json.loads(out)
    assert (len(ended["committed"]), ended["aborted"]) == (2, [])
    assert ended["not_listed"].startswith("brokers before 3.0")
    assert committed(servers, topic, interrupted.PARTITIONS) == interrupted.VALUES
    assert job.reported("--transactional-id", topic, "--finish")["committed"] == []


def test_a_late_request_of_a_failed_attempt_blocks_no_reader(broker: ZooKeeperKafka) -> None:
    """These brokers take what is sent in a transaction without asking whether that is open: the epoch of the
    marker, which the partition knows, is all that refuses it."""
    if broker.release < (2, 5):
        pytest.skip("an id cannot be given up, and what comes late hangs there for good")
    topic = librdkafka.create_topic(broker.bootstrap_servers, 2, topic_name())
    [code] = failed_and_late([broker.port], topic, {})
    assert code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert waiting(broker.bootstrap_servers, topic, 2) == {}


#: Of which magic records are, where a broker is told this format.
FORMATS: Final = {"0.9.0": 0, "0.10.0": 1, "2.8": 2}
#: Only magic 2 has headers, and magic 0 has no time.
MARKED: Final = [replace(record, headers=(("magic", b"2"),)) for record in RECORDS]


def magic_of(record: Record) -> int:
    return 2 if record.headers else record.timestamp_type + 1


def test_one_partition_holds_all_three_formats(broker: ZooKeeperKafka) -> None:
    if broker.version != "2.8.2":
        pytest.skip("only this broker's topics can change their format")
    servers, topic = broker.bootstrap_servers, topic_name()
    librdkafka.create_topic(servers, name=topic)
    for message_format in ("0.9.0", "0.10.0", "2.8", "0.10.0", "0.9.0"):
        _alter(servers, topic, "message.format.version", message_format)
        _await_magic(servers, topic, FORMATS[message_format])
        for codec in of_magic(0):
            librdkafka.produce(servers, topic, MARKED if message_format == "2.8" else RECORDS, codec)
    result = ours.consume(servers, topic)
    assert values(result) == values(librdkafka.consume(servers, topic))
    assert [item.offset for item in result] == list(range(len(result)))
    magics = [magic for magic, _ in itertools.groupby(map(magic_of, result))]
    assert magics[magics.index(0) :] == [0, 1, 2, 1, 0]
    stamps = {item.value: item.timestamp_ms for item in RECORDS}
    assert all(item.timestamp_ms == (stamps[item.value] if magic_of(item) else None) for item in result)


def _await_magic(servers: str, topic: str, magic: int) -> None:
    """A broker learns of a topic's new setting a little later, from ZooKeeper."""

    def stored() -> bool:
        try:
            librdkafka.produce(servers, topic, MARKED[:1])
            return magic == 2
        except KafkaException:  # Headers have no place in the older formats.
            librdkafka.produce(servers, topic, RECORDS[:1])
            return magic_of(ours.consume(servers, topic)[-1]) == magic

    poll(stored, f"records of magic {magic}")


def _alter(servers: str, topic: str, name: str, value: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(CLIENT_TIMEOUT_S)


#: Fetch of no topics, in two versions; ApiVersions 4 (correlation id 0) and DescribeGroups 0 of none (1).
#: The client's name is "x": a broker 0.9 fails with a client that has none, in layouts of its own.
_FETCHES: Final = [
    bytes.fromhex(f"0000001b 0001 {version:04x} 00000000 0001 78 ffffffff 00000000 00000000 00000000")
    for version in (1, 32767)
]
_VERSIONS: Final = bytes.fromhex("00000011 0012 0004 00000000 0001 78 00 02 61 02 62 00")
_GROUPS: Final = bytes.fromhex("0000000f 000f 0000 00000001 0001 78 00000000")


def probe(port: int) -> tuple[list[int | None], list[int] | None]:
    """Lengths of the answers to Fetch 1 and Fetch 32767, and the ids of the other two requests that are
    answered, in order; None if the broker closes instead."""
    sizes: list[int | None] = []
    for fetch in _FETCHES:
        with socket.create_connection((HOST, port), CLIENT_TIMEOUT_S) as fetching:
            fetching.sendall(fetch)
            answer = _frame(fetching)
            sizes.append(None if answer is None else len(answer))
    with socket.create_connection((HOST, port), CLIENT_TIMEOUT_S) as asking:
        asking.sendall(_VERSIONS + _GROUPS)
        ids = []
        while (response := _frame(asking)) is not None:
            ids.append(int.from_bytes(response[:4], "big"))
            if ids[-1] == 1:
                break
    return sizes, ids or None


def _frame(connection: socket.socket) -> bytes | None:
    try:
        size = _exactly(connection, 4)
        return None if size is None else _exactly(connection, int.from_bytes(size, "big"))
    except ConnectionError:
        return None


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        came = connection.recv(size - len(data))
        if not came:
            return None
        data += came
    return data


# The last test: in the middle it would let pytest begin each of the brokers above twice.
def test_todays_brokers_give_neither_proof_of_being_old(kafka: ApacheKafka) -> None:
    result = probe(kafka.ports["PLAINTEXT"])
    assert result == ([None if kafka.version.startswith("4") else 12, None], [0, 1])
