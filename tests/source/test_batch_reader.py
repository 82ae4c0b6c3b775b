"""Reading through Spark: columns, projections, snapshots, limits, and one-line errors."""

from __future__ import annotations

import re
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, Row, SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.records.message_set.public import encode_message_set
from spark_kafkawire.source.schema import V07_SCHEMA
from tests.support.embedded import produce, wait_registered
from tests.support.sparks import PLANS_ONCE

from .task_errors import message_of


def load(
    spark: SparkSession, cluster: EmbeddedCluster, schema: str | None = None, **options: str
) -> DataFrame:
    reader = spark.read.format("kafkawire").option("zookeeper.connect", cluster.zookeeper_connect)
    if schema is not None:
        reader = reader.schema(schema)
    return reader.options(**options).load()


@pytest.fixture(scope="module")
def mixed(corpus: EmbeddedCluster) -> str:
    """A topic with plain, compressed and plain messages in partition 1 of broker 0."""
    plain, gzip = encode_message_set([b"one", b"two"]), encode_message_set(["three", "four"], "gzip")
    produce(corpus, "mixed", plain + gzip + encode_message_set([b"five"]), partition=1)
    wait_registered(corpus, "mixed")
    return "mixed"


def test_all_columns_are_those_of_the_readme(
    spark: SparkSession, corpus: EmbeddedCluster, mixed: str
) -> None:
    wrapper_size = len(encode_message_set(["three", "four"], "gzip"))
    after = 26 + wrapper_size
    places = [(0, 0, 13), (13, 0, 26), (26, 0, after), (26, 1, after), (after, 0, after + 14)]
    values = [b"one", b"two", b"three", b"four", b"five"]
    rows: list[tuple[Any, ...]] = [
        (None, value, mixed, 1, offset, None, -1, 0, index, next_offset)
        for value, (offset, index, next_offset) in zip(values, places, strict=True)
    ]
    expected = spark.createDataFrame([tuple(row) for row in rows], V07_SCHEMA)
    assert_df_equality(load(spark, corpus, subscribe=mixed), expected)


@pytest.mark.parametrize(
    "schema",
    [
        "value binary",
        "offset bigint, value binary",
        "topic string, nextOffset bigint, index int",
        "key binary",
    ],
)
def test_a_schema_is_a_projection_in_its_own_order(
    spark: SparkSession, corpus: EmbeddedCluster, mixed: str, schema: str
) -> None:
    projected = load(spark, corpus, schema, subscribe=mixed)
    assert projected.columns == [column.split()[0] for column in schema.split(", ")]
    assert_df_equality(projected, load(spark, corpus, subscribe=mixed).select(*projected.columns))


@pytest.mark.usefixtures("mixed")
def test_explicit_ends_give_the_messages_between_them(spark: SparkSession, corpus: EmbeddedCluster) -> None:
    frame = load(
        spark,
        corpus,
        assign='{"mixed":["0-1"]}',
        startingOffsets='{"mixed":{"0-1":13}}',
        endingOffsets='{"mixed":{"0-1":26}}',
    )
    assert [bytes(row.value) for row in frame.collect()] == [b"two"]


def test_next_offset_is_where_a_later_read_goes_on(
    spark: SparkSession, corpus: EmbeddedCluster, mixed: str
) -> None:
    offsets = [row.nextOffset for row in load(spark, corpus, subscribe=mixed).collect()]
    counts = []
    for offset in offsets:
        start = f'{{"mixed":{{"0-1":{offset}}}}}'
        counts.append(load(spark, corpus, assign='{"mixed":["0-1"]}', startingOffsets=start).count())
    assert counts == [4, 3, 1, 1, 0]


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


def test_a_limit_stops_early(spark: SparkSession, corpus: EmbeddedCluster) -> None:
    assert len(load(spark, corpus, subscribe="debian-plain", fetchBytes="4k").take(5)) == 5


def test_an_empty_topic_has_no_rows(spark: SparkSession, corpus: EmbeddedCluster) -> None:
    produce(corpus, "empty", b"")
    wait_registered(corpus, "empty")
    assert load(spark, corpus, subscribe="empty").collect() == []


def test_the_format_works_in_sql(spark: SparkSession, corpus: EmbeddedCluster, mixed: str) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW mixed_view USING kafkawire OPTIONS "
        f"(`zookeeper.connect` '{corpus.zookeeper_connect}', subscribe '{mixed}')"
    )
    assert spark.sql(
        "SELECT count(*) AS n, max(offset) AS last FROM mixed_view WHERE index = 0"
    ).collect() == [
        Row(n=4, last=load(spark, corpus, subscribe=mixed).agg({"offset": "max"}).first()[0])  # type: ignore[index]
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "set exactly one of the options subscribe, subscribePattern and assign: none is set"),
        ({"subscribe": "a", "assign": "b"}, "subscribe and assign are set"),
        ({"subscribe": "a", "broker.list": "0:h:1"}, "zookeeper.connect and broker.list are set"),
        ({"subscribe": "a", "startingOffset": "earliest"}, "did you mean startingOffsets?"),
        ({"subscribe": "nowhere"}, "no broker holds the topic nowhere"),
        ({"subscribe": "a", "fetchBytes": "lots"}, "option fetchBytes: 'lots' is not a size"),
        ({"topic": "b"}, "option topic is for writing"),
        ({"subscribe": "a", "acks": "1"}, "option acks is for writing"),
        ({"subscribe": "a", "BATCHBYTES": "1"}, "option batchBytes is for writing"),
    ],
)
def test_wrong_options_are_one_line_before_any_task(
    spark: SparkSession, corpus: EmbeddedCluster, options: dict[str, str], message: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        load(spark, corpus, **options).collect()
    assert message in message_of(caught.value)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("payload binary", "there is no column 'payload'; there are key, value, "),
        ("value string", "column 'value' is binary, not string; cast it after load()"),
        ("offset int", "column 'offset' is bigint, not int"),
    ],
)
def test_a_wrong_schema_names_its_column(
    spark: SparkSession, corpus: EmbeddedCluster, mixed: str, schema: str, message: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        load(spark, corpus, schema, subscribe=mixed).collect()
    assert message in message_of(caught.value)


@pytest.mark.usefixtures("mixed")
def test_an_offset_inside_a_message_is_an_error_not_garbage(
    spark: SparkSession, corpus: EmbeddedCluster
) -> None:
    frame = load(spark, corpus, assign='{"mixed":["0-1"]}', startingOffsets='{"mixed":{"0-1":14}}')
    with pytest.raises(PythonException) as caught:
        frame.collect()
    assert "option startingOffsets: 14 is not a message boundary of mixed 0-1 on broker 0" in message_of(
        caught.value
    )


def test_no_credential_reaches_the_tasks_or_the_plan(spark: SparkSession, corpus: EmbeddedCluster) -> None:
    secret = "hunter2-is-secret"
    options = {"subscribe": "debian-gzip", "zookeeper.auth": f"digest:me:{secret}"}
    frame = load(spark, corpus, **options)
    plan = frame._jdf.queryExecution().toString()
    assert frame.count() == 15917
    assert secret not in plan
    with pytest.raises(AnalysisException) as caught:
        load(spark, corpus, **{**options, "zookeeper.auth": secret}).collect()
    assert not re.search(secret, str(caught.value))
