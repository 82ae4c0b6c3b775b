"""Encoded Avro: fastavro reads the values back, and so do we; what does not fit names its field and row."""

from __future__ import annotations

import io
import json
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError, RowError
from spark_kafkawire.records import compiler
from spark_kafkawire.values.avro.decoding import Decoder
from spark_kafkawire.values.avro.encoding import Encoder
from spark_kafkawire.values.avro.schema import Schema, parse, schema_of
from spark_kafkawire.values.payloads import payloads_of
from tests.support.cases import for_each
from tests.support.kernels import interpreted_kernels
from tests.values.avro.drawn import ArrowForm, Values, schemas


def read_back(schema: Any, message: bytes) -> Any:
    source = io.BytesIO(message)
    value = fastavro.schemaless_reader(source, fastavro.parse_schema(json.loads(json.dumps(schema))))
    assert not source.read()
    return value


def encoded(schema: Schema, column: pa.Array) -> pa.BinaryArray:
    messages = Encoder(schema, column.type).encode(column)
    messages.validate(full=True)
    assert messages.type == pa.binary()
    return messages


def encoded_or_too_deep(schema: Schema, column: pa.Array) -> pa.BinaryArray:
    try:
        return encoded(schema, column)
    except RowError as error:
        # A required field of a record that contains itself more often than its column.
        if "contains itself too often" in str(error):
            reject()
        raise


def record(*fields: dict[str, Any]) -> Any:
    return {"type": "record", "name": "R", "fields": list(fields)}


@given(schemas(), st.integers(0, 2**32))
def test_fastavro_reads_what_is_encoded(schema: Any, seed: int) -> None:
    assert compiler.load()
    values, form = Values(schema, Random(seed)), ArrowForm(schema, parse(json.dumps(schema)).arrow_type)
    rows = [form.of(values.next()) for _ in range(5)]
    column = pa.array([*rows, None, *rows], form.arrow_type)
    messages = encoded_or_too_deep(parse(json.dumps(schema)), column)
    with interpreted_kernels():
        assert encoded(parse(json.dumps(schema)), column) == messages
    assert messages[:5] == messages[6:]
    assert messages[5].as_py() is None
    for message, row in zip(messages[:5].to_pylist(), rows, strict=True):
        if row is not None:
            assert form.of(read_back(schema, message)) == row
    again = Decoder(parse(json.dumps(schema))).decode(payloads_of(messages))
    assert not again.faults.any()
    assert again.column.to_pylist() == column.to_pylist()


@given(schemas(), st.integers(0, 2**32), st.integers(0, 3))
def test_slices_of_columns_are_encoded_as_their_rows(schema: Any, seed: int, start: int) -> None:
    values, form = Values(schema, Random(seed)), ArrowForm(schema, parse(json.dumps(schema)).arrow_type)
    column = pa.array([form.of(values.next()) for _ in range(6)], form.arrow_type)
    messages = encoded_or_too_deep(parse(json.dumps(schema)), column)
    assert messages[start:5] == encoded(parse(json.dumps(schema)), column[start:5])


def test_a_field_without_a_column_has_its_default() -> None:
    schema = record(
        {"name": "i", "type": "int", "default": -3},
        {"name": "n", "type": ["null", "string"], "default": None},
        {"name": "u", "type": ["string", "null"], "default": "é"},
        {"name": "b", "type": "bytes", "default": "\u00ff"},
        {"name": "d", "type": "double", "default": 1},
        {"name": "l", "type": {"type": "array", "items": "boolean"}, "default": [True]},
        {"name": "m", "type": {"type": "map", "values": "float"}, "default": {"k": 0.5}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}, "default": "B"},
        {"name": "x", "type": {"type": "fixed", "name": "X", "size": 1}, "default": "\u0001"},
        {
            "name": "r",
            "type": {**record({"name": "k", "type": "long", "default": 2**40}), "name": "I"},
            "default": {},
        },
        {"name": "given", "type": "int"},
    )
    column = pa.array([{"given": 7}], pa.struct({"given": pa.int32()}))
    (message,) = encoded(parse(json.dumps(schema)), column).to_pylist()
    assert read_back(schema, message) == {
        "i": -3,
        "n": None,
        "u": "é",
        "b": b"\xff",
        "d": 1.0,
        "l": [True],
        "m": {"k": 0.5},
        "e": "B",
        "x": b"\x01",
        "r": {"k": 2**40},
        "given": 7,
    }


