"""The bed itself: librdkafka writes to and reads from each real broker, by each way in."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException

from tests.support import kafka_python, librdkafka
from tests.support.certificates import Certificates
from tests.support.foreign import CODECS, Record, values

from .apache_kafka import USERS, ApacheKafka
from .compaction import COMPACTED, compacted_topic
from .jars import FIRST_TEST_TIMEOUT_S

pytestmark = pytest.mark.timeout(FIRST_TEST_TIMEOUT_S)

#: When librdkafka gives up what never succeeds; it would try until then.
SOON_MS: Final = 1000
STAMP_MS: Final = int(time.time() * 1000) - 60_000
RECORDS: Final = [
    Record(b"value", b"key", (("a", b"1"), ("a", None), ("\N{SNOWMAN}", b"")), STAMP_MS),
    Record(None, b"tombstone", (), STAMP_MS + 1),
    *(Record(b"%d" % number * 50, None, (), STAMP_MS + 3) for number in range(50)),
]


@pytest.mark.parametrize("compression", CODECS)
def test_both_clients_read_what_librdkafka_wrote(kafka: ApacheKafka, compression: str) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers)
    librdkafka.produce(servers, topic, RECORDS, compression)
    found = librdkafka.consume(servers, topic)
    assert [(each.key, each.value, each.headers, each.timestamp_ms) for each in found] == [
        (each.key, each.value, each.headers, each.timestamp_ms) for each in RECORDS
    ]
    if compression in kafka_python.CODECS:
        assert kafka_python.consume(servers, topic) == found


def test_a_committed_reader_sees_what_was_committed(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers)
    librdkafka.commit(servers, topic, [Record(b"committed")])
    librdkafka.abort(servers, topic, [Record(b"aborted")])
    assert values(librdkafka.consume(servers, topic)) == [b"committed", b"aborted"]
    assert values(librdkafka.consume(servers, topic, isolation_level="read_committed")) == [b"committed"]


def test_the_log_cleaner_leaves_gaps(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    found = librdkafka.consume(servers, compacted_topic(servers))
    assert [(each.offset, each.value) for each in found][:3] == COMPACTED


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_users_log_in_with_their_password_alone(kafka: ApacheKafka, mechanism: str) -> None:
    topic = librdkafka.create_topic(kafka.bootstrap_servers())
    servers = kafka.bootstrap_servers("SASL_PLAINTEXT")
    for user, password in USERS.items():
        librdkafka.produce(servers, topic, RECORDS[:1], **login(mechanism, user, password))
    with pytest.raises(KafkaException):
        librdkafka.produce(servers, topic, RECORDS[:1], **login(mechanism, "alice", "wrong", SOON_MS))
    assert len(librdkafka.consume(kafka.bootstrap_servers(), topic)) == len(USERS)


def test_tls_takes_the_right_authority_and_name_alone(kafka: ApacheKafka, certificates: Certificates) -> None:
    topic = librdkafka.create_topic(kafka.bootstrap_servers())
    servers = kafka.bootstrap_servers("SSL")
    librdkafka.produce(servers, topic, RECORDS[:1], **tls(certificates.authority))
    with pytest.raises(KafkaException):
        librdkafka.produce(servers, topic, RECORDS[:1], **tls(certificates.other_authority, SOON_MS))
    other_name = servers.replace("localhost", "127.0.0.1")
    with pytest.raises(KafkaException):
        librdkafka.produce(other_name, topic, RECORDS[:1], **tls(certificates.authority, SOON_MS))
    assert len(librdkafka.consume(kafka.bootstrap_servers(), topic)) == 1


def test_a_listener_may_demand_a_certificate_of_the_client(
    kafka: ApacheKafka, certificates: Certificates
) -> None:
    topic = librdkafka.create_topic(kafka.bootstrap_servers())
    servers = kafka.bootstrap_servers("MTLS")
    with pytest.raises(KafkaException):
        librdkafka.produce(servers, topic, RECORDS[:1], **tls(certificates.authority, SOON_MS))
    key = str(certificates.client)
    ours = {"ssl_key_location": key, "ssl_certificate_location": key}
    librdkafka.produce(servers, topic, RECORDS[:1], **{**tls(certificates.authority), **ours})


def test_users_log_in_over_tls(kafka: ApacheKafka, certificates: Certificates) -> None:
    topic = librdkafka.create_topic(kafka.bootstrap_servers())
    config = {**tls(certificates.authority), **login("SCRAM-SHA-512", "alice", USERS["alice"])}
    config["security_protocol"] = "SASL_SSL"
    librdkafka.produce(kafka.bootstrap_servers("SASL_SSL"), topic, RECORDS[:1], **config)


def login(mechanism: str, user: str, password: str, timeout_ms: int = 30_000) -> dict[str, Any]:
    """librdkafka's properties for one user."""
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanisms": mechanism,
        "sasl_username": user,
        "sasl_password": password,
        "message_timeout_ms": timeout_ms,
    }


def tls(authority: Path, timeout_ms: int = 30_000) -> dict[str, Any]:
    """librdkafka's properties for TLS."""
    return {"security_protocol": "SSL", "ssl_ca_location": str(authority), "message_timeout_ms": timeout_ms}
