"""Avro schemas: what they become in Arrow, what is refused, and what is derived from a DataFrame."""

from __future__ import annotations

import copy
import json
import os
from dataclasses import replace
from random import Random
from typing import Any, Final

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError
from spark_kafkawire.values.avro.decoding import Decoder, new_field
from spark_kafkawire.values.avro.encoding import Encoder
from spark_kafkawire.values.avro.schema import Schema, parse, schema_of
from spark_kafkawire.values.payloads import payloads_of
from tests.support.cases import for_each
from tests.values.avro.drawn import readers, schemas


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
    for depth in (1, 2, 5):
        deeper = replace(schema, recursion_depth=depth)
        assert str(deeper.arrow_type).count("next") == depth - 1
    for depth in (0, -1):
        with pytest.raises(OptionError, match="record Node contains itself: set recursiveFieldMaxDepth to 1"):
            _ = replace(schema, recursion_depth=depth).arrow_type
    assert replace(parse('"int"'), recursion_depth=-1).arrow_type == pa.int32()


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
        ('{"type": "fixed", "name": "F", "size": -1}', "is not a size of a fixed"),
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
        (pa.struct({"a b": pa.int32()}), "rename the column"),
        (pa.map_(pa.int32(), pa.int32()), "are strings"),
        (pa.duration("us"), "no type for INTERVAL"),
    ],
)
def test_a_type_without_avro_is_refused(arrow: pa.DataType, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        schema_of(arrow)


# --- Fields that only a writer's schema has ---


def record(name: str, *fields: tuple[str, Any], **others: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields], **others}


def aliased(name: str, alias: str, of: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": of, "aliases": [alias]}]}


def listed(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def mapped(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


INNER = record("I", ("x", "int"))
WIDER = record("I", ("x", "int"), ("y", "string"))


@for_each(
    ("writer", "reader", "path"),
    [
        (record("R", ("a", "int")), record("R", ("a", "long")), None),
        (record("R", ("a", "int")), record("R", ("a", "int"), ("b", "int")), None),
        (record("R", ("a", "int"), ("b", "int")), record("R", ("a", "int")), "b"),
        (record("R", ("b", "int")), aliased("a", "b", "int"), None),
        (record("R", ("a", WIDER)), record("R", ("a", INNER)), "a.y"),
        (record("R", ("a", ["null", WIDER])), record("R", ("a", INNER)), "a.y"),
        (record("R", ("a", WIDER)), record("R", ("a", ["null", INNER])), "a.y"),
        (record("R", ("a", listed(WIDER))), record("R", ("a", listed(INNER))),
         "a.y"),
        (record("R", ("a", mapped(WIDER))), record("R", ("a", mapped(INNER))),
         "a.y"),
        (record("R", ("a", mapped(INNER))), record("R", ("a", mapped(INNER))),
         None),
        ("int", "string", None),
        (record("R", ("a", "int")), ["null", "int"], None),
        (record("R", ("next", ["null", "R"])), record("R", ("next", ["null", "R"])), None),
        (record("R", ("next", ["null", "R"]), ("z", "int")), record("R", ("next", ["null", "R"])), "z"),
    ],
)  # fmt: skip
def test_the_first_new_field_is_found(writer: Any, reader: Any, path: str | None) -> None:
    assert new_field(parse(json.dumps(writer)), parse(json.dumps(reader))) == path


# --- Damaged schemas: each is parsed, or refused with an error of options ---

MUTATIONS: Final = int(os.environ.get("KAFKAWIRE_AVRO_SCHEMA_MUTATIONS", "25"))
_JUNK: Final[list[Any]] = [
    *(None, True, 0, -1, 2**70, 1.5, "", "int", "null", "shop.T0", "T1", "\ud800", [], {}, ["null"], [[]]),
    *(["int", "int"], {"type": "int"}, {"type": {"type": "long"}}, {"type": "record"}, "map", "decimal"),
    *("timestamp-millis", "duration", {"type": "fixed", "name": "x", "size": 2**31 - 1}, {"type": []}),
]
_KEYS: Final = ("type", "name", "fields", "items", "values", "default", "aliases", "namespace", "logicalType")
_MORE_KEYS: Final = ("precision", "scale", "size", "symbols")


@pytest.mark.slow
@settings(max_examples=MUTATIONS, suppress_health_check=list(HealthCheck), database=None)
@given(st.data(), st.integers(0, 2**32))
def test_a_damaged_schema_is_parsed_or_refused(data: st.DataObject, seed: int) -> None:
    writer = data.draw(schemas())
    reader, random = data.draw(readers(writer)), Random(seed)
    for _ in range(20):
        pair = [parsed(damaged(item, random)) for item in (writer, reader)]
        if None not in pair:
            compiled(*pair)
        for item in pair:
            if item is not None:
                compiled(item, None)


def parsed(content: Any) -> Schema | None:
    try:
        schema = parse(json.dumps(content))
        _ = schema.arrow_type
    except OptionError:
        return None
    return schema


def compiled(writer: Any, reader: Any) -> None:
    try:
        decoder = Decoder(writer, reader)
        Encoder(reader or writer, decoder.arrow_type)
    except OptionError:
        return
    result = decoder.decode(payloads_of(pa.array([b"", b"\0\0", b"\2\2a\0", None], pa.binary())))
    result.column.validate(full=True)


def damaged(schema: Any, random: Random) -> Any:
    """The schema with one or two of its parts replaced, added or removed."""
    holder = {"type": copy.deepcopy(schema)}
    for _ in range(random.choice((0, 1, 1, 2))):
        part = random.choice(list(_parts(holder)))
        junk = copy.deepcopy(random.choice(_JUNK))
        if isinstance(part, list):
            location = random.randrange(len(part) + 1)
            part[location : location + random.randrange(2)] = [junk]
        elif random.random() < 0.3 and len(part) > 1:
            del part[random.choice(list(part))]
        else:
            part[random.choice([*part, *_KEYS, *_MORE_KEYS])] = junk
    return holder.get("type")


def _parts(content: Any) -> Any:
    if isinstance(content, dict | list):
        yield content
        for item in content.values() if isinstance(content, dict) else content:
            yield from _parts(item)
