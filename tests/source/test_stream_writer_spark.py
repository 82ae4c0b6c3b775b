"""Promises of Spark's own streaming sink, under the names of its KafkaSinkSuite."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.spark_streams import lines, put, run, stream, write
from tests.support.sparks import READ_LIMITS, STREAM_SINKS

pytestmark = STREAM_SINKS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def written(noida: NoidaBroker, topic: str) -> list[bytes]:
    return sorted(record.value or b"" for record in librdkafka.consume(noida.bootstrap_servers, topic))


def test_streaming_write_to_kafka_with_topic_field_and_topic_option(
    spark: SparkSession, noida: NoidaBroker, folder: Path
) -> None:
    first, second = noida.create_topic(), noida.create_topic()
    put(folder, "1", "a", "b")
    rows = lines(spark, folder).selectExpr("value", f"'{first}' topic", "'k' key")
    assert write(rows, noida, folder) == 2
    put(folder, "2", "c")
    assert write(rows, noida, folder) == 1
    assert written(noida, first) == [b"a", b"b", b"c"]
    put(folder, "3", "d")
    write(rows, noida, folder, topic=second)  # the option beats the column
    assert (written(noida, first), written(noida, second)) == ([b"a", b"b", b"c"], [b"d"])


def test_streaming_write_aggregation_in_update_mode_is_for_foreach_batch(
    spark: SparkSession, noida: NoidaBroker, folder: Path
) -> None:
    topic = noida.create_topic()
    put(folder, "1", "a", "b", "a")
    rows = lines(spark, folder).groupBy("value").count().selectExpr("concat(value, count) value")
    with pytest.raises(StreamingQueryException, match="kafkawire does not support Update mode"):
        write(rows, noida, folder, "update", topic=topic)

    def write_batch(batch: DataFrame, _: int) -> None:
        writer = batch.write.format("kafkawire").mode("append").option("topic", topic)
        writer.option("kafka.bootstrap.servers", noida.bootstrap_servers).save()

    updates = rows.writeStream.foreachBatch(write_batch).outputMode("update").trigger(availableNow=True)
    updates = updates.option("checkpointLocation", str(folder / "batches"))
    run(updates)
    put(folder, "2", "a")
    run(updates)
    assert written(noida, topic) == [b"a2", b"a3", b"b1"]


def test_streaming_write_in_complete_mode_is_refused(
    spark: SparkSession, noida: NoidaBroker, folder: Path
) -> None:
    put(folder, "1", "a")
    rows = lines(spark, folder).groupBy("value").count().select("value")
    with pytest.raises(StreamingQueryException, match='output mode "complete": a Kafka log can only be'):
        write(rows, noida, folder, "complete", topic=noida.create_topic())


def test_streaming_write_data_with_bad_schema(spark: SparkSession, noida: NoidaBroker, folder: Path) -> None:
    put(folder, "1", "a")
    with pytest.raises(StreamingQueryException, match="Required attribute 'value' not found"):
        write(lines(spark, folder).selectExpr("value key"), noida, folder, topic="t")


def test_a_failed_batch_is_named_and_written_when_the_query_starts_again(
    spark: SparkSession, noida: NoidaBroker, folder: Path
) -> None:
    topic = noida.create_topic()
    put(folder, "1", "a", "x" * 200)
    rows = lines(spark, folder)
    limit = {"kafka.max.request.size": "150"}
    with pytest.raises(StreamingQueryException, match="batch 0: batch 0 of the task: "):
        write(rows, noida, folder, topic=topic, **limit)
    write(rows, noida, folder, topic=topic)
    assert written(noida, topic) == [b"a", b"x" * 200]


@READ_LIMITS
def test_a_topic_is_copied_by_a_stream(spark: SparkSession, noida: NoidaBroker, folder: Path) -> None:
    source, copy = noida.create_topic(partitions=2), noida.create_topic()
    records = [Record(b"%d" % number, b"k", partition=number % 2) for number in range(20)]
    librdkafka.produce(noida.bootstrap_servers, source, records)
    rows = stream(spark, noida, source, startingOffsets="earliest", maxOffsetsPerTrigger="15")
    assert write(rows.drop("partition"), noida, folder, topic=copy) == 20
    assert written(noida, copy) == sorted(b"%d" % number for number in range(20))
