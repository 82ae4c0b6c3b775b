"""Key order through Spark: without a shuffle, with one, and the report of misplaced records."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire import in_key_order, misplaced_report
from spark_kafkawire.errors import OptionError
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.growing import HASHES, KEYS, Grown, grown
from tests.support.key_order import Seen, seen
from tests.support.noida import NoidaBroker
from tests.support.spark_streams import started
from tests.support.sparks import MAP_IN_ARROW, READ_LIMITS


def load(spark: SparkSession, topic: Grown, **given: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": topic.servers, **topic.options(**given)}
    return spark.read.format("kafkawire").options(**options).load()


@MAP_IN_ARROW
def test_each_partition_sees_its_keys_in_order_without_a_shuffle(
    spark: SparkSession, noida: NoidaBroker
) -> None:
    topic = grown(noida, 2, 4)
    frame = load(spark, topic).select("key", "value")
    assert seen(frame) == Seen(160, len(KEYS), 0)
    plain = spark.read.format("kafkawire").option("kafka.bootstrap.servers", topic.servers)
    assert seen(plain.option("subscribe", topic.topic).load()).keys > len(KEYS), "in several Spark partitions"


@MAP_IN_ARROW
def test_a_shuffle_puts_keys_in_order_whatever_the_counts(spark: SparkSession, noida: NoidaBroker) -> None:
    frame = load(spark, grown(noida, 2, 4, 6))
    assert seen(in_key_order(frame, partitions=3)) == Seen(240, len(KEYS), 0)
    assert seen(frame.repartition(3, "key").sortWithinPartitions("partition", "offset")).inversions > 0
    assert in_key_order(frame, partitions=3).rdd.getNumPartitions() == 3


def test_the_report_counts_strays_and_says_what_is_promised(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = grown(noida, 2, 4)
    place = (HASHES[KEYS[0]] + 1) % 2
    librdkafka.produce(topic.servers, topic.topic, [Record(b"9", KEYS[0], partition=place)] * 3)
    rows = misplaced_report(load(spark, topic, verifyPartitioner="true")).orderBy("misplaced").collect()
    assert [(row.topic, row.misplaced, row.records, row["keys"]) for row in rows] == [
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
    with pytest.raises(OptionError, match=r"^in_key_order: the frame has no column layout: read with "):
        in_key_order(frame.drop("layout"))
    with pytest.raises(
        OptionError, match=r"^misplaced_report: the frame has no column misplaced: read with "
    ):
        misplaced_report(frame)


@READ_LIMITS
def test_a_stream_has_each_key_in_order_batch_after_batch(
    spark: SparkSession, noida: NoidaBroker, tmp_path: Path
) -> None:
    topic = grown(noida, 2, 4, 6)
    found: dict[bytes, list[int]] = {}

    def note(batch: DataFrame, _: int) -> None:
        for row in in_key_order(batch, partitions=1).select("key", "value").collect():
            found.setdefault(bytes(row.key), []).append(int(row.value))

    options = {"kafka.bootstrap.servers": topic.servers, "startingOffsets": "earliest"}
    reader = spark.readStream.format("kafkawire").options(
        **options, **topic.options(maxOffsetsPerTrigger="90")
    )
    writer = reader.load().writeStream.foreachBatch(note).option("checkpointLocation", str(tmp_path))

    def run() -> None:
        query = writer.start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    started(run)
    assert found == {key: list(range(6)) for key in KEYS}
