"""Functions of columns in Spark: messages of Avro and Protobuf to values and back, and dead letters. Values
of JSON beside Spark's own ``from_json`` and ``to_json``."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import json
from collections.abc import Iterator
from typing import Any, Final

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import col, from_json, to_json
from pyspark.sql.pandas.types import from_arrow_schema

from spark_kafkawire.errors import OptionError
from spark_kafkawire.functions import (
    dead_letters,
    from_avro,
    from_protobuf,
    to_avro,
    to_protobuf,
)
from spark_kafkawire.values.json.decoding import Decoder
from spark_kafkawire.values.json.encoding import Encoder
from spark_kafkawire.values.json.schema import schema_of
from spark_kafkawire.values.payloads import Fault, payloads_of
from spark_kafkawire.values.registry_frame import id_prefix
from tests.support import librdkafka
from tests.support.cases import for_each
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


def message(row: Row | None, prefix: bytes = b"") -> bytes | None:
    if row is None:
        return None
    out = io.BytesIO()
    fastavro.schemaless_writer(out, json.loads(SCHEMA), row.asDict())
    return prefix + out.getvalue()


def messages(spark: SparkSession, prefix: bytes = b"", *more: bytes) -> DataFrame:
    return spark.createDataFrame(
        [(message(row, prefix),) for row in ROWS] + [(item,) for item in more], "m binary"
    )


def test_framed_messages_and_back(spark: SparkSession, registry: FakeRegistry) -> None:
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
    result = rows.select(from_avro(F.col("m"), options).alias("value"))
    assert [row.value for row in result.collect()] == [Row(id=1.0), Row(id=2.0), None]


def test_a_bad_message_fails_the_query_or_is_null(spark: SparkSession) -> None:
    options = {"valueSchema": SCHEMA, "schemaIdFrom": "none"}
    rows = messages(spark, b"", b"\x02\x07").coalesce(1)
    with pytest.raises(
        Exception, match=r"from_avro: row 3 of a batch cannot be decoded: field note: "
    ) as error:
        rows.select(from_avro("m", options)).collect()
    assert "set badRecords=null" in message_of(error.value)
    result = rows.select(from_avro("m", {**options, "badRecords": "null"}).alias("value"))
    assert result.schema.simpleString() == "struct<value:struct<id:bigint,note:string>>"
    assert [row.value for row in result.collect()] == [*ROWS, None]


SHOP: Final = """syntax = "proto3"; package shop; message First {}
message Outer { message Order { int64 id = 1; optional string note = 2; } }"""
SECOND: Final = b"\x04\x02\0"


def order(prefix: bytes) -> bytes:
    """A message of Protobuf's own runtime, behind the indexes of its type."""
    sent: bytes = message_class(compiled(SHOP), "shop.Outer.Order")(id=7, note="größe").SerializeToString()
    return prefix + SECOND + sent


def test_protobuf_and_back(spark: SparkSession, registry: FakeRegistry) -> None:
    number = registry.add("orders-value", SHOP, "PROTOBUF")
    options = {"schema.registry.url": registry.url, "valueSubject": "orders-value"}
    sent = order(id_prefix(number))
    column = from_protobuf("m", {**options, "valueMessage": "Outer.Order"}).alias("value")
    result = spark.createDataFrame([(sent,), (None,)], "m binary").select(column)
    assert result.schema.simpleString() == "struct<value:struct<id:bigint,note:string>>"
    assert [row.value for row in result.collect()] == [Row(id=7, note="größe"), None]
    again = to_protobuf("value", {**options, "valueMessage": "shop.Outer.Order"}).alias("m")
    assert [row.m for row in result.select(again).collect()] == [sent, None]


