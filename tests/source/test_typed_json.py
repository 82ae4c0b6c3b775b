"""Values of JSON through Spark: without schemas, with those of a registry, read and written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from spark_kafkawire.registry.client import forget_registries
from spark_kafkawire.values.registry_frame import id_prefix
from tests.support import librdkafka
from tests.support.fake_registry import FakeRegistry
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker

from .task_errors import message_of

ORDER: Final = json.dumps(
    {
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "note": {"type": ["null", "string"]}},
        "required": ["id"],
    }
)


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as fake:
        yield fake
    forget_registries()


def topic_of(noida: NoidaBroker, *values: bytes | None) -> str:
    topic = noida.create_topic()
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(value) for value in values])
    return topic


def load(
    spark: SparkSession, noida: NoidaBroker, topic: str, schema: str | None = None, **raw: str
) -> list[Row]:
    options = {"kafka.bootstrap.servers": noida.bootstrap_servers, "subscribe": topic, "valueFormat": "json"}
    reader = spark.read.format("kafkawire").options(**options, **raw)
    return (reader if schema is None else reader.schema(schema)).load().collect()


def test_plain_json_needs_only_the_names_of_its_fields(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = topic_of(
        noida,
        b'{"id": 1, "at": "2023-11-14T22:13:20.5Z", "items": [{"n": 1}, {"n": null}], "other": {"x": [1]}}',
        None,
        '{\n  "items": [],\n  "id": 2,\n  "at": null, "größe": 3\n}'.encode(),
    )
    schema = "value struct<id:bigint,at:timestamp,items:array<struct<n:int>>>, offset bigint"
    found = load(spark, noida, topic, schema)
    assert [row.offset for row in found] == [0, 1, 2]
    first, tombstone, last = (row.value for row in found)
    assert first.at.astimezone(timezone.utc) == datetime(2023, 11, 14, 22, 13, 20, 500_000, timezone.utc)
    assert (first.id, first["items"]) == (1, [Row(n=1), Row(n=None)])
    assert tombstone is None
    assert (last.id, last.at, last["items"]) == (2, None, [])


def test_json_without_the_names_of_its_fields_says_what_to_set(
    spark: SparkSession, noida: NoidaBroker
) -> None:
    with pytest.raises(PySparkException) as error:
        load(spark, noida, topic_of(noida, b"{}"))
    assert "json needs a schema: name the fields with .schema(), or set valueSchema" in str(error.value)


def test_a_message_that_is_no_json_is_a_bad_record(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = topic_of(noida, b'{"id": 1}', b'{"id": 1')
    schema = "value struct<id:bigint>, _corrupt_record struct<bytes:binary,reason:string,schemaId:int>"
    with pytest.raises(PySparkException) as error:
        load(spark, noida, topic, "value struct<id:bigint>")
    assert f"{topic} 0 at offset 1: the value cannot be decoded: " in message_of(error.value)
    good, bad = load(spark, noida, topic, schema, badRecords="null")
    assert (good.value.id, good._corrupt_record) == (1, None)
    assert (bad.value, bytes(bad._corrupt_record.bytes)) == (None, b'{"id": 1')


def test_a_schema_of_the_registry_gives_the_type(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry
) -> None:
    number = registry.add("orders-value", ORDER, "JSON")
    messages: list[Any] = [{"id": 1, "note": "a"}, {"id": 2}]
    topic = topic_of(noida, *(id_prefix(number) + json.dumps(each).encode() for each in messages))
    options = {"schema.registry.url": registry.url, "valueSubject": "orders-value"}
    found = load(spark, noida, topic, **options)
    assert [row.value for row in found] == [Row(id=1, note="a"), Row(id=2, note=None)]


@pytest.mark.parametrize("is_registered", [False, True])
def test_what_is_written_is_json_and_reads_back(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry, is_registered: bool
) -> None:
    topic = noida.create_topic()
    of_registry = {"schema.registry.url": registry.url, "autoRegisterSchemas": "true"}
    options = of_registry if is_registered else {}
    rows = spark.sql("SELECT struct(id, concat('n', id) AS note, array(id) AS items) AS value FROM range(3)")
    writer = rows.coalesce(1).write.format("kafkawire").mode("append").options(valueFormat="json", **options)
    writer.option("kafka.bootstrap.servers", noida.bootstrap_servers).option("topic", topic).save()
    written = [record.value or b"" for record in librdkafka.consume(noida.bootstrap_servers, topic, 0)]
    prefix = id_prefix(1) if is_registered else b""
    assert [json.loads(value.removeprefix(prefix)) for value in written] == [
        {"id": number, "note": f"n{number}", "items": [number]} for number in range(3)
    ]
    schema = "value struct<id:bigint,note:string,items:array<bigint>>"
    of_read = {"schema.registry.url": registry.url} if is_registered else {}
    found = load(spark, noida, topic, schema, **of_read)
    assert [row.value.asDict() for row in found] == [
        json.loads(value.removeprefix(prefix)) for value in written
    ]
