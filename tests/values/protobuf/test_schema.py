"""Schemas beside the official compiler's descriptors."""

from __future__ import annotations

import base64
import random
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pytest
from google.protobuf import descriptor as d
from google.protobuf import descriptor_pb2
from google.type import color_pb2

from spark_kafkawire.errors import OptionError
from spark_kafkawire.values.protobuf.schema import WELL_KNOWN, parse, schema_of
from spark_kafkawire.values.protobuf.types import Message
from tests.support.cases import for_each
from tests.support.short_and_long import short_and_long

from .drawn import DrawnSchema, assert_judged
from .protoc import compiled


@for_each("seed", range(25))
def test_schemas_are_those_of_the_official_compiler(seed: int) -> None:
    drawn = DrawnSchema(seed)
    schema = parse(drawn.text)
    assert schema.name == drawn.name
    assert_judged(schema, compiled(drawn.text).FindMessageTypeByName(drawn.name))


def test_all_schemas_of_google_type_are_built_in() -> None:
    files = {f"google/type/{path.name}" for path in Path(color_pb2.__file__).parent.glob("*.proto")}
    assert files - set(WELL_KNOWN) == set()


@for_each("name", sorted(set(WELL_KNOWN) - {"confluent/type/decimal.proto"}))
def test_built_in_schemas_are_the_official_ones(name: str) -> None:
    official = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2").DESCRIPTOR
    for kind in official.enum_types_by_name.values():
        root = parse(f'syntax = "proto3"; import "{name}"; message M {{ {kind.full_name} a = 1; }}').root
        assert root.fields[0].enum.values == tuple((value.name, value.number) for value in kind.values)
    if not official.message_types_by_name:
        return
    schema = parse(WELL_KNOWN[name])
    for index, item in enumerate(official.message_types_by_name.values()):
        result = schema.at((index,))
        assert result is not None
        assert_judged(result, item)


ORDERS = """
// An order.
syntax = "proto3";
package shop.v1;
import public "google/protobuf/timestamp.proto";
import "common/money.proto";
import "validate/validate.proto"; /* of options alone */
option java_package = "x"; option (custom).a = { b: 1 c { d: "}" } };
message Order {
  option (validate.message) = true;
  string id = 1 [json_name = "ID", (validate.rules).string = { in: ["a", "b"], min_len: 1 }];
  map<string, Item> items = 2;
  repeated .shop.v1.Order.Item list = 0x3;
  optional sint32 n = 4;
  oneof pick { option (x) = 1; Item one = 5; string two = 6; }
  google.protobuf.Timestamp at = 7;
  Color color = 8;
  common.Money price = 9;
  reserved 12 to max; reserved "message", 'x';
  message Item { uint64 v = 1; Nested nothing = 2; message Nested {} }
  enum Color { option allow_alias = true; RED = 0; BLUE = 1 [deprecated = true]; AZUR = 1; }
  message Last { bool is_last = 1; }
}
service Orders { rpc Get (Order) returns (stream Order) { option (http) = { get: "/" }; } }
message Refund { uint32 message = 1; fixed64 option = 2; };
"""
MONEY = """package common;
message Money { required int64 units = 1; optional string currency = 2 [default = 'EU' "R"];
extensions 5 to 9; }
extend Money { optional int32 more = 5; }
"""
REFERENCES = {"common/money.proto": MONEY}


def test_types_are_those_of_spark() -> None:
    item = pa.struct([("v", pa.int64())])
    assert parse(ORDERS, REFERENCES).arrow_type == pa.struct(
        [
            ("id", pa.string()),
            ("items", pa.map_(pa.string(), pa.field("value", item, False))),
            ("list", pa.list_(pa.field("element", item, False))),
            ("n", pa.int32()),
            ("one", item),
            ("two", pa.string()),
            ("at", pa.timestamp("us", "UTC")),
            ("color", pa.string()),
            ("price", pa.struct([pa.field("units", pa.int64(), False), ("currency", pa.string())])),
        ]
    )


def test_message_indexes_name_messages_and_are_found_by_names() -> None:
    schema = parse(ORDERS, REFERENCES)
    for indexes, name in (
        ((0,), "Order"),
        ((0, 0), "Order.Item"),
        ((0, 0, 0), "Order.Item.Nested"),
        ((0, 1), "Order.Last"),
        ((1,), "Refund"),
    ):
        result = schema.at(indexes)
        assert result is not None
        assert result.name == f"shop.v1.{name}"
        assert (
            schema.find_message_type(name).indexes
            == schema.find_message_type(f"shop.v1.{name}").indexes
            == indexes
        )
    for wrong in [(), (2,), (-1,), (0, 3), (1, 0), (0, 0, 0, 0)]:
        assert schema.at(wrong) is None
    counted_with_entries = schema.at((0, 2))
    assert counted_with_entries is not None
    assert counted_with_entries.name == "shop.v1.Order.Last"
    refund = schema.find_message_type("Refund")
    assert refund.arrow_type == pa.struct([("message", pa.int32()), ("option", pa.int64())])
    for name in ("common.Money", "Orders", ""):
        with pytest.raises(OptionError, match="has no message"):
            schema.find_message_type(name)


