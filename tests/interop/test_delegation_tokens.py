"""Delegation tokens of Apache Kafka's brokers: the driver gets them, and tasks log in with them."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_kafkawire.cluster.modern.delegation_tokens import expire_tokens, forget_tokens, login_of_tasks
from spark_kafkawire.errors import AuthenticationError, BrokerError
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.logins.delegation_token import DelegationToken
from spark_kafkawire.net.pool import Pool
from spark_kafkawire.options import NetOptions, ReadOptions
from spark_kafkawire.protocol.modern.metadata import MetadataRequest
from spark_kafkawire.source.datasource import KafkaWireDataSource
from tests.support import librdkafka
from tests.support.certificates import Certificates
from tests.support.foreign import Record
from tests.support.polling import DEADLINE_S, poll

from .apache_kafka import USERS, ApacheKafka
from .needs import needs_broker
from .secured import login, option_name, trust, unsecured_token
from .versions import VERSIONS

#: The life of a token, and the time after which it cannot be renewed.
LIFE_S: Final = 60
LIFE_S_MAX: Final = 90
SETTINGS: Final = (
    "delegation.token.secret.key=a key of the tests",
    f"delegation.token.expiry.time.ms={LIFE_S * 1000}",
    f"delegation.token.max.lifetime.ms={LIFE_S_MAX * 1000}",
)
VALUE: Final = StructType([StructField("value", BinaryType())])


@pytest.fixture(autouse=True)
def _no_tokens() -> Iterator[None]:
    forget_tokens()
    yield
    forget_tokens()


@pytest.fixture(scope="module", params=VERSIONS)
def issuer(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[ApacheKafka]:
    """A broker that gives tokens."""
    version: str = request.param
    needs_broker(version)
    folder = tmp_path_factory.mktemp(f"issuer-{version}")
    with ApacheKafka(version, folder, certificates, settings=SETTINGS) as broker:
        yield broker


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


def bearer() -> dict[str, Any]:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    jaas = f'{module} required token="{unsecured_token()}";'
    return {"sasl__mechanism": "OAUTHBEARER", "sasl__jaas__config": jaas}


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_each_login_gets_a_token_that_brokers_take_at_once(
    issuer: ApacheKafka, certificates: Certificates, listener: str, mechanism: str
) -> None:
    how = bearer() if mechanism == "OAUTHBEARER" else login(mechanism, "bob", USERS["bob"])
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
        f'username="{credentials.token_id}" password="{credentials.hmac}" tokenauth="true";'
    )
    given = options(issuer, sasl__mechanism="SCRAM-SHA-256", sasl__jaas__config=jaas)
    assert serves(net_of({**given, "delegationTokens": "false"}))


def test_brokers_without_the_key_say_so(kafka: ApacheKafka) -> None:
    with pytest.raises(BrokerError) as caught:
        login_of_tasks(net_of(options(kafka)))
    assert str(caught.value).startswith(
        "CreateDelegationToken: delegation tokens are disabled on the brokers"
    )
    assert "set delegation.token.secret.key" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nothing_that_travels_has_the_password(issuer: ApacheKafka) -> None:
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
    travels = [dumps(each) for each in (reader.read, *partitions, writer, once_writer, sink)]
    password = USERS["bob"]
    for data in travels:
        found = unpacked(pickle.loads(data))
        for spelling in (password, ascii(password)[1:-1], repr(password)[1:-1]):
            assert spelling not in found
            assert spelling.encode() not in data
    assert all("DelegationToken" in unpacked(each) for each in (*partitions, writer, once_writer, sink))


def unpacked(value: Any) -> str:
    """All fields of an object and of its parts, secrets too."""
    seen: set[int] = set()

    def walk(part: Any) -> Iterator[str]:
        if id(part) in seen or isinstance(part, Pool):  # the pool is that of this process
            return
        seen.add(id(part))
        if isinstance(part, str | bytes | int | float | None):
            yield repr(part)
            return
        yield type(part).__name__
        if hasattr(part, "value") and type(part).__name__ == "Packed":
            yield from walk(part.value)
        elif isinstance(part, dict):
            for key, each in part.items():
                yield from (*walk(key), *walk(each))
        elif isinstance(part, list | tuple | set | frozenset):
            for each in part:
                yield from walk(each)
        else:
            own = getattr(part, "__self__", None)
            slots = [name for kind in type(part).__mro__ for name in getattr(kind, "__slots__", ())]
            for each in (own, *getattr(part, "__dict__", {}).values()):
                yield from walk(each)
            for name in slots:
                yield from walk(getattr(part, name, None))

    return " ".join(walk(value))


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
    found = sorted(int(row.value) for row in frame.select("value").collect())
    assert found == sorted([*range(100), *range(100)])


@pytest.mark.nightly
def test_streams_outlive_their_tokens(issuer: ApacheKafka, spark: SparkSession, tmp_path: Path) -> None:
    """A token lives a minute, and is renewed up to one and a half: each query uses two of them."""
    servers = issuer.bootstrap_servers()
    source, target, exact = (librdkafka.create_topic(servers, 2, None, {}) for _ in range(3))
    secured = options(issuer)
    deliveries: dict[str, dict[str, str]] = {
        target: {},
        exact: {"delivery": "exactly-once", "kafka.transactional.id": exact},
    }
    queries = [
        spark.readStream.format("kafkawire")
        .options(**secured, subscribe=source, startingOffsets="earliest")
        .load()
        .select("value")
        .writeStream.format("kafkawire")
        .options(**secured, topic=topic, checkpointLocation=str(tmp_path / topic), **delivery)
        .start()
        for topic, delivery in deliveries.items()
    ]

    def read(topic: str) -> list[int]:
        found = librdkafka.consume_partitions(
            servers, [(topic, 0), (topic, 1)], isolation_level="read_committed"
        )
        return sorted(int(each.value or b"") for records in found.values() for each in records)

    try:
        sent, began_s = 0, time.monotonic()

        def has_run() -> bool:
            nonlocal sent
            for query in queries:
                assert query.exception() is None, query.exception()
            librdkafka.produce(servers, source, [Record(b"%d" % sent), Record(b"%d" % (sent + 1))])
            sent += 2
            return time.monotonic() - began_s > LIFE_S_MAX + LIFE_S / 2

        poll(has_run, "the first tokens have expired", LIFE_S_MAX + DEADLINE_S)

        def are_there() -> bool:
            for query in queries:
                assert query.exception() is None, query.exception()
            return all(len(read(topic)) >= sent for topic in deliveries)

        poll(are_there, "the last rows are there")
    finally:
        for query in queries:
            query.stop()
    for topic in deliveries:
        assert read(topic) == list(range(sent))


def test_a_frame_that_outlives_its_token_says_so(issuer: ApacheKafka) -> None:
    servers = issuer.bootstrap_servers()
    topic = librdkafka.create_topic(servers)
    librdkafka.produce(servers, topic, [Record(b"a")])
    source = KafkaWireDataSource({**options(issuer), "subscribe": topic})
    reader = source.reader(source.schema())
    [partition] = reader.partitions()
    batches: Any = reader.read(partition)
    assert sum(batch.num_rows for batch in batches) == 1
    dumps: Any = cloudpickle.dumps

    def error() -> str | None:
        try:
            list(pickle.loads(dumps(reader)).read(pickle.loads(pickle.dumps(partition))))
        except Exception as caught:
            return str(caught)
        return None

    message = poll(error, "the token has expired", LIFE_S + DEADLINE_S)
    assert message is not None
    assert "delegation token" in message
    assert "expired" in message
    assert "load or write again" in message
    assert "\n" not in message