def test_a_record_that_contains_itself_ends_where_its_column_does() -> None:
    again: list[Any] = [["null", "R"], {"type": "array", "items": "R"}, {"type": "map", "values": "R"}]
    for of in again:
        schema = parse(json.dumps(record({"name": "id", "type": "int"}, {"name": "next", "type": of})))
        value: Any = {"id": 3}
        for item in (2, 1):
            inner = value if isinstance(of, list) else [("k", value)] if of["type"] == "map" else [value]
            value = {"id": item, "next": inner}
        column = pa.array([value], schema.arrow_type)
        messages = encoded(schema, column)
        assert Decoder(schema).decode(payloads_of(messages)).column == column
        with pytest.raises(OptionError, match="the Avro field next has no column and no default"):
            Encoder(schema, pa.struct({"id": pa.int32()}))


@pytest.mark.parametrize(
    ("schema", "column", "value"),
    [
        ("long", pa.array([7], pa.int8()), 7),
        ("double", pa.array([7], pa.int32()), 7.0),
        ("double", pa.array([0.5], pa.float32()), 0.5),
        (["int", "long", "null"], pa.array([7], pa.int32()), 7),
        (["float", "double"], pa.array([0.5], pa.float32()), 0.5),
        ({"type": "long", "logicalType": "time-micros"}, pa.array([7], pa.int64()), None),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 4},
            pa.array([Decimal("-1.25")], pa.decimal128(5, 2)),
            Decimal("-1.25"),
        ),
    ],
)
def test_a_number_becomes_a_wider_one(schema: Any, column: pa.Array, value: Any) -> None:
    (message,) = encoded(parse(json.dumps(schema)), column).to_pylist()
    assert value in (None, read_back(schema, message))


