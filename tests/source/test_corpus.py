"""Partitions that a real Kafka 0.7.2 wrote, through Spark: every message, in order, byte for byte."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from tests.support.golden import MANIFEST, values_sha256


@pytest.mark.parametrize("topic", ["debian-plain", "debian-gzip", "debian-snappy"])
@pytest.mark.parametrize("options", [{}, {"minPartitions": "40"}, {"fetchBytes": "4KiB"}], ids=str)
def test_every_partition_has_the_messages_of_the_manifest(
    spark: SparkSession, corpus: EmbeddedCluster, topic: str, options: dict[str, str]
) -> None:
    frame = (
        spark.read.format("kafkawire")
        .option("zookeeper.connect", corpus.zookeeper_connect)
        .option("subscribe", topic)
        .options(**options)
        .load()
    )
    rows = frame.select("broker", "partition", "offset", "index", "value").collect()
    partitions: dict[tuple[int, int], list[tuple[int, int, bytes]]] = {}
    for broker, partition, offset, index, value in rows:
        partitions.setdefault((broker, partition), []).append((offset, index, bytes(value)))
    expected = {
        (partition["broker"], partition["partition"]): partition
        for partition in MANIFEST
        if partition["topic"] == topic
    }
    assert set(partitions) == set(expected)
    for name, messages in partitions.items():
        messages.sort(key=lambda message: message[:2])
        assert len(messages) == expected[name]["messages"]
        assert values_sha256(value for _, _, value in messages) == expected[name]["values_sha256"]
