"""Schemas that a read fixes: which requests find them, and what cannot be one."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from spark_kafkawire.errors import KafkaWireError, OptionError, UnknownSchemaError
from spark_kafkawire.options import ReadOptions, StreamOptions
from spark_kafkawire.planner.schemas import check_schemas, fixed_schemas, schema_in
from spark_kafkawire.registry.client import forget_registries
from spark_kafkawire.values.formats import FixedSchema
from tests.support.avro_messages import V1, V2
from tests.support.fake_registry import FakeRegistry


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    """``orders-value`` has two versions, ids 1 and 2, and ``a:b`` a long, id 3."""
    with FakeRegistry() as running:
        for subject, text in (("orders-value", V1), ("orders-value", V2), ("a:b", '"long"')):
            running.add(subject, text)
        yield running
    forget_registries()


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
    found = fixed_schemas(options_of(registry, **changes))
    assert found == {"value": FixedSchema(text, (), schema_id, origin)}
    assert registry.requests == [request_]
    assert pickle.loads(pickle.dumps(found)) == found


def test_the_references_of_a_schema_travel_with_it(registry: FakeRegistry) -> None:
    outer = '{"type": "array", "items": "Order"}'
    registry.add("lists", outer, references=(("Order", "orders-value", 1),))
    options = options_of(registry, valueSubject="lists")
    [fixed] = fixed_schemas(options).values()
    assert fixed.references == (("Order", V1),)
    assert options.typed is not None
    assert "name: string" in str(schema_in(options.typed.value, fixed).arrow_type)


def test_a_schema_of_the_options_needs_no_request(registry: FakeRegistry) -> None:
    options = options_of(registry, valueSchema=V1, keyFormat="avro", keySchema='"int"')
    assert fixed_schemas(options) == {"key": FixedSchema('"int"'), "value": FixedSchema(V1)}
    assert fixed_schemas(options, ["value", "offset"]) == {"value": FixedSchema(V1)}
    assert fixed_schemas(options_of(None, valueFormat="string")) == {}
    assert fixed_schemas(options_of(None, valueFormat=None)) == {}
    assert registry.requests == []


def test_columns_of_a_user_need_a_schema_only_if_the_options_name_one(registry: FakeRegistry) -> None:
    assert fixed_schemas(options_of(registry), ["value"]) == {}
    assert registry.requests == []
    assert fixed_schemas(options_of(registry, valueSchemaVersion="latest"), ["value"]).keys() == {"value"}
    assert fixed_schemas(options_of(registry, schemaIdFrom="none"), ["value"]).keys() == {"value"}
    assert fixed_schemas(options_of(registry, schemaIdFrom="none"), ["offset"]) == {}


def test_a_message_type_of_protobuf_travels_with_its_schema(registry: FakeRegistry) -> None:
    text = 'syntax = "proto3"; package a; message B { int32 b = 1; } message C { string c = 1; }'
    registry.add("a.C", text, "PROTOBUF")
    options = options_of(
        registry, valueFormat="protobuf", valueMessage="a.C", subjectNameStrategy="RecordName"
    )
    found = fixed_schemas(options, ["value"])
    assert found == {"value": FixedSchema(text, (), 4, "version 1 of subject 'a.C'", "a.C")}
    assert options.typed is not None
    again = schema_in(options.typed.value, pickle.loads(pickle.dumps(found))["value"])
    assert (again.name, str(again.arrow_type)) == ("a.C", "struct<c: string>")
    given = options_of(None, valueFormat="protobuf", valueMessage="C", schemaIdFrom="none", valueSchema=text)
    assert fixed_schemas(given) == {"value": FixedSchema(text, message="C")}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"subscribe": "a,b"}, "option valueSubject: 2 topics have no one schema by subjectNameStrategy; set "
         "the subject, or give valueSchema, or name the fields with .schema()"),
        ({"subscribe": None, "subscribePattern": "o.*", "subjectNameStrategy": "TopicRecordName"},
         "option valueSubject: the topics of a pattern have no one schema by subjectNameStrategy; set the "
         "subject, or give valueSchema, or name the fields with .schema()"),
        ({"subscribe": "a,b", "subjectNameStrategy": "RecordName"}, "option subjectNameStrategy: RecordName "
         "needs a schema that has a name; set valueSubject"),
    ],
)  # fmt: skip
def test_a_subject_that_is_not_known_is_asked_for(
    registry: FakeRegistry, changes: dict[str, str | None], message: str
) -> None:
    with pytest.raises(OptionError) as error:
        fixed_schemas(options_of(registry, **changes))
    assert str(error.value) == message


def test_json_needs_a_schema_only_for_its_columns(registry: FakeRegistry) -> None:
    plain = options_of(None, valueFormat="json", schemaIdFrom="none")
    assert fixed_schemas(plain, ["value"]) == {}
    with pytest.raises(OptionError) as error:
        fixed_schemas(plain)
    assert str(error.value) == (
        "option valueFormat: json needs a schema: name the fields with .schema(), or set valueSchema, or "
        "schema.registry.url"
    )
    registry.add("j", '{"type": "object", "properties": {"a": {"type": "integer"}}}', "JSON")
    options = options_of(registry, valueFormat="json", valueSubject="j")
    assert options.typed is not None
    found = schema_in(options.typed.value, fixed_schemas(options)["value"])
    assert str(found.arrow_type) == "struct<a: int64>"


@pytest.mark.parametrize("version", ["latest", "3", "id:9"])
def test_a_schema_that_is_not_registered_says_what_to_set(registry: FakeRegistry, version: str) -> None:
    subject = "nobody" if version == "latest" else "orders-value"
    with pytest.raises(UnknownSchemaError) as error:
        fixed_schemas(options_of(registry, valueSubject=subject, valueSchemaVersion=version))
    assert str(error.value).startswith("schema registry: ")
    assert str(error.value).endswith("; set valueSubject or valueSchemaVersion, or give valueSchema")


def test_a_schema_of_another_format_is_refused(registry: FakeRegistry) -> None:
    registry.add("proto", 'syntax = "proto3";', "PROTOBUF")
    with pytest.raises(OptionError) as error:
        fixed_schemas(options_of(registry, valueSubject="proto"))
    assert str(error.value) == (
        "option valueFormat: avro is set, and version 1 of subject 'proto' in the schema registry is PROTOBUF"
    )


def test_a_text_that_is_no_schema_names_its_origin(registry: FakeRegistry) -> None:
    registry.add("broken", '{"type": "record", "name": "R", "fields": [{"name": "f", "type": "strin"}]}')
    for changes, place in (
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
            schema_in(options.typed.value, fixed_schemas(options)["value"])
        assert str(error.value).startswith(place)


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
    check_schemas(moving.typed, fixed_schemas(moving), ["value"])
    check_schemas(moving.typed, {}, ["offset"])
    options = StreamOptions.parse({**given, **changes}).read
    assert options.typed is not None
    with pytest.raises(OptionError) as error:
        check_schemas(options.typed, fixed_schemas(options, named), ["value"])
    assert str(error.value) == (
        "option avroSchemaEvolutionMode: restart is for the latest version of a subject; leave valueSchema, "
        "valueSchemaVersion and .schema() out"
    )
