"""The bed itself: librdkafka writes to and reads from each real broker, also by TLS and with a login.

What our own client is let in with, and what it is refused with, is in ``test_security.py``.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support import kafka_python, librdkafka
from tests.support.certificates import Certificates
from tests.support.foreign import Record, values

from .apache_kafka import USERS, ApacheKafka
from .compaction import COMPACTED, compacted_topic

RECORDS: Final = [Record(b"%d" % number * 50, b"key") for number in range(50)]


def test_both_clients_read_what_librdkafka_wrote(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers)
    librdkafka.produce(servers, topic, RECORDS, "zstd")
    librdkafka.produce(servers, topic, RECORDS, "gzip")
    found = librdkafka.consume(servers, topic)
    assert values(found) == values(RECORDS) * 2
    assert kafka_python.consume(servers, topic, start_offset=50) == found[50:]


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
def test_users_log_in_over_tls(kafka: ApacheKafka, certificates: Certificates, mechanism: str) -> None:
    topic = librdkafka.create_topic(kafka.bootstrap_servers())
    for user, password in USERS.items():
        config: dict[str, Any] = {
            "security_protocol": "SASL_SSL",
            "ssl_ca_location": str(certificates.authority),
            "sasl_mechanisms": mechanism,
            "sasl_username": user,
            "sasl_password": password,
        }
        librdkafka.produce(kafka.bootstrap_servers("SASL_SSL"), topic, RECORDS[:1], **config)
    assert len(librdkafka.consume(kafka.bootstrap_servers(), topic)) == len(USERS)
