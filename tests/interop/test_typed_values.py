"""Values that Confluent's own serializers wrote to Apache Kafka: ours are those of its deserializers.

The registry is a real one, Apicurio, except for GUIDs, which it does not have.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from spark_kafkawire.errors import OptionError
from spark_kafkawire.net.http import Url
from spark_kafkawire.registry.client import Registry
from spark_kafkawire.registry.settings import RegistrySettings
from spark_kafkawire.values.avro import schema as avro
from spark_kafkawire.values.avro.decoding import Decoder
from spark_kafkawire.values.registry_frame import Framed, SchemaIdSource, unframed
from tests.support import librdkafka
from tests.support.fake_registry import FakeRegistry
from tests.support.foreign import Record
from tests.support.reading import Read

from .apache_kafka import ApacheKafka
from .apicurio import Apicurio
from .needs import needed_confluent
from .versions import newest

if TYPE_CHECKING:
    from .confluent import Confluent

NOT_YET = pytest.mark.xfail(raises=OptionError, reason="the Avro decoder does not have this type yet")
UTC = dt.timezone.utc
NOON = dt.datetime(2026, 11, 25, 12, 0, 0, 123_456)


@pytest.fixture(scope="module")
def judge(apicurio: Apicurio) -> Iterator[Confluent]:
    with needed_confluent().Confluent(apicurio.url) as judge:
        yield judge


def registry_of(url: str) -> Registry:
    """A client without any schema yet."""
    parsed = Url.parse(url)
    assert parsed is not None
    return Registry(RegistrySettings((parsed,)))


def write(kafka: ApacheKafka, values: list[Any]) -> str:
    """A new topic with these values or records."""
    topic: str = librdkafka.create_topic(kafka.bootstrap_servers())
    records = [each if isinstance(each, Record) else Record(each) for each in values]
    librdkafka.produce(kafka.bootstrap_servers(), topic, records)
    return topic


def read_frames(kafka: ApacheKafka, topic: str, *, with_indexes: bool = False) -> Framed:
    """Messages of a topic without their frames."""
    table = Read(kafka.bootstrap_servers(), subscribe=topic, includeHeaders="true").table()
    values, headers = (table.column(name).combine_chunks() for name in ("value", "headers"))
    return unframed(values, SchemaIdSource.AUTO, headers, with_indexes=with_indexes)


def read_avro(kafka: ApacheKafka, topic: str, url: str, reader: str | None = None) -> pa.Array:
    """Values of a topic, resolved to the reader's schema, or to the only schema that wrote them."""
    framed, registry = read_frames(kafka, topic), registry_of(url)
    assert not framed.faults.any()
    parts: dict[int, Any] = {}
    for schema_id in set(framed.ids.tolist()) - {-1}:
        found = registry.schema(schema_id)
        assert found.format == "AVRO"
        writer = avro.parse(found.text, found.references)
        decoder = Decoder(writer, None if reader is None else avro.parse(reader))
        rows = np.flatnonzero(framed.ids == schema_id)
        decoded = decoder.decode(framed.payloads.taken(rows))
        assert not decoded.is_bad.any()
        decoded.column.validate(full=True)
        parts |= dict(zip(rows.tolist(), decoded.column, strict=True))
    [of] = {each.type for each in parts.values()}
    return pa.array([parts[row].as_py() if row in parts else None for row in range(len(framed.ids))], of)


def as_read(judged: list[Any], of: pa.DataType) -> list[Any]:
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
}
OTHER_ROWS = [{**EVERY_ROW, "one_of": one_of, "maybe": None} for one_of in (None, "text", -5)]


@newest
def test_all_types_are_read_as_confluents_deserializer_reads_them(
    kafka: ApacheKafka, apicurio: Apicurio, judge: Confluent
) -> None:
    rows = [EVERY_ROW, *OTHER_ROWS]
    messages = judge.avro("every", json.dumps(EVERY_TYPE), rows)
    topic = write(kafka, [*messages, None])
    found = read_avro(kafka, topic, apicurio.url)
    judged = judge.avro_rows("every", [*messages, None])
    assert [each.name for each in found.type] == list(EVERY_ROW)
    assert found.to_pylist() == as_read(judged, found.type)
    # The judge is not a copy of the input.
    assert judged[:4] == rows
    assert found[0].as_py()["one_of"] == {"member0": None, "member1": None, "member2": {"x": 7, "y": 8}}
    assert found[0].as_py()["node"] == {"value": 1, "next": {"value": 2, "next": {"value": 3}}}
    assert found[0].as_py()["time_ms"] == 86_399_999


@NOT_YET
@newest
@pytest.mark.parametrize("size", [None, 16])
def test_decimals_are_read_as_confluents_deserializer_reads_them(
    size: int | None, kafka: ApacheKafka, apicurio: Apicurio, judge: Confluent
) -> None:
    logical = {"logicalType": "decimal", "precision": 38, "scale": 9}
    decimal = {"type": "bytes", **logical} if size is None else fixed("Decimal", size, **logical)
    numbers = [Decimal(text) for text in ("0", "-1", "12.5", "-0.000000001", f"{'9' * 29}.{'9' * 9}")]
    text = json.dumps(record("Priced", price=decimal))
    messages = judge.avro(f"priced-{size}", text, [{"price": number} for number in numbers])
    found = read_avro(kafka, write(kafka, messages), apicurio.url)
    assert found.to_pylist() == judge.avro_rows(f"priced-{size}", messages)
    assert found.type == pa.struct([pa.field("price", pa.decimal128(38, 9), False)])


