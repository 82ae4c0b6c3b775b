"""A schema registry with Confluent's API, Apicurio, and values that Confluent's own serializers wrote to
Apache Kafka: reads give those of its deserializers, which read in turn what Spark writes.

Apicurio keeps its schemas in memory, and has no look-up of schemas by GUID: a registry of ours does that.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import tarfile
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

from spark_kafkawire.broker.cluster import ChildProcess, find_java
from spark_kafkawire.errors import RegistryError, TransportError, UnknownSchemaError
from spark_kafkawire.net.http import Url
from spark_kafkawire.net.retry import RetryPolicy
from spark_kafkawire.registry import Registry, RegistrySettings, Schema
from spark_kafkawire.values.registry_frame import Framed, SchemaIdSource, unframe
from tests.support import librdkafka
from tests.support.fake_registry import FakeRegistry
from tests.support.foreign import Record
from tests.support.noida import HOST, free_port
from tests.support.reading import Read

from .apache_kafka import ApacheKafka
from .jars import apicurio_archive
from .versions import needed_confluent, needs_registry, newest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from .confluent import Confluent


UTC = dt.timezone.utc
NOON = dt.datetime(2026, 11, 25, 12, 0, 0, 123_456)


#: Six seconds on an idle machine.
_START_TIMEOUT_S: Final = 180.0
_JAVA_OPTIONS: Final = ("-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_RUNNER: Final = "apicurio-registry-app-3.0.9-runner.jar"


@pytest.fixture(scope="module")
def apicurio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a schema registry that all tests share, as ``schema.registry.url`` has it: each has
    subjects of its own."""
    needs_registry()
    folder, port = tmp_path_factory.mktemp("apicurio"), free_port()
    with tarfile.open(apicurio_archive()) as archive:
        archive.extractall(folder)
    url, log = f"http://{HOST}:{port}/apis/ccompat/v7", folder / "registry.log"

    def answering() -> bool | None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/subjects", timeout=5) as answer:
            return True if answer.status == 200 else None
        return None

    environ = {**os.environ, "QUARKUS_HTTP_HOST": HOST, "QUARKUS_HTTP_PORT": str(port)}
    argv = [str(find_java()), *_JAVA_OPTIONS, "-jar", str(folder / _RUNNER)]
    process = ChildProcess("Apicurio", argv, output=log, log=log, environ=environ)
    try:
        process.wait_until(answering, "answering", _START_TIMEOUT_S)
        yield url
    finally:
        process.kill()


@pytest.fixture(scope="module")
def judge(apicurio: str) -> Iterator[Confluent]:
    with needed_confluent().Confluent(apicurio) as judge:
        yield judge


def registry_of(url: str) -> Registry:
    """A client without any schema yet."""
    parsed = Url.parse(url)
    assert parsed is not None
    return Registry(RegistrySettings((parsed,), retry=RetryPolicy(retries=1)))


def write(kafka: ApacheKafka, topic: str, values: Sequence[Any]) -> None:
    """Create a topic with these values or records."""
    librdkafka.create_topic(kafka.bootstrap_servers(), 1, topic)
    records = [item if isinstance(item, Record) else Record(item) for item in values]
    librdkafka.produce(kafka.bootstrap_servers(), topic, records)


def options_of(kafka: ApacheKafka, topic: str, url: str, value_format: str = "avro") -> dict[str, str]:
    """Options of a read of typed values."""
    registry = {"schema.registry.url": url, "valueFormat": value_format}
    return {"kafka.bootstrap.servers": kafka.bootstrap_servers(), "subscribe": topic, **registry}


def read(kafka: ApacheKafka, topic: str, url: str, value_format: str = "avro", **more: str) -> pa.Array:
    """Values of a topic, by the newest schema of its subject."""
    options = {**options_of(kafka, topic, url, value_format), **more}
    column = Read(options.pop("kafka.bootstrap.servers"), **options).table().column("value").combine_chunks()
    column.validate(full=True)
    return column


