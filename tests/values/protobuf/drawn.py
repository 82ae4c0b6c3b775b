"""Schemas and messages at random, and what the official compiler and runtime make of them."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor as d
from google.protobuf.descriptor import FieldDescriptor as Fd
from google.protobuf.message import DecodeError

from spark_kafkawire.values.payloads import Decoded, Fault, payloads_of
from spark_kafkawire.values.protobuf.decoding import Decoder
from spark_kafkawire.values.protobuf.schema import Schema
from spark_kafkawire.values.protobuf.types import SCALARS, Field, Message

_INTEGERS = ("int32", "int64", "uint32", "uint64", "sint32", "sint64")
_FIXED = ("fixed32", "fixed64", "sfixed32", "sfixed64")
_SCALARS = (*_INTEGERS, *_FIXED, "bool", "float", "double", "string", "bytes")
_KEYS = [name for name in _SCALARS if name not in ("float", "double", "bytes")]
_FILES = {
    "Timestamp": "timestamp",
    "Duration": "duration",
    "Any": "any",
    **dict.fromkeys(("StringValue", "BytesValue", "BoolValue", "DoubleValue", "FloatValue"), "wrappers"),
    **dict.fromkeys(("Int64Value", "UInt64Value", "Int32Value", "UInt32Value"), "wrappers"),
    "Struct": "struct",
    "ListValue": "struct",
    "FieldMask": "field_mask",
    "Empty": "empty",
}
#: A message without fields, which has no column: where it is required, no column can be written.
_EMPTY = "google.protobuf.Empty"
#: Messages that contain themselves, and one without a column, whose bytes are not looked at.
_NOT_PLAIN = tuple(f"google.protobuf.{name}" for name in ("Struct", "ListValue", "Empty"))
_OWN = tuple(f"google.protobuf.{name}" for name in _FILES)
_DEFAULTS = {
    "bool": "true",
    "string": '"d\\x41\\n"',
    "bytes": '"\\377\\0x"',
    "float": "-1.5",
    "double": "inf",
}


class DrawnSchema:
    """A schema; ``text`` is that of the whole, ``name`` the full name of its first message.

    A ``plain`` one has no maps, of which runtimes keep different entries where one has unknown fields, and no
    message that contains itself, of which columns end at some depth, or that has none. ``own`` are those of
    Protobuf itself.
    """

    def __init__(self, seed: int, *, plain: bool = False, own: tuple[str, ...] = _OWN) -> None:
        self._chance = random.Random(seed)
        self._plain = plain
        self._own = [name for name in own if not plain or name not in _NOT_PLAIN]
        self.is_proto3 = self._chance.random() < 0.6
        self.name = "drawn.M0"
        self._count = 0
        bodies = [self._message(f"M{index}", 0) for index in range(self._chance.randint(1, 3))]
        body = "".join(bodies)
        imports = {file for name, file in _FILES.items() if f"google.protobuf.{name}" in body}
        lines = [f'import "google/protobuf/{item}.proto";\n' for item in sorted(imports)]
        syntax = "proto3" if self.is_proto3 else "proto2"
        self.text = f'syntax = "{syntax}";\npackage drawn;\n{"".join(lines)}{body}'

    def _message(self, name: str, depth: int) -> str:
        chance, lines = self._chance, []
        messages = [f"In{depth}{index}" for index in range(chance.randint(0, 2) if depth < 2 else 0)]
        lines += [self._message(item, depth + 1) for item in messages]
        zero = "Z" if chance.random() < 0.5 else "zero"
        self._count += 1
        low = chance.choice((7, -3))
        lines.append(
            f"enum E {{ {zero}{self._count} = 0; two{self._count} = 2; odd{self._count} = {low}; }}\n"
        )
        numbers = (
            chance.sample(range(1, 40), 12) if chance.random() < 0.9 else [*range(1, 9), 20000, 2**29 - 1]
        )
        names = iter(f"f{index}" for index in range(100))
        types = [*messages, *messages, "E", *([name] if not self._plain and chance.random() < 0.5 else [])]
        oneof: list[str] = []
        for number in numbers[: chance.randint(1, len(numbers))]:
            self._field(next(names), number, types, lines, oneof)
        if oneof:
            lines.append("oneof choice { " + " ".join(oneof) + " }\n")
        return f"message {name} {{\n" + "".join(lines) + "}\n"

    def _field(self, name: str, number: int, types: list[str], lines: list[str], oneof: list[str]) -> None:
        chance = self._chance
        of = chance.choice(_SCALARS)
        if chance.random() < 0.4:
            of = chance.choice([*types, *self._own])
        kind = chance.random()
        if kind < 0.12 and not self._plain:
            lines.append(f"map<{chance.choice(_KEYS)}, {of}> {name} = {number};\n")
        elif kind < 0.3:
            packed = chance.choice(("", "", " [packed = true]", " [packed = false]"))
            packs = of in _SCALARS[:-2] or of == "E"
            lines.append(f"repeated {of} {name} = {number}{packed if packs else ''};\n")
        elif kind < 0.42:
            oneof.append(f"{of} {name} = {number};")
        elif self.is_proto3:
            lines.append(f"{'optional ' * (chance.random() < 0.3)}{of} {name} = {number};\n")
        elif kind < 0.5:
            lines.append(
                f"optional group G{name} = {number} {{ optional {of} x = 1; repeated int32 y = 2; }}\n"
            )
        elif kind < 0.56 and of not in (types[-1], _EMPTY):
            lines.append(f"required {of} {name} = {number};\n")
        else:
            default = _DEFAULTS.get(of, "5") if of in _SCALARS else f"two{self._count}"
            has_default = chance.random() < 0.4 and (of in _SCALARS or of == "E")
            lines.append(f"optional {of} {name} = {number}{f' [default = {default}]' * has_default};\n")


# --- Messages of the official runtime at random, and their values as columns have them ---

_RANGES = {
    Fd.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    Fd.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    Fd.CPPTYPE_UINT32: (0, 2**32 - 1),
    Fd.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_FLOATS = (0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan"), -3e38)
_TEXTS = ("", "a", "grün", "名前", "🎉" * 5, "x" * 200)


def fill(message: Any, chance: random.Random, depth: int = 0) -> Any:
    """Set some of a message's fields, and all that are required. Returns the message."""
    for field in message.DESCRIPTOR.fields:
        if not field.is_required and chance.random() < (0.35 if depth < 3 else 0.8):
            continue
        if field.is_repeated:
            _fill_repeated(message, field, chance, depth)
        elif field.message_type is not None:
            if depth < 4 or field.is_required:
                getattr(message, field.name).SetInParent()
                fill(getattr(message, field.name), chance, depth + 1)
        else:
            setattr(message, field.name, _value(field, chance))
    return message


