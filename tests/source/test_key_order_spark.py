"""The order of keys through Spark: without a shuffle, by one, and what is told of strays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from spark_kafkawire import in_key_order, stray_report
from spark_kafkawire.errors import OptionError
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker

from .test_key_order import HASHES, KEYS, Grown, grown


def load(spark: SparkSession, topic: Grown, **given: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": topic.servers, **topic.options(**given)}
    return spark.read.format("kafkawire").options(**options).load()


def inversions(frame: DataFrame) -> tuple[int, int]:
    """How many rows come after a later one of their key in their Spark partition, and how many keys are in
    several Spark partitions."""

    def look(rows: Iterable[Row]) -> Iterator[tuple[set[bytes], int]]:
        last: dict[bytes, int] = {}
        count = 0
        for row in rows:
            number = int(row["value"])
            count += number < last.get(bytes(row["key"]), -1)
            last[bytes(row["key"])] = number
        yield set(last), count

    found: list[Any] = frame.rdd.mapPartitions(look).collect()
    keys = [key for part, _ in found for key in part]
    return sum(count for _, count in found), len(keys) - len(set(keys))


def test_each_partition_sees_its_keys_in_order_without_a_shuffle(
    spark: SparkSession, noida: NoidaBroker
) -> None:
    topic = grown(noida, 2, 4)
    frame = load(spark, topic).select("key", "value")
    assert frame.rdd.getNumPartitions() == 2
    assert inversions(frame) == (0, 0)
    plain = spark.read.format("kafkawire").option("kafka.bootstrap.servers", topic.servers)
    assert inversions(plain.option("subscribe", topic.topic).load().coalesce(1))[0] == 0
    assert inversions(plain.option("subscribe", topic.topic).load())[1] > 0


def test_a_shuffle_puts_keys_in_order_whatever_the_counts(spark: SparkSession, noida: NoidaBroker) -> None:
    frame = load(spark, grown(noida, 2, 4, 6))
    assert inversions(in_key_order(frame, partitions=3)) == (0, 0)
    assert inversions(frame.repartition(3, "key").sortWithinPartitions("partition", "offset"))[0] > 0
    assert in_key_order(frame, partitions=3).rdd.getNumPartitions() == 3


def test_the_report_counts_strays_and_says_what_is_promised(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = grown(noida, 2, 4)
    place = (HASHES[KEYS[0]] + 1) % 2
    librdkafka.produce(topic.servers, topic.topic, [Record(b"9", KEYS[0], partition=place)] * 3)
    rows = stray_report(load(spark, topic, verifyPartitioner="true")).orderBy("stray").collect()
    assert [(row.topic, row.stray, row.records, row["keys"]) for row in rows] == [
        (topic.topic, None, 160, 0),
        (topic.topic, "unexplained", 3, 1),
    ]
    assert [row.promise.partition(":")[0] for row in rows] == [
        "in the order in which they were produced",
        "none",
    ]
    assert rows[0].examples is None
    end = librdkafka.offsets(topic.servers, topic.topic, place)[1]
    assert [(each.partition, each.offset, bytes(each.key)) for each in rows[1].examples] == [
        (place, end - 3, KEYS[0]),
        (place, end - 1, KEYS[0]),
    ]


def test_frames_without_the_columns_are_told(spark: SparkSession, noida: NoidaBroker) -> None:
    frame = load(spark, grown(noida, 2))
    with pytest.raises(OptionError, match=r"^in_key_order: the frame has no column epoch: read with "):
        in_key_order(frame.drop("epoch"))
    with pytest.raises(OptionError, match=r"^stray_report: the frame has no column stray: read with "):
        stray_report(frame)