def read_frames(kafka: ApacheKafka, topic: str) -> Framed:
    """Messages of a topic without their frames, and the types of Protobuf that they name."""
    column = Read(kafka.bootstrap_servers(), subscribe=topic).table().column("value").combine_chunks()
    framed = unframe(column, SchemaIdSource.AUTO, with_indexes=True)
    assert not framed.faults.any()
    return framed


def as_spark(judged: Sequence[Any], of: pa.DataType) -> list[Any]:
    """Rows of the judge as Spark has them."""
    return [needed_confluent().as_spark(row, of) for row in judged]


def record(name: str, /, **fields: Any) -> dict[str, Any]:
    """A schema of a record with these types."""
    listed = [{"name": field, "type": of} for field, of in fields.items()]
    return {"type": "record", "name": name, "namespace": "shop", "fields": listed}


def fixed(name: str, size: int, **logical: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **logical}


def of(kind: str, logical: str, **more: Any) -> dict[str, Any]:
    """A type with a logical type."""
    return {"type": kind, "logicalType": logical, **more}


EVERY_TYPE = record(
    "Every",
    nothing="null",
    flag="boolean",
    small="int",
    large="long",
    single="float",
    double="double",
    data="bytes",
    text="string",
    kind={"type": "enum", "name": "Kind", "symbols": ["FIRST", "SECOND"]},
    block=fixed("Block", 3),
    numbers={"type": "array", "items": "long"},
    prices={"type": "map", "values": "double"},
    maybe=["null", "string"],
    maybe_last=["string", "null"],
    point=record("Point", x="int", y=["null", "int"]),
    points={"type": "array", "items": "Point"},
    lists={"type": "map", "values": {"type": "array", "items": ["null", "string"]}},
    one_of=["null", "string", "long", "Point"],
    node=record("Node", value="int", next=["null", "Node"]),
    day=of("int", "date"),
    time_ms=of("int", "time-millis"),
    time_us=of("long", "time-micros"),
    at_ms=of("long", "timestamp-millis"),
    at_us=of("long", "timestamp-micros"),
    local_ms=of("long", "local-timestamp-millis"),
    local_us=of("long", "local-timestamp-micros"),
    at_ns=of("long", "timestamp-nanos"),
    guid=of("string", "uuid"),
    guid_bytes=fixed("Guid", 16, logicalType="uuid"),
    span=fixed("Span", 12, logicalType="duration"),
    price=of("bytes", "decimal", precision=38, scale=9),
    small_price=fixed("Price", 5, logicalType="decimal", precision=9, scale=2),
    mixed_long=["int", "long"],
    mixed_double=["null", "float", "double"],
)
EVERY_ROW = {
    "nothing": None,
    "flag": True,
    "small": -(2**31),
    "large": 2**63 - 1,
    "single": 1.5,
    "double": -1e300,
    "data": b"\0\xff",
    "text": "größe 🙂",
    "kind": "SECOND",
    "block": b"\1\2\3",
    "numbers": [1, -1, 2**62],
    "prices": {"é": 0.1, "": -0.0},
    "maybe": "x",
    "maybe_last": None,
    "point": {"x": 1, "y": None},
    "points": [{"x": -5, "y": 5}, {"x": 0, "y": None}],
    "lists": {"a": ["b", None], "empty": []},
    "one_of": {"x": 7, "y": 8},
    "node": {"value": 1, "next": {"value": 2, "next": {"value": 3, "next": {"value": 4, "next": None}}}},
    "day": dt.date(1969, 12, 31),
    "time_ms": dt.time(23, 59, 59, 999_000),
    "time_us": dt.time(23, 59, 59, 999_999),
    "at_ms": NOON.replace(microsecond=123_000, tzinfo=UTC),
    "at_us": NOON.replace(tzinfo=UTC),
    "local_ms": NOON.replace(microsecond=123_000),
    "local_us": NOON,
    "at_ns": 1_700_000_000_123_456_789,
    "guid": uuid.UUID(int=7),
    "guid_bytes": bytes(range(16)),
    "span": b"\1\0\0\0\2\0\0\0\3\0\0\0",
    "price": Decimal(f"-{'9' * 29}.{'9' * 9}"),
    "small_price": Decimal("-0.01"),
    "mixed_long": 2**40,
    "mixed_double": 0.1,
}
OTHER_ROWS = [
    {**EVERY_ROW, "one_of": one_of, "maybe": None, "price": price, "mixed_long": 5, "mixed_double": None}
    for one_of, price in ((None, Decimal(0)), ("text", Decimal("0.000000001")), (-5, Decimal("-12.5")))
]


