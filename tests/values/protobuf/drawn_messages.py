"""Messages of the official runtime at random, and their values as columns have them."""

from __future__ import annotations

import random
import struct
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor as Fd

_INTEGERS = {
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
    if cpp in _INTEGERS:
        low, high = _INTEGERS[cpp]
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
        return [_plain(field, each, of.value_type) for each in value]
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
        return {each.name: plain_of(value[index]) for index, each in enumerate(value.type)}
    if pa.types.is_map(value.type):
        pairs = value.values
        keys, items = pairs.field(0), pairs.field(1)
        found = {plain_of(keys[k]): plain_of(items[k]) for k in range(len(pairs))}
        assert len(found) == len(pairs)
        return found
    if pa.types.is_list(value.type):
        return [plain_of(each) for each in value.values]
    if pa.types.is_timestamp(value.type) or pa.types.is_duration(value.type):
        return value.value
    return struct.pack("<d", value.as_py()) if pa.types.is_floating(value.type) else value.as_py()
