"""Packs of small partitions through Spark: the same rows and columns as a task for each partition."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.records.message_set.public import encode_message_set
from tests.support import librdkafka
from tests.support.embedded import produce, wait_registered
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.spark_streams import run, send, stream
from tests.support.sparks import READ_LIMITS

from .task_errors import message_of

PARTITIONS = 12


@pytest.fixture(scope="module")
def topic(noida: NoidaBroker) -> str:
    """Partitions of 0 to 11 records, with headers and nulls; compressed."""
    topic = noida.create_topic(partitions=PARTITIONS)
    for codec in ("none", "zstd"):
        records = [
            Record(
                None if number % 5 == 4 else b"%d-%d" % (partition, number),
                b"key" if number % 2 else None,
                (("h", b"1"),) if number % 3 else (),
                1_700_000_000_000 + number,
                partition=partition,
            )
            for partition in range(PARTITIONS)
            for number in range(partition)
        ]
        librdkafka.produce(noida.bootstrap_servers, topic, records, codec)
    return topic


def load(spark: SparkSession, noida: NoidaBroker, packs: bool, **options: str) -> DataFrame:
    reader = spark.read.format("kafkawire").option("kafka.bootstrap.servers", noida.bootstrap_servers)
    return reader.option("packSmallPartitions", packs).options(**options).load()


@pytest.mark.parametrize("headers", ["true", "false"])
def test_rows_and_columns_are_those_of_a_task_for_each_partition(
    spark: SparkSession, noida: NoidaBroker, topic: str, headers: str
) -> None:
    packed = load(spark, noida, True, subscribe=topic, includeHeaders=headers)
    alone = load(spark, noida, False, subscribe=topic, includeHeaders=headers)
    assert (packed.rdd.getNumPartitions(), alone.rdd.getNumPartitions()) == (1, PARTITIONS - 1)
    in_order = packed.selectExpr("partition", "offset", "spark_partition_id() task").collect()
    for partition in range(PARTITIONS):
        offsets = [row.offset for row in in_order if row.partition == partition]
        assert offsets == list(range(2 * partition))
    assert_df_equality(packed.orderBy("partition", "offset"), alone.orderBy("partition", "offset"))


def test_rows_without_columns_are_counted(spark: SparkSession, noida: NoidaBroker, topic: str) -> None:
    packed = load(spark, noida, True, subscribe=topic)
    assert packed.count() == PARTITIONS * (PARTITIONS - 1)
    assert packed.select("value").where("value IS NULL").count() > 0


def test_large_ranges_keep_a_spark_partition_of_their_own(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=3)
    send(noida, topic, range(1001))
    send(noida, topic, range(10), 1)
    send(noida, topic, range(10), 2)
    packed = load(spark, noida, True, subscribe=topic)
    tasks = packed.groupBy("partition").agg({"*": "count"}).count()
    assert tasks == 3
    assert packed.rdd.getNumPartitions() == 2
    assert packed.count() == 1021


def test_typed_values_of_a_pack(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=4)
    records = [
        Record(b'{"n": %d}' % (10 * partition + number) if number else b"{", partition=partition)
        for partition in range(4)
        for number in range(3)
    ]
    librdkafka.produce(noida.bootstrap_servers, topic, records)
    reader = spark.read.format("kafkawire").option("kafka.bootstrap.servers", noida.bootstrap_servers)
    reader = reader.options(
        subscribe=topic, packSmallPartitions="true", valueFormat="json", badRecords="drop"
    )
    packed = reader.schema("value STRUCT<n: INT>, partition INT").load()
    found = sorted((row.partition, row.value.n) for row in packed.select("partition", "value").collect())
    assert found == [(partition, 10 * partition + number) for partition in range(4) for number in (1, 2)]


def test_lost_records_of_one_partition_are_named(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=3)
    for partition in range(3):
        send(noida, topic, range(10), partition)
    planned = load(spark, noida, True, subscribe=topic)
    planned.rdd.getNumPartitions()
    lenient = load(spark, noida, True, subscribe=topic, failOnDataLoss="false")
    lenient.rdd.getNumPartitions()
    noida.delete_records(topic, 1, 4)
    with pytest.raises(PythonException) as caught:
        planned.collect()
    assert f"{topic} 1 at offset 0" in message_of(caught.value)
    rows = [(row.partition, row.offset) for row in lenient.select("partition", "offset").collect()]
    assert sorted(rows) == [(p, offset) for p in range(3) for offset in range(4 if p == 1 else 0, 10)]


@READ_LIMITS
def test_a_stream_reads_packs_and_its_progress_is_by_partition(
    spark: SparkSession, noida: NoidaBroker, tmp_path: Path
) -> None:
    topic = noida.create_topic(partitions=4)
    for partition in range(4):
        send(noida, topic, range(100 * partition, 100 * partition + 10), partition)
    counts = []
    for round_ in range(2):
        rows = stream(
            spark,
            noida,
            topic,
            startingOffsets="earliest",
            packSmallPartitions="true",
            maxOffsetsPerTrigger="24",
        )
        rows = rows.selectExpr("CAST(CAST(value AS STRING) AS INT) value", "spark_partition_id() task")
        writer = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "c"))
        query = run(writer.trigger(availableNow=True), str(tmp_path / "out"))
        counts.append([progress.numInputRows for progress in query.recentProgress])
        last = query.recentProgress[-1].sources[0]
        ends = {str(partition): 10 + 5 * round_ * (partition < 2) for partition in range(4)}
        assert json.loads(last.endOffset) == json.loads(last.latestOffset) == {topic: ends}
        for partition in range(2):
            send(noida, topic, range(100 * partition + 10, 100 * partition + 15), partition)
    assert counts == [[24, 16], [10]]
    found = spark.read.parquet(str(tmp_path / "out"))
    assert sorted(row.value for row in found.collect()) == [
        100 * partition + number for partition in range(4) for number in range(15 if partition < 2 else 10)
    ]
    assert {row.task for row in found.collect()} == {0}


def test_contradicting_options_are_refused_in_one_line(
    spark: SparkSession, noida: NoidaBroker, topic: str
) -> None:
    with pytest.raises(Exception, match="packSmallPartitions=true makes fewer Spark partitions, and minPart"):
        load(spark, noida, True, subscribe=topic, minPartitions="3").count()


def test_partitions_of_07_are_packed_by_broker(spark: SparkSession, corpus: EmbeddedCluster) -> None:
    for partition in range(3):
        plain = encode_message_set([b"%d-%d" % (partition, number) for number in range(partition + 1)])
        produce(corpus, "packed", plain + encode_message_set([b"last"], "gzip"), partition=partition)
    wait_registered(corpus, "packed")

    def frame(packs: bool) -> DataFrame:
        reader = spark.read.format("kafkawire").option("zookeeper.connect", corpus.zookeeper_connect)
        return reader.options(subscribe="packed", packSmallPartitions=str(packs)).load()

    packed, alone = frame(True), frame(False)
    assert packed.rdd.getNumPartitions() == packed.select("broker").distinct().count()
    assert alone.rdd.getNumPartitions() == 3
    key = ("broker", "partition", "offset", "index")
    assert_df_equality(packed.orderBy(*key), alone.orderBy(*key))
    assert packed.count() == 1 + 2 + 3 + 3


def test_a_whole_corpus_of_07_is_the_same_in_packs(spark: SparkSession, corpus: EmbeddedCluster) -> None:
    def rows(packs: bool) -> list[tuple[object, ...]]:
        reader = spark.read.format("kafkawire").option("zookeeper.connect", corpus.zookeeper_connect)
        read = reader.options(subscribePattern="debian-.*", packSmallPartitions=str(packs)).load()
        return sorted(
            tuple(row)
            for row in read.selectExpr(
                "topic", "broker", "partition", "offset", "index", "nextOffset", "hash(value)"
            ).collect()
        )

    assert rows(True) == rows(False)
