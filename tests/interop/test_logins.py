"""Our client at each listener of a real broker: logins that succeed, that fail and that end soon (KIP-368),
and delegation tokens; reads, writes and streams outlive them."""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_kafkawire.cluster.modern.delegation_tokens import (
    expire_tokens,
    login_of_tasks,
)
from spark_kafkawire.errors import (
    AuthenticationError,
    BrokerError,
    ConnectionLost,
    UnsupportedVersionError,
)
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.logins.passwords import DelegationToken
from spark_kafkawire.options import NetOptions, ReadOptions
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.modern.metadata import MetadataRequest
from spark_kafkawire.source.datasource import KafkaWireDataSource
from tests.support import librdkafka
from tests.support.certificates import KEY_PASSWORD, Certificates
from tests.support.foreign import Record
from tests.support.polling import DEADLINE_S, poll
from tests.support.reading import Read

from .apache_kafka import LOGIN_MS, USERS, ApacheKafka
from .secured import (
    MODULES,
    bearer,
    connect,
    is_served,
    login,
    option_name,
    refused,
    trust,
    unsecured_token,
)
from .versions import broker_with, newest_version


def test_the_highest_common_versions_are_spoken(kafka: ApacheKafka) -> None:
    with connect(kafka, "PLAINTEXT") as client:
        for api in modern.DIALECT.apis:
            newest = min(api.versions.max, newest_version(api, kafka.version))
            if newest < api.versions.min:
                with pytest.raises(UnsupportedVersionError):
                    client.version_of(api)
            else:
                assert client.version_of(api) == newest, api.name


def test_a_listener_that_wants_a_client_certificate_gets_one(
    kafka: ApacheKafka, certificates: Certificates
) -> None:
    for identity in (
        {"ssl__keystore__location": str(certificates.client)},
        {"ssl__keystore__location": str(certificates.client_encrypted), "ssl__key__password": KEY_PASSWORD},
    ):
        assert is_served(connect(kafka, "MTLS", **identity, **trust(certificates)))
    assert "kafka.ssl.keystore.location" in refused(kafka, "MTLS", **trust(certificates))
    stranger: dict[str, Any] = {"ssl__keystore__location": str(certificates.stranger)}
    assert "the server refuses the TLS connection" in refused(
        kafka, "MTLS", **stranger, **trust(certificates)
    )


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MODULES)
def test_users_log_in_with_their_password_alone(
    kafka: ApacheKafka, certificates: Certificates, listener: str, mechanism: str
) -> None:
    more: dict[str, Any] = trust(certificates) if listener == "SASL_SSL" else {}
    for user, password in USERS.items():
        assert is_served(connect(kafka, listener, **login(mechanism, user, password), **more))
    for user, password in (("alice", "wrong"), ("nobody", "alice-secret"), ("bob", USERS["alice"])):
        message = refused(kafka, listener, **login(mechanism, user, password), **more)
        assert f"SASL {mechanism}: the broker refuses the credentials (error 58" in message


def test_a_login_that_ends_is_made_again_or_the_broker_closes(kafka: ApacheKafka) -> None:
    how = login("SCRAM-SHA-256", "alice", USERS["alice"])
    with connect(kafka, "SASL_PLAINTEXT", **how) as client:
        poll(
            lambda: time.monotonic() >= client.channel.login_due_s,
            "the client knows that its login ends soon",
            LOGIN_MS / 1000,
        )
        assert client.request(MetadataRequest(topics=())).brokers
        assert client.channel.login_due_s > time.monotonic()
    with connect(kafka, "SASL_PLAINTEXT", **how) as late:
        late.channel.login_due_s = math.inf

        def served() -> bool:
            return bool(late.request(MetadataRequest(topics=())).brokers)

        with pytest.raises(ConnectionLost, match="instead of answering Metadata"):
            poll(lambda: not served(), "the broker closes once the login has ended")


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_bearer_of_a_good_token_is_let_in(
    kafka: ApacheKafka, certificates: Certificates, listener: str
) -> None:
    more: dict[str, Any] = trust(certificates) if listener == "SASL_SSL" else {}
    assert is_served(connect(kafka, listener, **bearer(unsecured_token()), **more))
    expired = unsecured_token(exp=1_000_000_000, iat=999_999_000)
    for token in ("wr0ng-one", "a.b.c", unsecured_token(sub=7), expired, unsecured_token(exp=None)):
        message = refused(kafka, listener, **bearer(token), **more)
        assert "SASL OAUTHBEARER: the broker refuses the " in message
        assert token not in message


