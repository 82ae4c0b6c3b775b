"""Our reads of Apache Kafka: codecs, transactions, compaction, retention, recreated topics, restarts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_kafkawire.clients.reading.fetcher import Fetcher
from spark_kafkawire.cluster.cluster import cluster_of
from spark_kafkawire.errors import BrokerError, DataLossError, OptionError
from spark_kafkawire.options import ReadOptions
from tests.support import kafka_python, librdkafka, ours
from tests.support.certificates import Certificates
from tests.support.foreign import CODECS, Record
from tests.support.reading import QUICK, Read, read

from .apache_kafka import ApacheKafka
from .compaction import COMPACTED, compacted_topic
from .versions import also_between

pytestmark = also_between
T0 = 1_750_000_000_000


def rows_of(kafka: ApacheKafka, topic: str, **options: str) -> list[dict[str, Any]]:
    return read(kafka.bootstrap_servers(), subscribe=topic, **options)


def at(topic: str, offset: int) -> str:
    return json.dumps({topic: {"0": offset}})


@pytest.mark.parametrize("compression", CODECS)
def test_we_read_what_librdkafka_wrote(kafka: ApacheKafka, compression: str) -> None:
    config = {"retention.ms": "-1"}
    topic = librdkafka.create_topic(kafka.bootstrap_servers(), partitions=2, topic_config=config)
    records = [
        Record(
            value=None if number % 7 == 0 else b"%d" % number * (number % 50),
            key=None if number % 5 == 0 else b"k%d" % number,
            headers=(("n", b"%d" % number), ("null", None)) if number % 3 == 0 else (),
            timestamp_ms=T0 + number,
            partition=number % 2,
        )
        for number in range(5000)
    ]
    librdkafka.produce(kafka.bootstrap_servers(), topic, records, compression)
    rows = rows_of(kafka, topic, includeHeaders="true", minPartitions="7", fetchBytes="16k")
    assert len(rows) == len(records)
    for partition in range(2):
        mine = sorted((row for row in rows if row["partition"] == partition), key=lambda row: row["offset"])
        for record, row in zip(records[partition::2], mine, strict=True):
            headers = [{"key": key, "value": value} for key, value in record.headers] or None
            assert (row["value"], row["key"], row["headers"]) == (record.value, record.key, headers)
            assert round(row["timestamp"].timestamp() * 1000) == record.timestamp_ms


def test_a_quota_slows_a_read_down_and_does_not_end_it(kafka: ApacheKafka) -> None:
    topic = librdkafka.create_topic(kafka.bootstrap_servers())
    librdkafka.produce(kafka.bootstrap_servers(), topic, [Record(bytes(10_000))] * 215)
    # What was read is divided by ten seconds at least, so that the quota is used up after 2 MB.
    kafka_python.limit_reads(kafka.bootstrap_servers(), "slow", 200_000)
    options = {"kafka.client.id": "slow", "kafkaConsumer.pollTimeoutMs": "60s", "fetchBytes": "256KiB"}
    assert len(rows_of(kafka, topic, **options)) == 215


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_transactions_are_read_as_the_isolation_level_says(kafka: ApacheKafka, isolation_level: str) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers)
    for number in range(3):
        librdkafka.commit(servers, topic, [Record(b"c%d" % number)] * 2)
        librdkafka.abort(servers, topic, [Record(b"a%d" % number)] * 2)
    sees_all = isolation_level == "read_uncommitted"
    with librdkafka.transaction(servers, topic, [Record(b"open")], outcome="open"):
        rows = rows_of(kafka, topic, kafka__isolation__level=isolation_level)
        values = [b"c0", b"c0", b"a0", b"a0", b"c1", b"c1", b"a1", b"a1", b"c2", b"c2", b"a2", b"a2", b"open"]
        assert [row["value"] for row in rows] == [
            value for value in values if sees_all or value.startswith(b"c")
        ]
        for cut in range(1, 18):
            options = {"kafka__isolation__level": isolation_level}
            first = rows_of(kafka, topic, endingOffsets=at(topic, cut), **options)
            assert first + rows_of(kafka, topic, startingOffsets=at(topic, cut), **options) == rows


def test_offsets_that_an_open_transaction_commits_are_no_start(kafka: ApacheKafka) -> None:
    """Neither the one before nor, of the second partition, none: Java's consumer waits, too."""
    servers, options = kafka.bootstrap_servers(), {"brokerDownTimeout": "0s", "requestTimeout": "2s"}
    topic = librdkafka.create_topic(servers, 2)
    librdkafka.produce(servers, topic, [Record(b"%d" % each, partition=each % 2) for each in range(6)])
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


