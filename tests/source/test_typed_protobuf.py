"""Values of Protobuf through Spark, beside the official compiler and runtime: read and written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from spark_kafkawire.registry.client import forget_registries
from spark_kafkawire.values.registry_frame import id_prefix
from tests.support import librdkafka
from tests.support.fake_registry import FakeRegistry
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.values.protobuf.protoc import compiled, message_class

from .task_errors import message_of

V1: Final = """syntax = "proto3"; package shop;
message Order { int64 id = 1; string customer = 2; Place place = 3; message Place { string city = 1; } }
message Refund { message Line { int32 n = 1; } }"""
#: A name has changed, a field is new, and another message is the first one.
V2: Final = """syntax = "proto3"; package shop;
message Note { string text = 1; }
message Order { repeated int32 items = 5; int64 id = 1; string client = 2; Place place = 3;
                message Place { string city = 1; map<string, int64> counts = 2; } }
message Refund { message Line { int32 n = 1; } }"""
#: Indexes of the messages as frames have them: [0], [1], [1, 0].
FIRST: Final = b"\0"
SECOND: Final = b"\x02\x02"
LINE: Final = b"\x04\x02\0"


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as fake:
        yield fake
    forget_registries()


def message(text: str, name: str, /, **fields: Any) -> bytes:
    """A message of Protobuf's own runtime."""
    sent: bytes = message_class(compiled(text), f"shop.{name}")(**fields).SerializeToString()
    return sent


def topic_of(noida: NoidaBroker, *values: bytes | None) -> str:
    topic = noida.create_topic()
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(value) for value in values])
    return topic


def load(
    spark: SparkSession,
    noida: NoidaBroker,
    registry: FakeRegistry,
    topic: str,
    schema: str | None = None,
    **raw: str,
) -> list[Any]:
    options = {"subscribe": topic, "valueFormat": "protobuf", "schema.registry.url": registry.url, **raw}
    reader = spark.read.format("kafkawire").options(**options)
    reader = reader.option("kafka.bootstrap.servers", noida.bootstrap_servers)
    return (reader if schema is None else reader.schema(schema)).load().collect()


def save(rows: DataFrame, noida: NoidaBroker, registry: FakeRegistry, topic: str, **raw: str) -> list[bytes]:
    """Write rows. Returns the values of the topic."""
    options = {"topic": topic, "valueFormat": "protobuf", "schema.registry.url": registry.url, **raw}
    writer = rows.coalesce(1).write.format("kafkawire").mode("append").options(**options)
    writer.option("kafka.bootstrap.servers", noida.bootstrap_servers).save()
    return [record.value or b"" for record in librdkafka.consume(noida.bootstrap_servers, topic, 0)]


def two_versions(noida: NoidaBroker, registry: FakeRegistry, *more: bytes) -> str:
    """A topic with an order of each version, a tombstone, and other messages."""
    first, second = (id_prefix(registry.add("orders-value", text, "PROTOBUF")) for text in (V1, V2))
    place = {"city": "Köln", "counts": {"a": 1}}
    return topic_of(
        noida,
        first + FIRST + message(V1, "Order", id=1, customer="x", place={"city": "Bonn"}),
        None,
        second + SECOND + message(V2, "Order", id=2, client="y", items=[3, 4], place=place),
        *more,
    )


def test_messages_of_two_versions_become_rows_of_the_chosen_message(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry
) -> None:
    topic = two_versions(noida, registry)
    found = load(spark, noida, registry, topic, valueSubject="orders-value", valueMessage="Order")
    assert [row.value and row.value.asDict(recursive=True) for row in found] == [
        {"items": [], "id": 1, "client": "x", "place": {"city": "Bonn", "counts": {}}},
        None,
        {"items": [3, 4], "id": 2, "client": "y", "place": {"city": "Köln", "counts": {"a": 1}}},
    ]


def test_a_message_that_contains_itself_has_columns_to_the_depth_of_the_options(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry
) -> None:
    text = 'syntax = "proto3"; package shop; message Node { int32 id = 1; Node next = 2; }'
    number = registry.add("nodes-value", text, "PROTOBUF")
    node: dict[str, Any] = {}
    for depth in (4, 3, 2, 1):
        node = {"id": depth, "next": node} if node else {"id": depth}
    topic = topic_of(noida, id_prefix(number) + FIRST + message(text, "Node", **node))
    for name, depth in (("recursive.fields.max.depth", 1), ("recursiveFieldMaxDepth", 4)):
        options = {"valueSubject": "nodes-value", name: str(depth)}
        [row] = load(spark, noida, registry, topic, **options)
        found, ids = row.value.asDict(recursive=True), []
        while found:
            ids.append(found["id"])
            found = found.get("next")
        assert ids == list(range(1, depth + 1))
    with pytest.raises(
        Exception, match=r"message shop\.Node contains itself: set recursiveFieldMaxDepth to 1"
    ):
        load(spark, noida, registry, topic, valueSubject="nodes-value", recursiveFieldMaxDepth="-1")


