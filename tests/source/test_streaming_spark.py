"""Streams through Spark itself: triggers, progress, checkpoints on disk, and Spark's own refusals. Java's
patterns, by Spark's JVM."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_kafkawire.options.java_pattern import JavaPattern, PatternError
from tests.options.java_patterns.record import NAMES, random_patterns
from tests.support import librdkafka
from tests.support.noida import NoidaBroker
from tests.support.spark_streams import run, send, stream
from tests.support.sparks import READ_LIMITS, STREAM_SINKS, since_spark


def offsets_of(checkpoint: Path) -> list[Any]:
    files = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    return [json.loads(file.read_text().splitlines()[2]) for file in files]


@pytest.fixture
def topic(noida: NoidaBroker) -> str:
    """Two partitions: 0-9, and 10-19."""
    topic = noida.create_topic(partitions=2)
    send(noida, topic, range(10))
    send(noida, topic, range(10, 20), 1)
    return topic


@READ_LIMITS
def test_available_now_goes_on(spark: SparkSession, noida: NoidaBroker, topic: str, tmp_path: Path) -> None:
    def writer(checkpoint: str) -> DataStreamWriter:
        rows = stream(spark, noida, topic, startingOffsets="earliest", maxOffsetsPerTrigger="8")
        parquet = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / checkpoint))
        return parquet.trigger(availableNow=True)

    query = run(writer("old"), str(tmp_path / "out"))
    assert [progress.numInputRows for progress in query.recentProgress] == [8, 8, 4]
    last = query.recentProgress[-1].sources[0]
    assert json.loads(last.startOffset) == {topic: {"0": 8, "1": 8}}
    assert json.loads(last.endOffset) == json.loads(last.latestOffset) == {topic: {"0": 10, "1": 10}}
    send(noida, topic, range(20, 25))
    (tmp_path / "old").rename(tmp_path / "c")  # a checkpoint continues wherever it is
    run(writer("c"), str(tmp_path / "out"))
    values = spark.read.parquet(str(tmp_path / "out")).selectExpr("CAST(CAST(value AS STRING) AS INT)")
    assert sorted(value for [value] in values.collect()) == list(range(25))
    assert offsets_of(tmp_path / "c") == [
        {topic: {"0": count, "1": min(count, 10)}} for count in (4, 8, 10)
    ] + [{topic: {"0": 15, "1": 10}}]


@pytest.mark.parametrize(
    ("trigger", "reported"),
    [
        ({"continuous": "1 second"}, "does not support continuous processing"),
        pytest.param({"realTime": "5 minutes"}, "REAL_TIME", marks=since_spark(4, 2, "has no such trigger")),
    ],
    ids=["continuous", "real-time"],
)
def test_spark_refuses_other_triggers(
    spark: SparkSession,
    noida: NoidaBroker,
    topic: str,
    tmp_path: Path,
    trigger: dict[str, str],
    reported: str,
) -> None:
    writer = stream(spark, noida, topic).writeStream.format("noop").outputMode("update")
    with pytest.raises(Exception, match=reported):
        run(writer.option("checkpointLocation", str(tmp_path)).trigger(**trigger))


@STREAM_SINKS
def test_mode_complete_writes_the_rows_of_each_batch(
    spark: SparkSession, noida: NoidaBroker, tmp_path: Path
) -> None:
    topic, target = noida.create_topic(), noida.create_topic()
    for numbers in ([1, 1, 2], [2]):
        send(noida, topic, numbers)
        counts = stream(spark, noida, topic, startingOffsets="earliest").groupBy("value").count()
        rows = counts.selectExpr("value AS key", "CAST(count AS STRING) AS value")
        writer = rows.writeStream.format("kafkawire").outputMode("complete").option("topic", target)
        writer = writer.option("kafka.bootstrap.servers", noida.bootstrap_servers)
        run(writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True))
    written = librdkafka.consume(noida.bootstrap_servers, target)
    result = sorted((record.key, record.value) for record in written)
    assert result == [(b"1", b"2"), (b"1", b"2"), (b"2", b"1"), (b"2", b"2")]


def test_a_thread_writes_once_spark_knows_its_session(spark: SparkSession, noida: NoidaBroker) -> None:
    copy = noida.create_topic()
    options = {"kafka.bootstrap.servers": noida.bootstrap_servers, "topic": copy}
    rows = spark.createDataFrame([(b"1",)], "value BINARY")

    def write() -> None:
        rows.write.format("kafkawire").options(**options).mode("append").save()

    with ThreadPoolExecutor(1) as thread:
        with pytest.raises(Py4JError, match="DATA_SOURCE_NOT_FOUND") as unknown:
            thread.submit(write).result()
        assert "ClassNotFoundException: kafkawire.DefaultSource" in str(unknown.value)
        thread.submit(spark.createDataFrame, [(0,)], "a INT").result()
        thread.submit(write).result()
    assert [item.value for item in librdkafka.consume(noida.bootstrap_servers, copy)] == [b"1"]


# Patterns

SAMPLE_COUNT = 60


def test_java_picks_the_same_names_by_new_patterns(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    plain = [name for name in NAMES if name.isascii()]
    for pattern in random_patterns(seed=2, count=SAMPLE_COUNT):
        try:
            ours = JavaPattern(pattern)
        except PatternError:
            continue
        compiled = jvm.java.util.regex.Pattern.compile(pattern)
        for name in random.Random(pattern).sample(plain, 12):
            assert compiled.matcher(name).find() == ours.is_found_in(name), pattern