EVERY_TEXT = json.dumps(EVERY_TYPE)


@newest
def test_all_types_are_read_as_confluents_deserializer_reads_them(
    kafka: ApacheKafka, apicurio: str, judge: Confluent
) -> None:
    messages = [*judge.avro("every", EVERY_TEXT, [EVERY_ROW, *OTHER_ROWS]), None]
    write(kafka, "every", messages)
    result = read(kafka, "every", apicurio)
    judged = judge.avro_rows("every", messages)
    assert judged == [EVERY_ROW, *OTHER_ROWS, None]
    assert [item.name for item in result.type] == list(EVERY_ROW)
    assert result.to_pylist() == as_spark(judged, result.type)
    first = result[0].as_py()
    assert first["one_of"] == {"member0": None, "member1": None, "member2": {"x": 7, "y": 8}}
    assert first["node"] == {"value": 1, "next": {"value": 2, "next": {"value": 3}}}
    assert first["time_ms"] == 86_399_999
    assert first["mixed_double"] == 0.1


@newest
def test_confluents_deserializer_reads_all_types_that_spark_writes(
    spark: SparkSession, kafka: ApacheKafka, apicurio: str, judge: Confluent
) -> None:
    write(kafka, "every-to-copy", [*judge.avro("every-to-copy", EVERY_TEXT, [EVERY_ROW, *OTHER_ROWS]), None])
    options = options_of(kafka, "every-to-copy", apicurio)
    rows = spark.read.format("kafkawire").options(**options).load().select("value").coalesce(1)
    ours = save(rows, kafka, {**options, "topic": "every-copied", "valueSchema": EVERY_TEXT})
    judged = judge.avro_rows("every-copied", ours)
    # A record contains itself three times in a column: the fourth one was not read.
    cut_off = {"value": 1, "next": {"value": 2, "next": {"value": 3, "next": None}}}
    assert judged == [{**row, "node": cut_off} for row in (EVERY_ROW, *OTHER_ROWS)] + [None]
    # A schema that follows from the columns has the types of Spark.
    ours = save(rows, kafka, {**options, "topic": "every-derived"})
    derived = judge.avro_rows("every-derived", ours)
    of = read(kafka, "every-derived", apicurio).type
    assert as_spark(derived, of) == read(kafka, "every-to-copy", apicurio).to_pylist()


def save(rows: DataFrame, kafka: ApacheKafka, options: dict[str, str]) -> list[bytes | None]:
    """Write rows to a new topic, and register their schema; the messages."""
    topic = options["topic"]
    write(kafka, topic, [])
    options = {name: value for name, value in options.items() if name != "subscribe"}
    writer = rows.write.format("kafkawire").mode("append").options(**options)
    writer.option("autoRegisterSchemas", "true").save()
    return [item.value for item in librdkafka.consume(kafka.bootstrap_servers(), topic)]


@newest
def test_references_between_schemas_are_resolved(kafka: ApacheKafka, apicurio: str, judge: Confluent) -> None:
    country = record("Country", code="string")
    address = record("Address", city="string", country="shop.Country")
    customer = record("Customer", name="string", home="shop.Address", born=["null", "shop.Country"])
    to_country = ("shop.Country", "country", 1)
    to_address = ("shop.Address", "address", 1)
    judge.register("country", judge.schema(json.dumps(country)))
    judge.register("address", judge.schema(json.dumps(address), "AVRO", [to_country]))
    schema = judge.schema(json.dumps(customer), "AVRO", [to_address, to_country])
    home = {"city": "Zürich", "country": {"code": "CH"}}
    rows = [{"name": "a", "home": home, "born": None}, {"name": "b", "home": home, "born": {"code": "AT"}}]
    messages = judge.avro("customers-and-references", schema, rows)
    write(kafka, "customers-and-references", messages)
    result = read(kafka, "customers-and-references", apicurio)
    assert result.to_pylist() == judge.avro_rows("customers-and-references", messages) == rows


