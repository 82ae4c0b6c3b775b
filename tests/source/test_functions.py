"""Functions of columns in Spark: messages of Avro and Protobuf to values and back, and dead letters."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any, Final

import fastavro
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from spark_kafkawire.errors import OptionError
from spark_kafkawire.functions import dead_letters, from_avro, from_protobuf, to_avro, to_protobuf
from spark_kafkawire.registry.client import forget_registries
from spark_kafkawire.values.registry_frame import id_prefix
from tests.support import librdkafka
from tests.support.fake_registry import FakeRegistry
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.values.protobuf.protoc import compiled, message_class

from .task_errors import message_of

pytestmark = pytest.mark.skipif(not hasattr(F, "arrow_udf"), reason="this Spark has no Arrow UDFs")

SCHEMA: Final = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
    }
)
ROWS: Final = [Row(id=1, note="größe"), Row(id=2, note=None), None]


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as fake:
        yield fake
    forget_registries()


def message(row: Row | None, prefix: bytes = b"") -> bytes | None:
    if row is None:
        return None
    out = io.BytesIO()
    fastavro.schemaless_writer(out, json.loads(SCHEMA), row.asDict())
    return prefix + out.getvalue()


def messages(spark: SparkSession, prefix: bytes = b"", *more: bytes) -> DataFrame:
    return spark.createDataFrame(
        [(message(row, prefix),) for row in ROWS] + [(each,) for each in more], "m binary"
    )


def test_framed_messages_are_resolved_to_the_schema_of_the_options_and_values_become_such(
    spark: SparkSession, registry: FakeRegistry
) -> None:
    writer = registry.add("orders-value", SCHEMA)
    options = {"schema.registry.url": registry.url, "valueSubject": "orders-value"}
    rows = messages(spark, id_prefix(writer))
    values = rows.select(from_avro("m", options).alias("value"))
    again = values.select(to_avro("value", options).alias("m"))
    assert again.collect() == rows.collect()
    plain = {"valueSchema": SCHEMA, "schemaIdFrom": "none"}
    assert values.select(to_avro("value", plain).alias("m")).collect() == messages(spark).collect()
    reader = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "double"}]}
    registry.add("orders-value", json.dumps(reader))
    found = rows.select(from_avro(F.col("m"), options).alias("value"))
    assert [row.value for row in found.collect()] == [Row(id=1.0), Row(id=2.0), None]


def test_a_bad_message_fails_the_query_or_is_null(spark: SparkSession) -> None:
    options = {"valueSchema": SCHEMA, "schemaIdFrom": "none"}
    rows = messages(spark, b"", b"\x02\x07").coalesce(1)
    with pytest.raises(
        Exception, match=r"from_avro: row 3 of a batch cannot be decoded: field note: "
    ) as error:
        rows.select(from_avro("m", options)).collect()
    assert "set badRecords=null" in message_of(error.value)
    found = rows.select(from_avro("m", {**options, "badRecords": "null"}).alias("value"))
    assert found.schema.simpleString() == "struct<value:struct<id:bigint,note:string>>"
    assert [row.value for row in found.collect()] == [*ROWS, None]


SHOP: Final = """syntax = "proto3"; package shop; message First {}
message Outer { message Order { int64 id = 1; optional string note = 2; } }"""
SECOND: Final = b"\x04\x02\0"


def order(prefix: bytes = b"") -> bytes:
    """A message of Protobuf's own runtime, with the indexes of its type if it has a prefix."""
    sent: bytes = message_class(compiled(SHOP), "shop.Outer.Order")(id=7, note="größe").SerializeToString()
    return prefix + SECOND + sent if prefix else sent


