"""jobs/transactions.py on Apache Kafka: its report, and the end of transactions that writes left open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_kafkawire.net.pool import POOL
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


def test_transactions_of_other_programs_are_told_and_left_alone(job: TransactionsJob) -> None:
    topic = new_topic(job.bootstrap_servers)
    name, theirs = f"theirs-{topic}", [Record(b"theirs", partition=0)]
    with librdkafka.transaction(job.bootstrap_servers, topic, theirs, outcome="open", transactional_id=name):
        [reported] = [each for each in job.reported()["transactions"] if each["id"] == name]
        assert (reported["write"], reported["state"]) == (None, "Ongoing")
        assert reported["partitions"] == [{"topic": topic, "partition": 0}]
        assert "not a write of kafkawire" in job.run()[1]
