"""Batches that come again, from a stream into folders of Parquet; ``tests/interop`` has the table formats."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire.errors import OptionError
from spark_kafkawire.sinks import append_once
from tests.support.noida import NoidaBroker
from tests.support.spark_streams import lose_commit, run, send, stream


def numbers(spark: SparkSession, folder: Path) -> list[int]:
    return sorted(int(row.value) for row in spark.read.parquet(str(folder)).collect())


def test_batches_that_come_again_are_there_once(
    spark: SparkSession, noida: NoidaBroker, tmp_path: Path
) -> None:
    """A query whose last commit is lost runs its last batch again; another checkpoint overwrites nothing."""
    topic, table = noida.create_topic(), tmp_path / "table"
    write = append_once(str(table), format="parquet")
    for checkpoint, runs in (("one", 3), ("two", 1)):
        for number in range(runs):
            if checkpoint == "one":
                send(noida, topic, range(10 * number, 10 * number + 10))
            rows = stream(spark, noida, topic, startingOffsets="earliest").selectExpr("string(value)")
            writer = rows.writeStream.foreachBatch(write).trigger(availableNow=True)
            for _ in range(2):
                run(writer.option("checkpointLocation", str(tmp_path / checkpoint)))
                lose_commit(tmp_path / checkpoint, number)
            run(writer.option("checkpointLocation", str(tmp_path / checkpoint)))
    [one, two] = sorted(table.iterdir(), key=lambda folder: -len([*folder.glob("batch=*")]))
    assert numbers(spark, one) == numbers(spark, two) == [*range(30)]
    assert len([*one.glob("batch=*/*.parquet")]) == 3


@pytest.fixture
def batch(spark: SparkSession) -> DataFrame:
    return spark.range(100).repartition(4)


def test_a_batch_that_is_older_than_the_newest_is_an_error(batch: DataFrame, tmp_path: Path) -> None:
    write = append_once(str(tmp_path / "table"), format="parquet", name="orders")
    for number in (0, 1, 1):
        write(batch, number)
    with pytest.raises(OptionError, match="has batch 1 of query orders, and batch 0 comes after it"):
        write(batch, 0)
    shutil.rmtree(tmp_path / "table" / "query=orders" / "batch=1")
    write(batch, 0)


def test_files_have_the_size_that_is_asked_for(batch: DataFrame, tmp_path: Path) -> None:
    for file_bytes, files in ((128 << 20, 1), (None, 4)):
        write = append_once(str(tmp_path), format="parquet", name=f"{files}", file_bytes=file_bytes)
        write(batch, 0)
        assert len([*tmp_path.glob(f"query={files}/batch=0/*.parquet")]) == files


def test_a_query_that_spark_does_not_name_needs_a_name(batch: DataFrame) -> None:
    with pytest.raises(OptionError, match="give name="):
        append_once("t", format="parquet")(batch, 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"format": "orc"}, "format is 'delta', 'iceberg' or 'parquet', not 'orc'"),
        ({"format": "delta", "name": " "}, "name is empty"),
        ({"format": "delta", "file_bytes": 0}, "file_bytes is above zero, not 0"),
        ({"format": "delta", "options": {"txnAppId": "x"}}, "option txnAppId is set by append_once itself"),
    ],
)
def test_wrong_arguments_are_errors(arguments: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        append_once("t", **arguments)


def test_a_function_can_be_pickled_for_spark_connect() -> None:
    write = append_once("t", format="iceberg", options={"fanout-enabled": "true"})
    assert pickle.loads(pickle.dumps(write)) == write
