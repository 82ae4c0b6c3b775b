"""Writes with delivery=exactly-once on Apache Kafka: they die at every request, lack a right or a feature,
take too long, or have requests that come late."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Final

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
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transactions
from spark_kafkawire.errors import DeliveryError, KafkaWireError
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.modern.transactions import ONGOING
from spark_kafkawire.source.writer import create_writer
from tests.support import librdkafka
from tests.support.exactly_once import OnceWrite, committed, dying
from tests.support.late_requests import (
    VALUES,
    failed_and_late,
    killed_and_late,
    open_ids,
    waiting,
)
from tests.support.polling import GRACE_S, poll
from tests.support.write_process import ForkedWrites, WriteProcess

from .apache_kafka import USERS, ApacheCluster, ApacheKafka
from .versions import NEWEST, broker_with, newest, replicated

PARTITIONS: Final = 2
#: More requests about transactions than the write makes.
REQUESTS_MAX: Final = 40
#: The protocol of transactions that a new cluster has.
PROTOCOLS: Final = {"3.9.1": 1, NEWEST: 2}


def tasks(mark: int, *values: bytes) -> list[list[tuple[bytes, int]]]:
    """One row for each task, and a last task without rows."""
    return [[(b"%d %s" % (mark, value), index % PARTITIONS)] for index, value in enumerate(values)] + [[]]


def named(name: str, batch: str) -> dict[str, str]:
    return {"kafka.transactional.id": name, "batch": batch}


@pytest.fixture
def topic(kafka: ApacheKafka | ApacheCluster) -> str:
    return librdkafka.create_topic(kafka.bootstrap_servers(), PARTITIONS, None, {})


@replicated
@pytest.mark.parametrize(
    ("is_given_up", "after_it"), [(False, False), (True, True)], ids=["run again", "given up"]
)
def test_a_write_that_died_anywhere_is_there_once_or_not_at_all_after_the_next_run(
    kafka: ApacheKafka | ApacheCluster, topic: str, is_given_up: bool, after_it: bool
) -> None:
    servers = kafka.bootstrap_servers()
    for at in range(REQUESTS_MAX):
        name = f"once-{topic}-{at}"
        write = OnceWrite(servers, topic, tasks(at, b"a", b"b"), named(name, "1"))
        with dying(at, after_it=after_it) as died:
            write.run()
        if not died:
            break
        if is_given_up:
            OnceWrite(servers, topic, tasks(at, b"x", b"y"), named(name, "2")).run()
        else:
            write.run()
    assert at > 15
    result = committed(servers, topic, PARTITIONS)
    for mark in range(at):
        there = [value.split()[1] for value in result if int(value.split()[0]) == mark]
        all_or_none = [[b"x", b"y"], [b"a", b"b", b"x", b"y"]]
        assert there in (all_or_none if is_given_up else [[b"a", b"b"]]), mark


@replicated
@pytest.mark.parametrize("remade", [0, 1], ids=["the first topic", "the last topic"])
def test_a_write_whose_topic_was_made_again_doubles_no_rows_of_others(
    kafka: ApacheKafka | ApacheCluster, topic: str, remade: int
) -> None:
    """Brokers drop the offsets of a deleted topic."""
    servers = kafka.bootstrap_servers()
    topics = [topic, librdkafka.create_topic(servers, PARTITIONS, None, {})]
    schema = StructType([StructField("topic", StringType()), StructField("value", BinaryType())])
    mixed = [[(item, b"%d" % number) for item in topics] for number in range(2)]
    apart = [[(item, b"apart")] for item in topics]
    writes = [
        OnceWrite(servers, "", rows, {"kafka.transactional.id": f"{name}-{topic}"}, schema)
        for name, rows in (("mixed", mixed), ("apart", apart))
    ]
    alone = OnceWrite(servers, topics[remade], tasks(0, b"x"), {"kafka.transactional.id": f"alone-{topic}"})
    for write in (*writes, alone):
        write.run()
        write.run()
    librdkafka.delete_topic_and_wait(servers, topics[remade])
    librdkafka.create_topic(servers, PARTITIONS, topics[remade], {})
    for write in writes:
        with pytest.raises(DeliveryError, match=f"topic '{topics[remade]}'.*made again since"):
            write.run()
    # Nothing of this one is left.
    alone.run()
    assert committed(servers, topics[remade], PARTITIONS) == [b"0 x"]
    assert committed(servers, topics[1 - remade], PARTITIONS) == [b"0", b"1", b"apart"]


@replicated
def test_the_protocol_is_the_one_that_the_cluster_agreed_on(
    kafka: ApacheKafka | ApacheCluster, topic: str
) -> None:
    write = OnceWrite(kafka.bootstrap_servers(), topic, tasks(0, b"a"), named(f"protocol-{topic}", "1"))
    made = write.writer()
    message = write.message(made, 0)
    assert message.transaction.version == PROTOCOLS[kafka.version]
    made.abort([message, None])
    assert committed(kafka.bootstrap_servers(), topic, PARTITIONS) == []


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


strict = broker_with(STRICT)


def transactions_at(servers: str) -> Transactions:
    options = WriteOptions.parse({"kafka.bootstrap.servers": servers})
    return Transactions(Metadata(options.discovery.bootstrap_servers, options.net), options.net)


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
    granted = (AclOperation.ANY, AclPermissionType.ALLOW)
    known = AclBindingFilter(ResourceType.ANY, name, prefixed, "User:alice", "*", *granted)
    poll(lambda: set(acls) <= set(admin.describe_acls(known).result(timeout=GRACE_S)), "the rights are known")


_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
LOGIN: Final = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": f'{_MODULE} required username="alice" password="{USERS["alice"]}";',
}


def as_alice(kafka: ApacheKafka, topic: str, **options: str) -> OnceWrite:
    servers = kafka.bootstrap_servers("SASL_PLAINTEXT")
    return OnceWrite(servers, topic, TASKS, {"kafka.transactional.id": topic, **LOGIN, **options})


def test_a_user_who_may_not_create_a_topic_gets_the_answer_of_the_broker(strict: ApacheKafka) -> None:
    topic = f"created-{uuid.uuid4().hex}"
    allow(strict, topic, ["Write on topic"])
    servers = {"kafka.bootstrap.servers": strict.bootstrap_servers("SASL_PLAINTEXT")}
    options = WriteOptions.parse({**servers, **LOGIN, "topic": topic, "createTopic": "true"})
    with pytest.raises(KafkaWireError, match=f"'{topic}' on .*TOPIC_AUTHORIZATION_F") as error:
        create_writer(options, StructType([StructField("value", BinaryType())]), overwrite=False)
    assert str(error.value).isprintable()


@pytest.mark.parametrize("missing", RIGHTS)
def test_a_right_that_is_missing_is_named_before_there_are_rows(strict: ApacheKafka, missing: str) -> None:
    servers = strict.bootstrap_servers()
    topic = librdkafka.create_topic(servers, 2, None, {})
    allow(strict, topic, [right for right in RIGHTS if right != missing])
    reported = refusal(as_alice(strict, topic))
    assert reported.startswith(f"option delivery: exactly-once needs the right {missing} "), reported
    assert f"'{topic}'" in reported
    assert USERS["alice"] not in reported
    allow(strict, topic, [missing])
    as_alice(strict, topic).run()
    as_alice(strict, topic, batch="2").run()
    assert committed(servers, topic, 2) == [b"a", b"a", b"b", b"b"]


def test_a_topic_without_any_right_is_named_before_there_are_rows(strict: ApacheKafka) -> None:
    """A coordinator refuses offsets of a topic that the user may not describe."""
    topic = librdkafka.create_topic(strict.bootstrap_servers(), 2, None, {})
    allow(strict, topic, ["Write on transactional ids", "Read on groups"])
    reported = refusal(as_alice(strict, topic))
    assert reported.startswith(f"topic '{topic}' on "), reported
    assert "TOPIC_AUTHORIZATION_FAILED" in reported


def test_in_two_phases_the_next_run_ends_what_no_timeout_does(strict: ApacheKafka) -> None:
    servers = strict.bootstrap_servers()
    topic = librdkafka.create_topic(servers, 2, None, {})
    write = in_two_phases(strict, topic)
    if strict.version < "4":
        assert refusal(write).startswith("option twoPhaseCommit: brokers need InitProducerId 6, which ")
        return
    left = write.message(write.writer(), 0).transaction
    described = transactions_at(servers).describe(left.id)
    assert (described.transaction_state, described.transaction_timeout_ms) == (ONGOING, (1 << 31) - 1)
    in_two_phases(strict, topic, batch="2").run()
    assert transactions_at(servers).describe(left.id).transaction_state != ONGOING
    assert committed(servers, topic, 2) == [b"a", b"b"]


@newest
def test_report_two_phase_commits_that_are_switched_off_before_rows(kafka: ApacheKafka) -> None:
    topic = librdkafka.create_topic(kafka.bootstrap_servers(), 2, None, {})
    reported = refusal(in_two_phases(kafka, topic))
    assert reported.startswith(
        "option twoPhaseCommit: brokers need InitProducerId 6, which Kafka from 4.1 on se"
    )


def test_a_task_that_takes_too_long_is_reported_twice_and_ends_in_one_line(
    strict: ApacheKafka, caplog: pytest.LogCaptureFixture
) -> None:
    topic = librdkafka.create_topic(strict.bootstrap_servers(), 2, None, {})
    options = {"kafka.transactional.id": topic, "kafka.transaction.timeout.ms": "3000"}
    write = OnceWrite(strict.bootstrap_servers(), topic, TASKS, options)
    made = write.writer()

    def reported() -> list[str]:
        return [
            message for message in caplog.messages if " are used up, and the task has more rows" in message
        ]

    def is_open() -> bool:
        listed = transactions_at(strict.bootstrap_servers()).listed((ONGOING,))
        return any(item.transactional_id.startswith(topic) for item in listed)

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


FENCED: Final = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
KILLED: Final = pytest.mark.parametrize("kills_run", [False, True], ids=["attempt", "run"])
#: What begins a transaction, by the protocol of a cluster of this version.
BEGINS: Final[dict[str, Api]] = {"3.9.1": modern.ADD_PARTITIONS_TO_TXN, NEWEST: modern.PRODUCE}


@pytest.fixture(scope="module")
def writes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WriteProcess]:
    """Processes that are killed."""
    with ForkedWrites(tmp_path_factory.mktemp("writes")) as forked:
        yield forked


def check(
    kafka: ApacheKafka | ApacheCluster, writes: WriteProcess, api: Api, kills_run: bool, **options: str
) -> None:
    left = killed_and_late(writes, kafka.plain_ports, api, options, kills_run=kills_run)
    assert left.codes
    assert set(left.codes) <= FENCED
    assert (left.open_ids, left.waiting, left.rows) == ([], {}, VALUES)


@replicated
@KILLED
@pytest.mark.parametrize("begins", [True, False], ids=["begins", "was open"])
def test_what_comes_late_for_a_transaction_is_refused(
    kafka: ApacheKafka | ApacheCluster, writes: WriteProcess, kills_run: bool, begins: bool
) -> None:
    """It begins one, or has the rows and records of one that was open."""
    check(kafka, writes, BEGINS[kafka.version] if begins else modern.TXN_OFFSET_COMMIT, kills_run)


@newest
def test_an_attempt_that_fails_gives_its_id_up(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers, 2, None, {})
    assert failed_and_late(kafka.plain_ports, topic, {}) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert (open_ids(servers, topic), waiting(servers, topic, 2)) == ([], {})


@KILLED
def test_in_two_phases_no_reader_waits_for_good(
    strict: ApacheKafka, writes: WriteProcess, kills_run: bool
) -> None:
    if strict.version < "4":
        pytest.skip("brokers before 4 have no two-phase commits")
    check(strict, writes, modern.PRODUCE, kills_run, twoPhaseCommit="true")
