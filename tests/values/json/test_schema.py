"""JSON schemas: types, references, hints of Kafka Connect, and the place of each mistake."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from spark_kafkawire.errors import OptionError
from spark_kafkawire.values.json.schema import TYPES_MAX, parse, schema_of
from tests.support.cases import for_each

CONNECT = "org.apache.kafka.connect.data."


def arrow(content: Any, references: dict[str, Any] | None = None) -> pa.DataType:
    texts = {name: json.dumps(item) for name, item in (references or {}).items()}
    return parse(json.dumps(content), texts).arrow_type


def of_a(content: Any, **more: Any) -> pa.DataType:
    """The type of a property."""
    return arrow({"type": "object", "properties": {"a": content}, **more}).field(0).type


def test_an_object_is_a_struct_and_what_may_be_missing_is_nullable() -> None:
    properties = {"a": {"type": "integer"}, "b": {"type": "number"}, "c": {"type": ["string", "null"]}}
    assert arrow({"type": "object", "properties": properties, "required": ["a", "c"]}) == pa.struct(
        [pa.field("a", pa.int64(), False), pa.field("b", pa.float64()), pa.field("c", pa.string())]
    )


@for_each(
    ("content", "expected"),
    [
        ({"type": "boolean"}, pa.bool_()),
        ({"type": "null"}, pa.null()),
        ({"type": "string", "format": "date-time"}, pa.string()),
        ({"type": "string", "contentEncoding": "base64"}, pa.binary()),
        ({"type": "integer", "connect.type": "int16"}, pa.int16()),
        ({"type": "number", "connect.type": "float32"}, pa.float32()),
        ({"type": "integer", "title": f"{CONNECT}Timestamp"}, pa.timestamp("us", tz="UTC")),
        ({"type": "integer", "title": f"{CONNECT}Date"}, pa.date32()),
        (
            {"type": "number", "title": f"{CONNECT}Decimal", "connect.parameters": {"scale": "2"}},
            pa.decimal128(38, 2),
        ),
        ({"type": "array", "items": {"type": "integer"}}, pa.list_(pa.field("element", pa.int64(), False))),
        ({"type": "array"}, pa.list_(pa.field("element", pa.string()))),
        ({"items": [{"type": "string"}, {"type": "integer"}]}, pa.list_(pa.field("element", pa.string()))),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            pa.map_(pa.string(), pa.field("value", pa.int64(), False)),
        ),
        ({"type": "object"}, pa.map_(pa.string(), pa.field("value", pa.string()))),
        ({"enum": ["x", "y", None]}, pa.string()),
        ({"const": 1}, pa.int64()),
        (True, pa.string()),
        ({"type": ["string", "integer"]}, pa.string()),
        ({"type": ["integer", "number"]}, pa.float64()),
        ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, pa.int64()),
        ({"anyOf": [{"type": "boolean"}, {"type": "integer"}]}, pa.string()),
        ({"allOf": [{"minLength": 1}, {"type": "string"}]}, pa.string()),
        ({"type": "integer", "oneOf": [{"minimum": 1}, {"maximum": -1}]}, pa.int64()),
    ],
    ids=str,
)
def test_each_type_has_a_column(content: Any, expected: pa.DataType) -> None:
    assert of_a(content) == expected


def test_null_in_one_of_several_types_makes_a_required_property_nullable() -> None:
    for content in (
        {"oneOf": [{"type": "null"}, {"type": "string"}]},
        {"type": ["null", "string"]},
        {"enum": ["a", None]},
    ):
        field = arrow({"properties": {"a": content, "b": {"enum": ["x"]}}, "required": ["a", "b"]})
        assert [item.nullable for item in field] == [True, False]


def test_objects_of_all_of_and_one_of_are_one_struct() -> None:
    base = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    added = {"properties": {"n": {"type": "string"}, "m": {"type": "string"}}, "required": ["n"]}
    assert arrow({"allOf": [base, added, {"required": ["m"]}]}) == pa.struct(
        [
            pa.field("id", pa.int64(), False),
            pa.field("n", pa.string(), False),
            pa.field("m", pa.string(), False),
        ]
    )
    assert arrow({"oneOf": [base, {**added, "required": ["id"]}]}) == pa.struct(
        [pa.field("id", pa.int64(), False), pa.field("n", pa.string()), pa.field("m", pa.string())]
    )
    assert arrow({**base, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}) == arrow(base)


def test_references_lead_inside_and_to_other_schemas() -> None:
    order = {
        "$id": "http://example.com/order.json",
        "properties": {
            "a": {"$ref": "#/definitions/x~1y%20z"},
            "b": {"$ref": "customer.json#/$defs/name"},
            "c": {"$ref": "http://example.com/customer.json"},
            "d": {"$ref": "#anchored"},
            "e": {"$ref": "inner"},
        },
        "definitions": {
            "x/y z": {"type": "integer"},
            "q": {"$anchor": "anchored", "type": "boolean"},
            "r": {"$id": "inner", "type": "number"},
        },
    }
    customer = {"properties": {"n": {"$ref": "#/$defs/name"}}, "$defs": {"name": {"type": "string"}}}
    for name in ("customer.json", "http://example.com/customer.json"):
        references = {name: customer}
        if name == "customer.json":
            order["properties"]["c"] = {"$ref": "customer.json"}  # type: ignore[index]
        else:
            order["properties"]["c"] = {"$ref": name}  # type: ignore[index]
        assert arrow(order, references) == pa.struct(
            {
                "a": pa.int64(),
                "b": pa.string(),
                "c": pa.struct({"n": pa.string()}),
                "d": pa.bool_(),
                "e": pa.float64(),
            }
        )


def test_a_schema_that_contains_itself_ends() -> None:
    tree = {
        "properties": {
            "v": {"type": "integer"},
            "next": {"$ref": "#"},
            "all": {"type": "array", "items": {"$ref": "#"}},
        }
    }
    of = arrow(tree)
    depth = 0
    while of.get_field_index("next") >= 0:
        of, depth = of.field("next").type, depth + 1
    assert (depth, [item.name for item in of]) == (3, ["v"])


def test_properties_have_connects_order() -> None:
    properties = {name: {"type": "string", "connect.index": index} for name, index in (("b", 1), ("a", 0))}
    assert [item.name for item in arrow({"properties": properties})] == ["a", "b"]


def test_a_name_is_the_title_or_the_id() -> None:
    assert parse('{"title": "T", "$id": "I"}').name == "T"
    assert parse('{"$id": "I"}').name == "I"
    assert parse("{}").name is None


@for_each(
    ("text", "message"),
    [
        ("{", "the JSON schema is not JSON"),
        ("[]", "neither an object nor true"),
        ("false", "the JSON schema: a type is an object or true, not false"),
        ('{"properties": {"a": {"type": "strin"}}}', r"the JSON schema\.a: 'strin' is no type of JSON"),
        ('{"properties": {"a": {"$ref": "b.json"}}}', r"\.a: the schema refers to 'b.json', .* add it"),
        ('{"properties": {"a": {"$ref": "#/definitions/b"}}}', r"\.a: the schema has no '#/definitions/b'"),
        ('{"properties": {"a": {"$ref": 1}}}', r"\.a: a \$ref is not a text"),
        ('{"properties": []}', "properties are not an object"),
        ('{"oneOf": {}}', "oneOf is not a list"),
        ('{"enum": 1}', "an enum is not a list"),
        ('{"allOf": [{"type": "string"}, {"type": "integer"}]}', "a value that is both string and integer"),
        ('{"$ref": "#"}', "contains itself and nothing else"),
        ('{"items": ' * 5000 + "{}" + "}" * 5000, "nested too deeply"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse(text)


def test_a_schema_that_doubles_with_each_level_is_refused() -> None:
    definitions: dict[str, Any] = {
        str(level): {"properties": {side: {"$ref": f"#/$defs/{level + 1}"} for side in "ab"}}
        for level in range(30)
    }
    definitions["30"] = {"type": "string"}
    with pytest.raises(OptionError, match=f"more than {TYPES_MAX} types"):
        parse(json.dumps({"$ref": "#/$defs/0", "$defs": definitions}))


def test_a_derived_schema_has_the_columns_types_except_for_dates_and_times() -> None:
    of = pa.struct(
        [
            pa.field("id", pa.int32(), False),
            pa.field("map", pa.map_(pa.string(), pa.field("value", pa.list_(pa.float32())))),
            pa.field("bytes", pa.binary()),
            pa.field("decimal", pa.decimal128(10, 2)),
            pa.field("inner", pa.struct({"a": pa.bool_()})),
        ]
    )
    schema = schema_of(of, "com.example.Order")
    assert schema.arrow_type.equals(of)
    assert schema.name == "com.example.Order"
    times = pa.struct({"date": pa.date32(), "time": pa.timestamp("us", tz="UTC")})
    assert schema_of(times, "T").arrow_type == pa.struct({"date": pa.string(), "time": pa.string()})
    with pytest.raises(
        OptionError, match=r"column T\.a: JSON has no values of INTERVAL DAY TO SECOND: cast it"
    ):
        schema_of(pa.struct({"a": pa.duration("us")}), "T")