@newest
def test_a_guid_in_a_header_names_the_schema(kafka: ApacheKafka) -> None:
    with FakeRegistry() as fake, needed_confluent().Confluent(fake.url) as judge:
        text = json.dumps(record("Headed", id="long"))
        write(kafka, "headed", [judge.avro_with_header("headed", text, {"id": 7})])
        assert read(kafka, "headed", fake.url).to_pylist() == [{"id": 7}]
        assert any("/schemas/guids/" in request for request in fake.requests)


IN_JSON = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "required": ["id", "lines"],
    "properties": {
        "id": {"type": "integer"},
        "größe": {"type": ["number", "null"]},
        "flag": {"type": "boolean"},
        "kind": {"enum": ["first", "second"]},
        "lines": {"type": "array", "items": {"$ref": "#/definitions/Line"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
    "definitions": {
        "Line": {
            "type": "object",
            "required": ["sku"],
            "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}},
        }
    },
}
JSON_ROWS: list[dict[str, Any]] = [
    {
        "id": 2**63 - 1,
        "größe": -1.5e300,
        "flag": True,
        "kind": "second",
        "lines": [{"sku": "🙂\n", "count": -1}, {"sku": ""}],
        "counts": {"é": 1, "": 2},
    },
    {"id": 0, "größe": None, "lines": []},
]


@newest
def test_messages_in_json_are_read_and_written_as_confluents_are(
    spark: SparkSession, kafka: ApacheKafka, apicurio: str, judge: Confluent
) -> None:
    topic, copied, text = "in-json", "in-json-copied", json.dumps(IN_JSON)
    messages = [*judge.json(topic, text, JSON_ROWS), None]
    write(kafka, topic, messages)
    result = read(kafka, topic, apicurio, "json")
    judged = judge.json_rows(topic, messages)
    assert judged == [*JSON_ROWS, None]
    assert [without_nulls(row) for row in result.to_pylist()] == [without_nulls(row) for row in judged]
    options = options_of(kafka, topic, apicurio, "json")
    rows = spark.read.format("kafkawire").options(**options).load().select("value").coalesce(1)
    ours = save(rows, kafka, {**options, "topic": copied, "valueSchema": text})
    assert [without_nulls(row) for row in judge.json_rows(copied, ours)] == list(map(without_nulls, judged))


def without_nulls(value: Any) -> Any:
    """A value without null properties, which JSON leaves out or not; pairs of a map become an object."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list) and value and all(isinstance(item, tuple) for item in value):
        return without_nulls(dict(value))
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@newest
@pytest.mark.parametrize(
    ("name", "indexes"), [("First", (0,)), ("Order", (1,)), ("Order.Line", (1, 0)), ("Order.Other", (1, 1))]
)
def test_messages_in_protobuf_are_read_as_confluents_deserializer_reads_them(
    name: str, indexes: tuple[int, ...], kafka: ApacheKafka, apicurio: str, judge: Confluent
) -> None:
    of, topic = protobuf_type(name), f"in-protobuf-{name}"
    sent = [of(id=-(2**63), name="größe 🙂", numbers=[1, -1]), of()]
    messages = judge.protobuf(topic, sent)
    write(kafka, topic, messages)
    framed = read_frames(kafka, topic)
    [schema_id] = set(framed.ids.tolist())
    # Confluent's client in Python registers a descriptor, and Apicurio gives it back as it is.
    assert registry_of(apicurio).schema(schema_id).format == "PROTOBUF"
    assert framed.indexes == (indexes,)
    result = read(kafka, topic, apicurio, "protobuf", valueMessage=name)
    judged = judge.protobuf_objects(topic, of, messages)
    assert judged == sent
    # As in Spark's from_protobuf, a field that is not in the message is null.
    assert result.to_pylist() == [
        {"id": item.id or None, "name": item.name or None, "numbers": list(item.numbers)} for item in judged
    ]


@newest
@pytest.mark.parametrize("name", ["Order", "Order.Other"])
def test_confluents_deserializer_reads_messages_in_protobuf_that_spark_writes(
    name: str, spark: SparkSession, kafka: ApacheKafka, apicurio: str, judge: Confluent
) -> None:
    of, topic = protobuf_type(name), f"to-protobuf-{name}"
    judge.protobuf(topic, [of()])  # registers the schema
    options = options_of(kafka, topic, apicurio, "protobuf")
    rows = spark.sql(
        "SELECT struct(id, concat('n', id) AS name, array(id, -id) AS numbers) AS value FROM range(3)"
    )
    # A schema that the subject has is not registered once more.
    chosen = {"topic": topic, "valueMessage": name, "valueSchemaVersion": "latest"}
    ours = save(rows.coalesce(1), kafka, {**options, **chosen})
    assert judge.protobuf_objects(topic, of, [item for item in ours if item is not None]) == [
        of(id=number, name=f"n{number}", numbers=[number, -number]) for number in range(3)
    ]


def protobuf_type(name: str) -> Any:
    """A message type of one file, all of whose types have the same fields."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    first, order = (file.message_type.add(name=item) for item in ("First", "Order"))
    for item in (first, order, *(order.nested_type.add(name=inner) for inner in ("Line", "Other"))):
        item.field.add(name="id", number=1, type="TYPE_INT64", label="LABEL_OPTIONAL")
        item.field.add(name="name", number=2, type="TYPE_STRING", label="LABEL_OPTIONAL")
        item.field.add(name="numbers", number=3, type="TYPE_INT64", label="LABEL_REPEATED")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))


