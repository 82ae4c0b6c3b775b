"""Our reads of Apache Kafka: codecs, transactions, compaction, retention, recreated topics, restarts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_kafkawire.clients.reading.fetcher import Fetcher
from spark_kafkawire.cluster import cluster_of
from spark_kafkawire.errors import BrokerError, DataLossError
from spark_kafkawire.options import ReadOptions
from tests.support import kafka_python, librdkafka
from tests.support.certificates import Certificates
from tests.support.foreign import CODECS, Record
from tests.support.reading import QUICK, Read, read

from .apache_kafka import ApacheKafka
from .compaction import COMPACTED, compacted_topic
from .versions import also_between

pytestmark = also_between


def rows_of(kafka: ApacheKafka, topic: str, **options: str) -> list[dict[str, Any]]:
    return read(kafka.bootstrap_servers(), subscribe=topic, **options)


def at(topic: str, offset: int) -> str:
    return json.dumps({topic: {"0": offset}})


def test_a_quota_slows_a_read_down_and_does_not_end_it(kafka: ApacheKafka) -> None:
    topic = librdkafka.create_topic(kafka.bootstrap_servers())
    librdkafka.produce(kafka.bootstrap_servers(), topic, [Record(bytes(10_000))] * 215)
    # What was read is divided by ten seconds at least, so that the quota is used up after 2 MB.
    kafka_python.limit_reads(kafka.bootstrap_servers(), "slow", 200_000)
    options = {"kafka.client.id": "slow", "kafkaConsumer.pollTimeoutMs": "60s", "fetchBytes": "256KiB"}
    assert len(rows_of(kafka, topic, **options)) == 215


def test_offsets_that_an_open_transaction_commits_are_no_start(kafka: ApacheKafka) -> None:
    """Neither the one before nor, of the second partition, none: Java's consumer waits, too."""
    servers, options = kafka.bootstrap_servers(), {"brokerDownTimeout": "0s", "requestTimeout": "2s"}
    topic = librdkafka.create_topic(servers, 2)
    librdkafka.produce(servers, topic, [Record(b"%d" % item, partition=item % 2) for item in range(6)])
    options |= {"startingOffsets": "committed", "kafka__group__id": topic}
    librdkafka.commit_offsets(servers, topic, topic, {0: 1})
    with (
        librdkafka.committing_offsets(servers, topic, topic, {0: 2, 1: 2}),
        pytest.raises(BrokerError, match="a transaction that commits offsets is still open"),
    ):
        rows_of(kafka, topic, **options)
    assert sorted(row["value"] for row in rows_of(kafka, topic, **options)) == [b"4", b"5"]


def test_a_compacted_log_has_gaps_and_no_losses(kafka: ApacheKafka) -> None:
    topic = compacted_topic(kafka.bootstrap_servers())
    whole = [(row["offset"], row["value"]) for row in rows_of(kafka, topic)]
    assert whole[:3] == COMPACTED
    for cut in (1, 20, 49, 50, 51, 52):
        first = rows_of(kafka, topic, endingOffsets=at(topic, cut))
        rest = rows_of(kafka, topic, startingOffsets=at(topic, cut), endingOffsets=at(topic, 52))
        assert [(row["offset"], row["value"]) for row in first + rest] == COMPACTED


def test_a_topic_recreated_while_a_planned_read_runs_is_a_loss(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers)
    librdkafka.produce(servers, topic, [Record(b"old")] * 10)
    raw = {"kafka.bootstrap.servers": servers, "subscribe": topic, **QUICK}
    options = ReadOptions.parse(raw)
    [task] = Read(servers, subscribe=topic).tasks
    librdkafka.delete_topic(servers, topic)
    cluster = cluster_of(options)
    with pytest.raises(DataLossError, match=r"the topic is gone"):
        list(Fetcher(task, cluster, options.fetch, options.net).columns())
    librdkafka.create_topic(servers, name=topic)
    librdkafka.produce(servers, topic, [Record(b"new")] * 10)
    with pytest.raises(DataLossError, match=r"was deleted, and another topic has its name"):
        list(Fetcher(task, cluster, options.fetch, options.net).columns())
    assert Read(servers, subscribe=topic).column("value") == [b"new"] * 10


def test_a_planned_read_survives_a_restart_that_ends_the_leader_epoch(
    kafka: ApacheKafka, certificates: Certificates, tmp_path: Path
) -> None:
    with ApacheKafka(kafka.version, tmp_path, certificates) as broker:
        servers = broker.bootstrap_servers()
        topic = librdkafka.create_topic(servers)
        librdkafka.produce(servers, topic, [Record(b"v")] * 500)
        planned = Read(servers, subscribe=topic)
        [leader] = [task.leader for task in planned.tasks]
        assert leader.topic_id is not None
        broker.stop()
        broker.start()
        [after] = [task.leader.epoch for task in Read(servers, subscribe=topic).tasks]
        assert 0 <= leader.epoch < after
        assert planned.column("value") == [b"v"] * 500


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_packs_of_partitions_have_the_rows_of_a_task_for_each(
    kafka: ApacheKafka, isolation_level: str
) -> None:
    """In all codecs, with transactions, and with batches above the limit of a partition."""
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers, partitions=20)
    places = range(20)
    librdkafka.commit(servers, topic, [Record(b"c", partition=location) for location in places])
    librdkafka.abort(servers, topic, [Record(b"a", partition=location) for location in places])
    for codec in CODECS:
        librdkafka.produce(
            servers, topic, [Record(b"p" * 20, partition=location) for location in places], codec
        )
    librdkafka.produce(servers, topic, [Record(b"l" * 300_000, partition=location) for location in places])
    options = {"subscribe": topic, "kafka.isolation.level": isolation_level}
    result = [Read(servers, packSmallPartitions=packs, **options) for packs in ("true", "false")]
    assert [len(item.partitions) for item in result] == [1, 20]
    of_pack, apart = (item.table() for item in result)
    by_place = [("partition", "ascending"), ("offset", "ascending")]
    assert of_pack.sort_by(by_place) == apart.sort_by(by_place)
    firsts = [value[:1] for value in of_pack.column("value").to_pylist()]
    aborted = 20 if isolation_level == "read_uncommitted" else 0
    expected = {b"c": 20, b"a": aborted, b"p": 20 * len(CODECS), b"l": 20}
    assert {item: firsts.count(item) for item in expected} == expected
