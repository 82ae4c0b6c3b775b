"""``kafkawire doctor`` on Apache Kafka: logins, TLS and rights of a user."""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from spark_kafkawire.jobs.doctor import Examination, examined
from spark_kafkawire.net.pool import POOL
from tests.support import librdkafka
from tests.support.certificates import Certificates
from tests.support.foreign import Record
from tests.support.polling import GRACE_S, poll

from .apache_kafka import LISTENERS, USERS, ApacheKafka
from .secured import login, option_name, trust
from .versions import broker_with

#: A broker asks who may do what; who is not logged in may do everything.
STRICT: Final = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)
TOPIC: Final = ResourceType.TOPIC

kafka = broker_with(STRICT)


def found(kafka: ApacheKafka, listener: str, topic: str, **more: Any) -> tuple[str, str]:
    """The step that fails, and its error."""
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers(listener),
        "kafka.security.protocol": LISTENERS[listener],
        "subscribe": topic,
        "requestTimeout": "5s",
        **{option_name(name): text for name, text in more.items()},
    }
    POOL.close_idle()
    outcome: Examination = examined(options)
    name, error = outcome.failure or ("none", "")
    assert not any(password in str(error) for password in USERS.values())
    return name, str(error)


def allow(kafka: ApacheKafka, kind: ResourceType, name: str, operation: AclOperation) -> None:
    who = ("User:alice", "*", operation, AclPermissionType.ALLOW)
    acl = AclBinding(kind, name, ResourcePatternType.LITERAL, *who)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers()})
    for future in admin.create_acls([acl]).values():
        future.result(timeout=GRACE_S)


def test_a_missing_right_is_found_until_there_is_not_valid(kafka: ApacheKafka) -> None:
    topic = librdkafka.create_topic(kafka.bootstrap_servers(), 1, None, {})
    librdkafka.produce(kafka.bootstrap_servers(), topic, [Record(b"v")])
    alice = {**login("PLAIN", "alice", USERS["alice"]), "group__id": f"{topic}-group"}
    name, error = found(kafka, "SASL_PLAINTEXT", topic, **alice)
    assert (name, "TOPIC_AUTHORIZATION_FAILED" in error) == ("access", True)
    for kind, of, operation, code in (
        (TOPIC, topic, AclOperation.DESCRIBE, "GROUP_AUTHORIZATION_FAILED"),
        (ResourceType.GROUP, f"{topic}-group", AclOperation.READ, "TOPIC_AUTHORIZATION_FAILED"),
        (TOPIC, topic, AclOperation.READ, ""),
    ):
        allow(kafka, kind, of, operation)
        # A broker learns of a right a moment later.
        wanted = "access" if code else "none"

        def is_known(wanted: str = wanted, code: str = code) -> bool:
            name, error = found(kafka, "SASL_PLAINTEXT", topic, **alice)
            return name == wanted and code in error

        poll(is_known, f"{operation} on {kind} leads to {wanted} {code}")


def test_logins_and_certificates_are_named(kafka: ApacheKafka, certificates: Certificates) -> None:
    wrong = login("SCRAM-SHA-256", "alice", "wrong")
    assert found(kafka, "SASL_PLAINTEXT", "t", **wrong)[0] == "login"
    assert found(kafka, "SASL_SSL", "t", **wrong, **trust(certificates))[0] == "login"
    other = {"ssl__truststore__location": str(certificates.other_authority)}
    assert found(kafka, "SSL", "t", **other)[0] == "tls"
    assert found(kafka, "MTLS", "t", **trust(certificates))[0] == "tls"
    plain = {"security__protocol": "PLAINTEXT"}
    assert found(kafka, "SASL_PLAINTEXT", "t", **plain)[0] == "login"
    assert found(kafka, "SSL", "t", **plain)[0] == "versions"
    assert found(kafka, "PLAINTEXT", "not-there")[0] == "topics"
