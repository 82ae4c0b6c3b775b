"""Each login at Apache Kafka with right, wrong, expired and absent credentials; streams that outlive theirs.

A login ends in rows, or in one line that says what to do and shows no secret. Logins that need a server
besides the broker have tests of their own.
"""

from __future__ import annotations

import itertools
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from pyspark.sql import SparkSession

from spark_kafkawire.errors import AuthenticationError, KafkaWireError
from tests.support import librdkafka
from tests.support.certificates import Certificates
from tests.support.foreign import Record
from tests.support.polling import GRACE_S, poll
from tests.support.reading import read
from tests.support.spark_streams import begun

from .apache_kafka import LISTENERS, USERS, ApacheKafka
from .secured import MODULES, connect, is_served, login, option_name, trust, unsecured_token
from .versions import newest

PROTOCOLS: Final = ("SASL_PLAINTEXT", "SASL_SSL")
BEARER: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
ROWS: Final = [Record(b"a"), Record(b"b")]
PASSWORD: Final = "expiring-secret"
#: Seconds that a token lives in the stream of tokens, and with it its sessions.
LIFETIME_S: Final = 6
#: How long a stream runs, many times that.
OUTLIVED_S: Final = 60


@pytest.fixture(scope="module")
def topics() -> dict[str, str]:
    """A topic of each broker, with rows."""
    return {}


@pytest.fixture
def topic(kafka: ApacheKafka, topics: dict[str, str]) -> str:
    """A topic of the broker, with rows."""
    servers = kafka.bootstrap_servers()
    if servers not in topics:
        topics[servers] = librdkafka.create_topic(servers)
        librdkafka.produce(servers, topics[servers], ROWS)
    return topics[servers]


@pytest.fixture(params=PROTOCOLS)
def listener(request: pytest.FixtureRequest) -> str:
    """A listener with logins."""
    name: str = request.param
    return name


class Door:
    """One listener of a broker, and a topic there."""

    def __init__(self, kafka: ApacheKafka, listener: str, topic: str, certificates: Certificates) -> None:
        self.kafka, self.listener, self.topic = kafka, listener, topic
        self._more = trust(certificates) if listener == "SASL_SSL" else {}

    def credentials(self, **credentials: Any) -> dict[str, Any]:
        """The arguments of a connection."""
        return {**self._more, **credentials}

    def options(self, **credentials: Any) -> dict[str, str]:
        """The options of a read."""
        named = {"security__protocol": LISTENERS[self.listener], **self.credentials(**credentials)}
        return {option_name(name): value for name, value in named.items()}

    def values(self, **credentials: Any) -> list[bytes]:
        """The rows of the topic, read as a query does."""
        servers = self.kafka.bootstrap_servers(self.listener)
        return sorted(
            row["value"] for row in read(servers, subscribe=self.topic, **self.options(**credentials))
        )

    def refused(self, secret: str | None = None, **credentials: Any) -> str:
        """The one line of a login that fails."""
        began_s = time.monotonic()
        with pytest.raises(KafkaWireError) as caught:
            self.values(**credentials)
        assert time.monotonic() - began_s < GRACE_S
        assert "\n" not in str(caught.value)
        assert secret is None or secret not in "".join(traceback.format_exception(caught.value))
        return f"{type(caught.value).__name__}: {caught.value}"


@pytest.fixture
def door(kafka: ApacheKafka, listener: str, topic: str, certificates: Certificates) -> Door:
    return Door(kafka, listener, topic, certificates)


def bearer(token: str) -> dict[str, str]:
    return {"sasl__mechanism": "OAUTHBEARER", "sasl__jaas__config": f'{BEARER} token="{token}";'}


def refusal(mechanism: str) -> str:
    return (
        f"SASL {mechanism}: the broker refuses the credentials (error 58 SASL_AUTHENTICATION_FAILED); check "
    )


@pytest.mark.parametrize("mechanism", MODULES)
def test_a_password_is_right_or_wrong_or_absent(door: Door, mechanism: str) -> None:
    for user, password in USERS.items():
        assert door.values(**login(mechanism, user, password)) == [b"a", b"b"]
    for user, password in (("alice", "wr0ng-one"), ("nobody", "alice-secret"), ("bob", USERS["alice"])):
        message = door.refused(password, **login(mechanism, user, password))
        assert message.startswith(f"{AuthenticationError.__name__}: ")
        assert refusal(mechanism) in message
    message = door.refused(sasl__mechanism=mechanism)
    assert (
        message
        == f"OptionError: option kafka.sasl.jaas.config is not set, and kafka.sasl.mechanism={mechanism}"
    )
    module = login(mechanism, "alice", "")["sasl__jaas__config"].replace(' password=""', "")
    message = door.refused(sasl__mechanism=mechanism, sasl__jaas__config=module)
    assert message.startswith(
        'OptionError: option kafka.sasl.jaas.config has no password: give it password="…"'
    )


