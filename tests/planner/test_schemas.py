"""Schemas of reads and of writes, as options and a registry over real sockets give them."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pytest

from spark_kafkawire.clients.writing.typed_values import ColumnEncoding
from spark_kafkawire.errors import (
    KafkaWireError,
    OptionError,
    RegistryError,
    UnknownSchemaError,
)
from spark_kafkawire.kept import forget_all
from spark_kafkawire.options import ReadOptions, StreamOptions, WriteOptions
from spark_kafkawire.planner.schemas import check_schemas, fix_schemas, schema_in
from spark_kafkawire.planner.write_schemas import column_encodings
from spark_kafkawire.values.formats import FixedSchema
from spark_kafkawire.values.registry_frame import id_prefix
from tests.support.avro_messages import V1, V2
from tests.support.fake_registry import FakeRegistry, refusal


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    """``orders-value`` has two versions, ids 1 and 2, and ``a:b`` a long, id 3."""
    with FakeRegistry() as running:
        for subject, text in (("orders-value", V1), ("orders-value", V2), ("a:b", '"long"')):
            running.add(subject, text)
        yield running


def options_of(registry: FakeRegistry | None, **changes: str | None) -> ReadOptions:
    url = None if registry is None else registry.url
    given = {
        "kafka.bootstrap.servers": "h:9092",
        "subscribe": "orders",
        "retries": "0",
        "valueFormat": "avro",
    }
    both: dict[str, str | None] = {**given, "schema.registry.url": url, **changes}
    return ReadOptions.parse({name: value for name, value in both.items() if value is not None})


@pytest.mark.parametrize(
    ("changes", "text", "schema_id", "origin", "request_"),
    [
        ({}, V2, 2, "version 2 of subject 'orders-value'", "GET /subjects/orders-value/versions/latest"),
        (
            {"subscribe": None, "assign": '{"orders":[0,1]}', "valueSchemaVersion": "1"},
            V1,
            1,
            "version 1 of subject 'orders-value'",
            "GET /subjects/orders-value/versions/1",
        ),
        (
            {"subscribe": "a,b", "valueSubject": "a:b"},
            '"long"',
            3,
            "version 1 of subject 'a:b'",
            "GET /subjects/a%3Ab/versions/latest",
        ),
        ({"valueSchemaVersion": "id:1"}, V1, 1, "schema id 1", "GET /schemas/ids/1"),
        (
            {"subscribePattern": "o.*", "subscribe": None, "valueSchemaVersion": "ID:3", "valueSubject": "x"},
            '"long"',
            3,
            "schema id 3",
            "GET /schemas/ids/3",
        ),
    ],
)
def test_a_version_is_requested_once_and_travels_as_text(
    registry: FakeRegistry,
    changes: dict[str, str | None],
    text: str,
    schema_id: int,
    origin: str,
    request_: str,
) -> None:
    result = fix_schemas(options_of(registry, **changes))
    assert result == {"value": FixedSchema(text, (), schema_id, origin)}
    assert registry.requests == [request_]
    assert pickle.loads(pickle.dumps(result)) == result


def test_the_references_of_a_schema_travel_with_it(registry: FakeRegistry) -> None:
    outer = '{"type": "array", "items": "Order"}'
    registry.add("lists", outer, references=(("Order", "orders-value", 1),))
    options = options_of(registry, valueSubject="lists")
    [fixed] = fix_schemas(options).values()
    assert fixed.references == (("Order", V1),)
    assert options.typed is not None
    assert "name: string" in str(schema_in(options.typed.value, fixed).arrow_type)


def test_a_schema_of_the_options_needs_no_request(registry: FakeRegistry) -> None:
    options = options_of(registry, valueSchema=V1, keyFormat="avro", keySchema='"int"')
    assert fix_schemas(options) == {"key": FixedSchema('"int"'), "value": FixedSchema(V1)}
    assert fix_schemas(options, ["value", "offset"]) == {"value": FixedSchema(V1)}
    assert fix_schemas(options_of(None, valueFormat="string")) == {}
    assert fix_schemas(options_of(None, valueFormat=None)) == {}
    assert registry.requests == []


def test_columns_of_a_user_need_a_schema_only_if_the_options_name_one(registry: FakeRegistry) -> None:
    assert fix_schemas(options_of(registry), ["value"]) == {}
    assert registry.requests == []
    assert fix_schemas(options_of(registry, valueSchemaVersion="latest"), ["value"]).keys() == {"value"}
    assert fix_schemas(options_of(registry, schemaIdFrom="none"), ["value"]).keys() == {"value"}
    assert fix_schemas(options_of(registry, schemaIdFrom="none"), ["offset"]) == {}


def test_a_message_type_of_protobuf_travels_with_its_schema(registry: FakeRegistry) -> None:
    text = 'syntax = "proto3"; package a; message B { int32 b = 1; } message C { string c = 1; }'
    registry.add("a.C", text, "PROTOBUF")
    options = options_of(
        registry, valueFormat="protobuf", valueMessage="a.C", subjectNameStrategy="RecordName"
    )
    result = fix_schemas(options, ["value"])
    assert result == {"value": FixedSchema(text, (), 4, "version 1 of subject 'a.C'", "a.C")}
    assert options.typed is not None
    again = schema_in(options.typed.value, pickle.loads(pickle.dumps(result))["value"])
    assert (again.name, str(again.arrow_type)) == ("a.C", "struct<c: string>")
    given = options_of(None, valueFormat="protobuf", valueMessage="C", schemaIdFrom="none", valueSchema=text)
    assert fix_schemas(given) == {"value": FixedSchema(text, message="C")}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"subscribe": "a,b"}, "option valueSubject: 2 topics have no one schema by subjectNameStrategy; set "
         "the subject, or give valueSchema, or name the fields with .schema()"),
        ({"subscribe": None, "subscribePattern": "o.*", "subjectNameStrategy": "TopicRecordName"},
         "option valueSubject: the topics of a pattern have no one schema by subjectNameStrategy; set the "
         "subject, or give valueSchema, or name the fields with .schema()"),
        ({"subscribe": "a,b", "subjectNameStrategy": "RecordName"}, "option subjectNameStrategy: RecordName "
         "needs a schema that has a name, and this one has none; set valueSubject"),
    ],
)  # fmt: skip
def test_a_subject_that_is_not_known_is_asked_for(
    registry: FakeRegistry, changes: dict[str, str | None], message: str
) -> None:
    with pytest.raises(OptionError) as error:
        fix_schemas(options_of(registry, **changes))
    assert str(error.value) == message


def test_json_needs_a_schema_only_for_its_columns(registry: FakeRegistry) -> None:
    plain = options_of(None, valueFormat="json", schemaIdFrom="none")
    assert fix_schemas(plain, ["value"]) == {}
    with pytest.raises(OptionError) as error:
        fix_schemas(plain)
    assert str(error.value) == (
        "option valueFormat: json needs a schema: name the fields with .schema(), or set valueSchema, or "
        "schema.registry.url"
    )
    registry.add("j", '{"type": "object", "properties": {"a": {"type": "integer"}}}', "JSON")
    options = options_of(registry, valueFormat="json", valueSubject="j")
    assert options.typed is not None
    result = schema_in(options.typed.value, fix_schemas(options)["value"])
    assert str(result.arrow_type) == "struct<a: int64>"


@pytest.mark.parametrize("version", ["latest", "3", "id:9"])
def test_a_schema_that_is_not_registered_says_what_to_set(registry: FakeRegistry, version: str) -> None:
    subject = "nobody" if version == "latest" else "orders-value"
    with pytest.raises(UnknownSchemaError) as error:
        fix_schemas(options_of(registry, valueSubject=subject, valueSchemaVersion=version))
    assert str(error.value).startswith("schema registry: ")
    assert str(error.value).endswith("; set valueSubject or valueSchemaVersion, or give valueSchema")


def test_a_schema_of_another_format_is_refused(registry: FakeRegistry) -> None:
    registry.add("proto", 'syntax = "proto3";', "PROTOBUF")
    with pytest.raises(OptionError) as error:
        fix_schemas(options_of(registry, valueSubject="proto"))
    assert str(error.value) == (
        "option valueFormat: avro is set, and version 1 of subject 'proto' in the schema registry is "
        "PROTOBUF; set that format"
    )


def test_a_text_that_is_no_schema_names_its_origin(registry: FakeRegistry) -> None:
    registry.add("broken", '{"type": "record", "name": "R", "fields": [{"name": "f", "type": "strin"}]}')
    for changes, location in (
        ({"valueSubject": "broken"}, "option valueSchemaVersion: version 1 of subject 'broken': R.f: "),
        ({"valueSchema": '{"type": "enum"}'}, "option valueSchema: the Avro schema: the key name is missing"),
        (
            {"valueSchema": '{"type": "bytes", "logicalType": "decimal", "precision": 39}'},
            "option valueSchema: ",
        ),
    ):
        options = options_of(registry, **changes)
        assert options.typed is not None
        with pytest.raises(KafkaWireError) as error:
            schema_in(options.typed.value, fix_schemas(options)["value"])
        assert str(error.value).startswith(location)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"valueSchema": V1}, None),
        ({"valueSchemaVersion": "1"}, None),
        ({"valueSchemaVersion": "id:1"}, None),
        ({}, ["value"]),
    ],
)
def test_a_restart_needs_a_version_that_moves(
    registry: FakeRegistry, changes: dict[str, str], named: list[str] | None
) -> None:
    given = {"kafka.bootstrap.servers": "h:9092", "subscribe": "orders", "valueFormat": "avro"}
    given |= {"schema.registry.url": registry.url, "avroSchemaEvolutionMode": "restart"}
    moving = StreamOptions.parse(given).read
    assert moving.typed is not None
    check_schemas(moving.typed, fix_schemas(moving), ["value"])
    check_schemas(moving.typed, {}, ["offset"])
    options = StreamOptions.parse({**given, **changes}).read
    assert options.typed is not None
    with pytest.raises(OptionError) as error:
        check_schemas(options.typed, fix_schemas(options, named), ["value"])
    assert str(error.value) == (
        "option avroSchemaEvolutionMode: restart is for the latest version of a subject; leave valueSchema, "
        "valueSchemaVersion and .schema() out"
    )


ORDER: Final = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
    }
)
ORDERS: Final = pa.struct([pa.field("id", pa.int64(), False), pa.field("note", pa.string())])


@pytest.fixture
def empty_registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as fake:
        yield fake


def encodings(
    empty_registry: FakeRegistry | None, types: dict[str, pa.DataType] | None = None, /, **changes: str
) -> tuple[ColumnEncoding, ...]:
    raw = {"kafka.bootstrap.servers": "h:9092", "topic": "orders", "valueFormat": "avro", "retries": "0"}
    if empty_registry is not None:
        raw["schema.registry.url"] = empty_registry.url
    options = WriteOptions.parse({name: text for name, text in {**raw, **changes}.items() if text})
    return column_encodings(options.typed, options.topic, {"value": ORDERS} if types is None else types)


def only(found: tuple[ColumnEncoding, ...]) -> ColumnEncoding:
    [encoding] = found
    return encoding


def test_the_latest_version_of_the_topics_subject_is_the_default(empty_registry: FakeRegistry) -> None:
    empty_registry.add("orders-value", ORDER.replace('"note"', '"old"'))
    latest = empty_registry.add("orders-value", ORDER)
    result = only(encodings(empty_registry))
    assert (result.column, result.format, result.in_header) == ("value", "avro", False)
    assert result.frame == id_prefix(latest)
    assert json.loads(result.schema.text) == json.loads(ORDER)
    assert empty_registry.requests == ["GET /subjects/orders-value/versions/latest"]


@pytest.mark.parametrize(
    ("changes", "index"),
    [
        ({"valueSchemaVersion": "1"}, 0),
        ({"valueSchemaVersion": "latest", "autoRegisterSchemas": "true"}, 1),
        ({"valueSchemaVersion": "id:1"}, 0),
        ({"valueSubject": "other"}, 0),
        ({"valueSubject": "other", "topic": ""}, 0),
    ],
)
def test_options_name_another_version(
    empty_registry: FakeRegistry, changes: dict[str, str], index: int
) -> None:
    texts = [ORDER, ORDER.replace('"Order"', '"Order2"')]
    ids = [empty_registry.add("orders-value", text) for text in texts]
    empty_registry.add("other", texts[0])
    result = only(encodings(empty_registry, None, **changes))
    assert result.frame == id_prefix(ids[index])
    assert not any(item.startswith("POST") for item in empty_registry.requests)


def test_a_given_schema_is_looked_up_and_not_registered(empty_registry: FakeRegistry) -> None:
    with pytest.raises(UnknownSchemaError, match="register it first, or set autoRegisterSchemas=true"):
        encodings(empty_registry, valueSchema=ORDER)
    assert empty_registry.subjects == {}
    forget_all()
    number = empty_registry.add("orders-value", ORDER)
    assert only(encodings(empty_registry, valueSchema=ORDER)).frame == id_prefix(number)


def test_a_given_schema_is_registered_where_the_options_say_so(empty_registry: FakeRegistry) -> None:
    result = only(encodings(empty_registry, valueSchema=ORDER, autoRegisterSchemas="true"))
    assert empty_registry.subjects == {"orders-value": [1]}
    assert result.frame == id_prefix(1)


SHOP: Final = """syntax = "proto3"; package shop; message First {}
message Outer { message Order { int64 id = 1; optional string note = 2; } }"""


@pytest.mark.parametrize(
    ("message", "frame"),
    [("Outer.Order", b"\x04\x02\0"), ("shop.Outer.Order", b"\x04\x02\0"), ("First", b"\0"), ("", b"\0")],
)
def test_a_message_type_of_protobuf_is_named_in_the_frame(
    empty_registry: FakeRegistry, message: str, frame: bytes
) -> None:
    number = empty_registry.add("orders-value", SHOP, "PROTOBUF")
    columns = {"value": ORDERS if "Order" in message else pa.struct([])}
    for changes in ({}, {"valueSchema": SHOP}, {"valueSchemaVersion": "1"}):
        result = only(
            encodings(empty_registry, columns, valueFormat="protobuf", valueMessage=message, **changes)
        )
        assert result.frame == id_prefix(number) + frame
        assert result.schema.message == (message or None)


def test_a_message_type_gives_the_subject_and_the_name_of_a_derived_schema(
    empty_registry: FakeRegistry,
) -> None:
    options = {"valueFormat": "protobuf", "subjectNameStrategy": "RecordName", "autoRegisterSchemas": "true"}
    encodings(empty_registry, None, **options, valueSchema=SHOP, valueMessage="Outer.Order")
    assert list(empty_registry.subjects) == ["shop.Outer.Order"]
    result = only(encodings(empty_registry, None, **options, valueMessage="new.Order"))
    assert list(empty_registry.subjects) == ["shop.Outer.Order", "new.Order"]
    assert result.frame == id_prefix(2) + b"\0"
    result = only(
        encodings(
            empty_registry,
            None,
            **{**options, "autoRegisterSchemas": "false"},
            valueMessage="shop.Outer.Order",
        )
    )
    assert result.frame == id_prefix(1) + b"\x04\x02\0"


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [("TopicName", "orders-value"), ("RecordName", "shop.Order"), ("TopicRecordName", "orders-shop.Order")],
)
def test_the_subject_follows_the_strategy(empty_registry: FakeRegistry, strategy: str, subject: str) -> None:
    encodings(empty_registry, valueSchema=ORDER, autoRegisterSchemas="true", subjectNameStrategy=strategy)
    assert list(empty_registry.subjects) == [subject]


def test_a_schema_that_follows_from_the_columns_is_registered(empty_registry: FakeRegistry) -> None:
    result = only(encodings(empty_registry, autoRegisterSchemas="true"))
    [body] = empty_registry.schemas.values()
    assert body["schema"] == result.schema.text
    fields = [(item["name"], item["type"]) for item in json.loads(body["schema"])["fields"]]
    assert fields == [("id", "long"), ("note", ["null", "string"])]


def test_an_incompatible_schema_is_the_registrys_own_error(empty_registry: FakeRegistry) -> None:
    empty_registry.faults.append(
        refusal(409, 409, "Schema being registered is incompatible: READER_FIELD_MISSING")
    )
    with pytest.raises(RegistryError, match="Schema being registered is incompatible: READER_FIELD_MISSING"):
        encodings(empty_registry, valueSchema=ORDER, autoRegisterSchemas="true")


@pytest.mark.parametrize("changes", [{"valueSchema": ORDER}, {}])
def test_messages_without_ids_need_no_registry(changes: dict[str, str]) -> None:
    result = only(encodings(None, None, schemaIdFrom="none", **changes))
    assert (result.frame, result.in_header) == (b"", False)


def test_ids_go_into_headers_where_the_options_say_so(empty_registry: FakeRegistry) -> None:
    number = empty_registry.add("orders-value", ORDER)
    result = only(encodings(empty_registry, schemaIdFrom="header"))
    assert (result.frame, result.in_header) == (id_prefix(number), True)


def test_keys_have_a_subject_of_their_own(empty_registry: FakeRegistry) -> None:
    empty_registry.add("orders-key", '"string"')
    empty_registry.add("orders-value", ORDER)
    result = encodings(empty_registry, {"key": pa.string(), "value": ORDERS}, keyFormat="avro")
    assert [(item.column, item.frame) for item in result] == [("key", id_prefix(1)), ("value", id_prefix(2))]


@pytest.mark.parametrize(
    ("types", "changes", "message"),
    [
        ({"value": ORDERS}, {"keyFormat": "avro"}, "option keyFormat: the rows have no column 'key'"),
        ({"value": ORDERS}, {"topic": ""}, "option valueSubject: rows of several topics have no one subject"),
        ({"value": pa.struct([("id", pa.string())])}, {}, "schema: column 'value' with version 1 of subject"),
        (
            {"value": ORDERS},
            {"valueFormat": "protobuf", "valueSchema": SHOP, "valueMessage": "Order"},
            "option valueSchema: the Protobuf schema has no message 'Order'; it has 'shop.First', "
            "'shop.Outer', 'shop.Outer.Order'",
        ),
        ({"value": ORDERS}, {"valueSchema": "{"}, "option valueSchema: the Avro schema is not JSON"),
        (
            {"value": ORDERS},
            {"subjectNameStrategy": "RecordName"},
            "RecordName needs a schema that has a name, and this one has none; set valueSubject",
        ),
    ],
)
def test_what_does_not_fit_is_one_line_before_rows_are_sent(
    empty_registry: FakeRegistry, types: dict[str, Any], changes: dict[str, str], message: str
) -> None:
    empty_registry.add("orders-value", ORDER)
    with pytest.raises(OptionError, match=re.escape(message)) as error:
        encodings(empty_registry, types, **changes)
    assert "\n" not in str(error.value)


def test_a_schema_of_another_format_is_refused_for_a_write(empty_registry: FakeRegistry) -> None:
    empty_registry.add("orders-value", '{"type": "object"}', "JSON")
    with pytest.raises(OptionError, match=r"valueFormat: avro is set, and version 1 .* is JSON"):
        encodings(empty_registry)


def test_a_subject_without_versions_says_what_to_do(empty_registry: FakeRegistry) -> None:
    with pytest.raises(UnknownSchemaError, match="register a schema first, give valueSchema, or set auto"):
        encodings(empty_registry)
