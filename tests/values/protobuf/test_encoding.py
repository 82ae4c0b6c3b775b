"""Encoded columns, read by the official runtime."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from spark_kafkawire.errors import LimitError, OptionError, RowError
from spark_kafkawire.records import compiler
from spark_kafkawire.values.protobuf import encoding
from spark_kafkawire.values.protobuf.encoding import Encoder
from spark_kafkawire.values.protobuf.schema import parse, schema_of
from tests.support.cases import for_each
from tests.support.kernels import interpreted_kernels

from .drawn import DrawnSchema, decoded, drawn_messages, expected, plain_of, rows
from .protoc import compiled, message_class


def assert_encoded(seed: int) -> None:
    """Columns become messages that the official runtime reads as the same values."""
    drawn = DrawnSchema(seed)
    judge = message_class(compiled(drawn.text), drawn.name)
    schema = parse(drawn.text)
    column = decoded(schema, [*drawn_messages(judge, random.Random(seed), 20), None]).column
    for part in (column, column.slice(3, 9)):
        encoded = Encoder(schema, part.type).encode(part)
        encoded.validate(full=True)
        for value, message in zip(part, encoded, strict=True):
            if not value.is_valid:
                assert not message.is_valid
                continue
            official = judge.FromString(message.as_py())
            assert expected(official, schema.arrow_type) == plain_of(value)


@pytest.mark.slow
@for_each("seed", range(30))
def test_columns_become_messages_of_the_official_runtime(seed: int) -> None:
    assert_encoded(seed)


@pytest.mark.nightly
def test_many_columns_become_messages_of_the_official_runtime() -> None:
    compiler.load()
    for seed in range(100, 1_100):
        assert_encoded(seed)


def test_kernels_give_the_same_interpreted_and_compiled() -> None:
    for load in (False, True):
        with interpreted_kernels():
            if load:
                compiler.load()
            for seed in range(1_000, 1_006):
                assert_encoded(seed)


def test_bytes_are_those_of_the_official_runtime() -> None:
    count = 0
    for seed in range(25):
        # Times are drawn in other forms than the one that they are written in, and proto2 has defaults.
        drawn = DrawnSchema(seed, plain=True, own=("google.protobuf.Any", "google.protobuf.StringValue"))
        if not drawn.is_proto3:
            continue
        judge = message_class(compiled(drawn.text), drawn.name)
        schema = parse(drawn.text)
        messages = drawn_messages(judge, random.Random(seed), 10)
        encoded = Encoder(schema, schema.arrow_type).encode(decoded(schema, messages).column)
        assert encoded.to_pylist() == [judge.FromString(item).SerializeToString() for item in messages]
        count += 1
    assert count > 5


WIDE = """
syntax = "proto3";
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
message M {
  int32 a = 1; repeated sint64 b = 2; N n = 3; oneof o { string s = 4; N m = 5; }
  fixed32 u = 7; E e = 8; repeated N l = 9; map<string, N> d = 10; uint64 v = 11; double g = 12; bool z = 13;
  google.protobuf.Timestamp at = 14; google.protobuf.Duration took = 15; bytes raw = 16; repeated E es = 17;
  repeated google.protobuf.Timestamp ats = 18;
  message N { optional int32 x = 1; repeated string y = 2; }
  enum E { ZERO = 0; ONE = 1; MINUS = -1; }
}
"""
SCHEMA = parse(WIDE)
JUDGE = message_class(compiled(WIDE), "M")


def one(value: dict[str, Any], of: dict[str, pa.DataType]) -> Any:
    """The official message of one row."""
    column = pa.array([value], pa.struct(list(of.items())))
    return JUDGE.FromString(Encoder(SCHEMA, column.type).encode(column)[0].as_py())


def test_other_columns_than_the_own_ones_fit() -> None:
    inner = pa.struct([("y", pa.large_list(pa.large_string())), ("x", pa.int16())])
    result = one(
        {
            "u": 2**32 - 1,
            "n": {"y": ["q", ""], "x": -3},
            "e": -1,
            "g": 0.5,
            "v": -1,
            "raw": b"r",
            "at": -1,
            "took": -1,
            "es": [1, 0],
            "ats": [0, 1_500],
            "a": -128,
            "b": [1, -2],
        },
        {
            "u": pa.int64(),
            "n": inner,
            "e": pa.int32(),
            "g": pa.float32(),
            "v": pa.int64(),
            "raw": pa.large_binary(),
            "at": pa.timestamp("us"),
            "took": pa.duration("ns"),
            "es": pa.list_(pa.int32()),
            "ats": pa.list_(pa.timestamp("ms", "UTC")),
            "a": pa.int8(),
            "b": pa.list_(pa.int32()),
        },
    )
    wanted = JUDGE(u=2**32 - 1, n={"y": ["q", ""], "x": -3}, e=-1, g=0.5, v=2**64 - 1, raw=b"r", a=-128)
    wanted.at.FromMicroseconds(-1)
    wanted.took.FromNanoseconds(-1)
    wanted.es.extend([1, 0])
    wanted.b.extend([1, -2])
    wanted.ats.add()
    wanted.ats.add().FromMilliseconds(1_500)
    assert result == wanted


def test_nulls_and_defaults_are_left_out() -> None:
    of = {item.name: item.type for item in SCHEMA.arrow_type}
    assert one(dict.fromkeys(of), of).ByteSize() == 0
    assert (
        one({"a": 0, "v": 0, "g": 0.0, "z": False, "raw": b"", "e": "ZERO", "b": [], "d": []}, of).ByteSize()
        == 0
    )
    assert one({"g": -0.0}, of).ByteSize() == 9
    assert one({"s": "", "n": {"x": 0}}, of) == JUDGE(s="", n={"x": 0})
    assert one({"n": {}, "m": {}}, of) == JUDGE(n={}, m={})
    assert one({"took": timedelta(microseconds=-1_500_000)}, of).took.nanos == -500_000_000


def test_what_lies_under_nulls_is_not_looked_at() -> None:
    hidden = pa.array([b"\xff", b"ok", b"\xff", b"ok"]).view(pa.string())
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 4]), hidden)
    under = pa.Array.from_buffers(
        lists.type,
        3,
        [pa.array([False, True, False]).buffers()[1], *lists.buffers()[1:2]],
        children=[lists.values],
    )
    column = pa.StructArray.from_arrays([under], ["y"])
    rows_of = pa.StructArray.from_arrays([column], ["n"])
    result = Encoder(SCHEMA, rows_of.type).encode(rows_of)
    assert [list(JUDGE.FromString(item.as_py()).n.y) for item in result] == [[], ["ok"], []]
    dead = pa.StructArray.from_arrays(
        [pa.StructArray.from_arrays([hidden], ["s"])], ["m"], mask=pa.array([True, True, True, False])
    )
    schema = parse('syntax = "proto3"; message M { N m = 1; message N { string s = 1; } }')
    assert Encoder(schema, dead.type).encode(dead).to_pylist() == [None, None, None, b"\x0a\x04\x0a\x02ok"]


@for_each(
    ("of", "mistake"),
    [
        (pa.int32(), "message M is a message and cannot be written from INT"),
        (pa.struct([("zz", pa.int32())]), "message M has no field zz for the column"),
        (
            pa.struct([("a", pa.int64())]),
            "field a of type int32 cannot be written from BIGINT: cast it to INT",
        ),
        (pa.struct([("a", pa.int32()), ("a", pa.int32())]), "has the column .a. twice"),
        (pa.struct([("b", pa.int64())]), "field b is repeated, and its column int64"),
        (pa.struct([("d", pa.list_(pa.int32()))]), "field d is a map, and its column list"),
        (
            pa.struct([("n", pa.struct([("x", pa.string())]))]),
            "field n.x of type int32 cannot be written from",
        ),
        (pa.struct([("at", pa.duration("us"))]), "field at is a message|cannot be written from INTERVAL"),
        (
            pa.struct([("s", pa.binary())]),
            "field s of type string cannot be written from BINARY: cast it to STRING",
        ),
    ],
)
def test_columns_that_do_not_fit_are_named(of: pa.DataType, mistake: str) -> None:
    with pytest.raises(OptionError, match=mistake):
        Encoder(SCHEMA, of)


@for_each(
    ("column", "mistake"),
    [
        (pa.array([{"e": "ONE"}, {"e": "TWO"}]), "row 1: the Protobuf field e is no value of the enum M.E"),
        (pa.array([{"u": 1}, None, {"u": 2**32}]), "row 2: the Protobuf field u is no fixed32"),
        (pa.array([{"u": -1}]), "row 0: the Protobuf field u is no fixed32"),
        (pa.array([{"b": []}, {"b": [1, None]}]), "row 1: the Protobuf field b has a null item"),
        (pa.array([{"l": [{"x": 1}]}, {"l": [None]}],
         pa.struct([("l", pa.list_(pa.struct([("x", pa.int32())])))])),
         "row 1: the Protobuf field l has a null item"),
        (pa.array([{"d": [("k", None)]}],
         pa.struct([("d", pa.map_(pa.string(), pa.struct([("x", pa.int32())])))])),
         "row 0: the Protobuf field d.value has a null item"),
        (pa.array([{"s": "a", "m": {"x": 1}}],
         pa.struct([("s", pa.string()), ("m", pa.struct([("x", pa.int32())]))])),
         "row 0: several fields of the Protobuf oneof o have values"),
        (pa.StructArray.from_arrays([pa.array([b"a", b"\xff"]).view(pa.string())], ["s"]),
         "row 1: the Protobuf field s is not UTF-8"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_are_named_with_their_rows(column: pa.Array, mistake: str) -> None:
    with pytest.raises(RowError, match=mistake):
        Encoder(SCHEMA, column.type).encode(column)


def test_required_fields_have_values() -> None:
    schema = parse(
        "message M { required int32 a = 1; optional N n = 2; message N { required string b = 1; } }"
    )
    with pytest.raises(OptionError, match="the Protobuf field a is required, and has no column"):
        Encoder(schema, pa.struct([]))
    column = pa.array(
        [{"a": 0, "n": None}, {"a": 0, "n": {"b": ""}}, None, {"a": 1, "n": {"b": None}}], schema.arrow_type
    )
    with pytest.raises(RowError, match=r"row 3: the Protobuf field n\.b is null, and is required"):
        Encoder(schema, column.type).encode(column)
    encoded = Encoder(schema, column.type).encode(column.slice(0, 3))
    assert encoded.to_pylist() == [b"\x08\x00", b"\x08\x00\x12\x02\x0a\x00", None]


def test_derived_schemas_write_their_columns() -> None:
    inner = pa.struct([("t", pa.string()), ("f", pa.list_(pa.field("element", pa.float32(), False)))])
    of = pa.struct(
        [
            ("id", pa.int64()),
            ("at", pa.timestamp("us", "UTC")),
            ("took", pa.duration("us")),
            ("in", inner),
            ("all", pa.list_(pa.field("element", inner, False))),
            ("by", pa.map_(pa.int32(), pa.field("value", inner, False))),
        ]
    )
    value = {"t": "", "f": [0.5, 0.0]}
    column = pa.array(
        [{"id": 0, "at": 7, "took": -7, "in": value, "all": [value], "by": [(1, value)]}, None], of
    )
    schema = schema_of(of, "a.B")
    encoded = Encoder(schema, of).encode(column)
    judge = message_class(compiled(schema.text), "a.B")
    assert expected(judge.FromString(encoded[0].as_py()), of) == plain_of(column[0])
    assert rows(schema, encoded.to_pylist()) == [plain_of(item) for item in column]


def test_room_grows_and_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    column = pa.array([{"b": [-(2**63)] * 5_000}, {"b": [1]}, {"b": [2**62] * 20_000}, {}])
    encoder = Encoder(SCHEMA, column.type)
    assert [list(JUDGE.FromString(item.as_py()).b) for item in encoder.encode(column)] == [
        item["b"] or [] for item in column.to_pylist()
    ]
    monkeypatch.setattr(encoding, "_SIZE_MAX", 1_000)
    with pytest.raises(LimitError, match="4 rows need room for more than 1000 bytes as Protobuf"):
        encoder.encode(column)


def test_columns_without_rows() -> None:
    for of in (SCHEMA.arrow_type, pa.struct([])):
        assert Encoder(SCHEMA, of).encode(pa.array([], of)).to_pylist() == []
        assert Encoder(SCHEMA, of).encode(pa.nulls(2, of)).to_pylist() == [None, None]
    assert Encoder(SCHEMA, pa.struct([])).encode(pa.array([{}, None], pa.struct([]))).to_pylist() == [
        b"",
        None,
    ]
