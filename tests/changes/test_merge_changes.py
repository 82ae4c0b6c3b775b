"""Refusals of a merge, before its statement: ``tests/interop`` has the table formats that run it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire.changes import merge_changes
from spark_kafkawire.errors import OptionError

_SEQUENCE: Final = "struct<lsn:bigint,topic:string,partition:int,offset:bigint>"
_ADDED: Final = f"_op string, _deleted boolean, _sequence {_SEQUENCE}, _ts timestamp"
_TABLE: Final = "merged"


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    """A table of a format without merges."""
    spark.sql(f"CREATE TABLE {_TABLE} (id bigint, v string, _sequence {_SEQUENCE}) USING parquet")
    yield _TABLE
    spark.sql(f"DROP TABLE {_TABLE}")


@pytest.fixture
def batch(spark: SparkSession) -> DataFrame:
    row = (1, "a", "c", False, (1, "shop.public.orders", 0, 0), datetime(2026, 11, 28))
    return spark.createDataFrame([row], f"id int, v string, {_ADDED}")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            ["*", "1 AS more"],
            r"topic shop.public.orders has a new column more \(int\), which table merged lacks",
        ),
        (
            ["* EXCEPT (v)"],
            "topic shop.public.orders has no column v any more, which table merged has; drop it",
        ),
        (
            ["* EXCEPT (v)", "1 AS v"],
            "topic shop.public.orders has column v as int, and table merged as string",
        ),
        (["* EXCEPT (id)", "'1' AS ID"], "topic shop.public.orders has column id as string, and table"),
        (["* EXCEPT (id)", "1.5D AS id"], "has column id as double, and table merged as bigint"),
        (["* EXCEPT (_op)"], "no column '_op'"),
        (["* EXCEPT (id)"], "no column 'id', but v, _op"),
    ],
)
def test_columns_that_differ_are_one_error(table: str, batch: DataFrame, columns: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        merge_changes(table, "id")(batch.selectExpr(*columns), 0)


def test_a_column_that_the_merge_needs_is_named(table: str, batch: DataFrame) -> None:
    with pytest.raises(OptionError, match="table merged has no column _op: add it"):
        merge_changes(table, "id", deletes="mark")(batch, 0)
    with pytest.raises(OptionError, match="table merged has no column _valid_from: add it"):
        merge_changes(table, "id", history=True)(batch, 0)


def test_a_table_that_is_not_there_is_named(batch: DataFrame) -> None:
    with pytest.raises(OptionError, match=r"there is no table default\.nowhere: create it"):
        merge_changes("default.nowhere", "id")(batch, 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"deletes": "hide"}, "deletes is 'delete' or 'mark', not 'hide'"),
        ({"truncates": "yes"}, "truncates is 'fail', 'ignore' or 'apply', not 'yes'"),
        ({"history": True, "deletes": "mark"}, "a history keeps all versions"),
        ({"history": True, "truncates": "apply"}, "a history keeps all versions"),
    ],
)
def test_wrong_arguments_are_errors(arguments: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        merge_changes("t", "id", **arguments)


def test_a_merge_can_be_pickled_for_spark_connect() -> None:
    merge = merge_changes("t", ["id", "line"])
    assert pickle.loads(pickle.dumps(merge)) == merge
