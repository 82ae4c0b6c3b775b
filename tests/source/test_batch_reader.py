"""Reading through Spark, from brokers of either kind: columns, projections, snapshots, limits, and errors."""

from __future__ import annotations

import logging
from datetime import datetime, timezone
from typing import Any

import pytest
from chispa import assert_df_equality
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.records.message_set.public import encode_message_set
from spark_kafkawire.source.schema import HEADERS_FIELD, MODERN_SCHEMA, V07_SCHEMA
from tests.support import librdkafka
from tests.support.embedded import produce, wait_registered
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.sparks import PLANS_ONCE

from .task_errors import message_of

T0 = 1_700_000_000_000


def load(
    spark: SparkSession, broker: EmbeddedCluster | NoidaBroker, schema: str | None = None, **options: str
) -> DataFrame:
    if isinstance(broker, EmbeddedCluster):
        given = {"zookeeper.connect": broker.zookeeper_connect}
    else:
        given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "kafkaConsumer.pollTimeoutMs": "1s"}
    reader = spark.read.format("kafkawire").options(**given)
    return (reader if schema is None else reader.schema(schema)).options(**options).load()


@pytest.fixture(scope="module")
def mixed(corpus: EmbeddedCluster) -> str:
    """A topic with plain, compressed and plain messages in partition 1 of broker 0."""
    plain, gzip = encode_message_set([b"one", b"two"]), encode_message_set(["three", "four"], "gzip")
    produce(corpus, "mixed", plain + gzip + encode_message_set([b"five"]), partition=1)
    wait_registered(corpus, "mixed")
    return "mixed"


def test_columns_of_07_are_those_of_the_readme(
    spark: SparkSession, corpus: EmbeddedCluster, mixed: str
) -> None:
    after = 26 + len(encode_message_set(["three", "four"], "gzip"))
    places = [(0, 0, 13), (13, 0, 26), (26, 0, after), (26, 1, after), (after, 0, after + 14)]
    values = [b"one", b"two", b"three", b"four", b"five"]
    rows: list[tuple[Any, ...]] = [
        (None, value, mixed, 1, offset, None, -1, 0, index, next_offset)
        for value, (offset, index, next_offset) in zip(values, places, strict=True)
    ]
    expected = spark.createDataFrame(rows, V07_SCHEMA)
    assert_df_equality(load(spark, corpus, subscribe=mixed), expected)


def test_columns_of_later_brokers_are_those_of_sparks_own_connector(
    spark: SparkSession, noida: NoidaBroker
) -> None:
    topic = noida.create_topic(partitions=2)
    records = [
        Record(b"one", b"k1", (("h", b"1"), ("h", None)), T0),
        Record(None, None, (), T0 + 1),
        Record(b"three", None, (), T0 + 2, partition=1),
    ]
    librdkafka.produce(noida.bootstrap_servers, topic, records)
    places = [(b"k1", b"one", 0, 0), (None, None, 0, 1), (None, b"three", 1, 0)]
    headers = [[("h", b"1"), ("h", None)], None, None]
    times = [datetime.fromtimestamp((T0 + number) / 1000, timezone.utc) for number in range(3)]
    rows = [
        (key, value, topic, partition, offset, time, 0, each)
        for (key, value, partition, offset), time, each in zip(places, times, headers, strict=True)
    ]
    expected = spark.createDataFrame(rows, StructType([*MODERN_SCHEMA.fields, HEADERS_FIELD]))
    assert_df_equality(load(spark, noida, subscribe=topic, includeHeaders="true"), expected)


@pytest.mark.parametrize("schema", ["value binary", "topic string, nextOffset bigint, index int"])
def test_a_schema_is_a_projection_in_its_own_order(
    spark: SparkSession, corpus: EmbeddedCluster, mixed: str, schema: str
) -> None:
    projected = load(spark, corpus, schema, subscribe=mixed)
    assert projected.columns == [column.split()[0] for column in schema.split(", ")]
    assert_df_equality(projected, load(spark, corpus, subscribe=mixed).select(*projected.columns))
    assert projected.count() == 5


@PLANS_ONCE
def test_a_loaded_frame_is_a_snapshot_and_a_new_load_is_not(
    spark: SparkSession, corpus: EmbeddedCluster
) -> None:
    produce(corpus, "growing", encode_message_set([b"1", b"2"]))
    wait_registered(corpus, "growing")
    frame = load(spark, corpus, subscribe="growing")
    assert frame.count() == 2
    produce(corpus, "growing", encode_message_set([b"3"]))
    assert frame.count() == 2
    assert frame.union(frame).count() == 4
    assert load(spark, corpus, subscribe="growing").count() == 3


@PLANS_ONCE
def test_a_loss_while_a_frame_is_used_is_one_line_or_what_is_left(
    spark: SparkSession, noida: NoidaBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = noida.create_topic()
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"%d" % number) for number in range(100)])
    options = {"subscribe": topic, "minPartitions": "2"}
    strict = load(spark, noida, **options)
    lenient = load(spark, noida, failOnDataLoss="false", **options)
    assert strict.count() == lenient.count() == 100  # now both are planned
    noida.delete_records(topic, 0, 70)
    with pytest.raises(PythonException) as caught:
        strict.collect()
    # Each of the two tasks has lost some, and either may be the first to say so.
    assert f"{topic} 0 at offset " in message_of(caught.value)
    assert "are gone; the log now holds [70, 100)" in message_of(caught.value)
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert sorted(row.offset for row in lenient.collect()) == list(range(70, 100))


def test_a_broker_killed_in_the_middle_of_a_read_is_one_line(
    spark: SparkSession, cluster: EmbeddedCluster
) -> None:
    frame = load(spark, cluster, subscribe="debian-gzip", retries="2")
    rows = iter(frame.select("broker", "partition").toLocalIterator())
    next(rows)  # the first Spark partition has been read
    port = cluster.brokers[1].port
    cluster.brokers[1].kill()
    with pytest.raises(Py4JJavaError) as caught:
        list(rows)
    # Spark 4.0 has the text twice, after words of its own that differ.
    lines = [line for line in str(caught.value).splitlines() if "spark_kafkawire.errors." in line]
    [line] = {line.partition("spark_kafkawire.errors.")[2] for line in lines}
    assert "gave up after 3 attempts" in line
    assert f"debian-gzip 1-0 at offset 0: broker 1 (127.0.0.1:{port}): cannot connect" in line