def test_recursive_messages_end_at_spark_s_depth() -> None:
    schema = parse(
        'syntax = "proto3"; message P { string n = 1; P b = 2; repeated P c = 3; map<int32, P> d = 4; }'
    )
    of = pa.struct([("n", pa.string())])
    for _ in range(2):
        of = pa.struct(
            [
                ("n", pa.string()),
                ("b", of),
                ("c", pa.list_(pa.field("element", of, False))),
                ("d", pa.map_(pa.int32(), pa.field("value", of, False))),
            ]
        )
    assert schema.arrow_type == of
    assert replace(schema, recursion_depth=3).arrow_type == of
    assert replace(schema, recursion_depth=1).arrow_type == pa.struct([("n", pa.string())])
    deeper = replace(schema, recursion_depth=4)
    assert deeper.arrow_type.field("b").type == of
    with pytest.raises(
        OptionError, match="message P contains itself: set recursiveFieldMaxDepth to 1 or more"
    ):
        _ = replace(schema, recursion_depth=-1).arrow_type
    with pytest.raises(OptionError, match="more than 20000 columns"):
        _ = replace(schema, recursion_depth=15).arrow_type


@for_each(
    ("text", "mistake"),
    [
        ("", "declares no message"),
        (
            "message M {",
            "line 1: 'optional' or 'required' or 'repeated' is expected, not 'the end of the text'",
        ),
        ('syntax = "proto4";', "the syntax 'proto4' is not supported"),
        ('edition = "2023"; message M {}', "editions are not supported"),
        ('syntax = "proto3";\nmessage M {\n  strin g = 1;\n}', "line 3: the type 'strin' is unknown"),
        (
            'syntax = "proto3"; import "a.proto"; message M { A a = 1; }',
            "not among its references: 'a.proto'",
        ),
        ('syntax = "proto3"; message M { int32 a = 0; }', "'0' is no number of a field"),
        ('syntax = "proto3"; message M { int32 a = 536870912; }', "is no number of a field"),
        ('syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }', "has a field or a number twice"),
        ('syntax = "proto3"; message M { int32 a = 1; int32 a = 2; }', "has a field or a number twice"),
        ('syntax = "proto3"; message M {} message M {}', "the type 'M' is declared twice"),
        ('syntax = "proto3"; message M { required int32 a = 1; }', "proto3 has no required fields"),
        ("message M { int32 a = 1; }", "'optional' or 'required' or 'repeated' is expected"),
        ("message M { optional int32 a = 1 [default = 2147483648]; }", "is no int32"),
        ("message M { optional E a = 1 [default = B]; enum E { A = 1; } }", "'B' is no value of the enum"),
        (
            "message M { optional M a = 1 [default = 1]; }",
            "a field of a message type cannot have a default: remove it",
        ),
        ("message M { optional bool a = 1 [default = 1]; }", "'true' or 'false' is expected"),
        ("enum E {}", "the enum 'E' has no values"),
        ("enum E { A = 2147483648; }", "is no int32"),
        ('syntax = "proto3"; message M { map<double, int32> a = 1; }', "is expected, not 'double'"),
        ('syntax = "proto3"; message M { string a = 1 ', "';' is expected"),
        ('syntax = "proto3"; message M { string a = 1 [', "ends in the middle of options"),
        ('syntax = "proto3"; option a = {', "ends in the middle of a statement"),
        ('syntax = "proto3"; option a = }', "'}' closes nothing"),
        ('syntax = "proto3"; message M { string § = 1; }', "is not part of a schema"),
        ('syntax = "proto3"; /* message M {}', "'*' is no part|is expected, not '/'"),
        ("message A {" * 40, "more than 32 messages are declared inside of each other"),
        ('syntax = "proto3"; message M { int32 a = ' + "9" * 10_000 + "; }", "is no number of a field"),
    ],
)
def test_mistakes_are_named_with_their_lines(text: str, mistake: str) -> None:
    with pytest.raises(OptionError, match=mistake.replace("(", r"\(")) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


