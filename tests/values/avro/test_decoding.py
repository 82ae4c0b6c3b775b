"""Decoded Avro: equal to fastavro's, with and without a reader's schema; damaged messages are faults."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timezone
from decimal import Context, Decimal
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any, Final

import fastavro
import pyarrow as pa
import pytest
from fastavro.read import SchemaResolutionError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError
from spark_kafkawire.records import compiler
from spark_kafkawire.values.avro.decoding import Decoder
from spark_kafkawire.values.avro.encoding import Encoder
from spark_kafkawire.values.avro.schema import encode_bytes, parse
from spark_kafkawire.values.payloads import Decoded, Fault, encode_integer, payloads_of
from tests.support.cases import for_each
from tests.values.avro.drawn import Values, readers, schemas
from tests.values.avro.judge import Judge, ordered


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


def record(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **more}


def test_only_the_fields_of_a_projection_are_built() -> None:
    node = record({"name": "next", "type": ["null", "R"]}, {"name": "id", "type": "int"})
    message = encoded(node, {"next": {"next": {"next": {"next": None, "id": 1}, "id": 2}, "id": 3}, "id": 4})
    assert decoded(node, [message], arrow_type=pa.struct({"id": pa.int32()})).column.to_pylist() == [
        {"id": 4}
    ]


@for_each(
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


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}
GREATEST = 10**38 - 1


@for_each("number", [0, -1, 127, 128, -128, -129, 2**64, -(2**64), GREATEST, -GREATEST])
@for_each("more", [0, 1, 30])
def test_a_decimal_may_have_more_bytes_than_it_needs(number: int, more: int) -> None:
    content = number.to_bytes(number.bit_length() // 8 + 1 + more, "big", signed=True)
    result = decoded(DECIMAL, [bytes([2 * len(content)]) + content])
    assert result.column.to_pylist() == [Decimal(number).scaleb(-2, Context(prec=40))]
    fixed = {**DECIMAL, "type": "fixed", "name": "F", "size": len(content), "precision": 2}
    expected = Decimal(number).scaleb(-2) if abs(number) < 100 else None
    assert decoded(fixed, [content]).column.to_pylist() == [expected]


@pytest.mark.parametrize("number", [GREATEST + 1, -GREATEST - 1, 2**127, -(2**127) - 1, 2**400])
def test_a_decimal_of_more_digits_is_a_fault(number: int) -> None:
    content = number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
    result = decoded(DECIMAL, [bytes([2 * len(content)]) + content if len(content) < 64 else b"\0"])
    assert result.faults.tolist() == [Fault.NOT_REPRESENTABLE]


@pytest.mark.parametrize(
    ("writer", "reader", "is_read"),
    [
        (DECIMAL, DECIMAL, True),
        (DECIMAL, {**DECIMAL, "scale": 3}, False),
        (DECIMAL, {**DECIMAL, "precision": 37}, False),
        ("bytes", DECIMAL, True),
        ("string", DECIMAL, False),
        (DECIMAL, "bytes", True),
    ],
)
def test_decimals_resolve_if_scales_and_precisions_match(writer: Any, reader: Any, is_read: bool) -> None:
    result = decoded(writer, [b"\x02\x07"], reader)
    assert result.faults.tolist() == [0 if is_read else Fault.UNRESOLVABLE_SCHEMA]
    if is_read:
        assert result.column.to_pylist() == [b"\x07" if reader == "bytes" else Decimal("0.07")]


def time_of(logical: str, kind: str = "long") -> dict[str, str]:
    return {"type": kind, "logicalType": logical}


def test_numbers_of_several_types_become_one_column() -> None:
    items = {"type": "array", "items": ["null", "int", "long", "float", "double"]}
    values = [1, 2**40, 0.5, 1e300, None, -7]
    reader = {"type": "array", "items": ["null", "double"]}
    message = encoded(items, values)
    assert decoded(items, [message], reader).column.to_pylist() == [
        [1.0, float(2**40), 0.5, 1e300, None, -7.0]
    ]
    one = record({"name": "a", "type": ["int", "float"]})
    other = record(
        {"name": "a", "type": "float"}, {"name": "b", "type": ["float", "double"], "default": 0.25}
    )
    assert decoded(one, [b"\0\x0e", b"\x02\0\0\0?"], other).column.to_pylist() == [
        {"a": 7.0, "b": 0.25},
        {"a": 0.5, "b": 0.25},
    ]


def test_a_union_that_is_read_as_one_number_has_no_times() -> None:
    union = [time_of("date", "int"), time_of("timestamp-millis")]
    column = decoded(union, [b"\0\x0e", b"\x02\x10"]).column
    assert column.equals(pa.array([7, 8], pa.int64()))
    schema = parse(json.dumps(union))
    assert Encoder(schema, pa.int64()).encode(column).to_pylist() == [b"\x02\x0e", b"\x02\x10"]


def test_a_default_has_the_type_of_its_field() -> None:
    fixed = {"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 3, "scale": 1}
    inner = {**record({"name": "x", "type": ["int", "string"], "default": "deep"}), "name": "I"}
    fields: list[tuple[str, Any, Any, Any]] = [
        ("union", ["string", "int"], "x", {"member0": "x", "member1": None}),
        ("later", ["string", "int"], 7, {"member0": None, "member1": 7}),
        ("nothing", ["null", "int", "string"], None, None),
        ("millis", time_of("timestamp-millis"), -1, datetime(1969, 12, 31, 23, 59, 59, 999000, timezone.utc)),
        ("decimal", fixed, "\u00ff\u00ff", Decimal("-0.1")),
        ("record", inner, {}, {"x": {"member0": None, "member1": "deep"}}),
        ("enum", {"type": "enum", "name": "E", "symbols": ["A"]}, "A", "A"),
    ]
    reader = record(*({"name": name, "type": of, "default": default} for name, of, default, _ in fields))
    result = decoded(record(), [b"", b""], reader)
    assert result.column.to_pylist() == [{name: value for name, _, _, value in fields}] * 2


@for_each(
    ("of", "default"),
    [
        ("int", 2**31),
        ("int", "1"),
        ("long", True),
        (["int", "string"], None),
        (DECIMAL, ""),
        ({**DECIMAL, "precision": 2}, "\u0064"),
        (time_of("timestamp-millis"), 2**62),
        ({"type": "fixed", "name": "F", "size": 2}, "x"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"),
        ({"type": "array", "items": "int"}, {}),
        (record({"name": "x", "type": "int"}), {}),
        ("float", 1e300),
    ],
)
def test_a_default_that_does_not_fit_is_refused(of: Any, default: Any) -> None:
    reader = {**record({"name": "a", "type": of, "default": default}), "name": "Top"}
    with pytest.raises(OptionError, match="the default of the Avro field a "):
        decoded({**record(), "name": "Top"}, [b""], reader)


def test_a_writers_field_becomes_one_field() -> None:
    writer = record({"name": "a", "type": "int"}, {"name": "b", "type": "int"})
    reader = record(
        {"name": "x", "type": "int", "aliases": ["a", "b"]},
        {"name": "y", "type": "int", "aliases": ["a"], "default": -1},
        {"name": "b", "type": "int"},
    )
    assert decoded(writer, [b"\x02\x04"], reader).column.to_pylist() == [{"x": 1, "y": -1, "b": 2}]


def test_of_equal_keys_the_last_one_stays_as_in_spark() -> None:
    schema = {"type": "map", "values": "int"}
    message = b"\x06\x02a\x02\x02b\x04\x02a\x06\x02\x02a\x08\0"
    result = decoded(schema, [message, b"\0", message, b"\x02\x02a\x02\0"])
    assert result.column.to_pylist() == [[("b", 2), ("a", 4)], [], [("b", 2), ("a", 4)], [("a", 1)]]


EMPTY = {"type": "array", "items": {**record(), "name": "Empty"}}
NULLS = {"type": "array", "items": "null"}


@for_each("schema", [NULLS, EMPTY, {"type": "array", "items": EMPTY}])
@for_each("count", [1_000_000, 2**40, 2**62, 2**63 - 1, -(2**40), -(2**63)])
def test_items_without_bytes_cannot_ask_for_more_memory_than_the_limit(schema: Any, count: int) -> None:
    bomb = encoded("long", count) + (b"\0" if count < 0 else b"") + b"\0"
    for projection in ({}, {"arrow_type": pa.struct([])}):
        writer = record({"name": "a", "type": schema}) if projection else schema
        result = decoded(writer, [bomb, bomb], **projection)
        assert set(result.faults.tolist()) <= {Fault.TOO_LARGE, Fault.BAD_LENGTH, Fault.TRUNCATED}
        assert result.column.nbytes < 1000


def test_items_without_bytes_are_values_and_records_that_double_end() -> None:
    result = decoded(NULLS, [encoded("long", 10_000) + b"\0"] * 2)
    assert [len(item) for item in result.column.to_pylist()] == [10_000] * 2
    doubled: Any = record()
    for level in range(40):
        first = {**doubled, "name": f"L{level}"}
        doubled = record({"name": "a", "type": first}, {"name": "b", "type": f"L{level}"})
    result = decoded({**doubled, "name": "Top"}, [b""] * 3, arrow_type=pa.struct([]))
    assert set(result.faults.tolist()) == {Fault.TOO_LARGE}


def test_a_schema_that_is_nested_too_deeply_is_refused() -> None:
    for depth in (150, 300, 600, 900):
        arrays = parse('{"type": "array", "items":' * depth + '"int"' + "}" * depth)
        for made in (Decoder, lambda schema: Encoder(schema, schema.arrow_type)):
            with suppress(OptionError):
                made(arrays)
    with pytest.raises(OptionError, match="nested too deeply"):
        Decoder(arrays)


@pytest.mark.parametrize(
    "arrow",
    [
        pa.struct({"a": pa.string()}),
        pa.struct({"a": pa.decimal128(9, 0)}),
        pa.struct({"x": pa.int32()}),
        pa.struct([pa.field("a", pa.int32()), pa.field("a", pa.int32())]),
        pa.list_(pa.int32()),
    ],
)
def test_a_type_that_the_schema_does_not_have_is_refused(arrow: pa.DataType) -> None:
    field = {"name": "a", "type": "int", "default": 1}
    for writer in (record(field), record()):
        with pytest.raises(OptionError):
            decoded(writer, [b""], record(field), arrow_type=arrow)


# --- Logical types, written and read ---

#: Logical types of numbers: their type, what they count, and the seconds that one is.
TIMES: Final = {
    "date": ("int", "day", Fraction(86_400)),
    "time-millis": ("int", "time of the day", Fraction(1, 10**3)),
    "time-micros": ("long", "time of the day", Fraction(1, 10**6)),
    "timestamp-millis": ("long", "moment", Fraction(1, 10**3)),
    "timestamp-micros": ("long", "moment", Fraction(1, 10**6)),
    "timestamp-nanos": ("long", "moment", Fraction(1, 10**9)),
    "local-timestamp-millis": ("long", "local time", Fraction(1, 10**3)),
    "local-timestamp-micros": ("long", "local time", Fraction(1, 10**6)),
    "local-timestamp-nanos": ("long", "local time", Fraction(1, 10**9)),
}
#: Logical types of bytes; those of fixed have one name for each size, so that only the logical type differs.
BYTES: Final[dict[str, Any]] = {
    "decimal": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2},
    "decimal of another scale": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3},
    "uuid": {"type": "string", "logicalType": "uuid"},
    "fixed decimal": {
        "type": "fixed", "name": "F16", "size": 16, "logicalType": "decimal", "precision": 30, "scale": 0,
    },
    "fixed uuid": {"type": "fixed", "name": "F16", "size": 16, "logicalType": "uuid"},
    "duration": {"type": "fixed", "name": "F12", "size": 12, "logicalType": "duration"},
    "short fixed decimal": {
        "type": "fixed", "name": "F12", "size": 12, "logicalType": "decimal", "precision": 20, "scale": 0,
    },
}  # fmt: skip
#: All pairs of two logical types that have a value. All others are refused.
CONVERTED: Final = {
    *((item, item) for item in (*TIMES, *BYTES)),
    ("time-millis", "time-micros"),
    *(
        (f"{kind}-{written}", f"{kind}-{read}")
        for kind in ("timestamp", "local-timestamp")
        for written, read in (
            ("millis", "micros"), ("micros", "millis"), ("millis", "nanos"), ("micros", "nanos"),
        )
    ),
}  # fmt: skip
_BITS: Final = {"int": 31, "long": 63}
#: Where a value may be: the schemas of both sides, and the message, around it.
PLACES: Final[dict[str, Any]] = {
    "bare": (lambda of: of, lambda of: of, b"", b""),
    "field": (lambda of: {"type": "record", "name": "R", "fields": [{"name": "x", "type": of}]},
     lambda of: {"type": "record", "name": "R", "fields": [{"name": "x", "type": ["null", of]}]}, b"", b""),
    "branch": (lambda of: ["null", of], lambda of: ["null", of], b"\x02", b""),
    "item": (lambda of: {"type": "array", "items": of}, lambda of: {"type": "array", "items": of}, b"\x02",
     b"\0"),
}  # fmt: skip


def schema_of(name: str) -> Any:
    return {"type": TIMES[name][0], "logicalType": name} if name in TIMES else BYTES.get(name, name)


def of_logical_type(writer: Any, reader: Any, contents: list[bytes], place: str = "bare") -> Decoded:
    """The values, without what is around them."""
    written, read, before, after = PLACES[place]
    decoder = Decoder(parse(json.dumps(written(writer))), parse(json.dumps(read(reader))))
    messages = pa.array([before + item + after for item in contents], pa.binary())
    result = decoder.decode(payloads_of(messages))
    result.column.validate(full=True)
    return result


def numbers(column: pa.Array) -> list[int | None]:
    """The integers of a column, also of a field or of the only items of lists."""
    if pa.types.is_struct(column.type):
        column = column.field(0)
    if pa.types.is_list(column.type):
        lists = column.cast(pa.list_(_plain(column.type.value_type))).to_pylist()
        return [None if item is None else item[0] for item in lists]
    result: list[int | None] = column.cast(_plain(column.type)).to_pylist()
    return result


def _plain(of: pa.DataType) -> pa.DataType:
    return pa.int32() if pa.types.is_date(of) else of if pa.types.is_integer(of) else pa.int64()


def second_of_column(read: str) -> Fraction:
    """The seconds that one is in the column of a logical type: timestamps are microseconds in Spark."""
    return Fraction(1, 10**6) if read.endswith("timestamp-millis") else TIMES[read][2]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("written", "read"), list(product(TIMES, repeat=2)))
def test_a_time_is_the_same_one_in_each_unit_or_is_refused(written: str, read: str, place: str) -> None:
    kind, what, second = TIMES[written]
    most = 2 ** _BITS[kind]
    edges = [most // factor + more for factor in (1, 10**3, 10**6) for more in (-1, 0, 1)]
    given = sorted({0, 1, -1, 7, 86_399_999, *(sign * item for item in edges for sign in (1, -1))})
    given = [item for item in given if -most <= item < most]
    result = of_logical_type(
        schema_of(written), schema_of(read), [encode_integer(item) for item in given], place
    )
    if (written, read) not in CONVERTED:
        # A union has no branch for a long where an int is read.
        assert set(result.faults.tolist()) in ({Fault.UNRESOLVABLE_SCHEMA}, {Fault.BAD_UNION_BRANCH})
        return
    assert what == TIMES[read][1]
    for number, fault, found in zip(given, result.faults.tolist(), numbers(result.column), strict=True):
        expected = number * second / second_of_column(read)
        if abs(expected) < 2**63:  # the least number is its own, and is refused where it is multiplied
            assert (fault, found) == (0, expected), number
        elif found is not None:
            assert found == expected == -(2**63)
        else:
            assert fault == Fault.NOT_REPRESENTABLE


@pytest.mark.parametrize(("written", "read"), list(product(BYTES, repeat=2)))
def test_bytes_of_one_logical_type_are_never_those_of_another(written: str, read: str) -> None:
    writer, reader = schema_of(written), schema_of(read)
    content = b"\x01\x02" if writer["type"] != "fixed" else bytes(writer["size"] - 2) + b"\x01\x02"
    message = content if writer["type"] == "fixed" else encode_bytes(content)
    result = of_logical_type(writer, reader, [message])
    if (written, read) in CONVERTED:
        assert result.faults.tolist() == [0]
        assert result.column.equals(of_logical_type(writer, writer, [message]).column)
    else:
        assert result.faults.tolist() == [Fault.UNRESOLVABLE_SCHEMA]


@pytest.mark.parametrize(("number", "of_bytes"), list(product(TIMES, BYTES)))
def test_numbers_and_bytes_do_not_resolve(number: str, of_bytes: str) -> None:
    content = bytes(BYTES[of_bytes].get("size", 1))
    for writer, reader, message in ((number, of_bytes, b"\0"), (of_bytes, number, content)):
        result = of_logical_type(schema_of(writer), schema_of(reader), [message])
        assert result.faults.tolist() == [Fault.UNRESOLVABLE_SCHEMA]


@pytest.mark.parametrize("logical", TIMES)
@pytest.mark.parametrize("plain", ["int", "long", "float", "double"])
def test_a_side_without_a_logical_type_has_the_number_of_the_other(logical: str, plain: str) -> None:
    of, message, kind = schema_of(logical), encode_integer(-7), TIMES[logical][0]
    read = of_logical_type(of, plain, [message])
    if plain == "int" and kind == "long":
        assert read.faults.tolist() == [Fault.UNRESOLVABLE_SCHEMA]
    else:
        assert read.column.to_pylist() == [-7]
    if plain in ("int", kind):
        written = of_logical_type(plain, of, [message])
        assert numbers(written.column) == [-7 * TIMES[logical][2] / second_of_column(logical)]


# --- Drawn writers' and readers' schemas: rows are those of fastavro ---

RECORDS: Final = int(os.environ.get("KAFKAWIRE_AVRO_RECORDS", "400"))
ROWS: Final = 5 if RECORDS < 100_000 else 50
seen = {"records": 0, "values": 0, "schemas": 0}


@pytest.mark.timeout(24 * 3600)
def test_rows_are_those_of_fastavro() -> None:
    if RECORDS >= 100_000:
        compiler.load()
    _rows_are_those_of_fastavro()
    assert seen["records"] >= RECORDS * 9 // 10
    assert seen["values"] > seen["records"] // 2
    print(f"{seen}")


@settings(max_examples=RECORDS // ROWS, suppress_health_check=list(HealthCheck), database=None)
@given(st.data(), st.integers(0, 2**32))
def _rows_are_those_of_fastavro(data: st.DataObject, seed: int) -> None:
    writer = data.draw(schemas(), "writer")
    reader = data.draw(readers(writer), "reader")
    judge, values = Judge(writer, reader), Values(writer, Random(seed))
    messages = [judge.written(values.next()) for _ in range(ROWS)]
    result = judge.decode(messages)
    for message, fault, row in zip(messages, result.faults, result.column.to_pylist(), strict=True):
        expected = _read(judge, message)
        if expected is _UNREADABLE:  # deep down in a record that contains itself is no column, and no fault
            assert fault != 0 or "again" in str(writer), message
        else:
            assert fault == 0, message
            assert ordered(row) == ordered(expected)
            seen["values"] += 1
    seen["records"] += len(messages)
    seen["schemas"] += 1


_UNREADABLE: Final = object()


def _read(judge: Judge, message: bytes) -> Any:
    try:
        return judge.read(message)
    except (SchemaResolutionError, UnicodeDecodeError):
        return _UNREADABLE