def test_offsets_by_time_group_and_bounds(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers, topic_config={"retention.ms": "-1"})
    records = [Record(b"%d" % number, timestamp_ms=T0 + 1000 * number) for number in range(10)]
    librdkafka.produce(servers, topic, records)
    librdkafka.commit_offsets(servers, "stood-here", topic, {0: 7})

    def values(**options: str) -> list[int]:
        return [int(row["value"]) for row in rows_of(kafka, topic, **options)]

    assert values(startingTimestamp=str(T0 + 2500), endingTimestamp=str(T0 + 5000)) == [3, 4]
    assert values(startingOffsets="committed", kafka__group__id="stood-here") == [7, 8, 9]
    with pytest.raises(OptionError, match="no offset matched from request"):
        values(startingTimestamp=str(T0 + 10_000))
    with pytest.raises(OptionError, match="the group has committed no offset"):
        values(startingOffsets="committed", kafka__group__id="never-stood")


def test_deleted_records_are_a_loss_while_a_planned_read_runs(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers)
    librdkafka.produce(servers, topic, [Record(b"%d" % number) for number in range(100)])
    strict = Read(servers, subscribe=topic)
    lenient = Read(servers, subscribe=topic, failOnDataLoss="false")
    librdkafka.delete_records(servers, topic, 0, 70)
    with pytest.raises(
        DataLossError, match=rf"{topic} 0 at offset 0 .*: records up to 70 are gone; the log now"
    ):
        strict.table()
    assert lenient.column("offset") == list(range(70, 100))
    assert Read(servers, subscribe=topic).column("offset") == list(range(70, 100))


def test_a_topic_made_anew_is_a_loss_while_a_planned_read_runs(kafka: ApacheKafka) -> None:
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


def test_a_topic_may_stamp_records_itself(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers, topic_config={"message.timestamp.type": "LogAppendTime"})
    ours.produce(servers, topic, [Record(b"v", timestamp_ms=T0)])
    [found] = ours.consume(servers, topic)
    assert [found] == librdkafka.consume(servers, topic)
    assert (found.timestamp_type, (found.timestamp_ms or 0) > T0) == (1, True)


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
    librdkafka.commit(servers, topic, [Record(b"c", partition=place) for place in places])
    librdkafka.abort(servers, topic, [Record(b"a", partition=place) for place in places])
    for codec in CODECS:
        librdkafka.produce(servers, topic, [Record(b"p" * 20, partition=place) for place in places], codec)
    librdkafka.produce(servers, topic, [Record(b"l" * 300_000, partition=place) for place in places])
    options = {"subscribe": topic, "kafka.isolation.level": isolation_level}
    found = [Read(servers, packSmallPartitions=packs, **options) for packs in ("true", "false")]
    assert [len(each.partitions) for each in found] == [1, 20]
    of_pack, apart = (each.table() for each in found)
    by_place = [("partition", "ascending"), ("offset", "ascending")]
    assert of_pack.sort_by(by_place) == apart.sort_by(by_place)
    firsts = [value[:1] for value in of_pack.column("value").to_pylist()]
    aborted = 20 if isolation_level == "read_uncommitted" else 0
    expected = {b"c": 20, b"a": aborted, b"p": 20 * len(CODECS), b"l": 20}
    assert {each: firsts.count(each) for each in expected} == expected