@pytest.mark.parametrize("micros", [-1, -999, -1000, -1001, 0, 999, 1000])
def test_a_timestamp_in_milliseconds_is_the_last_one_before(micros: int) -> None:
    schema = {"type": "long", "logicalType": "timestamp-millis"}
    column = pa.array([micros], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    (message,) = encoded(parse(json.dumps(schema)), column).to_pylist()
    assert read_back("long", message) == micros // 1000


@for_each("number", [0, -1, 127, 128, -128, -129, 2**63, -(2**63), 10**38 - 1, 1 - 10**38])
@for_each("size", [None, 16, 17, 40])
def test_decimals_have_as_few_bytes_as_java_gives_them(number: int, size: int | None) -> None:
    of: dict[str, Any] = {"type": "bytes"} if size is None else {"type": "fixed", "name": "F", "size": size}
    schema = {**of, "logicalType": "decimal", "precision": 38, "scale": 0}
    (message,) = encoded(
        parse(json.dumps(schema)), pa.array([Decimal(number)], pa.decimal128(38, 0))
    ).to_pylist()
    least = (number if number >= 0 else ~number).bit_length() // 8 + 1
    content = number.to_bytes(size or least, "big", signed=True)
    assert message == (content if size else bytes([2 * least]) + content)


@for_each(
    ("schema", "arrow", "message"),
    [
        ("int", pa.int64(), "the Avro value is of the type int, which a column of BIGINT does not fit"),
        ("float", pa.int32(), "does not fit"),
        ("long", pa.timestamp("us", tz="UTC"), "does not fit"),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("us"), "timestamp-millis"),
        ({"type": "int", "logicalType": "date"}, pa.int32(), "does not fit"),
        ("string", pa.binary(), "does not fit"),
        ("bytes", pa.string(), "does not fit"),
        (["null", "int"], pa.string(), "does not fit"),
        (["int", "string"], pa.string(), "does not fit"),
        (["int", "string"], pa.struct({"member2": pa.string()}), "'member2' is not in the Avro schema"),
        ({"type": "map", "values": "int"}, pa.map_(pa.int32(), pa.int32()), "does not fit"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, pa.decimal128(5, 1),
         "does not fit"),
        (record({"name": "a", "type": "int"}), pa.struct([]), "Avro field a has no column and no default"),
        (record({"name": "a", "type": {**record({"name": "b", "type": "int"}), "name": "S"}}),
         pa.struct({"a": pa.struct({"b": pa.string()})}), "the Avro field a.b is of the type int"),
        (record(), pa.struct({"x": pa.int32()}), "'x' is not in the Avro schema"),
        (record({"name": "a", "type": "int"}),
         pa.struct([pa.field("a", pa.int32()), pa.field("a", pa.int32())]), "'a' is there twice"),
        (record({"name": "a", "type": "int", "default": "x"}), pa.struct([]),
         "default of the Avro field a does not fit"),
    ],
)  # fmt: skip
def test_columns_that_do_not_fit_are_refused_first(schema: Any, arrow: pa.DataType, message: str) -> None:
    with pytest.raises(OptionError) as error:
        Encoder(parse(json.dumps(schema)), arrow)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("schema", "rows", "message"),
    [
        (record({"name": "a", "type": "string"}), [{"a": "x"}, {"a": None}],
         "row 1: the Avro field a is null"),
        (record({"name": "a", "type": {"type": "array", "items": "string"}}),
         [None, {"a": ["x"]}, {"a": []}, {"a": ["x", None]}], "row 3: the Avro field a is null"),
        ({"type": "map", "values": ["null", "string", "int"]},
         [None, [], [("k", {"member0": "x", "member1": 1})]],
         "row 2: the Avro value has 2 members with values"),
        (["string", "int"], [{"member0": "x"}, {}], "row 1: the Avro value has 0 members with values"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, [None, "A", "B"],
         "row 2: the Avro value is not a symbol of its enum"),
        (record({"name": "a", "type": ["null", {"type": "fixed", "name": "F", "size": 2}]}),
         [{"a": None}, {"a": b"xy"}, {"a": b"x"}],
         "row 2: the Avro field a has 1 byte, and the fixed of its schema 2"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_names_field_and_row(schema: Any, rows: list[Any], message: str) -> None:
    parsed = parse(json.dumps(schema))
    with pytest.raises(RowError) as error:
        encoded(parsed, pa.array(rows, parsed.arrow_type))
    assert message in str(error.value)


def test_a_string_that_is_not_utf8_is_refused() -> None:
    broken = pa.array([None, b"ok", b"\xff"]).cast(pa.binary()).view(pa.string())
    with pytest.raises(RowError, match="row 2: the Avro value is not UTF-8"):
        encoded(parse("string"), broken)
    parsed = parse(json.dumps(["null", record({"name": "a", "type": "string"})]))
    inner = pa.array([None, "x"])
    outer = pa.StructArray.from_arrays([inner], ["a"], mask=pa.array([True, False]))
    assert encoded(parsed, outer).to_pylist() == [None, b"\x02\x02x"]


@for_each(
    "arrow",
    [
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.large_binary(),
        pa.null(),
        pa.date32(),
        pa.time64("ns"),
        pa.timestamp("us"),
        pa.timestamp("us", tz="Europe/Berlin"),
        pa.decimal128(38, 38),
        pa.decimal128(1, 0),
        pa.list_(pa.int32()),
        pa.large_list(pa.int32()),
        pa.map_(pa.string(), pa.int16()),
        pa.struct({"a": pa.struct({"b": pa.list_(pa.struct({"c": pa.decimal128(9, 2)}))})}),
    ],
)
def test_a_derived_schema_encodes_its_columns(arrow: pa.DataType) -> None:
    column = pa.array([_sample(arrow), None], arrow)
    of = pa.struct([pa.field("c", arrow, True)])
    schema = schema_of(of)
    rows = pa.StructArray.from_arrays([column], fields=list(of))
    messages = encoded(schema, rows)
    judged = [read_back(json.loads(schema.text), item)["c"] for item in messages.to_pylist()]
    assert judged[1] is None
    result = Decoder(schema).decode(payloads_of(messages))
    assert not result.faults.any()
    again = result.column.field(0)
    expected = column.cast(pa.time64("us")) if pa.types.is_time(arrow) else column
    expected = expected.cast(again.type) if again.type != arrow else expected
    assert again.to_pylist() == expected.to_pylist()


def _sample(arrow: pa.DataType) -> Any:
    if pa.types.is_struct(arrow):
        return {item.name: _sample(item.type) for item in arrow}
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return [_sample(arrow.value_type)]
    if pa.types.is_map(arrow):
        return [("k", _sample(arrow.item_type))]
    if pa.types.is_timestamp(arrow) or pa.types.is_date(arrow):
        at = datetime(1969, 7, 20, 20, 17, 40, 123456)
        return at if pa.types.is_timestamp(arrow) else at.date()
    if pa.types.is_time(arrow):
        return (datetime(1970, 1, 1) + timedelta(hours=3, microseconds=5)).time()
    if pa.types.is_decimal(arrow):
        return Decimal(-3).scaleb(-arrow.scale)
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
        return "é"
    if pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow):
        return b"\xff"
    return None if pa.types.is_null(arrow) else True if pa.types.is_boolean(arrow) else 1
