"""Schemas of a write, as its options and a registry over real sockets give them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pytest

from spark_kafkawire.clients.writing.typed_values import ColumnEncoding
from spark_kafkawire.errors import OptionError, RegistryError, UnknownSchemaError
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.planner.write_schemas import column_encodings
from spark_kafkawire.registry.client import forget_registries
from spark_kafkawire.values.registry_frame import id_prefix
from tests.support.fake_registry import FakeRegistry, refusal

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
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as fake:
        yield fake
    forget_registries()


def encodings(
    registry: FakeRegistry | None, types: dict[str, pa.DataType] | None = None, /, **changes: str
) -> tuple[ColumnEncoding, ...]:
    raw = {"kafka.bootstrap.servers": "h:9092", "topic": "orders", "valueFormat": "avro", "retries": "0"}
    if registry is not None:
        raw["schema.registry.url"] = registry.url
    options = WriteOptions.parse({name: text for name, text in {**raw, **changes}.items() if text})
    return column_encodings(options.typed, options.topic, {"value": ORDERS} if types is None else types)


def only(found: tuple[ColumnEncoding, ...]) -> ColumnEncoding:
    [encoding] = found
    return encoding


def test_the_latest_version_of_the_topics_subject_is_the_default(registry: FakeRegistry) -> None:
    registry.add("orders-value", ORDER.replace('"note"', '"old"'))
    latest = registry.add("orders-value", ORDER)
    found = only(encodings(registry))
    assert (found.column, found.format, found.in_header) == ("value", "avro", False)
    assert found.frame == id_prefix(latest)
    assert json.loads(found.schema.text) == json.loads(ORDER)
    assert registry.requests == ["GET /subjects/orders-value/versions/latest"]


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
def test_options_name_another_version(registry: FakeRegistry, changes: dict[str, str], index: int) -> None:
    texts = [ORDER, ORDER.replace('"Order"', '"Order2"')]
    ids = [registry.add("orders-value", text) for text in texts]
    registry.add("other", texts[0])
    found = only(encodings(registry, None, **changes))
    assert found.frame == id_prefix(ids[index])
    assert not any(each.startswith("POST") for each in registry.requests)


def test_a_given_schema_is_looked_up_and_not_registered(registry: FakeRegistry) -> None:
    with pytest.raises(UnknownSchemaError, match="register it first, or set autoRegisterSchemas=true"):
        encodings(registry, valueSchema=ORDER)
    assert registry.subjects == {}
    forget_registries()
    number = registry.add("orders-value", ORDER)
    assert only(encodings(registry, valueSchema=ORDER)).frame == id_prefix(number)


def test_a_given_schema_is_registered_where_the_options_say_so(registry: FakeRegistry) -> None:
    found = only(encodings(registry, valueSchema=ORDER, autoRegisterSchemas="true"))
    assert registry.subjects == {"orders-value": [1]}
    assert found.frame == id_prefix(1)


SHOP: Final = """syntax = "proto3"; package shop; message First {}
message Outer { message Order { int64 id = 1; optional string note = 2; } }"""


@pytest.mark.parametrize(
    ("message", "frame"),
    [("Outer.Order", b"\x04\x02\0"), ("shop.Outer.Order", b"\x04\x02\0"), ("First", b"\0"), ("", b"\0")],
)
def test_a_message_type_of_protobuf_is_named_in_the_frame(
    registry: FakeRegistry, message: str, frame: bytes
) -> None:
    number = registry.add("orders-value", SHOP, "PROTOBUF")
    columns = {"value": ORDERS if "Order" in message else pa.struct([])}
    for changes in ({}, {"valueSchema": SHOP}, {"valueSchemaVersion": "1"}):
        found = only(encodings(registry, columns, valueFormat="protobuf", valueMessage=message, **changes))
        assert found.frame == id_prefix(number) + frame
        assert found.schema.message == (message or None)


def test_a_message_type_gives_the_subject_and_the_name_of_a_derived_schema(registry: FakeRegistry) -> None:
    options = {"valueFormat": "protobuf", "subjectNameStrategy": "RecordName", "autoRegisterSchemas": "true"}
    encodings(registry, None, **options, valueSchema=SHOP, valueMessage="Outer.Order")
    assert list(registry.subjects) == ["shop.Outer.Order"]
    found = only(encodings(registry, None, **options, valueMessage="new.Order"))
    assert list(registry.subjects) == ["shop.Outer.Order", "new.Order"]
    assert found.frame == id_prefix(2) + b"\0"
    found = only(
        encodings(
            registry, None, **{**options, "autoRegisterSchemas": "false"}, valueMessage="shop.Outer.Order"
        )
    )
    assert found.frame == id_prefix(1) + b"\x04\x02\0"


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [("TopicName", "orders-value"), ("RecordName", "shop.Order"), ("TopicRecordName", "orders-shop.Order")],
)
def test_the_subject_follows_the_strategy(registry: FakeRegistry, strategy: str, subject: str) -> None:
    encodings(registry, valueSchema=ORDER, autoRegisterSchemas="true", subjectNameStrategy=strategy)
    assert list(registry.subjects) == [subject]


def test_a_schema_that_follows_from_the_columns_is_registered(registry: FakeRegistry) -> None:
    found = only(encodings(registry, autoRegisterSchemas="true"))
    [body] = registry.schemas.values()
    assert body["schema"] == found.schema.text
    fields = [(each["name"], each["type"]) for each in json.loads(body["schema"])["fields"]]
    assert fields == [("id", "long"), ("note", ["null", "string"])]


def test_an_incompatible_schema_is_the_registrys_own_error(registry: FakeRegistry) -> None:
    registry.faults.append(refusal(409, 409, "Schema being registered is incompatible: READER_FIELD_MISSING"))
    with pytest.raises(RegistryError, match="Schema being registered is incompatible: READER_FIELD_MISSING"):
        encodings(registry, valueSchema=ORDER, autoRegisterSchemas="true")


@pytest.mark.parametrize("changes", [{"valueSchema": ORDER}, {}])
def test_messages_without_ids_need_no_registry(changes: dict[str, str]) -> None:
    found = only(encodings(None, None, schemaIdFrom="none", **changes))
    assert (found.frame, found.in_header) == (b"", False)


def test_ids_go_into_headers_where_the_options_say_so(registry: FakeRegistry) -> None:
    number = registry.add("orders-value", ORDER)
    found = only(encodings(registry, schemaIdFrom="header"))
    assert (found.frame, found.in_header) == (id_prefix(number), True)


def test_keys_have_a_subject_of_their_own(registry: FakeRegistry) -> None:
    registry.add("orders-key", '"string"')
    registry.add("orders-value", ORDER)
    found = encodings(registry, {"key": pa.string(), "value": ORDERS}, keyFormat="avro")
    assert [(each.column, each.frame) for each in found] == [("key", id_prefix(1)), ("value", id_prefix(2))]


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
            "RecordName needs a schema that has a name; set valueSubject",
        ),
    ],
)
def test_what_does_not_fit_is_one_line_before_rows_are_sent(
    registry: FakeRegistry, types: dict[str, Any], changes: dict[str, str], message: str
) -> None:
    registry.add("orders-value", ORDER)
    with pytest.raises(OptionError, match=re.escape(message)) as error:
        encodings(registry, types, **changes)
    assert "\n" not in str(error.value)


def test_a_schema_of_another_format_is_refused(registry: FakeRegistry) -> None:
    registry.add("orders-value", '{"type": "object"}', "JSON")
    with pytest.raises(OptionError, match=r"valueFormat: avro is set, and version 1 .* is JSON"):
        encodings(registry)


def test_a_subject_without_versions_says_what_to_do(registry: FakeRegistry) -> None:
    with pytest.raises(UnknownSchemaError, match="register a schema first, give valueSchema, or set auto"):
        encodings(registry)