def test_circles_of_imports_and_wide_schemas_end() -> None:
    circle = {
        "a": 'import "b"; message A { optional B b = 1; }',
        "b": 'import "a"; message B { optional A a = 1; }',
    }
    assert parse('import "a"; message M { optional A a = 1; }', circle).arrow_type == pa.struct([])
    levels = "".join(
        f"message M{i} {{ optional M{i + 1} a = 1; optional M{i + 1} b = 2; optional int32 c = 3; }}"
        for i in range(30)
    )
    with pytest.raises(OptionError, match="more than 20000 columns"):
        _ = parse(f"{levels} message M30 {{}}").arrow_type
    with pytest.raises(OptionError, match="more than"):
        parse('import "big"; message M {}', {"big": " " * (5 << 20)})


def test_hostile_schemas_end_in_one_error() -> None:
    chain = "".join(f"message M{i} {{ optional M{i + 1} a = 1; }}" for i in range(2_000)) + "message M2000 {}"
    with pytest.raises(OptionError, match="nested more than 100 times"):
        _ = parse(chain).arrow_type
    with pytest.raises(OptionError, match="is too long"):
        parse(f"package {'a.' * 100}a; message M {{}}")
    with pytest.raises(OptionError, match="is too long"):
        parse(f"message {'a' * 1_000} {{}}")
    options = f'syntax = "proto3"; message M {{ int32 a = 1 [{"(x) = {" * 5_000}'
    with pytest.raises(OptionError, match="ends in the middle of options"):
        parse(options)
    with pytest.raises(OptionError, match="the schema ends in the middle of a statement"):
        parse(f"option a = {'[' * 5_000}")


@short_and_long("count", short=600, long=20_000)
def test_mutated_schemas_end_in_a_schema_or_in_one_error(count: int) -> None:
    chance, seen = random.Random(1), Counter[bool]()
    tokens = [
        *"{}[]()<>;=,.-/*'\"\\",
        "message",
        "repeated",
        "oneof",
        "map<",
        "group",
        "default",
        "9" * 30,
        "\n",
        "\0",
    ]
    for number in range(count):
        text = DrawnSchema(number % 200).text if number % 3 else ORDERS
        for _ in range(chance.choice((1, 1, 2, 5))):
            location = chance.randrange(len(text) + 1)
            end = location + chance.choice((0, 0, 1, 3, 40))
            text = (
                text[:location]
                + chance.choice((chance.choice(tokens), "", text[end : end + 30]))
                + text[end:]
            )
        with suppress(OptionError):
            seen[parse(text, REFERENCES).arrow_type is not None] += 1
    assert count / 20 < seen[True] < count * 19 / 20


def test_schemas_are_derived_from_columns() -> None:
    inner = pa.struct([("a", pa.string()), ("a_type", pa.struct([("x", pa.bool_())]))])
    columns = pa.struct(
        [
            pa.field("i", pa.int32(), False),
            ("l", pa.int64()),
            ("f", pa.float32()),
            ("d", pa.float64()),
            ("s", pa.string()),
            ("b", pa.binary()),
            ("at", pa.timestamp("us", "UTC")),
            ("took", pa.duration("us")),
            ("in", inner),
            ("list", pa.list_(inner)),
            ("map", pa.map_(pa.string(), inner)),
        ]
    )
    schema = schema_of(columns, "shop.Row")
    assert schema.name == "shop.Row"
    assert [item.name for item in schema.arrow_type] == [item.name for item in columns]
    assert_judged(schema, compiled(schema.text).FindMessageTypeByName("shop.Row"))
    assert schema.arrow_type.field("in").type == inner
    for of, mistake in [
        (pa.int32(), "made of a struct"),
        (pa.struct([("a", pa.decimal128(3))]), "column M.a: Protobuf has no type for DECIMAL"),
        (pa.struct([("a b", pa.int32())]), "'a b' is no name in Protobuf"),
        (pa.struct([("a", pa.list_(pa.list_(pa.int32())))]), "has no type for ARRAY"),
        (pa.struct([("a", pa.map_(pa.float64(), pa.int32()))]), "keys of a Protobuf map cannot be DOUBLE"),
    ]:
        with pytest.raises(OptionError, match=mistake):
            schema_of(of, "M")


# --- Schemas as descriptors in base64 ---


def descriptor_of(text: str, references: dict[str, str] | None = None, name: str = "root.proto") -> bytes:
    content: bytes = compiled(text, references).FindFileByName(name).serialized_pb
    return content


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def order_of(message: Message) -> list[str]:
    """Messages inside of a message as descriptors count them."""
    return [item.name for item in message.hidden]