#: The lifetime of each login with PLAIN and SCRAM-SHA-512. Brokers let a client log in again once a second.
LIFETIME_S: Final = 3.0
SETTINGS: Final = tuple(
    f"listener.name.{listener}.{mechanism}.connections.max.reauth.ms={round(LIFETIME_S * 1000)}"
    for listener in ("sasl_plaintext", "sasl_ssl")
    for mechanism in ("plain", "scram-sha-512")
)
VALUE: Final = StructType([StructField("value", BinaryType())])
PARTS: Final = 12


strict = broker_with(SETTINGS)


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
    result, batches, due_s = [], 0, time.monotonic()
    read: Any = reader.read(partition)
    for batch in read:
        result += [int(value) for value in batch["value"].to_pylist()]
        batches += 1
        due_s += 1.1 * LIFETIME_S if batches < 4 else 0
        poll(lambda: time.monotonic() > due_s, "the consumer takes its time")  # noqa: B023
    assert batches > 4
    assert result == list(range(100 * PARTS))


@pytest.mark.parametrize(
    "more",
    [{}, {"kafka.enable.idempotence": "false", "retries": "0"}, {"delivery": "exactly-once"}],
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

    def next_rows() -> pa.RecordBatch:
        nonlocal count
        values = [b"%0100d" % number for number in range(count, count + 500)]
        count += 500
        return pa.record_batch([pa.array(values, pa.binary())], names=["value"])

    def rows() -> Iterator[pa.RecordBatch]:
        began_s = time.monotonic()
        while time.monotonic() - began_s < 2.2 * LIFETIME_S:
            yield next_rows()
        poll(lambda: time.monotonic() - began_s > 3.5 * LIFETIME_S, "no row comes for a lifetime")
        yield next_rows()

    writer.commit([writer.write(rows())])
    result = Read(servers, subscribe=topic, **{"kafka.isolation.level": "read_committed"}).column("value")
    assert [int(value) for value in result] == list(range(count))


def test_a_write_goes_on_after_a_broker_has_closed_too_early(
    strict: ApacheKafka, secured: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_kafkawire.net.sasl.LIFETIME_USED", 100.0)
    test_a_long_write_has_each_row_once(strict, secured, {})


def outlives(
    spark: SparkSession,
    servers: str,
    secured: dict[str, str],
    deliveries: list[dict[str, str]],
    life_s: float,
) -> None:
    """Streams, one for each delivery, that copy all rows of a topic for so long."""
    source = librdkafka.create_topic(servers, 2, None, {})
    targets = {librdkafka.create_topic(servers, 2, None, {}): delivery for delivery in deliveries}
    with contextlib.ExitStack() as running:
        queries = []
        for topic, delivery in targets.items():
            folder = running.enter_context(tempfile.TemporaryDirectory())
            stream = spark.readStream.format("kafkawire").options(**secured, subscribe=source)
            frame = stream.option("startingOffsets", "earliest").load().select("value")
            named = {"kafka.transactional.id": topic} if delivery else {}
            writer = frame.writeStream.format("kafkawire").options(
                **secured, topic=topic, **delivery, **named
            )
            queries.append(writer.option("checkpointLocation", folder).start())
            running.callback(queries[-1].stop)

        def read(topic: str) -> list[int]:
            places = [(topic, 0), (topic, 1)]
            result = librdkafka.consume_partitions(servers, places, isolation_level="read_committed")
            return sorted(int(item.value or b"") for records in result.values() for item in records)

        def check() -> None:
            for query in queries:
                assert query.exception() is None, query.exception()

        sent, began_s = 0, time.monotonic()

        def has_run() -> bool:
            nonlocal sent
            check()
            librdkafka.produce(servers, source, [Record(b"%d" % sent), Record(b"%d" % (sent + 1))])
            sent += 2
            return time.monotonic() - began_s > life_s

        poll(has_run, "the first logins have ended", life_s + DEADLINE_S)

        def are_there() -> bool:
            check()
            return all(len(read(topic)) >= sent for topic in targets)

        poll(are_there, "the last rows are there")
    for topic in targets:
        assert read(topic) == list(range(sent))


def test_a_stream_outlives_its_logins(
    strict: ApacheKafka, secured: dict[str, str], spark: SparkSession
) -> None:
    outlives(spark, strict.bootstrap_servers(), secured, [{}], 5 * LIFETIME_S)


#: A source of tokens that live for six seconds.
TOKENS: Final = """
import base64
import json
import time


def token():
    now = time.time()
    parts = ({"alg": "none"}, {"sub": "alice", "iat": now, "exp": now + 6})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join((*encoded, "")), now + 6
"""


@pytest.mark.nightly
def test_a_stream_outlives_its_bearer_tokens(
    strict: ApacheKafka, certificates: Certificates, spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / f"short_tokens_{strict.version.replace('.', '_')}.py"
    path.write_text(TOKENS)
    spark.sparkContext.addPyFile(str(path))
    given = {"sasl.mechanism": "OAUTHBEARER", "saslTokenProvider": f"{path.stem}:token"}
    given |= {"bootstrap.servers": strict.bootstrap_servers("SASL_SSL"), "security.protocol": "SASL_SSL"}
    secured = {option_name(name): value for name, value in {**given, **trust(certificates)}.items()}
    outlives(spark, strict.bootstrap_servers(), {**secured, "retries": "0"}, [{}], 60)


#: The life of a token, and the time after which it cannot be renewed.
LIFE_S: Final = 60
LIFE_S_MAX: Final = 90
TOKEN_SETTINGS: Final = (
    "delegation.token.secret.key=a key of the tests",
    f"delegation.token.expiry.time.ms={LIFE_S * 1000}",
    f"delegation.token.max.lifetime.ms={LIFE_S_MAX * 1000}",
)


issuer = broker_with(TOKEN_SETTINGS)


def options(kafka: ApacheKafka, listener: str = "SASL_PLAINTEXT", **more: Any) -> dict[str, str]:
    """The options of a login whose tasks get tokens."""
    given = {
        "bootstrap.servers": kafka.bootstrap_servers(listener),
        "security.protocol": listener,
        **(more or login("SCRAM-SHA-512", "bob", USERS["bob"])),
    }
    return {
        **{option_name(name): value for name, value in given.items()},
        "requestTimeout": "20s",
        "delegationTokens": "true",
    }


def net_of(raw: Mapping[str, str]) -> NetOptions:
    return ReadOptions.parse({**raw, "subscribe": "t"}).net


def serves(net: NetOptions) -> bool:
    [server] = net.connection.bootstrap_servers
    with Client.connect(server, net.connection) as client:
        return bool(client.request(MetadataRequest(topics=())).brokers)


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_each_login_gets_a_token_that_brokers_take_at_once(
    issuer: ApacheKafka, certificates: Certificates, listener: str, mechanism: str
) -> None:
    how = bearer(unsecured_token()) if mechanism == "OAUTHBEARER" else login(mechanism, "bob", USERS["bob"])
    net = net_of(options(issuer, listener, **how, **(trust(certificates) if "SSL" in listener else {})))
    token = login_of_tasks(net)
    assert token.mechanism == "SCRAM-SHA-512"
    assert serves(net.with_token(token))
    assert login_of_tasks(net) is token


def test_a_token_is_renewed_and_expires(issuer: ApacheKafka) -> None:
    net = net_of(options(issuer))
    token = login_of_tasks(net)
    assert serves(net.with_token(token))
    began_s, used = time.monotonic(), 0.1
    poll(lambda: time.monotonic() - began_s > used * LIFE_S, "a tenth of the token's life is over")
    assert login_of_tasks(net, used) == token
    expire_tokens(net)
    credentials = token.credentials
    assert isinstance(credentials, DelegationToken)
    of_long_ago = replace(token, credentials=replace(credentials, created_s=None))

    def is_refused() -> str | None:
        try:
            serves(net.with_token(of_long_ago))
        except AuthenticationError as error:
            return str(error)
        return None

    message = poll(is_refused, "the brokers have forgotten the token")
    assert message is not None
    assert message.endswith(
        "with delegationTokens=true, load or write again: a new DataFrame has a new token"
    )
    assert login_of_tasks(net) != token


def test_a_login_with_a_token_of_the_users_gets_no_other(issuer: ApacheKafka) -> None:
    net = net_of(options(issuer))
    token = login_of_tasks(net)
    delegating = net.with_token(token)
    security = replace(delegating.connection.security, delegates=True)
    delegating = replace(delegating, connection=replace(delegating.connection, security=security))
    with pytest.raises(BrokerError, match="delegation tokens are not available over this kind of connection"):
        login_of_tasks(delegating)
    credentials = token.credentials
    assert isinstance(credentials, DelegationToken)
    jaas = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{credentials.username}" password="{credentials.password}" tokenauth="true";'
    )
    given = options(issuer, sasl__mechanism="SCRAM-SHA-256", sasl__jaas__config=jaas)
    assert serves(net_of({**given, "delegationTokens": "false"}))


def test_nothing_that_travels_has_the_password(issuer: ApacheKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = issuer.bootstrap_servers()
    topic = librdkafka.create_topic(servers, 2, None, {})
    librdkafka.produce(servers, topic, [Record(b"a", partition=0), Record(b"b", partition=1)])
    secured = options(issuer)
    source = KafkaWireDataSource({**secured, "subscribe": topic})
    reader = source.reader(source.schema())
    partitions = reader.partitions()
    assert len(partitions) == 2
    writer = KafkaWireDataSource({**secured, "topic": topic}).writer(VALUE, False)
    once = {"delivery": "exactly-once", "kafka.transactional.id": topic}
    once_writer = KafkaWireDataSource({**secured, "topic": topic, **once}).writer(VALUE, False)
    sink = KafkaWireDataSource({**secured, "topic": topic}).streamWriter(VALUE, False)
    dumps: Any = cloudpickle.dumps
    compress = zlib.compress
    monkeypatch.setattr(zlib, "compress", lambda data: compress(data, 0))  # so that its bytes are seen
    password = USERS["bob"]
    for item in (reader.read, *partitions, writer, once_writer, sink):
        data = dumps(item)
        assert item == reader.read or b"DelegationToken" in data
        for spelling in (password, ascii(password)[1:-1], repr(password)[1:-1]):
            assert spelling.encode() not in data


def test_spark_reads_and_writes_with_tokens(
    issuer: ApacheKafka, certificates: Certificates, spark: SparkSession
) -> None:
    servers = issuer.bootstrap_servers()
    topic = librdkafka.create_topic(servers, 2, None, {})
    secured = options(issuer, "SASL_SSL", **login("PLAIN", "alice", USERS["alice"]), **trust(certificates))
    rows = spark.createDataFrame([(b"%d" % number,) for number in range(100)], "value binary")
    once = {"delivery": "exactly-once", "kafka.transactional.id": topic}
    for more in ({}, once):
        rows.write.format("kafkawire").mode("append").options(**secured, topic=topic, **more).save()
    frame = spark.read.format("kafkawire").options(**secured, subscribe=topic).load()
    result = sorted(int(row.value) for row in frame.select("value").collect())
    assert result == sorted([*range(100), *range(100)])


@pytest.mark.nightly
def test_streams_outlive_their_tokens(issuer: ApacheKafka, spark: SparkSession) -> None:
    """A token lives a minute, and is renewed up to one and a half: each query uses two of them."""
    deliveries: list[dict[str, str]] = [{}, {"delivery": "exactly-once"}]
    outlives(spark, issuer.bootstrap_servers(), options(issuer), deliveries, LIFE_S_MAX + LIFE_S / 2)
