"""Logins that end soon (KIP-368), on Apache Kafka's brokers: reads, writes and streams outlive them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_kafkawire.net.client import Client
from spark_kafkawire.net.pool import Pool
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.protocol.modern.metadata import MetadataRequest
from spark_kafkawire.source.datasource import KafkaWireDataSource
from tests.support import librdkafka
from tests.support.certificates import Certificates
from tests.support.foreign import Record
from tests.support.polling import poll

from .apache_kafka import USERS, ApacheKafka
from .needs import needs_broker
from .secured import login, option_name, trust
from .versions import VERSIONS

#: The lifetime of each login with PLAIN and SCRAM-SHA-512. Brokers let a client log in again once a second.
LIFETIME_S: Final = 3.0
SETTINGS: Final = tuple(
    f"listener.name.{listener}.{mechanism}.connections.max.reauth.ms={round(LIFETIME_S * 1000)}"
    for listener in ("sasl_plaintext", "sasl_ssl")
    for mechanism in ("plain", "scram-sha-512")
)
VALUE: Final = StructType([StructField("value", BinaryType())])
PARTS: Final = 12


@pytest.fixture(scope="module", params=VERSIONS)
def strict(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[ApacheKafka]:
    """A broker whose logins end soon."""
    version: str = request.param
    needs_broker(version)
    folder = tmp_path_factory.mktemp(f"strict-{version}")
    with ApacheKafka(version, folder, certificates, settings=SETTINGS) as broker:
        yield broker


@pytest.fixture(params=["SASL_PLAINTEXT", "SASL_SSL"])
def secured(
    request: pytest.FixtureRequest, strict: ApacheKafka, certificates: Certificates
) -> dict[str, str]:
    listener: str = request.param
    given: dict[str, Any] = {
        "bootstrap.servers": strict.bootstrap_servers(listener),
        "security.protocol": listener,
        **login("SCRAM-SHA-512", "alice", USERS["alice"]),
        **(trust(certificates) if listener == "SASL_SSL" else {}),
    }
    return {option_name(name): value for name, value in given.items()}


def client_of(raw: dict[str, str]) -> Client:
    parsed = ReadOptions.parse({**raw, "subscribe": "t"})
    return Client.connect(parsed.discovery.bootstrap_servers[0], parsed.net.connection)


def test_one_connection_lasts_for_many_logins(secured: dict[str, str]) -> None:
    with client_of(secured) as client:
        sockets = {client._channel}
        began_s = time.monotonic()

        def is_over() -> bool:
            assert client.request(MetadataRequest(topics=())).brokers
            sockets.add(client._channel)
            return time.monotonic() - began_s > 3 * LIFETIME_S

        poll(is_over, "three lifetimes have passed")
    assert len(sockets) == 1


def test_a_connection_of_the_pool_is_used_after_its_login_has_ended(secured: dict[str, str]) -> None:
    pool, began_s = Pool(), time.monotonic()
    client = client_of(secured)
    pool.give_back(client)
    poll(lambda: time.monotonic() - began_s > 1.5 * LIFETIME_S, "the login has ended")
    taken = pool.take(client.broker, client.settings)
    assert taken is client
    assert taken.request(MetadataRequest(topics=())).brokers
    taken.close()


@pytest.fixture(params=[True, False], ids=["as promised", "earlier than promised"])
def keeps_promise(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """False where the client believes that its logins last longer than the broker keeps them."""
    promise: bool = request.param
    if not promise:
        monkeypatch.setattr("spark_kafkawire.net.sasl.LIFETIME_USED", 100.0)
    return promise


def test_a_slow_read_has_all_rows(strict: ApacheKafka, secured: dict[str, str], keeps_promise: bool) -> None:
    servers = strict.bootstrap_servers()
    topic = librdkafka.create_topic(servers)
    for part in range(PARTS):
        records = [Record(b"%d" % (100 * part + number)) for number in range(100)]
        librdkafka.produce(servers, topic, records)
    raw = {**secured, "subscribe": topic, "fetchBytes": "1024"}
    if keeps_promise:
        raw["retries"] = "0"
    source = KafkaWireDataSource(raw)
    reader = source.reader(source.schema())
    [partition] = reader.partitions()
    found, batches, due_s = [], 0, time.monotonic()
    read: Any = reader.read(partition)
    for batch in read:
        found += [int(value) for value in batch["value"].to_pylist()]
        batches += 1
        due_s += 1.1 * LIFETIME_S if batches < 4 else 0
        poll(lambda: time.monotonic() > due_s, "the consumer takes its time")  # noqa: B023
    assert batches > 4
    assert found == list(range(100 * PARTS))


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"kafka.enable.idempotence": "false", "retries": "0"},
        {"delivery": "exactly-once"},
    ],
    ids=["idempotent", "without a second try", "exactly once"],
)
def test_a_long_write_has_each_row_once(
    strict: ApacheKafka, secured: dict[str, str], more: dict[str, str]
) -> None:
    """Rows come all the time, so that requests are in flight when a login ends, and after a while without
    any."""
    servers = strict.bootstrap_servers()
    topic = librdkafka.create_topic(servers)
    writer: Any = KafkaWireDataSource({**secured, "topic": topic, "batchBytes": "4096", **more}).writer(
        VALUE, False
    )
    count = 0

    def rows() -> Iterator[pa.RecordBatch]:
        nonlocal count
        began_s = time.monotonic()
        while time.monotonic() - began_s < 2.2 * LIFETIME_S:
            values = [b"%0100d" % number for number in range(count, count + 500)]
            count += 500
            yield pa.record_batch([pa.array(values, pa.binary())], names=["value"])
        poll(lambda: time.monotonic() - began_s > 3.5 * LIFETIME_S, "no row comes for a lifetime")
        values = [b"%0100d" % number for number in range(count, count + 500)]
        count += 500
        yield pa.record_batch([pa.array(values, pa.binary())], names=["value"])

    writer.commit([writer.write(rows())])
    source = KafkaWireDataSource(
        {"kafka.bootstrap.servers": servers, "subscribe": topic, "kafka.isolation.level": "read_committed"}
    )
    reader: Any = source.reader(source.schema())
    found = [
        int(value)
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for value in batch["value"].to_pylist()
    ]
    assert found == list(range(count))


def test_a_write_goes_on_after_a_broker_has_closed_too_early(
    strict: ApacheKafka, secured: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_kafkawire.net.sasl.LIFETIME_USED", 100.0)
    test_a_long_write_has_each_row_once(strict, secured, {})


def test_a_stream_outlives_its_logins(
    strict: ApacheKafka, secured: dict[str, str], spark: SparkSession, tmp_path: Path
) -> None:
    servers = strict.bootstrap_servers()
    source, target = (librdkafka.create_topic(servers, 2, None, {}) for _ in range(2))
    query = (
        spark.readStream.format("kafkawire")
        .options(**secured, subscribe=source, startingOffsets="earliest")
        .load()
        .select("value")
        .writeStream.format("kafkawire")
        .options(**secured, topic=target, checkpointLocation=str(tmp_path / "checkpoint"))
        .start()
    )

    def read() -> list[int]:
        found = librdkafka.consume_partitions(servers, [(target, 0), (target, 1)])
        return sorted(int(each.value or b"") for records in found.values() for each in records)

    try:
        sent, began_s = 0, time.monotonic()

        def has_run() -> bool:
            nonlocal sent
            assert query.exception() is None, query.exception()
            librdkafka.produce(servers, source, [Record(b"%d" % sent), Record(b"%d" % (sent + 1))])
            sent += 2
            return time.monotonic() - began_s > 5 * LIFETIME_S

        poll(has_run, "five lifetimes have passed")

        def are_there() -> bool:
            assert query.exception() is None, query.exception()
            return len(read()) >= sent

        poll(are_there, "the last rows are there")
    finally:
        query.stop()
    assert read() == list(range(sent))