@for_each(
    ("function", "options", "problem"),
    [
        (from_avro, {}, "avro needs schema.registry.url, the schema registry; for messages without the id"),
        (to_avro, {"schemaIdFrom": "none"}, "to_avro: the schema is not known; set valueSchema"),
        (from_avro, {"valueShema": "x"}, "from_avro: unknown option 'valueShema'; did you mean valueSchema?"),
        (
            from_protobuf,
            {"valueSchema": SHOP, "schemaIdFrom": "none", "valueMessage": "Order"},
            "the Protobuf schema has no message 'Order'; it has 'shop.First', 'shop.Outer', ",
        ),
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


def test_dead_letters_are_kafkas(spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry) -> None:
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
    result = librdkafka.consume(noida.bootstrap_servers, letters, 0)
    assert [(record.key, record.value) for record in result] == [(b"b", bad), (b"d", b"no")]
    first = dict(result[0].headers)
    assert first["__connect.errors.topic"] == topic.encode()
    assert first["__connect.errors.partition"] == b"0"
    assert first["__connect.errors.offset"] == b"1"
    assert (first["__connect.errors.exception.message"] or b"").startswith(b"value: field note: ")


# JSON

UTC: Final = dt.timezone.utc
TYPE: Final = pa.struct(
    [
        ("i", pa.int64()),
        ("small", pa.int8()),
        ("d", pa.float64()),
        ("f", pa.float32()),
        ("ok", pa.bool_()),
        ("s", pa.string()),
        ("bin", pa.binary()),
        ("date", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("dec", pa.decimal128(10, 2)),
        ("big", pa.decimal128(38, 10)),
        ("list", pa.list_(pa.int32())),
        ("map", pa.map_(pa.string(), pa.float64())),
        ("inner", pa.struct({"a": pa.string(), "b": pa.list_(pa.struct({"c": pa.int16()}))})),
    ]
)
#: Messages that both read, with the same values.
READ: Final = [
    "{}",
    ' { "i" : 1 , "other" : [ {"i": 2} ] } ',
    '{"i": 9223372036854775807, "small": -128}',
    '{"d": 0.1, "f": 0.1}',
    '{"d": 1.7976931348623157e308, "f": 3.4028235e38}',
    '{"d": 5e-324, "f": 1e-45}',
    '{"d": 12345678901234567890.123456789, "f": 16777217}',
    '{"d": "NaN", "f": "-Infinity"}',
    '{"ok": true, "s": "x"}',
    '{"s": "\\u00e9\\ud83d\\ude00\\n\\/\\"\\\\"}',
    '{"s": 1.5}',
    '{"s": {"a":[1,2,{"b":null}]}}',
    '{"bin": "QUI="}',
    '{"bin": "\\/+8="}',
    '{"date": "2024-02-29"}',
    '{"date": "2024-2-9"}',
    '{"date": "2024-02-29T10:11:12Z"}',
    '{"at": "2026-01-02T03:04:05Z"}',
    '{"at": "2026-01-02T03:04:05.123456+02:00"}',
    '{"at": "2026-01-02 03:04:05.1"}',
    '{"at": "2026-01-02T03:04:05.123456789Z"}',
    '{"at": "2026-01-02"}',
    '{"at": "1969-12-31T23:59:59.999-05:30"}',
    '{"at": "0001-01-01T00:00:00Z"}',
    '{"at": 1700000000}',
    '{"local": "2026-01-02T03:04:05.000001"}',
    '{"local": "2026-01-02"}',
    '{"dec": 1.005}',
    '{"dec": -1.005}',
    '{"dec": "12345678.99"}',
    '{"dec": 1e3}',
    '{"big": 1234567890123456789012345678.0123456789}',
    '{"big": -0.00000000005}',
    '{"list": [1, null, 2]}',
    '{"map": {"a": 1, "b": null}}',
    '{"inner": {"a": "x", "b": [{"c": 1}, null, {}]}}',
]
#: Messages of which Spark makes null, or a field that is null.
BAD: Final = [
    '{"i": "1"}',
    '{"i": 9223372036854775808}',
    '{"ok": 1}',
    '{"d": "1.5"}',
    '{"date": "2023-02-29"}',
    '{"at": "2026-01-02T25:00:00Z"}',
    '{"local": "2026-01-02T03:04:05Z"}',
    '{"dec": 123456789.00}',
    '{"list": {}}',
    '{"map": []}',
    '{"inner": 1}',
    '{"i": 01}',
    '{"i": 1',
    "{'i': 1}",
    "",
]


def ours(messages: list[str]) -> tuple[list[Any], list[int]]:
    column = pa.array([item.encode() for item in messages], pa.binary())
    result = Decoder(None, None, TYPE).decode(payloads_of(column))
    return result.column.to_pylist(), result.faults.tolist()


def sparks(spark: SparkSession, messages: list[str]) -> list[Any]:
    struct = from_arrow_schema(pa.schema(list(TYPE)), prefer_timestamp_ntz=True)
    rows = spark.createDataFrame([(row, item) for row, item in enumerate(messages)], "row int, text string")
    table = rows.select("row", from_json(col("text"), struct).alias("value")).orderBy("row").toArrow()
    values: list[Any] = table.column("value").to_pylist()
    return values


def test_messages_have_the_values_of_from_json(spark: SparkSession) -> None:
    values, faults = ours(READ)
    both = sparks(spark, READ + BAD)
    theirs, nulls = both[: len(READ)], both[len(READ) :]
    assert not any(faults), [message for message, fault in zip(READ, faults, strict=True) if fault]
    result = {message: repr(value) for message, value in zip(READ, values, strict=True)}
    assert result == {message: repr(value) for message, value in zip(READ, theirs, strict=True)}
    # Spark keeps the lowest bits of a number that is too large.
    assert ours(['{"small": 200}'])[1] == [Fault.NOT_REPRESENTABLE]
    # What is null there is a fault here.
    empty = dict.fromkeys(item.name for item in TYPE)
    for message, fault, other in zip(BAD, ours(BAD)[1], nulls, strict=True):
        assert fault, message
        # Spark keeps the fields that are good.
        assert other is None or {**other, "i": None} == empty, (message, other)


def test_texts_are_those_of_to_json_and_read_by_it(spark: SparkSession) -> None:
    row = {
        "i": -1,
        "small": 127,
        "d": 0.1,
        "f": 1.5,
        "ok": False,
        "s": 'a"\\/\b\n\x1f\x7fé😀',
        "bin": b"\xff\xfe",
        "date": dt.date(1999, 12, 31),
        "at": dt.datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
        "local": dt.datetime(2026, 1, 2, 3, 4, 5, 123000),
        "dec": decimal.Decimal("-1.50"),
        "big": decimal.Decimal("1234567890.0123456789"),
        "list": [1, None],
        "map": [("k", 2.5), ("null", None)],
        "inner": {"a": None, "b": [{"c": 3}, None]},
    }
    column = pa.array([row, {}], TYPE)
    texts = [item.decode() for item in Encoder(schema_of(TYPE, "T"), TYPE).encode(column).to_pylist()]
    table = pa.table({"row": pa.array([0, 1]), "value": column})
    frame = spark.createDataFrame(table).orderBy("row")
    local = col("value.local").cast("timestamp_ntz")
    theirs = [text for (text,) in frame.select(to_json(col("value").withField("local", local))).collect()]
    assert texts[1] == theirs[1] == "{}"
    one, other = json.loads(texts[0]), json.loads(theirs[0])
    # Spark cuts the seconds to three digits.
    assert one.pop("at") == "2026-01-02T03:04:05.678901Z"
    assert other.pop("at") == "2026-01-02T03:04:05.678Z"
    assert one.pop("local") == other.pop("local") + "000"
    assert one == other
    assert list(one) == list(other)
    assert repr(sparks(spark, texts)) == repr(column.to_pylist())
