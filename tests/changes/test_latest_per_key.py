"""The last row of each key."""

from __future__ import annotations

import re

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_kafkawire.changes import latest_per_key
from spark_kafkawire.errors import OptionError
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker


def compacted(records: list[Record], noida: NoidaBroker, spark: SparkSession) -> DataFrame:
    """A topic of these records as rows."""
    topic = noida.create_topic(partitions=2)
    librdkafka.produce(noida.bootstrap_servers, topic, records)
    options = {"kafka.bootstrap.servers": noida.bootstrap_servers, "subscribe": topic}
    return spark.read.format("kafkawire").options(**options).load()


def test_each_key_has_its_last_record(spark: SparkSession, noida: NoidaBroker) -> None:
    records = [
        Record(b"%d" % number if number % 7 else None, key=b"key %d" % (number % 20), partition=number % 2)
        for number in range(200)
    ]
    rows = compacted(records, noida, spark)
    last = {record.key: record.value for record in records}
    kept = latest_per_key(rows, "key", order_by="offset", tombstones="keep")
    assert kept.columns == rows.columns
    assert {bytes(row.key): row.value for row in kept.collect()} == last
    dropped = latest_per_key(rows, ["key"], order_by=["timestamp", "offset"]).select("key", "value").collect()
    assert {bytes(row.key): row.value for row in dropped} == {k: v for k, v in last.items() if v is not None}
    assert None in last.values()


def test_a_task_folds_its_rows_before_the_shuffle(spark: SparkSession) -> None:
    rows = spark.range(100).selectExpr("id % 3 AS key", "id AS offset", "'v' AS value")
    plan = latest_per_key(rows, "key", order_by="offset")._jdf.queryExecution().sparkPlan().toString()
    assert re.search(r"WindowGroupLimit .*Partial", plan)


def test_names_of_columns_may_have_any_case_and_any_sign(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, 1, "a"), (1, 2, "b")], "`a.b` int, `Or``der` int, _deleted string")
    rows = rows.withColumn("_deleted", F.lit(False))
    assert latest_per_key(rows, "A.B", order_by="or`der").collect() == [(1, 2, False)]


def test_a_key_keeps_its_row_without_an_order(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [(1, None, None), (2, None, False), (2, 5, False)], "k int, at int, _deleted boolean"
    )
    assert sorted(latest_per_key(rows, "k", order_by="at").collect()) == [(1, None, None), (2, 5, False)]


def test_a_row_without_a_key_is_an_error(spark: SparkSession, noida: NoidaBroker) -> None:
    rows = compacted([Record(b"v"), Record(b"v", key=b"k")], noida, spark)
    with pytest.raises(PySparkException, match="a row has no key in key"):
        latest_per_key(rows, "key", order_by="offset").collect()


def test_wrong_arguments_are_errors(spark: SparkSession) -> None:
    rows = spark.range(1)
    with pytest.raises(OptionError, match="no column 'key', but id"):
        latest_per_key(rows, "key", order_by="id")
    with pytest.raises(OptionError, match="name one column or more"):
        latest_per_key(rows, [], order_by="id")
    with pytest.raises(OptionError, match="neither _deleted nor value"):
        latest_per_key(rows, "id", order_by="id")
    with pytest.raises(OptionError, match="'drop' or 'keep', not 'no'"):
        latest_per_key(rows, "id", order_by="id", tombstones="no")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="neither _deleted nor value"):
        latest_per_key(rows.withColumn("value", F.lit("v")), ["id", "value"], order_by="id")
    with pytest.raises(OptionError, match="call it in foreachBatch"):
        latest_per_key(spark.readStream.format("rate").load(), "value", order_by="timestamp")