def test_a_schema_of_the_user_names_the_fields_to_decode(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry
) -> None:
    topic = two_versions(noida, registry)
    schema = "offset bigint, value struct<place:struct<city:string>,id:bigint>, valueSchemaId int"
    found = load(spark, noida, registry, topic, schema)
    assert found == [
        Row(offset=0, value=Row(place=Row(city="Bonn"), id=1), valueSchemaId=1),
        Row(offset=1, value=None, valueSchemaId=None),
        Row(offset=2, value=Row(place=Row(city="Köln"), id=2), valueSchemaId=2),
    ]


def test_a_message_inside_of_another_one_is_chosen_by_its_name(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry
) -> None:
    number = registry.add("lines", V1, "PROTOBUF")
    topic = topic_of(noida, id_prefix(number) + LINE + message(V1, "Refund.Line", n=5))
    for name in ("Refund.Line", "shop.Refund.Line"):
        [row] = load(spark, noida, registry, topic, valueSubject="lines", valueMessage=name)
        assert row.value == Row(n=5)


def test_messages_without_frames_are_of_the_chosen_message(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry
) -> None:
    topic = topic_of(noida, message(V1, "Refund.Line", n=5))
    options = {"valueSchema": V1, "schemaIdFrom": "none", "valueMessage": "Refund.Line"}
    [row] = load(spark, noida, registry, topic, **options)
    assert row.value == Row(n=5)
    assert registry.requests == []


@pytest.mark.parametrize(
    ("bad", "schema_id"),
    [
        (id_prefix(2) + SECOND + b"\x08", 2),
        (id_prefix(2) + FIRST + message(V2, "Note", text="no order"), 2),
        (id_prefix(2) + b"\x02\x12", 2),
        (b"no frame", -1),
    ],
    ids=["cut", "of another type", "indexes that are not there", "without a frame"],
)
def test_a_message_that_cannot_be_decoded_is_a_bad_record(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry, bad: bytes, schema_id: int
) -> None:
    topic = two_versions(noida, registry, bad)
    options = {"valueSubject": "orders-value", "valueMessage": "Order"}
    with pytest.raises(PySparkException) as error:
        load(spark, noida, registry, topic, **options)
    assert f"{topic} 0 at offset 3: the value cannot be decoded" in message_of(error.value)
    *good, last = load(spark, noida, registry, topic, badRecords="null", **options)
    assert [row.value and row.value.id for row in good] == [1, None, 2]
    assert last.value is None
    assert bytes(last._corrupt_record.bytes) == bad
    assert last._corrupt_record.schemaId == (schema_id if schema_id >= 0 else None)


def test_structs_become_messages_of_a_schema_that_follows_from_their_type(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry
) -> None:
    topic = noida.create_topic()
    rows = spark.sql(
        "SELECT struct(id, if(id = 1, null, concat('n', id)) AS note, array(id, id) AS items, "
        "map('k', id) AS counts, struct(id > 0 AS flag) AS inner) AS value FROM range(3)"
    )
    written = save(rows, noida, registry, topic, autoRegisterSchemas="true", valueMessage="shop.Made")
    assert registry.subjects == {f"{topic}-value": [1]}
    made = message_class(compiled(registry.schemas[1]["schema"]), "shop.Made")
    judged = [made.FromString(value.removeprefix(id_prefix(1) + FIRST)) for value in written]
    assert [
        (each.id, each.note if each.HasField("note") else None, list(each.items), dict(each.counts))
        for each in judged
    ] == [(number, None if number == 1 else f"n{number}", [number] * 2, {"k": number}) for number in range(3)]
    assert [each.inner.flag for each in judged] == [False, True, True]
    back = load(spark, noida, registry, topic)
    assert [row.value for row in back] == [row.value for row in rows.collect()]


def test_structs_become_the_chosen_message_of_a_registered_schema(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry
) -> None:
    topic = noida.create_topic()
    number = registry.add(f"{topic}-value", V2, "PROTOBUF")
    rows = spark.sql("SELECT struct(7L AS id, 'y' AS client, struct('Köln' AS city) AS place) AS value")
    [value] = save(rows, noida, registry, topic, valueMessage="Order")
    expected = message(V2, "Order", id=7, client="y", place={"city": "Köln"})
    assert value == id_prefix(number) + SECOND + expected
    [row] = load(spark, noida, registry, topic, "value struct<id:bigint,client:string>", valueMessage="Order")
    assert row.value == Row(id=7, client="y")


def test_a_column_that_the_message_lacks_is_one_line_before_rows_are_sent(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry
) -> None:
    topic = noida.create_topic()
    registry.add(f"{topic}-value", V2, "PROTOBUF")
    rows = spark.sql("SELECT struct(7L AS id, 'y' AS customer) AS value")
    with pytest.raises(Exception, match="customer"):
        save(rows, noida, registry, topic, valueMessage="Order")
    assert librdkafka.consume(noida.bootstrap_servers, topic, 0) == []
