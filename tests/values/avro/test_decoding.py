"""Decoded Avro: equal to fastavro's, with and without a reader's schema; damaged messages are faults."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafkawire.records import compiler
from spark_kafkawire.values.avro import kernels
from spark_kafkawire.values.avro.decoding import Decoder
from spark_kafkawire.values.avro.schema import parse
from spark_kafkawire.values.faults import Decoded, Fault
from spark_kafkawire.values.payloads import payloads_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("boolean", st.booleans()),
    ("string", TEXT),
    ("bytes", st.binary(max_size=8)),
]


@st.composite
def typed(draw: st.DrawFn, depth: int = 3) -> tuple[Any, st.SearchStrategy[Any]]:
    """A schema, and the values of it."""
    kind = draw(st.sampled_from(["leaf", "leaf", "enum", "fixed", "null", "array", "map", "record"]))
    name = f"T{draw(st.uuids()).hex}"
    if kind == "enum":
        symbols = ["A", "B", "C"]
        return {"type": "enum", "name": name, "symbols": symbols}, st.sampled_from(symbols)
    if kind == "fixed":
        size = draw(st.integers(0, 9))
        return {"type": "fixed", "name": name, "size": size}, st.binary(min_size=size, max_size=size)
    if kind == "leaf" or depth == 0:
        leaf: tuple[Any, st.SearchStrategy[Any]] = draw(st.sampled_from(LEAVES))
        return leaf
    inner, values = draw(typed(depth - 1))
    if kind == "null":
        return (["null", inner], st.none() | values) if not isinstance(inner, list) else (inner, values)
    if kind == "array":
        return {"type": "array", "items": inner}, st.lists(values, max_size=3)
    if kind == "map":
        return {"type": "map", "values": inner}, st.dictionaries(TEXT, values, max_size=3)
    second, others = draw(typed(depth - 1))
    fields = [{"name": "first", "type": inner}, {"name": "second", "type": second}]
    return {"type": "record", "name": name, "fields": fields}, st.fixed_dictionaries(
        {"first": values, "second": others}
    )


def encoded(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def decoded(writer: Any, messages: Sequence[bytes | None], reader: Any = None, **of: Any) -> Decoded:
    reader_schema = None if reader is None else parse(json.dumps(reader))
    result = Decoder(parse(json.dumps(writer)), reader_schema, **of).decode(
        payloads_of(pa.array(messages, pa.binary()))
    )
    result.column.validate(full=True)
    assert len(result.column) == len(messages)
    return result


def plain(value: Any, of: pa.DataType) -> Any:
    """The value of Arrow as fastavro gives it: maps are dicts."""
    if value is None:
        return None
    if pa.types.is_map(of):
        return {key: plain(each, of.item_type) for key, each in value}
    if pa.types.is_list(of):
        return [plain(each, of.value_type) for each in value]
    if pa.types.is_struct(of):
        return {each.name: plain(value[each.name], each.type) for each in of}
    return value


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_values_are_those_of_fastavro(data: st.DataObject) -> None:
    schema, values = data.draw(typed())
    rows = data.draw(st.lists(values, max_size=5))
    result = decoded(schema, [encoded(schema, row) for row in rows])
    assert not result.is_bad.any()
    assert [plain(each, result.column.type) for each in result.column.to_pylist()] == rows


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_damaged_message_is_a_value_or_a_fault_and_leaves_its_neighbours_alone(data: st.DataObject) -> None:
    schema, values = data.draw(typed())
    row = data.draw(values)
    good = encoded(schema, row)
    bad = bytearray(good) or bytearray(1)
    for _ in range(data.draw(st.integers(1, 4))):
        bad[data.draw(st.integers(0, len(bad) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(bad[: data.draw(st.integers(0, len(bad)))])
    column = decoded(schema, [good, damaged, None, good]).column.to_pylist()
    assert column[0] == column[3]
    assert column[2] is None


def record(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **more}


def test_a_reader_has_defaults_aliases_and_wider_types() -> None:
    inner = {"type": "array", "items": "long"}
    writer = record(
        {"name": "a", "type": "int"}, {"name": "gone", "type": inner}, {"name": "s", "type": "string"}
    )
    reader = record(
        {"name": "s", "type": ["null", "string"]},
        {"name": "b", "type": "double", "aliases": ["a"]},
        {"name": "new", "type": ["null", "int"], "default": None},
        {"name": "list", "type": {"type": "array", "items": "string"}, "default": ["x", "é"]},
        {"name": "map", "type": {"type": "map", "values": "double"}, "default": {"k": 1.5}},
    )
    messages = [encoded(writer, {"a": i, "gone": [i] * i, "s": str(i)}) for i in range(4)]
    judge = [fastavro.schemaless_reader(io.BytesIO(each), writer, reader) for each in messages]
    result = decoded(writer, messages, reader)
    assert [plain(each, result.column.type) for each in result.column.to_pylist()] == judge


@pytest.mark.parametrize("reader", ["long", "float", "double", ["null", "long"], ["string", "double"]])
def test_an_int_becomes_the_readers_number(reader: Any) -> None:
    column = decoded("int", [encoded("int", 7)], reader).column
    assert column.to_pylist()[0] in (7, {"member0": None, "member1": 7.0})


def test_only_the_fields_of_a_projection_are_built() -> None:
    node = record({"name": "next", "type": ["null", "R"]}, {"name": "id", "type": "int"})
    message = encoded(node, {"next": {"next": {"next": {"next": None, "id": 1}, "id": 2}, "id": 3}, "id": 4})
    assert decoded(node, [message], arrow_type=pa.struct({"id": pa.int32()})).column.to_pylist() == [
        {"id": 4}
    ]


@pytest.mark.parametrize(
    ("schema", "message", "fault"),
    [
        ("int", b"", Fault.TRUNCATED),
        ("int", b"\0\0", Fault.TRAILING_BYTES),
        ("int", b"\xff\xff\xff\xff\x7f", Fault.BAD_VARINT),
        ("long", b"\xff" * 10, Fault.BAD_VARINT),
        ("string", b"\x02\xff", Fault.BAD_UTF8),
        ("bytes", b"\x01", Fault.BAD_LENGTH),
        ("boolean", b"\x02", Fault.BAD_BOOLEAN),
        (["null", "int"], b"\x04\0", Fault.BAD_UNION_BRANCH),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", Fault.BAD_ENUM_INDEX),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            b"\xfe" + b"\xff" * 8 + b"\x01",
            Fault.NOT_REPRESENTABLE,
        ),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\x0f", Fault.BAD_LENGTH),
        (record({"name": "again", "type": "R"}), b"", Fault.TOO_DEEP),
    ],
)
def test_each_fault_has_a_reason(schema: Any, message: bytes, fault: Fault) -> None:
    of = {"arrow_type": pa.struct([])} if fault == Fault.TOO_DEEP else {}
    result = decoded(schema, [message], **of)
    assert result.faults.tolist() == [fault]
    assert result.column.to_pylist() == [None]


def test_compiled_kernels_give_the_same() -> None:
    schema = record(
        {"name": "a", "type": ["null", "string"]}, {"name": "b", "type": {"type": "map", "values": "double"}}
    )
    messages = [encoded(schema, {"a": "é" * i, "b": {str(i): -i / 3}}) for i in range(5)] + [b"\x02\x7f"]
    interpreted = decoded(schema, messages)
    if not compiler.load():
        pytest.skip("numba is switched off")
    assert kernels.decode_each.compile()
    assert kernels.gather.compile()
    assert decoded(schema, messages).column.equals(interpreted.column)
