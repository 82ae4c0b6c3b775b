"""Streams on each Spark version that this package supports, through Spark itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_kafkawire.source.spark_versions import HAS_READ_LIMITS, HAS_STREAM_SINKS
from tests.support import librdkafka
from tests.support.noida import NoidaBroker
from tests.support.spark_streams import begun, lines, put, run, send, stream, write
from tests.support.sparks import STREAM_SINKS


@pytest.fixture
def topics(noida: NoidaBroker) -> tuple[str, str]:
    return noida.create_topic(partitions=2), noida.create_topic()


def texts(noida: NoidaBroker, topic: str) -> list[bytes]:
    return sorted(record.value or b"" for record in librdkafka.consume(noida.bootstrap_servers, topic))


def values(noida: NoidaBroker, topic: str) -> list[int]:
    return sorted(map(int, texts(noida, topic)))


def stored(rows: DataFrame, checkpoint: Path) -> DataStreamWriter:
    return rows.writeStream.option("checkpointLocation", str(checkpoint))


def to_topic(rows: DataFrame, noida: NoidaBroker, topic: str, checkpoint: Path) -> DataStreamWriter:
    sink = stored(rows.select("key", "value"), checkpoint).format("kafkawire")
    return sink.option("kafka.bootstrap.servers", noida.bootstrap_servers).option("topic", topic)


def test_batches_of_a_stream_are_written_and_a_restart_goes_on_where_it_was(
    spark: SparkSession, noida: NoidaBroker, topics: tuple[str, str], tmp_path: Path
) -> None:
    def write(rows: DataFrame, _: int) -> None:
        sink = rows.select("key", "value").write.format("kafkawire").mode("append")
        sink.option("kafka.bootstrap.servers", noida.bootstrap_servers).option("topic", topics[1]).save()

    for number in range(3):
        send(noida, topics[0], range(10 * number, 10 * number + 10), number % 2)
        rows = stream(spark, noida, topics[0], startingOffsets="earliest")
        run(stored(rows, tmp_path).foreachBatch(write).trigger(availableNow=True))
        assert values(noida, topics[1]) == list(range(10 * number + 10))


@STREAM_SINKS
def test_a_sink_writes_what_comes_while_it_runs_and_after_a_restart(
    spark: SparkSession, noida: NoidaBroker, topics: tuple[str, str], tmp_path: Path
) -> None:
    for number in range(2):
        rows = stream(spark, noida, topics[0], startingOffsets="earliest")
        query = begun(to_topic(rows, noida, topics[1], tmp_path).trigger(processingTime="0 seconds"))
        try:
            send(noida, topics[0], range(10 * number, 10 * number + 10), number % 2)
            query.processAllAvailable()
        finally:
            query.stop()
        assert values(noida, topics[1]) == list(range(10 * number + 10))


@pytest.mark.skipif(HAS_STREAM_SINKS, reason="this Spark has sinks for Arrow batches")
def test_a_sink_is_refused_with_what_to_do(
    spark: SparkSession, noida: NoidaBroker, topics: tuple[str, str], tmp_path: Path
) -> None:
    rows = stream(spark, noida, topics[0], startingOffsets="earliest")
    with pytest.raises(StreamingQueryException, match=r"writeStream needs Spark 4\.1 .* use foreachBatch"):
        run(to_topic(rows, noida, topics[1], tmp_path).trigger(availableNow=True))


@pytest.mark.skipif(HAS_READ_LIMITS, reason="this Spark has limits for streams of Python sources")
def test_limits_are_refused_with_what_to_do(
    spark: SparkSession, noida: NoidaBroker, topics: tuple[str, str], tmp_path: Path
) -> None:
    rows = stream(spark, noida, topics[0], maxOffsetsPerTrigger="3")
    with pytest.raises(StreamingQueryException, match=r"need Spark 4\.2 .* leave them out"):
        run(stored(rows, tmp_path).format("noop").trigger(availableNow=True))


@STREAM_SINKS
def test_streaming_write_aggregation_in_update_mode_is_for_foreach_batch(
    spark: SparkSession, noida: NoidaBroker, topics: tuple[str, str], tmp_path: Path
) -> None:
    _, topic = topics
    (tmp_path / "in").mkdir()
    put(tmp_path, "1", "a", "b", "a")
    rows = lines(spark, tmp_path).groupBy("value").count().selectExpr("concat(value, count) value")
    with pytest.raises(StreamingQueryException, match="kafkawire does not support Update mode"):
        write(rows, noida, tmp_path, "update", topic=topic)

    def write_batch(batch: DataFrame, _: int) -> None:
        writer = batch.write.format("kafkawire").mode("append").option("topic", topic)
        writer.option("kafka.bootstrap.servers", noida.bootstrap_servers).save()

    updates = rows.writeStream.foreachBatch(write_batch).outputMode("update").trigger(availableNow=True)
    updates = updates.option("checkpointLocation", str(tmp_path / "batches"))
    run(updates)
    put(tmp_path, "2", "a")
    run(updates)
    assert texts(noida, topic) == [b"a2", b"a3", b"b1"]


@STREAM_SINKS
def test_a_failed_batch_is_named_and_written_when_the_query_starts_again(
    spark: SparkSession, noida: NoidaBroker, topics: tuple[str, str], tmp_path: Path
) -> None:
    _, topic = topics
    (tmp_path / "in").mkdir()
    put(tmp_path, "1", "a", "x" * 200)
    rows = lines(spark, tmp_path)
    limit = {"kafka.max.request.size": "150"}
    with pytest.raises(StreamingQueryException, match="batch 0: batch 0 of the task: "):
        write(rows, noida, tmp_path, topic=topic, **limit)
    write(rows, noida, tmp_path, topic=topic)
    assert texts(noida, topic) == [b"a", b"x" * 200]
