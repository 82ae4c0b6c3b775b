"""Rows that are in a topic, and how often: by all parts of a row that a record keeps."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Sequence
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire.jobs.publish.difference import Comparison, Difference, survey
from spark_kafkawire.model import Generation
from spark_kafkawire.source.write_schema import WRITE_SCHEMAS

MODERN: Final = WRITE_SCHEMAS[Generation.MODERN]
OLD: Final = WRITE_SCHEMAS[Generation.V07]
RECORD: Final = (
    "topic string, partition int, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>, timestamp timestamp, timestampType int"
)
NOON: Final = dt.datetime(2026, 1, 31, 12)


def record(value: bytes | None, key: bytes | None = None, partition: int = 0, **more: Any) -> tuple[Any, ...]:
    """A record of topic t as a read has it."""
    kind, time = more.get("kind", 0), more.get("time", NOON)
    return "t", partition, key, value, more.get("headers"), time, kind


class Case:
    """Rows against records."""

    def __init__(self, spark: SparkSession, rows: DataFrame, records: Sequence[tuple[Any, ...]]) -> None:
        found = survey(rows)
        self.difference = Difference(rows, found.columns_with_nulls, MODERN)
        self.records = spark.createDataFrame(records, RECORD)

    def missing(self) -> list[Any]:
        """The values of what is missing, as they would be written."""
        return [row.value for row in self.difference.missing(self.records).collect()]

    def compared(self) -> tuple[int, int]:
        """Counts of missing and of doubled rows."""
        found = self.difference.compare(self.records)
        return found.missing_count, found.doubled_count


def rows_of(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str) -> DataFrame:
    """Rows of one input partition."""
    return spark.createDataFrame(rows, f"topic string, {schema}").coalesce(1)


def test_equal_rows_count_and_the_first_ones_are_there(spark: SparkSession) -> None:
    rows = rows_of(spark, [("t", "a"), ("t", "b"), ("t", "a"), ("t", "c"), ("t", "a")], "value string")
    case = Case(spark, rows, [record(b"a"), record(b"a"), record(b"foreign"), record(b"foreign")])
    assert case.missing() == ["b", "c", "a"]
    assert case.compared() == (3, 0)


def test_what_is_there_too_often_is_told_and_not_written(spark: SparkSession) -> None:
    rows = rows_of(spark, [("t", "a"), ("t", "b")], "value string")
    case = Case(spark, rows, [record(b"a"), record(b"a"), record(b"a")])
    assert case.missing() == ["b"]
    assert case.compared() == (1, 2)


def test_nothing_is_there_where_no_record_is(spark: SparkSession) -> None:
    rows = rows_of(spark, [("t", f"{number:03}") for number in range(300)], "value string")
    case = Case(spark, rows, [])
    assert case.missing() == [f"{number:03}" for number in range(300)]
    assert case.compared() == (300, 0)


def test_keys_headers_and_nulls_tell_rows_apart(spark: SparkSession) -> None:
    pair = [("h", b"\xff\x00")]
    given = [
        ("t", None, "v", None),
        ("t", "", "v", None),
        ("t", "k", None, None),
        ("t", "k", "", None),
        ("t", "k", "v", pair),
        ("t", "k", "v", pair * 2),
        ("t", "k", "v", []),
    ]
    schema = "key string, value string, headers array<struct<key:string,value:binary>>"
    records = [
        record(b"v"),
        record(b"v", b""),
        record(None, b"k"),
        record(b"", b"k"),
        record(b"v", b"k", headers=pair),
        record(b"v", b"k", headers=pair * 2),
        # No headers are null where they are read.
        record(b"v", b"k"),
    ]
    # Topic n has another record in the place of record n, which does not stand for it.
    numbers = range(len(given))
    rows = rows_of(spark, [(f"{number}", *row[1:]) for number in numbers for row in given], schema)
    there = [
        (f"{number}", *records[place if place != number else number - 1][1:])
        for number in numbers
        for place in numbers
    ]
    case = Case(spark, rows, there)
    assert case.compared() == (len(given), len(given))
    missing = case.difference.missing(case.records).orderBy("topic").collect()
    assert [(row.topic, row.key, row.value, row.headers or None) for row in missing] == [
        (f"{number}", given[number][1], given[number][2], given[number][3] or None) for number in numbers
    ]


def test_a_partition_that_rows_name_tells_them_apart(spark: SparkSession) -> None:
    rows = rows_of(spark, [("t", "v", 0), ("t", "v", 1)], "value string, partition int")
    case = Case(spark, rows, [record(b"v", partition=1), record(b"v", partition=1)])
    [missing] = case.difference.missing(case.records).collect()
    assert (missing.value, missing.partition) == ("v", 0)
    assert case.compared() == (1, 1)


def test_a_partition_that_some_rows_leave_open_tells_none_apart(spark: SparkSession) -> None:
    rows = rows_of(spark, [("t", "v", None), ("t", "w", 1)], "value string, partition int")
    assert survey(rows).columns_with_nulls == {"partition"}
    assert Case(spark, rows, [record(b"v", partition=2), record(b"w", partition=1)]).compared() == (0, 0)


def test_a_time_that_rows_name_tells_them_apart_to_the_millisecond(spark: SparkSession) -> None:
    later = NOON + dt.timedelta(microseconds=1999)
    rows = rows_of(spark, [("t", "v", NOON), ("t", "v", later)], "value string, timestamp timestamp")
    case = Case(spark, rows, [record(b"v", time=NOON + dt.timedelta(milliseconds=1))])
    [missing] = case.difference.missing(case.records).collect()
    assert missing.timestamp == NOON


@pytest.mark.parametrize("kind", [1, -1])
def test_a_time_that_brokers_do_not_keep_tells_none_apart(spark: SparkSession, kind: int) -> None:
    later = NOON + dt.timedelta(hours=1)
    rows = rows_of(spark, [("t", "v", NOON), ("t", "w", NOON)], "value string, timestamp timestamp")
    case = Case(spark, rows, [record(b"v", time=later, kind=kind)])
    assert case.missing() == ["w"]
    assert case.compared() == (1, 0)


def test_in_kafka_0_7_value_and_place_are_all_that_is_kept(spark: SparkSession) -> None:
    schema = "key string, value string, broker int, partition int"
    rows = rows_of(spark, [("t", "k", "v", 1, 0), ("t", "k", "v", 0, 1)], schema)
    difference = Difference(rows, survey(rows).columns_with_nulls, OLD)
    assert difference.record_columns == {"topic", "value", "broker", "partition"}
    records = spark.createDataFrame(
        [(b"v", "t", 1, 0)], "value binary, topic string, partition int, broker int"
    )
    [missing] = difference.missing(records).collect()
    assert (missing.broker, missing.partition) == (1, 0)
    assert difference.compare(records) == Comparison(1, 0)


def test_missing_rows_come_in_the_order_of_their_input_partition(spark: SparkSession) -> None:
    rows = spark.range(0, 4000, 1, 4).selectExpr("'t' AS topic", "CAST(id AS string) AS value")
    there = [record(b"%d" % number) for number in range(0, 4000, 3)]
    case = Case(spark, rows, there)
    parts = case.difference.missing(case.records).rdd.glom().collect()
    found = [[int(row.value) for row in part] for part in parts]
    for part in found:
        # Input partitions may share a task, one after the other.
        assert part == sorted(part)
    assert sorted(itertools.chain(*found)) == [number for number in range(4000) if number % 3]


def test_the_checksum_of_a_survey_knows_rows_and_not_their_order(spark: SparkSession) -> None:
    def topics(*values: str) -> object:
        return survey(rows_of(spark, [("t", value) for value in values], "value string")).topics

    assert topics("a", "b", "b") == topics("b", "a", "b")
    assert topics("a", "b", "b") != topics("b", "a", "a")