LONG = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}'
WITH_DEFAULT = LONG[:-2] + ', {"name": "b", "type": "string", "default": ""}]}'


def test_what_is_registered_is_found_by_id_version_and_text(apicurio: str) -> None:
    writer = registry_of(apicurio)
    first, second = (writer.register("orders-value", Schema("AVRO", text)) for text in (LONG, WITH_DEFAULT))
    assert first != second
    reader = registry_of(apicurio)
    assert reader.schema(first).schema == Schema("AVRO", LONG)
    assert reader.version("orders-value", 1).id == first
    assert (reader.latest("orders-value").id, reader.latest("orders-value").version) == (second, 2)
    assert reader.look_up("orders-value", Schema("AVRO", LONG)) == first
    assert registry_of(apicurio).register("orders-value", Schema("AVRO", LONG)) == first


def test_what_is_not_registered_is_unknown(apicurio: str) -> None:
    registry = registry_of(apicurio)
    with pytest.raises(UnknownSchemaError):
        registry.schema(123_456)
    with pytest.raises(UnknownSchemaError):
        registry.latest("no such subject")
    # It has no GUIDs, and its answer is not one of a registry.
    with pytest.raises(TransportError, match="HTTP status 404 and no code of a schema registry"):
        registry.schema_of_guid(bytes(16))


def test_refuse_an_invalid_schema_in_the_words_of_the_registry(apicurio: str) -> None:
    with pytest.raises(RegistryError, match="the server refuses the request: HTTP status 4"):
        registry_of(apicurio).register("bad", Schema("AVRO", "{"))


def test_confluents_client_finds_what_ours_registers(apicurio: str, judge: Confluent) -> None:
    schema_id = registry_of(apicurio).register("judged", Schema("AVRO", LONG))
    assert judge.client.get_schema(schema_id).schema_str == LONG
    second = judge.register("judged", judge.schema(WITH_DEFAULT))
    assert registry_of(apicurio).schema(second).text == WITH_DEFAULT
