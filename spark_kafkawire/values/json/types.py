"""Types of JSON schemas, the combination of several, and the Arrow types of their values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

#: Digits of a decimal in Spark.
PRECISION_MAX: Final = 38

_ARROW: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "string": pa.string(),
    "any": pa.string(),
}
_LOGICAL: Final = {"timestamp": pa.timestamp("us", tz="UTC"), "date": pa.date32(), "bytes": pa.binary()}
_WIDTHS: Final = {
    ("integer", "int8"): pa.int8(),
    ("integer", "int16"): pa.int16(),
    ("integer", "int32"): pa.int32(),
    ("number", "float32"): pa.float32(),
}


@dataclass(frozen=True, slots=True, eq=False)
class JsonType:
    """A type of a schema.

    ``kind`` is JSON's name of it, ``map`` for an object without properties, or ``any`` for values of several
    types. ``required`` names properties, also without ``fields``. ``items`` is the type of an array's items
    and of a map's values. ``symbols`` are the texts that a string may be. ``logical`` and ``width`` come from
    the hints of Kafka Connect: timestamp, date, decimal or bytes, and ``connect.type``.
    """

    kind: str
    nullable: bool = False
    fields: tuple[JsonField, ...] = ()
    required: frozenset[str] = frozenset()
    items: JsonType | None = None
    symbols: tuple[str, ...] = ()
    logical: str = ""
    width: str = ""
    precision: int = 0
    scale: int = 0

    def may_lack(self, name: str) -> bool:
        """True if a value may be without this property."""
        return name not in self.required

    @property
    def item_type(self) -> JsonType:
        """The type of an array's items and of a map's values."""
        assert self.items is not None
        return self.items

    @property
    def is_open(self) -> bool:
        """True if it says nothing of its values, but which properties are required."""
        return self.kind == "any" or (self.kind == "map" and self.item_type.kind == "any")


@dataclass(frozen=True, slots=True, eq=False)
class JsonField:
    """A property of an object."""

    name: str
    type: JsonType


ANY: Final = JsonType("any", True)


def arrow_type_of(of: JsonType) -> pa.DataType:
    """The Arrow type of a value."""
    if of.kind == "object":
        return pa.struct(
            [
                pa.field(each.name, arrow_type_of(each.type), of.may_lack(each.name) or each.type.nullable)
                for each in of.fields
            ]
        )
    if of.kind in ("array", "map"):
        items = arrow_type_of(of.item_type)
        if of.kind == "array":
            return pa.list_(pa.field("element", items, of.item_type.nullable))
        return pa.map_(pa.string(), pa.field("value", items, of.item_type.nullable))
    if of.logical == "decimal":
        return pa.decimal128(of.precision, of.scale)
    if of.logical in _LOGICAL:
        return _LOGICAL[of.logical]
    return _WIDTHS.get((of.kind, of.width), _ARROW[of.kind])


def union(types: Iterable[JsonType]) -> JsonType:
    """The type of values that have one of these types.

    Objects become one with the properties of all, as in Spark's inference of schemas; what has no type in
    common is ``any``.
    """
    given = list(types)
    nullable = any(each.nullable or each.kind == "null" for each in given)
    values = [each for each in given if each.kind != "null"]
    if not values:
        return JsonType("null", True)
    common = values[0]
    for each in values[1:]:
        common = _either(common, each)
    return replace(common, nullable=nullable or common.nullable)


def _either(one: JsonType, other: JsonType) -> JsonType:
    if {one.kind, other.kind} == {"integer", "number"}:
        return JsonType("number") if not (one.logical or other.logical) else ANY
    if one.kind != other.kind or one.logical != other.logical or (one.scale != other.scale):
        return ANY
    if one.kind == "object":
        named = {each.name: each.type for each in one.fields}
        for each in other.fields:
            named[each.name] = union([named[each.name], each.type]) if each.name in named else each.type
        fields = tuple(JsonField(name, of) for name, of in named.items())
        return JsonType("object", fields=fields, required=one.required & other.required)
    if one.kind in ("array", "map"):
        return JsonType(one.kind, items=union([one.item_type, other.item_type]))
    symbols = (*one.symbols, *other.symbols) if one.symbols and other.symbols else ()
    width = one.width if one.width == other.width else ""
    return replace(one, symbols=symbols, width=width, precision=max(one.precision, other.precision))


def both(one: JsonType, other: JsonType) -> JsonType | None:
    """The type of values that have both types; None where there is no such type."""
    nullable = one.nullable and other.nullable
    required = one.required | other.required
    if one.is_open or other.is_open:
        known, less = (other, one) if one.kind == "any" or not other.is_open else (one, other)
        if less.kind != "any" and known.kind not in ("map", "object"):
            return None
        return replace(known, nullable=nullable, required=required)
    if {one.kind, other.kind} == {"integer", "number"}:
        return replace(one if one.kind == "integer" else other, nullable=nullable)
    if one.kind != other.kind or one.logical != other.logical:
        return None
    if one.kind != "object":
        return replace(one, nullable=nullable, symbols=one.symbols or other.symbols)
    named = {each.name: each.type for each in one.fields}
    for each in other.fields:
        common = both(named[each.name], each.type) if each.name in named else each.type
        if common is None:
            return None
        named[each.name] = common
    fields = tuple(JsonField(name, of) for name, of in named.items())
    return JsonType("object", nullable, fields, required)
