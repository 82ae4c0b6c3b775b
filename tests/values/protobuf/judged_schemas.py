"""Schemas in plain values, to compare them with the official compiler's descriptors."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor as d

from spark_kafkawire.values.protobuf.schema import Schema
from spark_kafkawire.values.protobuf.types import SCALARS, Field, Message

_KINDS = {getattr(d.FieldDescriptor, f"TYPE_{name.upper()}"): name for name in (*SCALARS, "message", "group")}


def shape(message: Message, seen: frozenset[str] = frozenset()) -> Any:
    """A message of ours as the judge's, in plain values."""
    if message.name in seen:
        return message.name
    inside = seen | {message.name}
    return message.name, [_field(each, inside) for each in message.fields]


def _field(each: Field, seen: frozenset[str]) -> Any:
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
    return message.full_name, [_judged_field(each, inside) for each in message.fields]


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
