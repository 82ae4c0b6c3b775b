"""jobs/transactions.py on Apache Kafka: its report, and the end of transactions that writes left open."""

from __future__ import annotations

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
from spark_kafkawire.clients.writing.modern.transactional.write_state import OffsetAndMetadata
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transaction
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.options import WriteOptions
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.interrupted import OfAnyBroker, TransactionsJob, new_topic

from .apache_kafka import ApacheKafka


@pytest.fixture
def job(kafka: ApacheKafka, capsys: pytest.CaptureFixture[str]) -> Iterator[TransactionsJob]:
    yield TransactionsJob(kafka.bootstrap_servers(), capsys)
    POOL.close_idle()


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


def test_transactions_of_other_programs_are_told_and_left_alone(job: TransactionsJob) -> None:
    topic = new_topic(job.bootstrap_servers)
    name, theirs = f"theirs-{topic}", [Record(b"theirs", partition=0)]
    with librdkafka.transaction(job.bootstrap_servers, topic, theirs, outcome="open", transactional_id=name):
        [reported] = [each for each in job.reported()["transactions"] if each["id"] == name]
        assert (reported["write"], reported["state"]) == (None, "Ongoing")
        assert reported["partitions"] == [{"topic": topic, "partition": 0}]
        assert "not a write of kafkawire" in job.run()[1]