@NOT_YET
@newest
def test_numbers_of_two_sizes_are_read_as_the_wider_one(
    kafka: ApacheKafka, apicurio: Apicurio, judge: Confluent
) -> None:
    text = json.dumps(record("Wide", count=["int", "long"], share=["null", "float", "double"]))
    rows = [{"count": 5, "share": None}, {"count": 2**40, "share": 0.1}]
    messages = judge.avro("wide", text, rows)
    found = read_avro(kafka, write(kafka, messages), apicurio.url)
    assert found.to_pylist() == judge.avro_rows("wide", messages)


FIRST = record("Order", id="int", name="string", gone={"type": "array", "items": "string"})
SECOND = record("Order", name="string", id="long", amount="float")
THIRD = {
    **record("Order"),
    "fields": [
        {"name": "id", "type": "double"},
        {"name": "customer", "type": ["null", "string"], "aliases": ["name"]},
        {"name": "amount", "type": "double", "default": -1.0},
        {"name": "tags", "type": {"type": "map", "values": "string"}, "default": {"from": "default"}},
    ],
}


@newest
def test_three_versions_of_a_schema_in_one_topic_are_resolved_to_the_last_one(
    kafka: ApacheKafka, apicurio: Apicurio, judge: Confluent
) -> None:
    subject = "orders-in-three-versions"
    texts = [json.dumps(each) for each in (FIRST, SECOND, THIRD)]
    rows: list[list[dict[str, Any]]] = [
        [{"id": 1, "name": "a", "gone": ["x", "y"]}, {"id": 2, "name": "b", "gone": []}],
        [{"id": 2**40, "name": "c", "amount": 2.5}],
        [{"id": 0.5, "customer": None, "amount": 1.0, "tags": {}}],
    ]
    first, second, third = (judge.avro(subject, text, given) for text, given in zip(texts, rows, strict=True))
    # The versions are not in order, and one is read again after another.
    messages = [*third, first[0], None, *second, first[1], *third]
    topic = write(kafka, messages)
    latest = registry_of(apicurio.url).latest(f"{subject}-value")
    assert (latest.version, json.loads(latest.text)) == (3, THIRD)
    found = read_avro(kafka, topic, apicurio.url, latest.text)
    judged = judge.avro_rows(subject, messages, latest.text)
    assert found.to_pylist() == as_read(judged, found.type)
    assert [row and row["id"] for row in judged] == [0.5, 1, None, 2**40, 2, 0.5]
    assert [row and row["amount"] for row in judged] == [1.0, -1.0, None, 2.5, -1.0, 1.0]


@newest
def test_references_between_schemas_are_resolved(
    kafka: ApacheKafka, apicurio: Apicurio, judge: Confluent
) -> None:
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
    messages = judge.avro("customers", schema, rows)
    found = read_avro(kafka, write(kafka, messages), apicurio.url)
    assert found.to_pylist() == judge.avro_rows("customers", messages) == rows


@newest
def test_a_guid_in_a_header_names_the_schema(kafka: ApacheKafka) -> None:
    with FakeRegistry() as fake, needed_confluent().Confluent(fake.url) as judge:
        text = json.dumps(record("Headed", id="long"))
        framed = read_frames(kafka, write(kafka, [judge.avro_with_header("headed", text, {"id": 7})]))
        [guid] = framed.guids
        found = registry_of(fake.url).schema_of_guid(guid)
        assert (found.format, json.loads(found.text)) == ("AVRO", json.loads(text))
        column = Decoder(avro.parse(found.text)).decode(framed.payloads).column
        assert column.to_pylist() == [{"id": 7}]


@newest
def test_messages_in_json_have_the_same_frame(
    kafka: ApacheKafka, apicurio: Apicurio, judge: Confluent
) -> None:
    text = '{"type": "object", "title": "T", "properties": {"größe": {"type": "integer"}}}'
    messages = judge.json("in-json", text, [{"größe": 5}, {}])
    framed = read_frames(kafka, write(kafka, messages))
    [schema_id] = set(framed.ids.tolist())
    found = registry_of(apicurio.url).schema(schema_id)
    assert (found.format, json.loads(found.text)) == ("JSON", json.loads(text))
    assert [json.loads(each) for each in payloads(framed)] == judge.json_rows("in-json", messages)


@newest
@pytest.mark.parametrize(
    ("name", "indexes"), [("First", (0,)), ("Order", (1,)), ("Order.Line", (1, 0)), ("Order.Other", (1, 1))]
)
def test_messages_in_protobuf_name_their_type(
    name: str, indexes: tuple[int, ...], kafka: ApacheKafka, apicurio: Apicurio, judge: Confluent
) -> None:
    message = protobuf_type(name)(id=5)
    framed = read_frames(kafka, write(kafka, judge.protobuf("in-protobuf", [message])), with_indexes=True)
    assert framed.indexes == (indexes,)
    assert payloads(framed) == [message.SerializeToString()]
    [schema_id] = framed.ids.tolist()
    assert registry_of(apicurio.url).schema(schema_id).format == "PROTOBUF"


def payloads(framed: Framed) -> list[bytes]:
    """Messages without their frames, as bytes."""
    assert not framed.faults.any()
    places = zip(framed.payloads.starts.tolist(), framed.payloads.stops.tolist(), strict=True)
    return [framed.payloads.data[start:stop].tobytes() for start, stop in places]


def protobuf_type(name: str) -> Any:
    """A type of a file with two types, of which the second one contains two more; all have the field id."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    first, order = (file.message_type.add(name=each) for each in ("First", "Order"))
    for each in (first, order, *(order.nested_type.add(name=inner) for inner in ("Line", "Other"))):
        each.field.add(name="id", number=1, type="TYPE_INT64", label="LABEL_OPTIONAL")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))
