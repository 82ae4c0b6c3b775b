"""Schemas as descriptors in base64, which the official compiler makes, beside the same schemas as texts."""

from __future__ import annotations

import base64
import pickle
import random
from contextlib import suppress

import pytest
from google.protobuf import descriptor as d
from google.protobuf import descriptor_pb2

from spark_kafkawire.errors import OptionError
from spark_kafkawire.values.protobuf.schema import Schema, parse
from spark_kafkawire.values.protobuf.types import Message
from tests.support.cases import for_each
from tests.support.short_and_long import short_and_long

from .drawn_schemas import DrawnSchema
from .judged_schemas import assert_judged
from .protoc import compiled


def descriptor_of(text: str, references: dict[str, str] | None = None, name: str = "root.proto") -> bytes:
    content: bytes = compiled(text, references).FindFileByName(name).serialized_pb
    return content


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def order_of(message: Message) -> list[str]:
    """Messages inside of a message as descriptors count them."""
    return [each.name for each in message.hidden]


def judged_order(message: d.Descriptor) -> list[str]:
    proto = descriptor_pb2.DescriptorProto()
    message.CopyToProto(proto)
    return [f"{message.full_name}.{each.name}" for each in proto.nested_type]


@for_each("seed", range(80))
def test_descriptors_are_the_schemas_that_they_were_compiled_from(seed: int) -> None:
    text = DrawnSchema(seed).text
    pool = compiled(text)
    schema = parse(encoded(pool.FindFileByName("root.proto").serialized_pb))
    of_text = parse(text)
    assert schema.arrow_type == of_text.arrow_type
    for index, judge in enumerate(pool.FindFileByName("root.proto").message_types_by_name.values()):
        found = schema.at((index,))
        assert found is not None
        assert_judged(found, judge)
        in_text = of_text.at((index,))
        assert in_text is not None
        assert [each.name for each in found.root.messages] == [each.name for each in in_text.root.messages]
        if "group" not in text:  # one in a oneof has its place behind others
            assert order_of(found.root) == judged_order(judge)


def test_a_descriptor_travels_as_its_own_text_and_imports_descriptors() -> None:
    money = 'syntax = "proto3"; package common; message Money { int64 units = 1; }'
    text = 'syntax = "proto3"; import "common/money.proto"; message A { common.Money m = 1; message B {} }'
    references = {"common/money.proto": money}
    content = encoded(descriptor_of(text, references))
    for given in (money, encoded(descriptor_of(text, references, "common/money.proto"))):
        schema: Schema = pickle.loads(
            pickle.dumps(parse(content, {"common/money.proto": given}).at_name("A.B"))
        )
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


@short_and_long("rounds", short=500, long=3_000)
def test_mutated_descriptors_end_in_a_schema_or_in_one_error(rounds: int) -> None:
    chance = random.Random(1)
    contents = [descriptor_of(DrawnSchema(seed).text) for seed in range(10)]
    for _ in range(rounds):
        content = bytearray(chance.choice(contents))
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(content))
            if chance.random() < 0.3:
                del content[place : place + chance.randint(1, 9)]
            else:
                content[place] = chance.randrange(256)
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
