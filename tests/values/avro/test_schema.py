"""Avro schemas: what they become in Arrow, what is refused, and what is derived from a DataFrame."""

from __future__ import annotations

import json
import pickle
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from spark_kafkawire.errors import OptionError
from spark_kafkawire.values.avro.schema import parse, schema_of
from tests.support.cases import for_each


@for_each(
    ("avro", "arrow"),
    [
        ("int", pa.int32()),
        ("long", pa.int64()),
        ({"type": "int", "logicalType": "date"}, pa.date32()),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("us", tz="UTC")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, pa.decimal128(9, 2)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 1, "scale": 2}, pa.binary()),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, pa.string()),
        ({"type": "array", "items": ["null", "int"]}, pa.list_(pa.field("element", pa.int32(), True))),
        ({"type": "map", "values": "int"}, pa.map_(pa.string(), pa.field("value", pa.int32(), False))),
        (["null", "string"], pa.string()),
        (["int", "long"], pa.int64()),
        (["int", "string", "null"], pa.struct({"member0": pa.int32(), "member1": pa.string()})),
    ],
)
def test_a_type_of_avro_is_the_type_that_spark_reads_it_as(avro: Any, arrow: pa.DataType) -> None:
    assert parse(json.dumps(avro)).arrow_type == arrow


def test_a_record_that_contains_itself_ends_at_the_depth_of_recursion() -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    node["fields"].append({"name": "id", "type": "int"})  # type: ignore[attr-defined]
    schema = parse(json.dumps(node))
    assert str(schema.arrow_type).count("next") == 2
    assert pickle.loads(pickle.dumps(schema)).arrow_type == schema.arrow_type
    for depth in (1, 2, 5):
        deeper = schema.to_depth(depth)
        assert str(deeper.arrow_type).count("next") == depth - 1
        assert pickle.loads(pickle.dumps(deeper)).arrow_type == deeper.arrow_type
    for depth in (0, -1):
        with pytest.raises(OptionError, match="record Node contains itself: set recursiveFieldMaxDepth to 1"):
            _ = schema.to_depth(depth).arrow_type
    assert parse('"int"').to_depth(-1).arrow_type == pa.int32()


def test_a_reference_defines_a_name() -> None:
    used = json.dumps({"type": "enum", "name": "shop.Colour", "symbols": ["RED"]})
    for name in ("shop.Colour", "colour.avsc"):
        assert (
            parse('{"type": "array", "items": "shop.Colour"}', {name: used}).arrow_type.value_type
            == pa.string()
        )


@for_each(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ('"Missing"', "'Missing' is not defined"),
        ("[]", "no branches"),
        ('["int", "int"]', "'int' twice"),
        ('{"type": "record", "name": "R"}', "key fields is missing"),
        ('{"type": "fixed", "name": "F", "size": -1}', "is no size of a fixed"),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 39}', "39 digits"),
        ("[" * 5000 + "]" * 5000, "nested too deeply"),
    ],
)
def test_a_mistake_is_named_in_one_line(text: str, message: str) -> None:
    with pytest.raises(OptionError) as error:
        _ = parse(text).arrow_type
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_schema_derived_from_a_type_is_avro_and_reads_as_that_type() -> None:
    item = pa.struct([pa.field("price", pa.decimal128(20, 2), True), pa.field("day", pa.date32(), False)])
    row = pa.struct(
        [
            pa.field("id", pa.int64(), False),
            pa.field("items", pa.list_(pa.field("element", item, True)), True),
            pa.field("tags", pa.map_(pa.string(), pa.field("value", pa.string(), True)), True),
            pa.field("at", pa.timestamp("us", tz="UTC"), True),
        ]
    )
    schema = schema_of(row, "shop.Order")
    fastavro.parse_schema(json.loads(schema.text))
    assert schema.arrow_type == row


@pytest.mark.parametrize(
    ("arrow", "message"),
    [
        (pa.struct({"a b": pa.int32()}), "rename it"),
        (pa.map_(pa.int32(), pa.int32()), "are strings"),
        (pa.duration("us"), "no type for duration"),
    ],
)
def test_a_type_without_avro_is_refused(arrow: pa.DataType, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        schema_of(arrow)
