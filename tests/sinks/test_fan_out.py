"""Batches of many topics, split into tables."""

from __future__ import annotations

import json
import struct
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_kafkawire.errors import DeliveryError, OptionError
from spark_kafkawire.functions import from_avro
from spark_kafkawire.sinks import Route, append_once, fan_out
from tests.support import librdkafka
from tests.support.fake_registry import FakeRegistry
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.spark_streams import lose_commit, run


def into(folder: Path, **more: Any) -> Any:
    return append_once(str(folder), format="parquet", **more)


def decoded(rows: DataFrame, options: dict[str, str]) -> DataFrame:
    return rows.select(from_avro("value", options).alias("v")).select("v.*")


def test_each_topic_is_decoded_by_its_own_schema(
    spark: SparkSession, noida: NoidaBroker, tmp_path: Path
) -> None:
    """A topic without a route goes with the others."""
    prefix, routes = noida.create_topic(name="fan-out"), {}
    with FakeRegistry() as registry:
        for topic, field in (("fan-out-users", "name"), ("fan-out-clicks", "count")):
            kind = "string" if field == "name" else "long"
            schema = {"type": "record", "name": "R", "fields": [{"name": field, "type": kind}]}
            schema_id = registry.add(f"{topic}-value", json.dumps(schema))
            value = b"\x06Ada" if field == "name" else b"\x0e"
            noida.create_topic(name=topic)
            message = b"\0" + struct.pack(">i", schema_id) + value
            librdkafka.produce(noida.bootstrap_servers, topic, [Record(message)] * 2)
            options = {"schema.registry.url": registry.url, "valueSubject": f"{topic}-value"}
            routes[topic] = Route(into(tmp_path / field), partial(decoded, options=options))
        librdkafka.produce(noida.bootstrap_servers, prefix, [Record(b"other")])
        options = {"startingOffsets": "earliest", "subscribePattern": "^fan-out"}
        reader = spark.readStream.format("kafkawire").options(**options)
        rows = reader.option("kafka.bootstrap.servers", noida.bootstrap_servers).load()
        write = fan_out(routes, others=into(tmp_path / "others"))
        for _ in range(2):
            writer = rows.writeStream.foreachBatch(write).trigger(availableNow=True)
            run(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))
            lose_commit(tmp_path / "checkpoint", 0)
    result = {name: spark.read.parquet(str(tmp_path / name)) for name in ("name", "count", "others")}
    assert [row.name for row in result["name"].collect()] == ["Ada"] * 2
    assert [row["count"] for row in result["count"].collect()] == [7] * 2
    assert [bytes(row.value) for row in result["others"].collect()] == [b"other"]


@pytest.fixture
def batch(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("a", 1), ("b", 2), ("c", 3), (None, 4)], "topic string, n int")


def test_a_table_that_fails_is_named_and_the_others_are_written_once(
    spark: SparkSession, batch: DataFrame, tmp_path: Path
) -> None:
    routes = {
        "a": Route(into(tmp_path / "a", name="q"), lambda rows: rows.select(F.expr("raise_error('no: a')"))),
        ("b", "c"): into(tmp_path / "bc", name="q"),
        None: into(tmp_path / "null", name="q"),
    }
    for _ in range(2):
        with pytest.raises(
            DeliveryError, match=r"table .*/a \(topic a\) was not written in batch 7: .*no: a"
        ):
            fan_out(routes)(batch, 7)
    result = {name: spark.read.parquet(str(tmp_path / name)).collect() for name in ("bc", "null")}
    assert {name: sorted(row.n for row in rows) for name, rows in result.items()} == {
        "bc": [2, 3],
        "null": [4],
    }


def test_a_batch_is_read_once(spark: SparkSession, batch: DataFrame) -> None:
    reads = spark.sparkContext.accumulator(0)

    def count(value: int) -> int:
        reads.add(1)
        return value

    counted = batch.withColumn("n", F.udf(count, "int", useArrow=False)("n"))
    result: list[int] = []
    take = lambda rows, _: result.extend(row.n for row in rows.collect())  # noqa: E731
    fan_out(dict.fromkeys(("a", "b", "c", None), take), parallel=2)(counted, 0)
    assert (sorted(result), reads.value) == ([1, 2, 3, 4], 4)


def test_a_topic_without_a_route_fails_the_batch(batch: DataFrame) -> None:
    with pytest.raises(OptionError, match="topic c has no route: add one, or others="):
        fan_out({("a", "b", None): lambda *_: None})(batch, 0)
    with pytest.raises(OptionError, match="fan_out: the rows have no column 'schema'"):
        fan_out({1: lambda *_: None}, by="schema")(batch, 0)


@pytest.mark.parametrize(
    ("routes", "arguments", "words"),
    [
        ({}, {}, "routes is empty"),
        ({"a": print}, {"parallel": 0}, "parallel is above zero, not 0"),
        ({"a": print, ("a", "b"): print}, {}, "'a' has two routes: give it one"),
        ({"a": into(Path("t")), "b": into(Path("T"))}, {}, "table 't' has two routes: name both topics"),
        ({"a": into(Path("t"))}, {"others": into(Path("t"))}, "table 't' has two routes"),
    ],
)
def test_wrong_arguments_are_errors(routes: Any, arguments: Any, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        fan_out(routes, **arguments)
