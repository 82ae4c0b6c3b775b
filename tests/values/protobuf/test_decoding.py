"""Decoded messages beside those of the official runtime."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError

from spark_kafkawire.errors import OptionError
from spark_kafkawire.records import compiler
from spark_kafkawire.values.payloads import Fault, payloads_of
from spark_kafkawire.values.protobuf.decoding import Decoder
from spark_kafkawire.values.protobuf.schema import parse
from tests.support.cases import for_each
from tests.support.kernels import interpreted_kernels
from tests.values.faults import field_of

from .drawn import (
    DrawnSchema,
    assert_message_judged,
    decoded,
    drawn_messages,
    expected,
    rows,
)
from .protoc import compiled, message_class


def assert_decoded(seed: int) -> None:
    """All messages of a drawn schema have the official values."""
    drawn = DrawnSchema(seed)
    judge = message_class(compiled(drawn.text), drawn.name)
    schema = parse(drawn.text)
    messages = drawn_messages(judge, random.Random(seed), 30)
    wanted = [expected(judge.FromString(item), schema.arrow_type) for item in messages]
    assert rows(schema, messages) == wanted


@pytest.mark.slow
@for_each("seed", range(30))
def test_messages_have_the_official_values(seed: int) -> None:
    assert_decoded(seed)


@pytest.mark.nightly
def test_many_messages_have_the_official_values() -> None:
    compiler.load()
    for seed in range(100, 1_100):
        assert_decoded(seed)


def test_kernels_give_the_same_interpreted_and_compiled() -> None:
    for load in (False, True):
        with interpreted_kernels():
            if load:
                compiler.load()
            for seed in range(1_000, 1_006):
                assert_decoded(seed)


WIDE = """
syntax = "proto3";
message M {
  int32 a = 1; repeated int64 b = 2; N n = 3; oneof o { string s = 4; N m = 5; R r = 6; }
  uint32 u = 7; E e = 8;
  repeated N l = 9; map<string, N> d = 10; sfixed32 f = 11; float g = 12;
  message N { int32 x = 1; repeated string y = 2; N in = 3; }
  message R { repeated N l = 1; int32 k = 2; }
  enum E { ZERO = 0; ONE = 1; UNO = 1; option allow_alias = true; }
}
message Other { int32 a = 1; }
"""
SCHEMA = parse(WIDE)
JUDGE = message_class(compiled(WIDE), "M")


def test_members_of_a_oneof_replace_each_other() -> None:
    parts = [JUDGE(s="a"), JUDGE(m={"x": 1, "y": ["p"]}), JUDGE(r={"l": [{"x": 5, "y": ["q", "r"]}], "k": 3})]
    parts += [JUDGE(m={"x": 2}), JUDGE(s=""), JUDGE(l=[{"y": ["z"]}])]
    chance = random.Random(1)
    chosen = [chance.choices(parts, k=chance.randrange(7)) for _ in range(300)]
    messages = [b"".join(item.SerializeToString() for item in some) for some in chosen]
    wanted = [expected(JUDGE.FromString(item), SCHEMA.arrow_type) for item in messages]
    assert rows(SCHEMA, messages) == wanted
    only_two = pa.struct([SCHEMA.arrow_type.field("m"), SCHEMA.arrow_type.field("l")])
    assert rows(SCHEMA, messages, None, only_two) == [{"m": item["m"], "l": item["l"]} for item in wanted]


def test_wide_oneofs_take_little_room() -> None:
    members = "".join(f"N m{index} = {index + 1};" for index in range(1_000))
    nested = "message N { int32 a = 1; repeated int32 b = 2; }"
    schema = parse(f'syntax = "proto3"; message M {{ oneof o {{ {members} }} }} {nested}')
    *_, table = Decoder(schema).program.arrays
    assert len(table) < 17_000
    result = decoded(schema, [b"\x0a\x02\x08\x05\x12\x04\x08\x06\x10\x07"])
    assert result.column[0]["m0"].as_py() is None
    assert result.column[0]["m1"].as_py() == {"a": 6, "b": [7]}


def test_a_projection_decodes_what_it_names() -> None:
    message = JUDGE(a=-1, b=[1, 2], n={"x": 3, "y": ["q"]}, u=2**32 - 1, e=1, l=[{"x": 4}], f=-5, g=0.5)
    message.d["k"].x = 6
    of = pa.struct(
        [
            ("g", pa.float64()),
            ("e", pa.int32()),
            ("u", pa.int64()),
            ("d", pa.map_(pa.string(), pa.struct([("x", pa.int64())]))),
            ("n", pa.struct([("y", pa.list_(pa.string()))])),
            ("f", pa.int64()),
            ("a", pa.int64()),
        ]
    )
    result = decoded(SCHEMA, [message.SerializeToString(), None], None, of)
    assert result.column.type == of
    assert result.column.to_pylist() == [
        {"g": 0.5, "e": 1, "u": 2**32 - 1, "d": [("k", {"x": 6})], "n": {"y": ["q"]}, "f": -5, "a": -1},
        None,
    ]
    for wrong, mistake in [
        (pa.struct([("zz", pa.int32())]), "message M has no field zz"),
        (pa.struct([("a", pa.string())]), "field a of type int32 cannot be read as STRING"),
        (
            pa.struct([("n", pa.struct([("x", pa.list_(pa.int32()))]))]),
            "field n.x of type int32 cannot be read",
        ),
        (pa.struct([("b", pa.int64())]), "field b of type repeated int64 cannot be read as BIGINT"),
        (pa.string(), "message M cannot be read as STRING"),
    ]:
        with pytest.raises(OptionError, match=mistake):
            Decoder(SCHEMA, None, wrong)


def test_fields_are_resolved_by_their_numbers() -> None:
    writer = """syntax = "proto3"; message W { int64 a = 1; string old = 2; repeated int32 c = 3; bytes d = 4;
    bool e = 5; In f = 6; int32 lost = 7; message In { int32 x = 1; fixed32 y = 2; } string g = 9; }"""
    reader = """syntax = "proto3"; message R { int32 renamed = 1; int32 new = 8; int64 c = 3; string d = 4;
    uint32 e = 5; In f = 6; message In { int64 x = 1; string only_here = 3; int32 y = 2; } int32 g = 9; }"""
    judge = message_class(compiled(writer), "W")
    messages = [judge(a=2**32 + 5, old="o", d=b"d", e=True, f={"x": 7}, lost=1), judge()]
    value = {
        "renamed": 5,
        "new": None,
        "c": None,
        "d": "d",
        "e": 1,
        "f": {"x": 7, "only_here": None, "y": None},
    }
    empty = dict.fromkeys(value)
    found = rows(parse(writer), [item.SerializeToString() for item in messages], parse(reader))
    assert found == [{**value, "g": None}, {**empty, "g": None}]
    refused = [judge(c=[1]), judge(f={"y": 1}), judge(g="text"), judge(d=b"\xff")]
    result = decoded(parse(writer), [item.SerializeToString() for item in refused], parse(reader))
    assert [Fault(item) for item in result.faults] == [Fault.UNRESOLVABLE_SCHEMA] * 3 + [Fault.BAD_UTF8]
    assert [field_of(result, row) for row in range(4)] == ["c", "f.y", "g", "d"]


def test_indexes_choose_the_message() -> None:
    other = decoded(SCHEMA, [b"\x08\x05"], None, None, (1,))
    assert other.column.to_pylist() == [{"a": 5}]
    nested = decoded(SCHEMA, [b"\x08\x05"], None, None, (0, 1))
    assert nested.column.to_pylist() == [{"l": [], "k": None}]
    with pytest.raises(OptionError, match=r"no message at the indexes \[2\]"):
        Decoder(SCHEMA, None, None, (2,))
    with pytest.raises(OptionError, match="are of the type 'Other', and the column is of 'M'"):
        Decoder(SCHEMA, parse(WIDE), None, (1,))


@pytest.mark.slow
def test_many_items_make_room_and_few_bytes_do_not_ask_for_much() -> None:
    messages = [
        JUDGE(b=range(count), l=[{"y": ["a"] * (count % 7)}] * count) for count in (0, 1, 5_000, 2, 300)
    ]
    wanted = [expected(item, SCHEMA.arrow_type) for item in messages]
    assert rows(SCHEMA, [item.SerializeToString() for item in messages]) == wanted
    columns = "".join(f"int64 f{index} = {index + 1};" for index in range(2_000))
    wide = parse(f'syntax = "proto3"; message M {{ repeated W w = 1; message W {{ {columns} }} }}')
    result = decoded(wide, [b"\x0a\x00" * 15, b"\x0a\x00" * 10_000, b"\x0a\x02\x08\x01"])
    assert [Fault(item) for item in result.faults] == [Fault.NONE, Fault.TOO_LARGE, Fault.NONE]
    assert field_of(result, 1) == "w"


@pytest.mark.parametrize("kind", ["length", "group"])
def test_deep_messages_are_refused_where_the_official_runtime_does(kind: str) -> None:
    schema = parse('syntax = "proto3"; message P { P p = 1; int32 x = 2; repeated P q = 3; }')
    judge = message_class(compiled(schema.text), "P")
    for depth in (90, 99, 100, 101, 150, 5_000):
        message = b"\x23" * depth + b"\x24" * depth
        if kind == "length":
            message = b""
            for _ in range(min(depth, 1_000)):
                message = b"\x0a" + _varint(len(message)) + message
        result = decoded(schema, [message])
        try:
            judge.FromString(message)
        except DecodeError:
            is_skipped = kind == "length"  # behind the depth at which columns end, bytes are not looked at
            assert Fault(result.faults[0]) == (Fault.NONE if is_skipped else Fault.TOO_DEEP)
        else:
            assert result.faults[0] == Fault.NONE


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _varint(number >> 7)


def test_sizes_have_five_bytes_at_most() -> None:
    schema = parse('syntax = "proto3"; message M { bytes b = 1; }')
    judge = message_class(compiled(schema.text), "M")
    for message in (b"\x0a\x81\x80\x80\x80\x00a", b"\x0a\x81\x80\x80\x80\x80\x00a"):
        result = decoded(schema, [message])
        assert_message_judged(judge, message, Fault(result.faults[0]), result.column[0])


def test_slices_and_columns_without_rows() -> None:
    messages = pa.array([b"\x08\x01", None, b"\xff", b"", b"\x08\x02"], pa.binary())
    decoder = Decoder(SCHEMA, None, pa.struct([("a", pa.int32())]))
    for start in range(6):
        for stop in range(start, 6):
            result = decoder.decode(payloads_of(messages.slice(start, stop - start)))
            wanted = [{"a": 1}, None, None, {"a": None}, {"a": 2}][start:stop]
            assert result.column.to_pylist() == wanted
            assert (result.faults != 0).tolist() == [False, False, True, False, False][start:stop]


def test_the_items_of_a_replaced_message_of_a_oneof_need_their_required_fields() -> None:
    text = """
        syntax = "proto2";
        message M { oneof choice { Inner a = 1; int32 b = 2; } }
        message Inner { repeated Item items = 1; }
        message Item { required int32 x = 1; }"""
    whole, replaced = b"\x0a\x04\x0a\x02\x08\x05\x10\x07", b"\x0a\x02\x0a\x00\x10\x07"
    assert message_class(compiled(text), "M").FromString(replaced).IsInitialized()
    result = decoded(parse(text), [whole, replaced])
    assert [Fault(item) for item in result.faults] == [Fault.NONE, Fault.MISSING_FIELD]
    assert result.column[0].as_py() == {"a": None, "b": 7}


def test_a_fault_in_a_field_without_a_column_names_that_field() -> None:
    schema = parse("syntax = 'proto3'; message M { oneof one { M m = 12; } }")
    result = decoded(schema, [b"b\x05"])
    assert (result.paths, result.fields.tolist()) == (("m",), [0])
