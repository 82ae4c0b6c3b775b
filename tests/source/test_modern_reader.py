"""Reading from a modern broker through Spark: columns, snapshots, headers, failures, and no secret shown."""

from __future__ import annotations

import logging
from datetime import datetime, timezone

import pytest
from chispa import assert_df_equality
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_kafkawire.source.schema import HEADERS_FIELD, MODERN_SCHEMA
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.sparks import PLANS_ONCE

from .task_errors import message_of

T0 = 1_700_000_000_000


def load(spark: SparkSession, noida: NoidaBroker, schema: str | None = None, **options: str) -> DataFrame:
    given = {"kafka.bootstrap.servers": noida.bootstrap_servers, "kafkaConsumer.pollTimeoutMs": "1s"}
    reader = spark.read.format("kafkawire").options(**given)
    if schema is not None:
        reader = reader.schema(schema)
    return reader.options(**{name.replace("__", "."): value for name, value in options.items()}).load()


@pytest.fixture(scope="module")
def topic(noida: NoidaBroker) -> str:
    """Two partitions; headers, keys and values, or none of them."""
    topic = noida.create_topic(partitions=2)
    records = [
        Record(b"one", b"k1", (("h", b"1"), ("h", None)), T0),
        Record(None, None, (), T0 + 1),
        Record(b"three", None, (), T0 + 2, partition=1),
    ]
    librdkafka.produce(noida.bootstrap_servers, topic, records)
    return topic


def expected(spark: SparkSession, topic: str, *, headers: bool) -> DataFrame:
    places = [(b"k1", b"one", 0, 0), (None, None, 0, 1), (None, b"three", 1, 0)]
    rows = [
        (key, value, topic, partition, offset, datetime.fromtimestamp((T0 + number) / 1000, timezone.utc), 0)
        for number, (key, value, partition, offset) in enumerate(places)
    ]
    if not headers:
        return spark.createDataFrame(rows, MODERN_SCHEMA)
    columns = [[("h", b"1"), ("h", None)], None, None]
    schema = StructType([*MODERN_SCHEMA.fields, HEADERS_FIELD])
    return spark.createDataFrame([(*row, each) for row, each in zip(rows, columns, strict=True)], schema)


def test_all_columns_are_those_of_sparks_own_connector(
    spark: SparkSession, noida: NoidaBroker, topic: str
) -> None:
    assert_df_equality(load(spark, noida, subscribe=topic), expected(spark, topic, headers=False))


def test_headers_are_a_column_when_asked_for(spark: SparkSession, noida: NoidaBroker, topic: str) -> None:
    found = load(spark, noida, subscribe=topic, includeHeaders="true")
    assert_df_equality(found, expected(spark, topic, headers=True))


@pytest.mark.parametrize("schema", ["value binary", "offset bigint, key binary", "timestamp timestamp"])
def test_a_schema_is_a_projection_in_its_own_order(
    spark: SparkSession, noida: NoidaBroker, topic: str, schema: str
) -> None:
    projected = load(spark, noida, schema, subscribe=topic)
    assert_df_equality(projected, expected(spark, topic, headers=False).select(*projected.columns))
    assert projected.count() == 3


@PLANS_ONCE
def test_a_loaded_frame_is_a_snapshot_and_a_new_load_is_not(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = noida.create_topic()
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"1"), Record(b"2")])
    frame = load(spark, noida, subscribe=topic)
    assert frame.count() == 2
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"3")])
    assert frame.count() == 2
    assert frame.union(frame).count() == 4
    assert load(spark, noida, subscribe=topic).count() == 3


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "no-such"}, "no broker holds the topic no-such"),
        ({"subscribe": "a", "broker.list": "0:h:1"}, "kafka.bootstrap.servers and broker.list are set"),
        (
            {"subscribe": "a", "startingOffsets": "latest"},
            "starting offset can't be latest for batch queries",
        ),
        (
            {"subscribe": "a", "kafka.auto.offset.reset": "latest"},
            "is not supported: startingOffsets says where a query starts",
        ),
    ],
)
def test_wrong_options_are_one_line_before_any_task(
    spark: SparkSession, noida: NoidaBroker, options: dict[str, str], message: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        load(spark, noida, **options).collect()
    assert message in message_of(caught.value)


def test_no_password_is_in_a_plan(spark: SparkSession, noida: NoidaBroker, topic: str) -> None:
    login = (
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="hunter2";'
    )
    frame = load(
        spark,
        noida,
        subscribe=topic,
        kafka__security__protocol="SASL_PLAINTEXT",
        kafka__sasl__mechanism="PLAIN",
        kafka__sasl__jaas__config=login,
    )
    assert frame.count() == 3
    assert "hunter2" not in frame._jdf.queryExecution().toString()
