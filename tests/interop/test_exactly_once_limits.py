"""Failures of writes with delivery=exactly-once on Apache Kafka: missing rights, timeouts, and brokers that
lack a feature."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transactions
from spark_kafkawire.errors import DeliveryError, KafkaWireError
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol.modern.list_transactions import ONGOING
from tests.support import librdkafka
from tests.support.certificates import Certificates
from tests.support.exactly_once import OnceWrite, committed
from tests.support.polling import GRACE_S, poll

from .apache_kafka import USERS, ApacheKafka
from .needs import needs_broker
from .versions import VERSIONS

TASKS: Final = [[(b"a", 0)], [(b"b", 1)], []]
#: A broker asks who may do what; who is not logged in may do everything. Versions that have two-phase commits
#: have them switched on; they look for transactions that timed out often.
STRICT: Final = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
    "transaction.two.phase.commit.enable=true",
    "unstable.api.versions.enable=true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=200",
)


@pytest.fixture(scope="module", params=VERSIONS)
def strict(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[ApacheKafka]:
    version: str = request.param
    needs_broker(version)
    folder = tmp_path_factory.mktemp(f"strict-{version}")
    with ApacheKafka(version, folder, certificates, settings=STRICT) as broker:
        yield broker


def transactions_of(kafka: ApacheKafka) -> Transactions:
    options = WriteOptions.parse({"kafka.bootstrap.servers": kafka.bootstrap_servers()})
    return Transactions(Metadata(options.discovery.bootstrap_servers, options.net), options.net)


def topic_of(kafka: ApacheKafka) -> str:
    return librdkafka.create_topic(kafka.bootstrap_servers(), 2, None, {})


def in_two_phases(kafka: ApacheKafka, topic: str, **options: str) -> OnceWrite:
    named = {"kafka.transactional.id": f"two-{topic}", "twoPhaseCommit": "true", **options}
    return OnceWrite(kafka.bootstrap_servers(), topic, TASKS, named)


def refusal(write: OnceWrite) -> str:
    """The one line that a write is told before it has rows."""
    with pytest.raises(KafkaWireError) as error:
        write.writer()
    line = str(error.value)
    assert line.isprintable()
    return line


#: What the write of a topic needs: each right, and the resource as the line names it.
RIGHTS: Final = {
    "Write on transactional ids": (ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE),
    "Read on groups": (ResourceType.GROUP, AclOperation.READ),
    "Write on topic": (ResourceType.TOPIC, AclOperation.WRITE),
    "Read on topic": (ResourceType.TOPIC, AclOperation.READ),
}


def allow(kafka: ApacheKafka, name: str, rights: Iterable[str]) -> None:
    """Let alice do so much to what begins with a name. The controller says it is done; the broker, which
    reads of it in the log of metadata, may know of it later."""
    prefixed = ResourcePatternType.PREFIXED
    acls = [
        AclBinding(kind, name, prefixed, "User:alice", "*", operation, AclPermissionType.ALLOW)
        for kind, operation in map(RIGHTS.__getitem__, rights)
    ]
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers()})
    for future in admin.create_acls(acls).values():
        future.result(timeout=GRACE_S)
    poll(lambda: set(acls) <= known_operations(admin, name), "the rights are known to the broker")


def known_operations(admin: AdminClient, name: str) -> set[AclBinding]:
    """Rights of alice to a name, as the broker itself knows them."""
    kind, prefixed = ResourceType.ANY, ResourcePatternType.PREFIXED
    granted = (AclOperation.ANY, AclPermissionType.ALLOW)
    of_alice = AclBindingFilter(kind, name, prefixed, "User:alice", "*", *granted)
    return set(admin.describe_acls(of_alice).result(timeout=GRACE_S))


def as_alice(kafka: ApacheKafka, topic: str, **options: str) -> OnceWrite:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{module} required username="alice" password="{USERS["alice"]}";',
    }
    servers = kafka.bootstrap_servers("SASL_PLAINTEXT")
    return OnceWrite(servers, topic, TASKS, {"kafka.transactional.id": topic, **login, **options})


@pytest.mark.parametrize("missing", RIGHTS)
def test_a_right_that_is_missing_is_named_before_there_are_rows(strict: ApacheKafka, missing: str) -> None:
    topic = topic_of(strict)
    allow(strict, topic, [right for right in RIGHTS if right != missing])
    reported = refusal(as_alice(strict, topic))
    assert reported.startswith(f"option delivery: exactly-once needs the right {missing} "), reported
    assert f"'{topic}'" in reported
    assert USERS["alice"] not in reported
    allow(strict, topic, [missing])
    as_alice(strict, topic).run()
    assert committed(strict.bootstrap_servers(), topic, 2) == [b"a", b"b"]


def test_a_topic_without_any_right_is_named_before_there_are_rows(strict: ApacheKafka) -> None:
    """A coordinator refuses offsets of a topic that the user may not describe."""
    topic = topic_of(strict)
    allow(strict, topic, ["Write on transactional ids", "Read on groups"])
    reported = refusal(as_alice(strict, topic))
    assert reported.startswith(f"topic '{topic}' on "), reported
    assert "TOPIC_AUTHORIZATION_FAILED" in reported


def test_rights_on_what_begins_with_the_name_are_enough(strict: ApacheKafka) -> None:
    topic = topic_of(strict)
    allow(strict, topic, RIGHTS)
    as_alice(strict, topic).run()
    as_alice(strict, topic, batch="2").run()
    assert committed(strict.bootstrap_servers(), topic, 2) == [b"a", b"a", b"b", b"b"]


def test_in_two_phases_no_timeout_ends_a_transaction(strict: ApacheKafka) -> None:
    topic = topic_of(strict)
    write = in_two_phases(strict, topic)
    if strict.version < "4":
        assert refusal(write).startswith("option twoPhaseCommit: brokers need InitProducerId 6, which ")
        return
    made = write.writer()
    messages: list[Any] = [write.message(made, number) for number in range(3)]
    described = transactions_of(strict).describe(messages[0].transaction.id)
    assert (described.transaction_state, described.transaction_timeout_ms) == (ONGOING, (1 << 31) - 1)
    made.commit(messages)
    assert committed(strict.bootstrap_servers(), topic, 2) == [b"a", b"b"]


def test_the_next_run_ends_what_no_timeout_does(strict: ApacheKafka) -> None:
    if strict.version < "4":
        pytest.skip("brokers before 4 have no two-phase commits")
    topic = topic_of(strict)
    died = in_two_phases(strict, topic)
    made = died.writer()
    left = died.message(made, 0).transaction
    in_two_phases(strict, topic, batch="2").run()
    assert transactions_of(strict).describe(left.id).transaction_state != ONGOING
    assert committed(strict.bootstrap_servers(), topic, 2) == [b"a", b"b"]


def test_brokers_that_have_no_two_phase_commits_are_told_of_before_rows(kafka: ApacheKafka) -> None:
    reported = refusal(in_two_phases(kafka, topic_of(kafka)))
    assert reported.startswith(
        "option twoPhaseCommit: brokers need InitProducerId 6, which Kafka from 4.1 on se"
    )


def test_a_task_that_takes_too_long_is_told_twice_and_ends_in_one_line(
    strict: ApacheKafka, caplog: pytest.LogCaptureFixture
) -> None:
    topic = topic_of(strict)
    options = {"kafka.transactional.id": topic, "kafka.transaction.timeout.ms": "3000"}
    write = OnceWrite(strict.bootstrap_servers(), topic, TASKS, options)
    made = write.writer()

    def reported() -> list[str]:
        return [
            message for message in caplog.messages if " are used up, and the task has more rows" in message
        ]

    def is_open() -> bool:
        listed = transactions_of(strict).listed((ONGOING,))
        return any(each.transactional_id.startswith(topic) for each in listed)

    def rows() -> Iterator[list[tuple[bytes, int]]]:
        # More than is gathered before a request is sent, so that it is in the log.
        yield [(b"v" * 500_000, 0)] * 10
        poll(is_open, "the transaction has begun")
        deadline_s = time.monotonic() + GRACE_S
        while len(reported()) < 2 and time.monotonic() < deadline_s:
            yield [(b"v", 0)]
        poll(lambda: not is_open(), "the broker has aborted the transaction")
        yield [(b"late", 0)]

    with pytest.raises(DeliveryError) as error:
        write.message_of(made, 0, rows())
    assert [line[:4] for line in reported()] == ["50 %", "90 %"]
    assert all("kafka.transaction.timeout.ms=3000" in line for line in reported())
    line = str(error.value)
    assert line.isprintable()
    assert "kafka.transaction.timeout.ms=3000" in line, line
    made.abort([None, None, None])
    assert committed(strict.bootstrap_servers(), topic, 2) == []
