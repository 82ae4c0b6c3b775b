"""Typed keys and values of Avro, JSON and Protobuf, read and written: without a JVM, and in a Spark."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any, Final

import fastavro
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.values.registry_frame import id_prefix
from tests.support import librdkafka
from tests.support.avro_messages import V1, V2, V3, framed
from tests.support.fake_registry import FakeRegistry
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.reading import PlannedRead
from tests.support.streaming import Checkpoint, Killed, Query
from tests.values.protobuf.protoc import compiled, message_class

#: One try, and a short deadline: brokerDownTimeout bounds the retries where ``retries`` is not set.
BOUNDED: Final = {"retries": "0", "requestTimeout": "10s"}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as running:
        yield running


def options_of(noida: NoidaBroker, registry: FakeRegistry, topic: str, **changes: str) -> dict[str, str]:
    base = {"kafka.bootstrap.servers": noida.bootstrap_servers, "subscribe": topic, **BOUNDED}
    return {**base, "valueFormat": "avro", "schema.registry.url": registry.url, **changes}


def load(spark: SparkSession, options: dict[str, str], schema: str | None = None) -> DataFrame:
    reader = spark.read.format("kafkawire").options(**options)
    return (reader if schema is None else reader.schema(schema)).load()


def values_of(rows: Sequence[Row]) -> list[Any]:
    return [None if row.value is None else row.value.asDict(recursive=True) for row in rows]


def order(id: int, title: str, note: str | None = None, count: int = 7) -> dict[str, Any]:
    return {"id": id, "title": title, "note": note, "count": count}


@pytest.fixture
def orders(noida: NoidaBroker, registry: FakeRegistry) -> str:
    """Messages of three versions and a tombstone in two partitions; all versions are in the registry."""
    topic = noida.create_topic(partitions=2)
    v1, v2, v3 = (registry.add(f"{topic}-value", text) for text in (V1, V2, V3))
    records = [
        Record(framed(v1, V1, {"id": 1, "name": "a"}), b"k"),
        Record(framed(v2, V2, {"id": 2, "name": "ß", "note": "n"})),
        Record(None, b"k"),
        Record(framed(v3, V3, {"id": 2**40, "title": "c", "note": None, "count": 3}), partition=1),
        Record(framed(v1, V1, {"id": 4, "name": ""}), partition=1),
    ]
    librdkafka.produce(noida.bootstrap_servers, topic, records)
    return topic


def test_messages_of_three_versions_have_the_columns_of_the_latest(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry, orders: str
) -> None:
    frame = load(spark, options_of(noida, registry, orders))
    assert frame.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,title:string,note:string,count:int>"
    )
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    rows = frame.orderBy("partition", "offset").collect()
    assert values_of(rows) == [
        order(1, "a"), order(2, "ß", "n"), None, order(2**40, "c", None, 3), order(4, "")
    ]  # fmt: skip
    assert [bytes(row.key) if row.key else None for row in rows] == [b"k", None, b"k", None, None]
    # The driver asks once for the latest version, and a process of tasks once for each writer's schema.
    asked = [request for request in registry.requests if "latest" in request]
    assert asked == [f"GET /subjects/{orders}-value/versions/latest"]
    assert sorted(set(registry.requests) - {*asked}) == [f"GET /schemas/ids/{number}" for number in (1, 2, 3)]
    selected = frame.where("value.count = 7").select("value.title", "value.note", "offset")
    assert sorted(selected.collect()) == [("", None, 1), ("a", None, 0), ("ß", "n", 1)]


def test_users_schema_names_fields(noida: NoidaBroker, registry: FakeRegistry, orders: str) -> None:
    given = options_of(noida, registry, orders)
    value = StructType().add("id", LongType())
    columns = StructType().add("offset", LongType()).add("value", value).add("partition", IntegerType())
    loaded = PlannedRead(given, columns.add("valueSchemaId", IntegerType()))
    assert registry.requests == []
    rows = sorted(loaded.rows(), key=lambda row: (row["partition"], row["offset"]))
    assert [row["value"] and row["value"]["id"] for row in rows] == [1, 2, None, 2**40, 4]
    assert [row["valueSchemaId"] for row in rows] == [1, 2, None, 3, 1]
    assert not any("subjects" in request for request in registry.requests)
    # A schema of the options adds its defaults and aliases.
    value = StructType().add("count", LongType()).add("title", StringType())
    result = PlannedRead({**given, "valueSchema": V3}, StructType().add("value", value)).column("value")
    assert sorted(item["title"] for item in result if item and item["count"] == 7) == ["", "a", "ß"]


def test_a_stream_takes_a_new_schema_when_it_starts_again(noida: NoidaBroker, registry: FakeRegistry) -> None:
    topic, checkpoint = noida.create_topic(), Checkpoint()
    given = options_of(noida, registry, topic, badRecords="drop", startingOffsets="earliest")

    def started_again(*values: bytes | None) -> list[Any]:
        librdkafka.produce(noida.bootstrap_servers, topic, [Record(value) for value in values])
        return [row["value"] for rows in Query(checkpoint, **given).batches() for row in rows]

    one = framed(registry.add(f"{topic}-value", V1), V1, {"id": 1, "name": "a"})
    assert started_again(one, None) == [{"id": 1, "name": "a"}, None]
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(one)])
    for step in ("planned", "written", "read"):
        with pytest.raises(Killed):
            Query(checkpoint, **given).batch(step)
    two = framed(registry.add(f"{topic}-value", V2), V2, {"id": 2, "name": "b", "note": "n"})
    registry.go_away()
    with pytest.raises(KafkaWireError, match="schema registry"):
        started_again()
    registry.come_back()
    # The batch that was killed has the values of the schema of the start that ends it.
    old = {"id": 1, "name": "a", "note": None}
    assert started_again(two, b"bad", one) == [old, {"id": 2, "name": "b", "note": "n"}, old]


# Writes of structs

ORDERS: Final = """
    SELECT struct(id, concat('customer ', id) AS customer, cast(id / 4 AS decimal(9, 2)) AS amount,
                  TIMESTAMP '2023-11-14 22:13:20.123456' AS at, array(id, id + 1) AS items,
                  map('k', id) AS counts, if(id % 2 = 0, null, 'note') AS note) AS value,
           concat('key ', id) AS key
    FROM range(4)"""


def decoded(registry: FakeRegistry, message: bytes | None) -> Any:
    """A framed message by fastavro, with the schema that the registry has for its id."""
    assert message is not None
    assert message[0] == 0
    schema = json.loads(registry.schemas[int.from_bytes(message[1:5], "big")]["schema"])
    return fastavro.schemaless_reader(io.BytesIO(message[5:]), schema, None)


def records(noida: NoidaBroker, topic: str) -> list[Record]:
    return librdkafka.consume(noida.bootstrap_servers, topic, 0)


def test_structs_become_avro(spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry) -> None:
    topic = noida.create_topic()
    rows = spark.sql(f"{ORDERS} UNION ALL SELECT null, 'gone'").coalesce(1)
    options = {"kafka.bootstrap.servers": noida.bootstrap_servers, "schema.registry.url": registry.url}
    options |= {"valueFormat": "avro", "keyFormat": "avro"}
    writer = rows.write.format("kafkawire").mode("append").options(**options, topic=topic)
    writer.option("autoRegisterSchemas", "true").save()
    *written, gone = records(noida, topic)
    assert (decoded(registry, gone.key), gone.value) == ("gone", None)
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
    back = spark.read.format("kafkawire").options(**options, subscribe=topic).load()
    assert back.select("value", "key").collect() == rows.collect()


def test_structs_become_json_and_read_back(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry
) -> None:
    topic = noida.create_topic()
    options = {"kafka.bootstrap.servers": noida.bootstrap_servers, "valueFormat": "json"}
    options |= {"schema.registry.url": registry.url}
    rows = spark.sql("SELECT struct(id, concat('n', id) AS note, array(id) AS items) AS value FROM range(3)")
    writer = rows.coalesce(1).write.format("kafkawire").mode("append").options(**options, topic=topic)
    writer.option("autoRegisterSchemas", "true").save()
    written = [
        json.loads((record.value or b"").removeprefix(id_prefix(1))) for record in records(noida, topic)
    ]
    assert written == [{"id": number, "note": f"n{number}", "items": [number]} for number in range(3)]
    back = spark.read.format("kafkawire").options(**options, subscribe=topic).load().select("value")
    assert [row.value.asDict() for row in back.collect()] == written


# Protobuf, beside the official compiler and runtime

#: Indexes of the messages as frames have them: [0], [1].
FIRST: Final = b"\0"


def of_protobuf(noida: NoidaBroker, registry: FakeRegistry, **changes: str) -> dict[str, str]:
    where = {"kafka.bootstrap.servers": noida.bootstrap_servers, "schema.registry.url": registry.url}
    return {**where, "valueFormat": "protobuf", **changes}


def test_structs_become_protobuf(spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry) -> None:
    topic = noida.create_topic()
    rows = spark.sql(
        "SELECT struct(id, if(id = 1, null, concat('n', id)) AS note, array(id, id) AS items, "
        "map('k', id) AS counts, struct(id > 0 AS flag) AS inner) AS value FROM range(3)"
    )
    options = of_protobuf(noida, registry, autoRegisterSchemas="true", valueMessage="shop.Made", topic=topic)
    rows.coalesce(1).write.format("kafkawire").mode("append").options(**options).save()
    assert registry.subjects == {f"{topic}-value": [1]}
    made = message_class(compiled(registry.schemas[1]["schema"]), "shop.Made")
    written = [record.value or b"" for record in librdkafka.consume(noida.bootstrap_servers, topic, 0)]
    judged = [made.FromString(value.removeprefix(id_prefix(1) + FIRST)) for value in written]
    assert [
        (item.id, item.note if item.HasField("note") else None, list(item.items), dict(item.counts))
        for item in judged
    ] == [(number, None if number == 1 else f"n{number}", [number] * 2, {"k": number}) for number in range(3)]
    assert [item.inner.flag for item in judged] == [False, True, True]
    back = spark.read.format("kafkawire").options(**of_protobuf(noida, registry, subscribe=topic)).load()
    assert [row.value for row in back.collect()] == [row.value for row in rows.collect()]
