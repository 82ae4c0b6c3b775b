"""Connections to real brokers as the options of a query say, for tests of logins."""

from __future__ import annotations

import time
from typing import Any

import pytest

from spark_kafkawire.errors import AuthenticationError, KafkaWireError
from spark_kafkawire.net.client import Client
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.protocol.modern.metadata import MetadataRequest
from tests.support.certificates import Certificates
from tests.support.polling import GRACE_S

from .apache_kafka import LISTENERS, USERS, ApacheKafka


def option_name(name: str) -> str:
    """The name of an option, of an argument: our own ones have no prefix."""
    return name if name.startswith("saslToken") else f"kafka.{name.replace('__', '.')}"


def connect(kafka: ApacheKafka, listener: str, **more: str) -> Client:
    """A connection by a listener, made as a query's options say."""
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers(listener),
        "kafka.security.protocol": LISTENERS[listener],
        "subscribe": "t",
        "requestTimeout": "5s",
        **{option_name(name): value for name, value in more.items()},
    }
    parsed = ReadOptions.parse(options)
    return Client.connect(parsed.discovery.bootstrap_servers[0], parsed.net.connection)


def is_served(client: Client) -> bool:
    with client:
        return bool(client.request(MetadataRequest(topics=())).brokers)


def refused(
    kafka: ApacheKafka,
    listener: str,
    kind: type[KafkaWireError] | tuple[type[KafkaWireError], ...] = AuthenticationError,
    **more: str,
) -> str:
    """The one line that is told; the passwords are not in it."""
    began_s = time.monotonic()
    with pytest.raises(kind) as error:
        is_served(connect(kafka, listener, **more))
    assert time.monotonic() - began_s < GRACE_S
    message = str(error.value)
    assert "\n" not in message
    assert not any(password in message for password in USERS.values())
    return message


def trust(certificates: Certificates) -> dict[str, Any]:
    return {"ssl__truststore__type": "PEM", "ssl__truststore__location": str(certificates.authority)}
