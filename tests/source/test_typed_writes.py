"""Columns of structs that Spark writes as messages of Avro: batches, exactly once, and streams."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import fastavro
import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire.registry.client import forget_registries
from tests.support import librdkafka
from tests.support.exactly_once import committed
from tests.support.fake_registry import FakeRegistry
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.spark_streams import lines, put, write
from tests.support.sparks import STREAM_SINKS

from .task_errors import message_of

ORDERS: Final = """
    SELECT struct(id, concat('customer ', id) AS customer, cast(id / 4 AS decimal(9, 2)) AS amount,
                  TIMESTAMP '2023-11-14 22:13:20.123456' AS at, array(id, id + 1) AS items,
                  map('k', id) AS counts, if(id % 2 = 0, null, 'note') AS note) AS value,
           concat('key ', id) AS key
    FROM range(4)"""

WORD: Final = {"name": "word", "type": ["null", "string"]}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as fake:
        yield fake
    forget_registries()


def save(rows: DataFrame, noida: NoidaBroker, registry: FakeRegistry, **options: Any) -> None:
    options = {"valueFormat": "avro", "schema.registry.url": registry.url, **options}
    writer = rows.write.format("kafkawire").mode("append").options(**options)
    writer.option("kafka.bootstrap.servers", noida.bootstrap_servers).save()


def decoded(registry: FakeRegistry, message: bytes | None) -> Any:
    """A framed message by fastavro, with the schema that the registry has for its id."""
    assert message is not None
    assert message[0] == 0
    schema = json.loads(registry.schemas[int.from_bytes(message[1:5], "big")]["schema"])
    return fastavro.schemaless_reader(io.BytesIO(message[5:]), schema, None)


def records(noida: NoidaBroker, topic: str) -> list[Record]:
    return librdkafka.consume(noida.bootstrap_servers, topic, 0)


def test_structs_become_messages_of_a_schema_that_follows_from_their_type(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry
) -> None:
    topic = noida.create_topic()
    rows = spark.sql(ORDERS).coalesce(1)
    save(rows, noida, registry, topic=topic, autoRegisterSchemas="true", keyFormat="avro")
    written = records(noida, topic)
    assert sorted(registry.subjects) == [f"{topic}-key", f"{topic}-value"]
    assert [decoded(registry, record.key) for record in written] == [f"key {number}" for number in range(4)]
    assert [decoded(registry, record.value) for record in written] == [
        {
            "id": number,
            "customer": f"customer {number}",
            "amount": Decimal(number) / 4,
            "at": datetime(2023, 11, 14, 22, 13, 20, 123456, timezone.utc),
            "items": [number, number + 1],
            "counts": {"k": number},
            "note": "note" if number % 2 else None,
        }
        for number in range(4)
    ]


def test_what_is_written_reads_back_as_the_same_rows(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry
) -> None:
    topic = noida.create_topic()
    rows = spark.sql(f"{ORDERS} UNION ALL SELECT null, 'gone'").coalesce(1)
    save(rows, noida, registry, topic=topic, autoRegisterSchemas="true")
    source = {"subscribe": topic, "valueFormat": "avro", "schema.registry.url": registry.url}
    reader = spark.read.format("kafkawire").options(**source)
    back = reader.option("kafka.bootstrap.servers", noida.bootstrap_servers).load()
    assert back.selectExpr("value", "cast(key AS string) key").collect() == rows.collect()


def test_a_registered_schema_decides_and_its_field_may_be_wider(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry
) -> None:
    topic = noida.create_topic()
    fields = [
        {"name": "note", "type": "string", "default": "none"},
        {"name": "number", "type": "long"},
    ]
    registry.add(f"{topic}-value", json.dumps({"type": "record", "name": "R", "fields": fields}))
    save(spark.sql("SELECT struct(7 AS number) AS value"), noida, registry, topic=topic)
    [record] = records(noida, topic)
    assert decoded(registry, record.value) == {"note": "none", "number": 7}


def test_a_null_that_the_schema_does_not_allow_fails_the_write_in_one_line(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry
) -> None:
    topic = noida.create_topic()
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    registry.add(f"{topic}-value", json.dumps(schema))
    rows = spark.sql("SELECT struct(if(id = 3, null, cast(id AS int)) AS n) AS value FROM range(5)")
    with pytest.raises(Exception, match=r"row 3: .*\bn\b") as error:
        save(rows.coalesce(1), noida, registry, topic=topic)
    assert "RowError" in message_of(error.value)
    assert records(noida, topic) == []


def test_a_struct_without_a_format_says_which_option_is_missing(
    spark: SparkSession, noida: NoidaBroker
) -> None:
    rows = spark.sql("SELECT struct(1 AS n) AS value")
    writer = rows.write.format("kafkawire").mode("append").option("topic", "t")
    with pytest.raises(
        Exception, match="value must be a\\(n\\) string or binary: cast it, or set valueFormat"
    ):
        writer.option("kafka.bootstrap.servers", noida.bootstrap_servers).save()


def test_an_exactly_once_write_of_structs_is_there_once(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry
) -> None:
    topic = noida.create_topic(partitions=3)
    rows = spark.range(300, numPartitions=4).selectExpr("struct(id) AS value")
    for _ in range(2):
        options = {"delivery": "exactly-once", "kafka.transactional.id": f"job-{topic}"}
        save(rows, noida, registry, topic=topic, autoRegisterSchemas="true", **options)
    messages = committed(noida.bootstrap_servers, topic, 3)
    assert sorted(decoded(registry, message)["id"] for message in messages) == list(range(300))


@STREAM_SINKS
def test_a_stream_writes_structs(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry, tmp_path: Path
) -> None:
    topic = noida.create_topic()
    (tmp_path / "in").mkdir()
    rows = lines(spark, tmp_path).selectExpr("struct(value AS word, length(value) AS length) AS value")
    options = {"valueFormat": "avro", "schema.registry.url": registry.url, "autoRegisterSchemas": "true"}
    for number, word in enumerate(("a", "bb")):
        put(tmp_path, str(number), word)
        write(rows, noida, tmp_path, topic=topic, **options)
    assert [decoded(registry, record.value) for record in records(noida, topic)] == [
        {"word": "a", "length": 1},
        {"word": "bb", "length": 2},
    ]
    assert registry.subjects == {f"{topic}-value": [1]}


@STREAM_SINKS
def test_the_processes_of_a_query_ask_the_registry_once_and_not_for_each_batch(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry, tmp_path: Path
) -> None:
    topic = noida.create_topic()
    (tmp_path / "in").mkdir()
    for number in range(6):
        put(tmp_path, str(number), f"word {number}")
    registry.add(f"{topic}-value", json.dumps({"type": "record", "name": "R", "fields": [WORD]}))
    rows = spark.readStream.option("maxFilesPerTrigger", "1").text(str(tmp_path / "in"))
    options = {"valueFormat": "avro", "schema.registry.url": registry.url}
    assert (
        write(rows.selectExpr("struct(value AS word) AS value"), noida, tmp_path, topic=topic, **options) == 6
    )
    assert sorted(decoded(registry, record.value)["word"] for record in records(noida, topic)) == [
        f"word {number}" for number in range(6)
    ]
    # Spark plans the batches in one process, and commits them in another; it may replace one that waits long.
    asked = registry.requests.count(f"GET /subjects/{topic}-value/versions/latest")
    assert 1 <= asked <= 4
