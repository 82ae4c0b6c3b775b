"""Encoded JSON: read by Python's json, valid by its schema; errors name the row and the field."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
from typing import Any, Final

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError, RowError
from spark_kafkawire.values.json.decoding import Decoder
from spark_kafkawire.values.json.encoding import Encoder
from spark_kafkawire.values.json.schema import Schema, parse, schema_of
from spark_kafkawire.values.payloads import payloads_of
from tests.support.cases import for_each
from tests.support.short_and_long import short_and_long

UTC: Final = dt.timezone.utc
NAMES: Final = ["a", 'b"\n', "é", ""]
TEXT: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
LEAVES: Final[list[tuple[pa.DataType, st.SearchStrategy[Any]]]] = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float32(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    (pa.bool_(), st.booleans()),
    (pa.string(), TEXT),
    (pa.binary(), st.binary(max_size=8)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us", tz="UTC"), st.datetimes(timezones=st.just(UTC))),
    (pa.timestamp("us"), st.datetimes()),
    (pa.decimal128(20, 3), st.decimals(-(10**16), 10**16, places=3)),
    (pa.decimal128(4, 0), st.integers(-9999, 9999).map(decimal.Decimal)),
]


@st.composite
def typed(draw: st.DrawFn, depth: int = 3) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    """A type, and values of it."""
    kind = draw(st.sampled_from(["leaf", "leaf", "list", "map", "struct", "struct"]))
    if kind == "leaf" or depth == 0:
        leaf: tuple[pa.DataType, st.SearchStrategy[Any]] = draw(st.sampled_from(LEAVES))
        return leaf
    inner, values = draw(typed(depth - 1))
    nullable = draw(st.booleans())
    values = st.none() | values if nullable else values
    if kind == "list":
        return pa.list_(pa.field("element", inner, nullable)), st.lists(values, max_size=3)
    if kind == "map":
        pairs = st.dictionaries(TEXT, values, max_size=3).map(lambda pairs: list(pairs.items()))
        return pa.map_(pa.string(), pa.field("value", inner, nullable)), pairs
    fields, members = [pa.field(NAMES[0], inner, nullable)], {NAMES[0]: values}
    for name in NAMES[1 : draw(st.integers(1, 4))]:
        other, more = draw(typed(depth - 1))
        fields.append(pa.field(name, other))
        members[name] = st.none() | more
    return pa.struct(fields), st.fixed_dictionaries(members)


def expected(value: Any, of: pa.DataType) -> Any:
    """The value as JSON has it."""
    if value is None:
        return None
    if pa.types.is_struct(of):
        inner = {item.name: expected(value[item.name], item.type) for item in of}
        return {name: item for name, item in inner.items() if item is not None}
    if pa.types.is_map(of):
        return {key: expected(item, of.item_type) for key, item in value}
    if pa.types.is_list(of):
        return [expected(item, of.value_type) for item in value]
    if pa.types.is_binary(of):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.datetime):
        return f"{value.replace(tzinfo=None).isoformat('T', 'microseconds')}{'Z' if of.tz else ''}"
    if isinstance(value, dt.date):
        return value.isoformat()
    return decimal.Decimal(value) if isinstance(value, decimal.Decimal) else value


def texts(schema: Schema, column: pa.Array) -> list[bytes | None]:
    messages: list[bytes | None] = Encoder(schema, column.type).encode(column).to_pylist()
    return messages


@pytest.mark.timeout(1800)
@short_and_long("count", short=50, long=1_000)
def test_texts_are_read_by_pythons_json_and_valid_by_their_schema(count: int) -> None:
    @settings(max_examples=count, deadline=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        of, values = data.draw(typed())
        rows = data.draw(st.lists(st.none() | values, max_size=5))
        start = data.draw(st.integers(0, len(rows)))
        column, schema = pa.array(rows, of)[start:], schema_of(of, "T")
        validator = jsonschema.Draft7Validator(json.loads(schema.text))
        for row, text in zip(rows[start:], texts(schema, column), strict=True):
            assert (row is None) == (text is None)
            if text is not None:
                assert same(json.loads(text, parse_float=decimal.Decimal), expected(row, of))
                validator.validate(json.loads(text))
        again = Decoder(None, schema, of).decode(payloads_of(Encoder(schema, of).encode(column)))
        assert not again.faults.any()
        assert again.column.equals(column)

    check()


def same(found: Any, wanted: Any) -> bool:
    """Equal; numbers by the value of their text."""
    if isinstance(found, dict):
        return (
            isinstance(wanted, dict)
            and found.keys() == wanted.keys()
            and all(same(found[key], wanted[key]) for key in found)
        )
    if isinstance(found, list):
        return isinstance(wanted, list) and len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(wanted, float):
        # Texts of float32 have as many digits as it takes to read the same float32.
        return math.isclose(float(found), wanted, rel_tol=1e-7, abs_tol=1e-45)
    return bool(found == wanted) and isinstance(found, bool) == isinstance(wanted, bool)


def test_texts_are_those_of_sparks_to_json_except_for_the_digits_of_a_second() -> None:
    of = pa.struct(
        [
            ("a", pa.int64()),
            ("s", pa.string()),
            ("t", pa.timestamp("us", tz="Europe/Berlin")),
            ("b", pa.binary()),
        ]
    )
    row = {
        "a": None,
        "s": 'a"\\/\x00\n\x7fé',
        "t": dt.datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
        "b": b"\xff\xfe",
    }
    assert texts(schema_of(of, "T"), pa.array([row, {}, None], of)) == [
        '{"s":"a\\"\\\\/\\u0000\\n\x7fé","t":"2026-01-02T03:04:05.000006Z","b":"//4="}'.encode(),
        b"{}",
        None,
    ]


def test_large_types_of_arrow_are_written_as_the_others() -> None:
    of = pa.struct(
        [
            ("s", pa.large_string()),
            ("b", pa.large_binary()),
            ("l", pa.large_list(pa.large_string())),
            ("e", pa.struct([])),
        ]
    )
    column = pa.array([None, {"s": "x", "b": b"y", "l": ["z", None], "e": {}}], of)
    assert texts(schema_of(of, "T"), column[1:]) == [b'{"s":"x","b":"eQ==","l":["z",null],"e":{}}']


def object_of(required: list[str], **properties: Any) -> Schema:
    return parse(json.dumps({"type": "object", "properties": properties, "required": required}))


def test_a_required_property_is_written_also_where_it_is_null() -> None:
    schema = object_of(["a"], a={"type": ["null", "string"]}, b={"type": "string"})
    column = pa.array([{"a": None, "b": None}], pa.struct({"a": pa.string(), "b": pa.string()}))
    assert texts(schema, column) == [b'{"a":null}']


def test_connects_integers_are_written_for_dates_and_timestamps() -> None:
    connect = "org.apache.kafka.connect.data."
    schema = object_of(
        [],
        t={"type": "integer", "title": f"{connect}Timestamp"},
        d={"type": "integer", "title": f"{connect}Date"},
    )
    of = pa.struct({"t": pa.timestamp("us", tz="UTC"), "d": pa.date32()})
    row: dict[str, Any] = {"t": dt.datetime(1969, 12, 31, 23, 59, 59, 1500, UTC), "d": dt.date(1970, 1, 3)}
    message = texts(schema, pa.array([row], of))
    assert message == [b'{"t":-999,"d":2}']
    assert Decoder(schema).decode(payloads_of(pa.array(message))).column.to_pylist() == [
        {**row, "t": row["t"].replace(microsecond=1000)}
    ]


A: Final = {"type": "integer"}
INNER: Final = pa.struct({"x": pa.float64()})


@pytest.mark.parametrize(
    ("of", "bad", "message"),
    [
        (pa.float64(), float("nan"), r"row 2: the field a is NaN or infinite"),
        (pa.float32(), float("-inf"), r"row 2: the field a is NaN or infinite"),
        (pa.list_(INNER), [{"x": 1.0}, {"x": float("inf")}], r"row 2: the field a\.x is NaN"),
        (pa.map_(pa.string(), INNER), [("k", {"x": float("inf")})], r"row 2: the field a\.x is NaN"),
    ],
    ids=str,
)
def test_a_row_that_json_cannot_have_is_named_with_its_field(of: pa.DataType, bad: Any, message: str) -> None:
    column = pa.array([None, {"a": None}, {"a": bad}], pa.struct({"a": of}))
    assert len(texts(schema_of(column.type, "T"), column[:2])) == 2
    with pytest.raises(RowError, match=message):
        texts(schema_of(column.type, "T"), column)


def test_a_row_that_the_schema_does_not_allow_is_named_with_its_field() -> None:
    schema = object_of(["i"], i=A, e={"enum": ["x", "y"]}, l={"type": "array", "items": A})
    of = pa.struct({"i": pa.int32(), "e": pa.string(), "l": pa.list_(pa.int64())})
    good = {"i": 1, "e": "x", "l": [1]}
    assert texts(schema, pa.array([good, {"i": 1}], of)) == [b'{"i":1,"e":"x","l":[1]}', b'{"i":1}']
    for more, message in (
        ({"i": None}, "row 1: the field i is null, and the JSON schema requires it"),
        ({"e": "z"}, "row 1: the field e is not in the JSON schema's enum"),
        ({"l": [None]}, "row 1: the field l has a null"),
    ):
        with pytest.raises(RowError, match=message):
            texts(schema, pa.array([good, {**good, **more}], of))


def test_strings_that_are_not_utf8_and_years_that_are_not_iso_are_refused() -> None:
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"a", b"\xff"]).buffers())
    column = pa.StructArray.from_arrays([broken], ["a"])
    with pytest.raises(RowError, match="row 1: the field a is not UTF-8"):
        texts(schema_of(column.type, "T"), column)
    for of in (pa.date32(), pa.timestamp("us", tz="UTC")):
        late = pa.array([0, 2_932_897 * (1 if of == pa.date32() else 86_400_000_000)], pa.int64())
        column = late.cast(pa.int32()).cast(of) if of == pa.date32() else late.cast(of)
        with pytest.raises(RowError, match="row 1: the value is outside of the years 1 to 9999"):
            texts(schema_of(of, "T"), column)


@for_each(
    ("of", "message"),
    [
        (pa.struct({"a": pa.int64(), "b": pa.int64()}), "has no property 'b'"),
        (pa.struct({"s": pa.string()}), "requires the property 'a'"),
        (pa.struct({"a": pa.string()}), "the field a is STRING, and the JSON schema has integer"),
        (pa.struct({"a": pa.float64()}), "the field a is DOUBLE"),
        (pa.struct({"a": pa.int64(), "n": pa.struct({"x": pa.bool_()})}), r"the field n\.x is BOOLEAN"),
        (pa.map_(pa.string(), pa.int64()), "the value is MAP"),
        (pa.struct({"a": pa.null()}), "the field a is always null"),
        (pa.struct([("a", pa.int64()), ("a", pa.int64())]), "has the field .a. twice"),
    ],
    ids=str,
)
def test_columns_that_do_not_fit_are_refused_first(of: pa.DataType, message: str) -> None:
    inner = {"type": "object", "properties": {"x": {"type": "string"}}}
    with pytest.raises(OptionError, match=message):
        Encoder(object_of(["a"], a=A, s={"type": "string"}, n=inner), of)
