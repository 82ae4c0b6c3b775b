"""Offsets of groups, and transactions, on Apache Kafka itself: reports, and refusals to change them."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from spark_kafkawire.clients.writing.modern.transactional.requests import (
    CommitOffset,
    EndTransaction,
    FetchOffsets,
    InitProducerId,
    Refused,
    TransactionRequests,
)
from spark_kafkawire.clients.writing.modern.transactional.write_state import (
    OffsetAndMetadata,
)
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transaction
from spark_kafkawire.errors import OptionError
from spark_kafkawire.jobs.offsets.run import Surveyed, import_offsets
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.streaming import GroupOffsets
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.interrupted import OfAnyBroker, TransactionsJob, new_topic
from tests.support.polling import DEADLINE_S
from tests.support.query_events import Run, source

from .apache_kafka import NEW_PROTOCOL_SINCE, ApacheKafka

TIMES_MS = (1_700_000_005_000, 1_700_000_009_000, 1_700_000_001_000)


@pytest.fixture(autouse=True)
def no_kept_connections() -> Iterator[None]:
    yield
    POOL.close_idle()


@pytest.fixture
def topic(kafka: ApacheKafka) -> str:
    """Three records in the first of two partitions, where its group stands at the second one."""
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers, 2, None, {"retention.ms": "-1"})
    records = [Record(b"v", partition=0, timestamp_ms=time_ms) for time_ms in TIMES_MS]
    librdkafka.produce(servers, topic, records)
    librdkafka.commit_offsets(servers, group_of(topic), topic, {0: 1})
    return topic


def group_of(topic: str) -> str:
    return f"group-of-{topic}"


def surveyed(kafka: ApacheKafka, **options: str) -> Surveyed:
    return Surveyed.of({"kafka.bootstrap.servers": kafka.bootstrap_servers(), **options})


def quiet(_what: str) -> None:
    """Progress that nobody sees."""


def test_logs_are_reported_with_times_and_lag(kafka: ApacheKafka, topic: str) -> None:
    report = surveyed(kafka, subscribe=topic).report([group_of(topic)], quiet)
    first, empty = report.logs
    assert (report.partition_of(first), first["records"]) == (TopicPartition(topic, 0), 3)
    assert (first["first_time"], first["max_time"]) == (TIMES_MS[0], TIMES_MS[1])
    assert first["groups"] == {group_of(topic): {"offset": 1, "lag": 2, "lost": 0}}
    assert [empty[name] for name in ("records", "first_time", "max_time")] == [0, None, None]
    assert empty["groups"][group_of(topic)]["offset"] is None


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_left_alone_until_they_have_left(
    kafka: ApacheKafka, topic: str, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither ``kafkawire offsets`` nor the listener of a query changes its offsets."""
    if protocol == "consumer" and kafka.version < NEW_PROTOCOL_SINCE:
        pytest.skip("brokers before 4.0 do not coordinate groups themselves")
    group, servers, partition = group_of(topic), kafka.bootstrap_servers(), TopicPartition(topic, 0)
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, "kafka.group.id": group}
    listener, query, text = GroupOffsets(given), Run(), f"{group},{topic},0,0\n"
    with (
        caplog.at_level(logging.WARNING, "spark_kafkawire"),
        librdkafka.member(servers, group, topic, group_protocol=protocol),
    ):
        for dry_run in (True, False):
            with pytest.raises(
                OptionError, match=rf"group '{group}' has 1 member, '[^']+' first, .*: stop them, or leave"
            ):
                import_offsets(surveyed(kafka), text, (), dry_run=dry_run, step=quiet)
        # One that came after the look for members.
        with pytest.raises(OptionError, match=rf"group '{group}' .*: the group has members, .* stop them"):
            surveyed(kafka).cluster.groups.commit(group, {partition: 0})
        listener.onQueryProgress(query.progress(source({topic: {"0": 2, "1": 0}})))
        listener.onQueryTerminated(query.terminated())
        assert not listener.awaitCommits(query, DEADLINE_S)
    assert f"group '{group}': offsets are not committed: OffsetCommit of group" in caplog.text
    assert "the group has members, which commit offsets themselves; stop them, or" in caplog.text
    assert librdkafka.committed_offset(servers, group, topic) == 1
    listener.onQueryProgress(query.progress(source({topic: {"0": 3, "1": 0}})))
    assert listener._commits.settle(DEADLINE_S)
    assert librdkafka.committed_offset(servers, group, topic) == 3
    assert len(import_offsets(surveyed(kafka), text, (), dry_run=False, step=quiet)) == 1
    assert librdkafka.committed_offset(servers, group, topic) == 0


@pytest.fixture
def job(kafka: ApacheKafka, capsys: pytest.CaptureFixture[str]) -> TransactionsJob:
    return TransactionsJob(kafka.bootstrap_servers(), capsys)


class TestOnApacheKafka(OfAnyBroker):
    """Interrupted and running writes on Apache Kafka."""


@pytest.mark.parametrize("is_topic_known", [True, False])
def test_the_first_offset_of_a_group_is_waited_for(job: TransactionsJob, is_topic_known: bool) -> None:
    """Brokers leave out a partition whose first offset is pending, unless the request names it."""
    topic = new_topic(job.bootstrap_servers)
    connection = {"kafka.bootstrap.servers": job.bootstrap_servers, "brokerDownTimeout": "2s"}
    options = WriteOptions.parse({**connection, "requestTimeout": "2s"})
    metadata = Metadata(options.discovery.bootstrap_servers, options.net)
    requests = TransactionRequests(metadata, options.net, 60_000, topic if is_topic_known else None)
    begun = requests.send(InitProducerId(topic))
    assert isinstance(begun, Transaction)
    record = OffsetAndMetadata(7, "text", topic)
    assert requests.send(CommitOffset(begun, topic, (record,))) is None
    assert requests.send(FetchOffsets(topic)) == ()
    refused = requests.send(FetchOffsets(topic, is_stable=True))
    assert isinstance(refused, Refused)
    assert "error 88 UNSTABLE_OFFSET_COMMIT" in refused.message
    requests.send(EndTransaction(begun, committed=True))
    assert requests.send(FetchOffsets(topic, is_stable=True)) == (record,)


def test_transactions_of_other_programs_are_reported_and_left_alone(job: TransactionsJob) -> None:
    topic = new_topic(job.bootstrap_servers)
    name, theirs = f"theirs-{topic}", [Record(b"theirs", partition=0)]
    with librdkafka.transaction(job.bootstrap_servers, topic, theirs, outcome="open", transactional_id=name):
        [reported] = [item for item in job.reported()["transactions"] if item["id"] == name]
        assert (reported["write"], reported["state"]) == (None, "Ongoing")
        assert reported["partitions"] == [{"topic": topic, "partition": 0}]
        assert "not a write of kafkawire" in job.run()[1]