@pytest.mark.parametrize("is_registered", [False, True])
def test_messages_of_protobuf_become_values_and_these_messages(
    spark: SparkSession, registry: FakeRegistry, is_registered: bool
) -> None:
    number = registry.add("orders-value", SHOP, "PROTOBUF")
    of_registry = {"schema.registry.url": registry.url, "valueSubject": "orders-value"}
    options = of_registry if is_registered else {"valueSchema": SHOP, "schemaIdFrom": "none"}
    sent = order(id_prefix(number) if is_registered else b"")
    column = from_protobuf("m", {**options, "valueMessage": "Outer.Order"}).alias("value")
    found = spark.createDataFrame([(sent,), (None,)], "m binary").select(column)
    assert found.schema.simpleString() == "struct<value:struct<id:bigint,note:string>>"
    assert [row.value for row in found.collect()] == [Row(id=7, note="größe"), None]
    again = to_protobuf("value", {**options, "valueMessage": "shop.Outer.Order"}).alias("m")
    assert [row.m for row in found.select(again).collect()] == [sent, None]


@pytest.mark.parametrize(
    ("function", "options", "problem"),
    [
        (from_avro, {}, "avro needs schema.registry.url, the schema registry; for messages without the id"),
        (to_avro, {"schemaIdFrom": "none"}, "to_avro: the schema is not known; set valueSchema"),
        (from_avro, {"valueMessage": "M"}, "from_avro: unknown option 'valueMessage'; "),
        (
            from_protobuf,
            {"valueSchema": SHOP, "schemaIdFrom": "none", "valueMessage": "Order"},
            "the Protobuf schema has no message 'Order'; it has 'shop.First', 'shop.Outer', ",
        ),
        (from_avro, {"subscribe": "t"}, "from_avro: unknown option 'subscribe'; "),
        (from_avro, {"valueShema": "x"}, "from_avro: unknown option 'valueShema'; did you mean valueSchema?"),
        (
            from_avro,
            {"valueSchema": SCHEMA, "schemaIdFrom": "none", "badRecords": "drop"},
            "from_avro: badRecords=drop is for reads",
        ),
        (
            to_avro,
            {"valueSubject": "s", "schemaIdFrom": "header", "schema.registry.url": "http://h:1"},
            "to_avro: schemaIdFrom=header is for reads and writes",
        ),
    ],
)
@pytest.mark.usefixtures("spark")
def test_wrong_options_are_one_line_at_once(function: Any, options: dict[str, str], problem: str) -> None:
    with pytest.raises(OptionError) as error:
        function("m", options)
    assert problem in str(error.value)
    assert "\n" not in str(error.value)


def test_dead_letters_have_the_bytes_and_the_headers_of_kafka_connect(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry
) -> None:
    topic, letters = noida.create_topic(), noida.create_topic()
    number = registry.add(f"{topic}-value", SCHEMA)
    good, bad = message(ROWS[0], id_prefix(number)), id_prefix(number) + b"\x02\x07"
    sent = [Record(good, key=b"a"), Record(bad, key=b"b"), Record(None, key=b"c"), Record(b"no", key=b"d")]
    librdkafka.produce(noida.bootstrap_servers, topic, sent)
    options = {"valueFormat": "avro", "schema.registry.url": registry.url, "badRecords": "null"}
    columns = (
        "key binary, value struct<id:bigint>, topic string, partition int, offset bigint, "
        "_corrupt_record struct<bytes:binary,reason:string,schemaId:int>"
    )
    to = {"kafka.bootstrap.servers": noida.bootstrap_servers}
    source = spark.read.format("kafkawire").options(**to, **options, subscribe=topic)
    rows = source.schema(columns).load()
    with pytest.raises(OptionError, match="the rows have no column _corrupt_record; read them with badRec"):
        dead_letters(rows.drop("_corrupt_record"))
    dead_letters(rows).write.format("kafkawire").mode("append").options(**to, topic=letters).save()
    found = librdkafka.consume(noida.bootstrap_servers, letters, 0)
    assert [(record.key, record.value) for record in found] == [(b"b", bad), (b"d", b"no")]
    first = dict(found[0].headers)
    assert first["__connect.errors.topic"] == topic.encode()
    assert first["__connect.errors.partition"] == b"0"
    assert first["__connect.errors.offset"] == b"1"
    assert (first["__connect.errors.exception.message"] or b"").startswith(b"value: field note: ")