def _fill_repeated(message: Any, field: Any, chance: random.Random, depth: int) -> None:
    items = getattr(message, field.name)
    count = chance.choice((0, 1, 1, 2, 3, 8 if depth < 2 else 1))
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = field.message_type.fields
        for _ in range(count):
            if value.message_type is not None:
                fill(items[_value(key, chance)], chance, depth + 2)
            else:
                items[_value(key, chance)] = _value(value, chance)
    elif field.message_type is not None:
        for _ in range(count if depth < 3 else 0):
            fill(items.add(), chance, depth + 2)
    else:
        items.extend(_value(field, chance) for _ in range(count))


def _value(field: Any, chance: random.Random) -> Any:
    cpp = field.cpp_type
    if cpp in _RANGES:
        low, high = _RANGES[cpp]
        if field.containing_type.full_name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
            low, high = (-(10**9) + 1, 10**9 - 1) if field.name == "nanos" else (-(10**10), 10**10)
        return chance.choice((0, low, high, min(1, high), chance.randint(low, high), chance.randint(0, 300)))
    if cpp == Fd.CPPTYPE_BOOL:
        return chance.random() < 0.5
    if cpp in (Fd.CPPTYPE_FLOAT, Fd.CPPTYPE_DOUBLE):
        return chance.choice(_FLOATS)
    if cpp == Fd.CPPTYPE_ENUM:
        numbers = [value.number for value in field.enum_type.values]
        return chance.choice(numbers if field.enum_type.is_closed else [*numbers, 99, -5])
    return chance.choice(_TEXTS).encode() if field.type == Fd.TYPE_BYTES else chance.choice(_TEXTS)