@pytest.mark.parametrize("mechanism", [name for name in MODULES if name.startswith("SCRAM")])
def test_a_password_that_is_taken_back_is_refused(
    door: Door, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PLAIN has no such thing: its users are those of the broker's properties."""
    refusals: list[str] = []
    admin = AdminClient({"bootstrap.servers": door.kafka.bootstrap_servers()})
    user, kind = f"{door.topic}-{door.listener}", ScramMechanism[mechanism.replace("-", "_")]

    def alter(change: UserScramCredentialAlteration) -> None:
        for done in admin.alter_user_scram_credentials([change]).values():
            done.result(timeout=60)

    def is_let_in() -> bool:  # by a new connection: those that are open stay open
        try:
            return is_served(connect(door.kafka, door.listener, **door.credentials(**how)))
        except AuthenticationError as error:
            refusals.append(str(error))
            return False

    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    how = login(mechanism, user, "${env:KAFKA_PASSWORD}")
    alter(UserScramCredentialUpsertion(user, ScramCredentialInfo(kind, 4096), PASSWORD.encode()))
    poll(is_let_in, "a new user is let in")
    alter(UserScramCredentialDeletion(user, kind))
    refusals.clear()
    poll(lambda: not is_let_in(), "a user that is gone is refused")
    assert refusal(mechanism) in refusals[0]
    assert PASSWORD not in refusals[0]


def test_a_token_is_right_or_wrong_or_expired_or_absent(door: Door) -> None:
    assert door.values(**bearer(unsecured_token())) == [b"a", b"b"]
    past_s = int(time.time()) - 3600
    for token in (
        "wr0ng-one",
        "a.b.c",
        unsecured_token(sub=7),
        unsecured_token(iat=past_s - 300, exp=past_s),
        unsecured_token(exp=None),
    ):
        message = door.refused(token, **bearer(token))
        assert message.startswith(f"{AuthenticationError.__name__}: ")
        assert refusal("OAUTHBEARER") in message
    message = door.refused(sasl__mechanism="OAUTHBEARER")
    assert (
        'option kafka.sasl.jaas.config has no token: give it token="…", or set kafka.sasl.oauthbearer.token'
        in message
    )


#: A source of tokens that live for a few seconds; each call is a line of a file.
SOURCE: Final = """
import base64
import json
import time


def token():
    now = time.time()
    parts = ({{"alg": "none"}}, {{"sub": "alice", "iat": now, "exp": now + {lifetime_s}}})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    with open({calls!r}, "a") as calls:
        calls.write("called\\n")
    return ".".join((*encoded, "")), now + {lifetime_s}
"""


@newest
@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["tokens", "sessions"])
def test_a_stream_outlives_its_tokens_and_sessions(
    kafka: ApacheKafka,
    certificates: Certificates,
    spark: SparkSession,
    tmp_path: Path,
    kind: str,
) -> None:
    """Tokens of six seconds, each of which a connection outlives; and logins of two seconds (KIP-368)."""
    servers = kafka.bootstrap_servers()
    source, target = librdkafka.create_topic(servers, partitions=2), librdkafka.create_topic(servers)
    calls = tmp_path / "calls"
    calls.touch()
    if kind == "tokens":
        module = f"short_tokens_{target.replace('-', '_').replace('.', '_')}"
        path = tmp_path / f"{module}.py"
        path.write_text(SOURCE.format(lifetime_s=LIFETIME_S, calls=str(calls)))
        spark.sparkContext.addPyFile(str(path))
        how = {"sasl__mechanism": "OAUTHBEARER", "saslTokenProvider": f"{module}:token"}
        door = Door(kafka, "SASL_SSL", source, certificates)
    else:
        how = login("SCRAM-SHA-256", "alice", USERS["alice"])
        door = Door(kafka, "SASL_PLAINTEXT", source, certificates)
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers(door.listener),
        **door.options(**how),
        "retries": "0",
        "brokerDownTimeout": "0s",
    }
    reader = spark.readStream.format("kafkawire").options(**options, subscribe=source)
    stream = reader.option("startingOffsets", "earliest").load().select("value")
    writer = stream.writeStream.format("kafkawire").options(**options, topic=target)
    query = begun(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))
    sent = 0
    for records in paced(OUTLIVED_S):
        librdkafka.produce(servers, source, records)
        sent += len(records)
        assert query.isActive, query.exception()
    query.processAllAvailable()
    query.stop()
    written = sorted(int(record.value or b"-1") for record in librdkafka.consume(servers, target))
    assert written == list(range(sent))
    if kind == "tokens":
        assert len(calls.read_text().splitlines()) >= OUTLIVED_S / LIFETIME_S


def paced(seconds: int) -> Iterator[list[Record]]:
    """Some records each half second, for so long."""
    numbers = itertools.count()
    end_s = time.monotonic() + seconds
    while (now_s := time.monotonic()) < end_s:
        yield [Record(b"%d" % next(numbers), partition=part % 2) for part in range(10)]
        poll(lambda: time.monotonic() >= now_s + 0.5, "half a second")
