"""Connections to the listeners of a broker with logins, and credentials for them."""

from __future__ import annotations

import base64
import json
import time
from typing import Any, Final

import pytest

from spark_kafkawire.errors import AuthenticationError, KafkaWireError
from spark_kafkawire.net.client import Client
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.protocol.modern.metadata import MetadataRequest
from tests.support.certificates import Certificates
from tests.support.polling import GRACE_S

from .apache_kafka import LISTENERS, USERS, ApacheKafka

SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MODULES: Final = {"PLAIN": "plain.Plain", **dict.fromkeys(SCRAM, "scram.Scram")}


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


def login(mechanism: str, user: str, password: str) -> dict[str, Any]:
    escaped = password.replace("\\", "\\\\").replace('"', '\\"')
    module = f"org.apache.kafka.common.security.{MODULES[mechanism]}LoginModule"
    jaas = f'{module} required username="{user}" password="{escaped}";'
    return {"sasl__mechanism": mechanism, "sasl__jaas__config": jaas}


def bearer(token: str) -> dict[str, Any]:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    return {"sasl__mechanism": "OAUTHBEARER", "sasl__jaas__config": f'{module} required token="{token}";'}


def trust(certificates: Certificates) -> dict[str, Any]:
    return {"ssl__truststore__type": "PEM", "ssl__truststore__location": str(certificates.authority)}


def unsecured_token(**claims: Any) -> str:
    """A token without a signature, which the broker's own validator for development takes."""
    now_s = int(time.time())
    parts = ({"alg": "none"}, {"sub": "alice", "iat": now_s, "exp": now_s + 300, **claims})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return ".".join((*encoded, ""))


def refused(
    kafka: ApacheKafka,
    listener: str,
    kind: type[KafkaWireError] | tuple[type[KafkaWireError], ...] = AuthenticationError,
    **more: str,
) -> str:
    """The message of a refused login: one line, without passwords."""
    began_s = time.monotonic()
    with pytest.raises(kind) as error:
        is_served(connect(kafka, listener, **more))
    assert time.monotonic() - began_s < GRACE_S
    message = str(error.value)
    assert "\n" not in message
    assert not any(password in message for password in USERS.values())
    return message
