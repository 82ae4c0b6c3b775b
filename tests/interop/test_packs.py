"""Packs of small partitions of Apache Kafka: the rows of a task for each partition."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import librdkafka
from tests.support.foreign import CODECS, Record
from tests.support.reading import Read

from .apache_kafka import ApacheKafka
from .compaction import COMPACTED, compacted_topic

PARTITIONS = 60


def rows(kafka: ApacheKafka, spark_partitions: int | None = None, **options: str) -> list[dict[str, Any]]:
    found = Read(kafka.bootstrap_servers(), includeHeaders="true", **options)
    if spark_partitions is not None:
        assert len(found.partitions) == spark_partitions
    table: list[dict[str, Any]] = found.table().to_pylist()
    by_partition: dict[tuple[str, int], list[int]] = {}
    for row in table:
        by_partition.setdefault((row["topic"], row["partition"]), []).append(row["offset"])
    assert all(offsets == sorted(offsets) for offsets in by_partition.values())
    return sorted(table, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def written(servers: str, **config: str) -> str:
    """A topic with 20 records in each partition, in all codecs."""
    topic = librdkafka.create_topic(servers, partitions=PARTITIONS, topic_config=config)
    for number, compression in enumerate(CODECS * 2):
        records = [
            Record(
                value=None if number % 7 == 3 else b"%d" % partition * (10 + number),
                key=b"k%d" % (number % 3),
                headers=(("n", b"%d" % number),) if number % 2 else (),
                partition=partition,
            )
            for partition in range(PARTITIONS)
            for _ in range(2)
        ]
        librdkafka.produce(servers, topic, records, compression)
    return topic


@pytest.mark.parametrize("options", [{}, {"fetchBytes": "1k"}, {"fetchBytes": "64k"}])
def test_compressed_partitions(kafka: ApacheKafka, options: dict[str, str]) -> None:
    topic = written(kafka.bootstrap_servers())
    packed = rows(kafka, 1, subscribe=topic, packSmallPartitions="true", **options)
    assert len(packed) == PARTITIONS * 4 * len(CODECS)
    assert packed == rows(kafka, PARTITIONS, subscribe=topic)


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_transactions(kafka: ApacheKafka, isolation_level: str) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers, partitions=20)
    for number in range(2):
        each = range(number, 20, 2)
        librdkafka.commit(servers, topic, [Record(b"c", partition=each_) for each_ in each])
        librdkafka.abort(servers, topic, [Record(b"a", partition=each_) for each_ in range(20)])
        librdkafka.produce(servers, topic, [Record(b"p", partition=each_) for each_ in range(20)])
    options = {"subscribe": topic, "kafka.isolation.level": isolation_level}
    packed = rows(kafka, 1, packSmallPartitions="true", **options)
    assert packed == rows(kafka, 20, **options)
    values = [row["value"] for row in packed]
    assert (values.count(b"c"), values.count(b"p")) == (20, 40)
    assert values.count(b"a") == (0 if isolation_level == "read_committed" else 40)


def test_a_compacted_partition_among_others(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topics = f"{compacted_topic(servers)},{written(servers)}"
    options = {"subscribe": topics, "endingOffsets": "latest"}
    packed = rows(kafka, 1, packSmallPartitions="true", **options)
    compacted = [row for row in packed if row["topic"] == topics.split(",")[0]]
    assert [(row["offset"], row["value"]) for row in compacted][:3] == COMPACTED
    assert [row for row in packed if row["topic"] != topics.split(",")[0]] == rows(
        kafka, PARTITIONS, subscribe=topics.split(",")[1]
    )


def test_first_batches_above_the_limit_of_a_partition(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers, partitions=30)
    records = [Record(bytes([partition]) * 300_000, partition=partition) for partition in range(30)]
    librdkafka.produce(servers, topic, records)
    packed = rows(kafka, 1, subscribe=topic, packSmallPartitions="true")
    assert [row["value"] for row in packed] == [record.value for record in records]
