"""delivery=exactly-once through Spark: batches, streams, and what Spark runs again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transactions
from spark_kafkawire.options import WriteOptions
from tests.support.exactly_once import committed
from tests.support.noida import NoidaBroker
from tests.support.spark_streams import lines, put, write
from tests.support.sparks import STREAM_SINKS

PARTITIONS = 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def save(frame: DataFrame, noida: NoidaBroker, topic: str, **options: Any) -> None:
    writer = frame.write.format("kafkawire").mode("append").option("topic", topic)
    writer = writer.option("kafka.bootstrap.servers", noida.bootstrap_servers)
    writer.options(delivery="exactly-once", **options).save()


def seen(noida: NoidaBroker, topic: str) -> list[bytes]:
    return committed(noida.bootstrap_servers, topic, PARTITIONS)


def numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count, numPartitions=4).selectExpr("cast(id AS string) value")


def test_a_batch_that_is_saved_again_is_there_once(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    for _ in range(2):
        save(numbers(spark, 500), noida, topic, **{"kafka.transactional.id": f"job-{topic}"})
    assert seen(noida, topic) == sorted(str(number).encode() for number in range(500))


def test_a_batch_of_which_a_task_fails_is_not_there_at_all(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    rows = numbers(spark, 400)
    failing = rows.selectExpr("if(value = '399', raise_error('broken row'), value) value")
    with pytest.raises(Exception, match="broken row"):
        save(failing, noida, topic, **{"kafka.transactional.id": f"job-{topic}", "batch": "1"})
    assert seen(noida, topic) == []
    save(rows, noida, topic, **{"kafka.transactional.id": f"job-{topic}", "batch": "1"})
    assert len(seen(noida, topic)) == 400


@STREAM_SINKS
def test_a_stream_whose_last_batch_spark_forgot_writes_it_once(
    spark: SparkSession, noida: NoidaBroker, folder: Path
) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    given = {"topic": topic, "delivery": "exactly-once", "kafka.transactional.id": f"query-{topic}"}
    put(folder, "1", "a", "b")
    write(lines(spark, folder), noida, folder, **given)
    put(folder, "2", "c")
    write(lines(spark, folder), noida, folder, **given)
    for name in ("1", ".1.crc"):
        (folder / "checkpoint" / "commits" / name).unlink()
    put(folder, "3", "d")
    write(lines(spark, folder), noida, folder, **given)
    assert seen(noida, topic) == [b"a", b"b", b"c", b"d"]
    # Each run of the query has ids of its own, so that attempts of an earlier one end nothing of a later one.
    options = WriteOptions.parse({"kafka.bootstrap.servers": noida.bootstrap_servers})
    metadata = Metadata(options.discovery.bootstrap_servers, options.net)
    ids = [each.transactional_id for each in Transactions(metadata, options.net).listed()]
    runs = {re.fullmatch(rf"query-{topic}-[0-9]+-([0-9a-f]{{12}})[.][01][.]0", each) for each in ids}
    assert len({found[1] for found in runs if found}) == 3


@STREAM_SINKS
def test_a_checkpoint_that_was_set_back_is_told_of(
    spark: SparkSession, noida: NoidaBroker, folder: Path
) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    options = {"topic": topic, "delivery": "exactly-once", "kafka.transactional.id": f"query-{topic}"}
    for number in range(3):
        put(folder, f"{number}", f"{number}")
        write(lines(spark, folder), noida, folder, **options)
    for number in (1, 2):
        for kind in ("commits", "offsets", "sources/0"):
            for name in (f"{number}", f".{number}.crc"):
                (folder / "checkpoint" / kind / name).unlink(missing_ok=True)
    with pytest.raises(StreamingQueryException, match="its checkpoint was set back"):
        write(lines(spark, folder), noida, folder, **options)


@STREAM_SINKS
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "option kafka.transactional.id: a stream needs one for delivery=exactly-once, the same in all"),
        ({"kafka.transactional.id": "x", "batch": "1"}, "option batch: a stream counts its batches itself"),
    ],
    ids=["no name", "a batch"],
)
def test_names_that_streams_do_not_take_are_told(
    spark: SparkSession, noida: NoidaBroker, folder: Path, options: dict[str, str], message: str
) -> None:
    put(folder, "1", "a")
    with pytest.raises(StreamingQueryException) as error:
        write(lines(spark, folder), noida, folder, topic="t", delivery="exactly-once", **options)
    assert message in str(error.value)