def expected(message: Any, of: pa.DataType) -> dict[str, Any]:
    """The official runtime's message as a row of this type; floats are their bytes, times microseconds."""
    fields = message.DESCRIPTOR.fields_by_name
    return {column.name: _field(message, fields[column.name], column.type) for column in of}


def _field(message: Any, field: Any, of: pa.DataType) -> Any:
    value = getattr(message, field.name)
    if pa.types.is_map(of):
        kinds = field.message_type.fields
        return {
            _plain(kinds[0], key, of.key_type): _plain(kinds[1], value[key], of.item_type) for key in value
        }
    if field.is_repeated:
        return [_plain(field, item, of.value_type) for item in value]
    plain = None if field.message_type is not None else _plain(field, value, of)
    if field.has_presence:
        is_present = message.HasField(field.name) or field.has_default_value
    else:
        is_present = plain != _plain(field, field.default_value, of)
    if not is_present:
        return None
    return _plain(field, value, of) if plain is None else plain


def _plain(field: Any, value: Any, of: pa.DataType) -> Any:
    if pa.types.is_timestamp(of) or pa.types.is_duration(of):
        return value.seconds * 1_000_000 + int(value.nanos / 1000)
    if field.message_type is not None:
        return expected(value, of)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else f"UNKNOWN_ENUM_VALUE_{field.enum_type.name}_{value}"
    if isinstance(value, float):
        return struct.pack("<d", value)
    if field.cpp_type == Fd.CPPTYPE_UINT32:
        return value - 2**32 if value >= 2**31 else value
    return value - 2**64 if field.cpp_type == Fd.CPPTYPE_UINT64 and value >= 2**63 else value


def plain_of(value: pa.Scalar) -> Any:
    """A value of a column in the same form."""
    if not value.is_valid:
        return None
    if pa.types.is_struct(value.type):
        return {item.name: plain_of(value[index]) for index, item in enumerate(value.type)}
    if pa.types.is_map(value.type):
        pairs = value.values
        keys, items = pairs.field(0), pairs.field(1)
        result = {plain_of(keys[k]): plain_of(items[k]) for k in range(len(pairs))}
        assert len(result) == len(pairs)
        return result
    if pa.types.is_list(value.type):
        return [plain_of(item) for item in value.values]
    if pa.types.is_timestamp(value.type) or pa.types.is_duration(value.type):
        return value.value
    return struct.pack("<d", value.as_py()) if pa.types.is_floating(value.type) else value.as_py()


# --- Messages that are decoded here, and drawn ones of the official runtime ---


def decoded(schema: Schema, messages: Iterable[bytes | None], *more: Any) -> Decoded:
    """The messages' values; the column is valid, and null where there are faults."""
    result = Decoder(schema, *more).decode(payloads_of(pa.array(list(messages), pa.binary())))
    result.column.validate(full=True)
    assert not any(valid for valid, bad in zip(result.column.is_valid(), result.faults, strict=True) if bad)
    return result


def rows(schema: Schema, messages: Iterable[bytes | None], *more: Any) -> list[Any]:
    """The messages' values, in which there is no fault."""
    result = decoded(schema, messages, *more)
    assert not result.faults.any(), [Fault(item).name for item in result.faults]
    return [plain_of(item) for item in result.column]


def drawn_messages(judge: Any, chance: random.Random, count: int) -> list[bytes]:
    """Messages, and pairs of them, which are merged: the later one wins."""
    alone = [fill(judge(), chance).SerializeToString() for _ in range(count)]
    return alone + [first + second for first, second in pairwise(alone)]


# --- Schemas in plain values, to compare them with the official compiler's descriptors ---

_KINDS = {getattr(d.FieldDescriptor, f"TYPE_{name.upper()}"): name for name in (*SCALARS, "message", "group")}