def judged_order(message: d.Descriptor) -> list[str]:
    proto = descriptor_pb2.DescriptorProto()
    message.CopyToProto(proto)
    return [f"{message.full_name}.{item.name}" for item in proto.nested_type]


@for_each("seed", range(25))
def test_descriptors_are_the_schemas_that_they_were_compiled_from(seed: int) -> None:
    text = DrawnSchema(seed).text
    pool = compiled(text)
    schema = parse(encoded(pool.FindFileByName("root.proto").serialized_pb))
    of_text = parse(text)
    assert schema.arrow_type == of_text.arrow_type
    for index, judge in enumerate(pool.FindFileByName("root.proto").message_types_by_name.values()):
        result = schema.at((index,))
        assert result is not None
        assert_judged(result, judge)
        in_text = of_text.at((index,))
        assert in_text is not None
        assert [item.name for item in result.root.messages] == [item.name for item in in_text.root.messages]
        if "group" not in text:  # one in a oneof has its place behind others
            assert order_of(result.root) == judged_order(judge)


def test_a_descriptor_keeps_its_own_text_and_imports_descriptors() -> None:
    money = 'syntax = "proto3"; package common; message Money { int64 units = 1; }'
    text = 'syntax = "proto3"; import "common/money.proto"; message A { common.Money m = 1; message B {} }'
    references = {"common/money.proto": money}
    content = encoded(descriptor_of(text, references))
    for given in (money, encoded(descriptor_of(text, references, "common/money.proto"))):
        schema = parse(content, {"common/money.proto": given}).find_message_type("A.B")
        assert (schema.text, schema.name, schema.indexes) == (content, "A.B", (0, 0))
        assert str(parse(content, {"common/money.proto": given}).arrow_type) == (
            "struct<m: struct<units: int64>>"
        )
    with pytest.raises(OptionError, match=r"the type '.common.Money' is unknown; imports that are not among"):
        parse(content)


def test_names_of_a_descriptor_are_names() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="x.proto", syntax="proto3")
    file.message_type.add(name="A {} message B").field.add(name="a", number=1, type="TYPE_INT32")
    with pytest.raises(OptionError, match=r"'A \{\} message B' is no name"):
        parse(encoded(file.SerializeToString()))
    file = descriptor_pb2.FileDescriptorProto(name="x.proto", syntax="editions")
    with pytest.raises(OptionError, match="syntax 'editions' is not supported"):
        parse(encoded(file.SerializeToString()))


@short_and_long("rounds", short=150, long=3_000)
def test_mutated_descriptors_end_in_a_schema_or_in_one_error(rounds: int) -> None:
    chance = random.Random(1)
    contents = [descriptor_of(DrawnSchema(seed).text) for seed in range(10)]
    for _ in range(rounds):
        content = bytearray(chance.choice(contents))
        for _ in range(chance.randint(1, 4)):
            location = chance.randrange(len(content))
            if chance.random() < 0.3:
                del content[location : location + chance.randint(1, 9)]
            else:
                content[location] = chance.randrange(256)
        with suppress(OptionError):
            _ = parse(encoded(bytes(content))).arrow_type


def test_a_message_is_declared_by_one_field() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="x.proto")
    message = file.message_type.add(name="A")
    for _ in range(30):
        for number in (1, 2):
            message.field.add(
                name=f"f{number}", number=number, label="LABEL_OPTIONAL", type="TYPE_GROUP", type_name="G"
            )
        message = message.nested_type.add(name="G")
    with pytest.raises(OptionError, match="two of its fields declare the same message"):
        parse(encoded(file.SerializeToString()))


@pytest.mark.parametrize(
    "content",
    [b"\x22\x7f", b"\x22", b"\x80" * 30, b"\x23", b"\x22\x02\x0a\x09", b"\x12\x01\xff", b"\x20\x01"],
)
def test_bytes_that_are_no_descriptor_are_one_error(content: bytes) -> None:
    with pytest.raises(OptionError) as error:
        parse(encoded(content))
    assert str(error.value).startswith("the Protobuf schema is a descriptor in base64, and ")
    assert "\n" not in str(error.value)


def test_messages_inside_of_each_other_have_an_end() -> None:
    content = b""
    for _ in range(5_000):
        size = len(content) + 3
        varint = bytearray()
        while size > 0x7F:
            varint.append(size & 0x7F | 0x80)
            size >>= 7
        content = b"\x1a" + bytes([*varint, size]) + b"\x0a\x01A" + content
    with pytest.raises(OptionError, match="more than 50 messages are declared inside of each other"):
        parse(encoded(b"\x22" + content[1:]))
