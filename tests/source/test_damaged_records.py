"""Damaged logs through Spark: the column ``_corrupt_record``, projections without it, counts, and errors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire.functions import dead_letters
from tests.records.batches import batch, record
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog

from .task_errors import message_of


@pytest.fixture(scope="module")
def server() -> Iterator[LogServer]:
    """Ten batches of two records each, the fourth with another byte."""
    log = MemoryLog(*(batch([record(i, b"%d" % (2 * n + i)) for i in range(2)]) for n in range(10)))
    log._data[log._positions[3] + 70] ^= 1
    with LogServer({"t": [log]}) as server:
        yield server


def load(spark: SparkSession, server: LogServer, schema: str | None = None, **options: str) -> DataFrame:
    reader = spark.read.format("kafkawire").option("subscribe", "t").options(**options)
    reader = reader.option("kafka.bootstrap.servers", server.bootstrap_servers)
    return (reader if schema is None else reader.schema(schema)).load()


def test_null_gives_a_row_with_the_damage_in_every_projection(spark: SparkSession, server: LogServer) -> None:
    rows = load(spark, server, badRecords="null")
    [bad] = rows.where("_corrupt_record IS NOT NULL").collect()
    assert (bad.key, bad.value, bad.timestamp, bad.timestampType) == (None, None, None, -1)
    assert (bad.topic, bad.partition, bad.offset) == ("t", 0, 6)
    corrupt = bad._corrupt_record
    assert (corrupt.startOffset, corrupt.endOffset, corrupt.schemaId) == (6, 8, None)
    assert corrupt.reason.startswith("its CRC-32C is wrong; ")
    assert rows.count() == 19
    values = load(spark, server, "value binary, offset bigint", badRecords="null").collect()
    assert [row.offset for row in values if row.value is None] == [6]
    three = "offset bigint, _corrupt_record struct<bytes:binary,reason:string,schemaId:int>"
    [old] = load(spark, server, three, badRecords="null").where("offset = 6").collect()
    assert bytes(old._corrupt_record.bytes) == bytes(corrupt.bytes)
    [letter] = dead_letters(rows).collect()
    assert bytes(letter.value) == bytes(corrupt.bytes)


def test_null_goes_with_typed_values(spark: SparkSession, server: LogServer) -> None:
    rows = load(spark, server, badRecords="null", valueFormat="string")
    [bad] = rows.where("_corrupt_record IS NOT NULL").collect()
    assert (bad.value, bad._corrupt_record.endOffset) == (None, 8)
    assert rows.where("value = '8'").count() == 1


def test_drop_leaves_the_damage_out(spark: SparkSession, server: LogServer) -> None:
    rows = load(spark, server, badRecords="drop")
    assert rows.count() == 18
    assert "_corrupt_record" not in rows.columns


def test_an_error_names_the_place(spark: SparkSession, server: LogServer) -> None:
    with pytest.raises(PySparkException) as raised:
        load(spark, server).collect()
    assert "t 0 on broker 0" in message_of(raised.value)
    assert "batch at offset 6 is damaged: its CRC-32C is wrong" in message_of(raised.value)
