"""Damaged logs: rows, offsets and warnings of streams that start again; through Spark its columns."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.records.batches import batch, record
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.streaming import Checkpoint, Killed, Query, available_now

#: Batches of two records. With micro-batches of 8 offsets: at the begin, at the end, at the next begin, and
#: at the end of the log.
LOST = (0, 3, 4, 9)
COUNT = 10
Row = tuple[int, bytes | None, tuple[int, int] | None]


def batches(first: int, stop: int) -> list[bytes]:
    return [batch([record(i, b"%d" % (2 * n + i)) for i in range(2)]) for n in range(first, stop)]


def damage(log: MemoryLog, *lost: int) -> None:
    for index in lost:
        log._data[log._positions[index] + 70] ^= 1


@pytest.fixture
def server() -> Iterator[LogServer]:
    log = MemoryLog(*batches(0, COUNT))
    damage(log, *LOST)
    with LogServer({"t": [log]}) as server:
        yield server


def options(server: LogServer, bad_records: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": server.bootstrap_servers,
        "subscribe": "t",
        "badRecords": bad_records,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "8",
    }


def shown(rows: list[dict[str, Any]]) -> list[Row]:
    return [(row["offset"], row["value"], span(row.get("_corrupt_record"))) for row in rows]


def span(corrupt: dict[str, Any] | None) -> tuple[int, int] | None:
    return (corrupt["startOffset"], corrupt["endOffset"]) if corrupt else None


def due(first: int, stop: int, lost: tuple[int, ...], bad_records: str) -> list[Row]:
    """The rows of the batches ``[first, stop)``."""
    rows: list[Row] = []
    for index in range(first, stop):
        start = 2 * index
        if index not in lost:
            rows += [(offset, b"%d" % offset, None) for offset in (start, start + 1)]
        elif bad_records == "null":
            rows.append((start, None, (start, start + 2)))
    return rows


def load(spark: SparkSession, server: LogServer, schema: str | None = None, **options: str) -> DataFrame:
    reader = spark.read.format("kafkawire").option("subscribe", "t").options(**options)
    reader = reader.option("kafka.bootstrap.servers", server.bootstrap_servers)
    return (reader if schema is None else reader.schema(schema)).load()


@pytest.mark.parametrize("bad_records", ["null", "drop"])
def test_batches_have_damage(server: LogServer, bad_records: str, caplog: pytest.LogCaptureFixture) -> None:
    """A query that is killed within a batch reads it again. Each batch has one warning."""
    checkpoint = Checkpoint()
    chosen = options(server, bad_records)
    result = [available_now(checkpoint, **chosen).batch() or []]
    with pytest.raises(Killed):
        available_now(checkpoint, **chosen).batch("read")
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        result += available_now(checkpoint, **chosen).batches()
    assert [shown(rows) for rows in result] == [
        due(first, stop, LOST, bad_records) for first, stop in ((0, 4), (4, 8), (8, 10))
    ]
    warnings = [item.getMessage() for item in caplog.records if "damaged place" in item.getMessage()]
    assert [" at offset 8: " in warnings[0], " at offset 18: " in warnings[1]] == [True, True]
    assert len(warnings) == 2
    server_log: Any = server.broker.logs["t"][0]
    for item in batches(COUNT, COUNT + 2):
        server_log.append(item)
    [rows] = Query(checkpoint, **chosen).batches()
    assert shown(rows) == due(COUNT, COUNT + 2, LOST, bad_records)


def test_null_gives_a_row_with_the_damage_in_every_projection(spark: SparkSession, server: LogServer) -> None:
    rows = load(spark, server, badRecords="null")
    [bad] = rows.where("_corrupt_record IS NOT NULL AND offset = 6").collect()
    assert (bad.key, bad.value, bad.timestamp, bad.timestampType) == (None, None, None, -1)
    assert (bad.topic, bad.partition, bad.offset) == ("t", 0, 6)
    corrupt = bad._corrupt_record
    # Two damaged batches that follow each other are one row.
    assert (corrupt.startOffset, corrupt.endOffset, corrupt.schemaId) == (6, 10, None)
    assert corrupt.reason.startswith("its CRC-32C is wrong; ")
    assert rows.count() == 2 * (COUNT - len(LOST)) + 3
    values = load(spark, server, "value binary, offset bigint", badRecords="null").collect()
    assert [row.offset for row in values if row.value is None] == [0, 6, 18]
    three = "offset bigint, _corrupt_record struct<bytes:binary,reason:string,schemaId:int>"
    [old] = load(spark, server, three, badRecords="null").where("offset = 6").collect()
    assert bytes(old._corrupt_record.bytes) == bytes(corrupt.bytes)