def shape(message: Message, seen: frozenset[str] = frozenset()) -> Any:
    """A message of ours as the judge's, in plain values."""
    if message.name in seen:
        return message.name
    inside = seen | {message.name}
    return message.name, [_schema_field(item, inside) for item in message.fields]


def _schema_field(each: Field, seen: frozenset[str]) -> Any:
    of = shape(each.message, seen) if each.is_message else _enum(each)
    default = (
        each.default.decode("utf-8", "replace") if each.kind == "string" and each.default else each.default
    )
    in_map = each.name in ("key", "value") and not each.has_presence
    presence = each.has_presence and not in_map
    return (
        each.name,
        each.number,
        each.kind,
        each.is_repeated,
        each.label == "required",
        presence,
        (each.is_packed),
        default,
        each.oneof,
        of,
    )


def _enum(each: Field) -> Any:
    return (each.enum.name, each.enum.values, each.enum.is_closed) if each.kind == "enum" else None


def judged(message: d.Descriptor, seen: frozenset[str] = frozenset()) -> Any:
    """The judge's message in plain values."""
    if message.full_name in seen:
        return message.full_name
    inside = seen | {message.full_name}
    return message.full_name, [_judged_field(item, inside) for item in message.fields]


def _judged_field(each: Any, seen: frozenset[str]) -> Any:
    kind = _KINDS[each.type]
    of = None
    if each.message_type is not None:
        of = judged(each.message_type, seen)
    elif each.enum_type is not None:
        values = tuple((value.name, value.number) for value in each.enum_type.values)
        of = (each.enum_type.full_name, values, each.enum_type.is_closed)
    oneof = each.containing_oneof
    is_real = oneof is not None and not oneof.name.startswith("_")
    in_map = each.containing_type.GetOptions().map_entry
    default = each.default_value if each.has_default_value else None
    return (
        each.name,
        each.number,
        kind,
        each.is_repeated,
        each.is_required,
        (each.has_presence or in_map),
        each.is_packed,
        default,
        oneof.name if is_real else "",
        of,
    )


def assert_judged(schema: Schema, judge: d.Descriptor) -> None:
    """The schema's message is the judge's."""
    assert shape(schema.root) == judged(judge)


# --- Messages beside what the official runtime makes of them ---

#: Faults of messages that the official runtime takes: it looks neither at texts of proto2 nor at times.
OURS_ALONE = {Fault.BAD_UTF8, Fault.NOT_REPRESENTABLE, Fault.TOO_LARGE}


def assert_message_judged(judge: Any, message: bytes, fault: Fault, value: pa.Scalar) -> Fault:
    """The value is the official one, or both refuse the message. Returns the fault."""
    try:
        official = judge.FromString(message)
    except DecodeError:
        assert fault != Fault.NONE, message
        return fault
    if not official.IsInitialized():
        assert fault == Fault.MISSING_FIELD or fault in OURS_ALONE, (fault, message)
    elif fault == Fault.NONE:
        assert plain_of(value) == expected(official, value.type)
    elif fault == Fault.BAD_WIRE_TYPE:  # the runtime takes a field of the number 0 in an unknown group
        assert _has_zero_field(message), message
    elif (
        fault == Fault.MISSING_FIELD
    ):  # the runtime forgets a message that another member of its oneof replaces
        assert _has_message_in_oneof(judge.DESCRIPTOR), message
    else:
        assert fault in OURS_ALONE, (fault, message)
    return fault


def _has_message_in_oneof(descriptor: Any, seen: frozenset[str] = frozenset()) -> bool:
    """True if a member of a oneof is a message, in this message or in one of its fields."""
    if descriptor.full_name in seen:
        return False
    inside = seen | {descriptor.full_name}
    return any(
        field.containing_oneof is not None or _has_message_in_oneof(field.message_type, inside)
        for field in descriptor.fields
        if field.message_type is not None
    )


def _has_zero_field(message: bytes) -> bool:
    """True if a group may begin in the message, and a field of the number 0 behind it."""
    groups = [location for location, byte in enumerate(message) if byte & 7 == 3]
    return bool(groups) and any(byte < 8 for byte in message[groups[0] + 1 :])
