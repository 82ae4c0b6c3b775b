"""What keeps a write with delivery=exactly-once from its end, against Apache Kafka: missing rights, timeouts,
and brokers that cannot do what is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from spark_kafkawire.broker.java import find_java
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transactions
from spark_kafkawire.errors import KafkaWireError, OptionError
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol.modern.list_transactions import ONGOING
from tests.support import librdkafka
from tests.support.certificates import Certificates
from tests.support.exactly_once import OnceWrite, committed

from .apache_kafka import ApacheKafka
from .conftest import VERSIONS
from .jars import NoJars, broker_jars

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
    try:
        find_java()
        broker_jars(version)
    except (OptionError, NoJars) as reason:
        pytest.skip(str(reason))
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
    told = refusal(in_two_phases(kafka, topic_of(kafka)))
    assert told.startswith("option twoPhaseCommit: brokers need InitProducerId 6, which Kafka from 4.1 on se")
