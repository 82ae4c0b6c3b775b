"""Types of JSON schemas, and the Arrow types of their values."""

from __future__ import annotations

from dataclasses import dataclass, field
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


@dataclass(slots=True, eq=False)
class JsonType:
    """A type of a schema.

    ``kind`` is JSON's name of it, ``map`` for an object without properties, or ``any`` for values of several
    types. ``items`` is the type of an array's items and of a map's values. ``symbols`` are the texts that a
    string may be. ``logical`` and ``width`` come from the hints of Kafka Connect: timestamp, date, decimal
    or bytes, and ``connect.type``.
    """

    kind: str
    nullable: bool = False
    fields: tuple[JsonField, ...] = ()
    items: JsonType | None = None
    symbols: tuple[str, ...] = ()
    logical: str = ""
    width: str = ""
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class JsonField:
    """A property of an object."""

    name: str
    type: JsonType
    may_be_missing: bool = field(default=True)


def arrow_type_of(of: JsonType) -> pa.DataType:
    """The Arrow type of a value."""
    if of.kind == "object":
        return pa.struct(
            [
                pa.field(each.name, arrow_type_of(each.type), each.may_be_missing or each.type.nullable)
                for each in of.fields
            ]
        )
    if of.kind in ("array", "map"):
        assert of.items is not None
        items = arrow_type_of(of.items)
        if of.kind == "array":
            return pa.list_(pa.field("element", items, of.items.nullable))
        return pa.map_(pa.string(), pa.field("value", items, of.items.nullable))
    if of.logical == "decimal":
        return pa.decimal128(of.precision, of.scale)
    if of.logical in _LOGICAL:
        return _LOGICAL[of.logical]
    return _WIDTHS.get((of.kind, of.width), _ARROW[of.kind])
