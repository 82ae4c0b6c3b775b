"""Types of Avro schemas, and the Arrow types of their values.

The Arrow types are those that Spark's ``from_avro`` has: ``timestamp-millis`` and ``timestamp-micros`` are
timestamps in UTC, their local forms timestamps without a zone, ``time-millis`` and ``time-micros`` integers,
``fixed`` and ``duration`` binary, enums strings. A union of null and another type is nullable; a union of
several others is a struct with the fields ``member0``, ``member1`` and so on, with a value in one of them.

Source: https://avro.apache.org/docs/1.12.0/specification/ and Spark's SchemaConverters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from spark_kafkawire.errors import OptionError, printable

from ..faults import DEPTH_ADVICE

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
#: How often a record may be inside of itself, the outer one included, before the field is dropped: Spark's
#: ``recursiveFieldMaxDepth``. A depth below 1 refuses such records.
RECURSION_DEPTH: Final = 3
#: Columns that a schema may have, nested ones included: in a hostile schema each level doubles them.
COLUMNS_MAX: Final = 20_000
#: Digits of a decimal in Spark.
PRECISION_MAX: Final = 38

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_LOCAL_TIMESTAMP: Final = pa.timestamp("us")
_LOGICAL: Final = {
    "date": pa.date32(),
    "timestamp-millis": _TIMESTAMP,
    "timestamp-micros": _TIMESTAMP,
    "local-timestamp-millis": _LOCAL_TIMESTAMP,
    "local-timestamp-micros": _LOCAL_TIMESTAMP,
}
_ARROW: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "fixed": pa.binary(),
    "enum": pa.string(),
}
#: Unions that Spark reads as one number.
_WIDENED: Final = {frozenset(("int", "long")): pa.int64(), frozenset(("float", "double")): pa.float64()}


@dataclass(slots=True, eq=False)
class AvroType:
    """A type of a schema. A record may contain itself, so types are compared by identity.

    ``name`` is the full name of a record, an enum or a fixed. ``items`` is the type of an array's items and
    of a map's values. ``default`` is an enum's default symbol. ``logical`` is empty where the schema names
    no logical type, or one that does not fit.
    """

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    fields: tuple[AvroField, ...] = ()
    symbols: tuple[str, ...] = ()
    default: str | None = None
    items: AvroType | None = None
    branches: tuple[AvroType, ...] = ()
    size: int = 0
    logical: str = ""
    precision: int = 0
    scale: int = 0

    @property
    def item_type(self) -> AvroType:
        """The type of an array's items and of a map's values."""
        assert self.items is not None
        return self.items

    @property
    def has_null(self) -> bool:
        """True for null and for a union with null."""
        return self.kind == "null" or any(branch.kind == "null" for branch in self.branches)

    @property
    def values(self) -> tuple[AvroType, ...]:
        """The branches of a union without null; of another type, the type itself."""
        if self.kind != "union":
            return (self,)
        return tuple(branch for branch in self.branches if branch.kind != "null")

    @property
    def widened(self) -> pa.DataType | None:
        """The number that a union of two numbers is read as; None for everything else."""
        return _WIDENED.get(frozenset(value.kind for value in self.values)) if len(self.values) == 2 else None

    def read_as(self, branch: AvroType) -> AvroType:
        """The type that a branch is read as: without a logical type where the union is read as a number."""
        return branch if self.widened is None else AvroType(branch.kind)

    @property
    def has_members(self) -> bool:
        """True for a union whose column is a struct of members."""
        return self.kind == "union" and len(self.values) > 1 and self.widened is None


@dataclass(frozen=True, slots=True, eq=False)
class AvroField:
    """A field of a record; ``default`` is JSON, which counts only if ``has_default``."""

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    default: Any = None
    has_default: bool = False


def arrow_type_of(root: AvroType, recursion_depth: int = RECURSION_DEPTH) -> pa.DataType:
    """The Arrow type of a value. Raises ``OptionError`` (fatal) for types that Spark does not have."""
    try:
        arrow_type = _ArrowTypes(recursion_depth).of(root, {})
    except RecursionError:
        raise OptionError("the Avro schema is nested too deeply to be read: flatten it") from None
    if arrow_type is None:
        raise OptionError(
            f"the Avro type {printable(root.name)} contains itself and nothing else, so no column can hold "
            "it: add a field"
        )
    return arrow_type


@dataclass(slots=True)
class _ArrowTypes:
    recursion_depth: int
    count: int = field(default=0)

    def of(self, avro: AvroType, depths: Mapping[str, int]) -> pa.DataType | None:
        """The type of a value that is not null; None where a record contains itself too often."""
        self.count += 1
        if self.count > COLUMNS_MAX:
            raise OptionError(f"the Avro schema has more than {COLUMNS_MAX} columns: remove fields from it")
        if avro.kind == "record":
            return self._record(avro, depths)
        if avro.kind == "union":
            return self._union(avro, depths)
        if avro.kind not in ("array", "map"):
            return _leaf(avro)
        items = self.of(avro.item_type, depths)
        if items is None:
            return None
        nullable = avro.item_type.has_null
        if avro.kind == "array":
            return pa.list_(pa.field("element", items, nullable))
        return pa.map_(pa.string(), pa.field("value", items, nullable))

    def _record(self, avro: AvroType, depths: Mapping[str, int]) -> pa.DataType | None:
        depth = depths.get(avro.name, 0)
        if depth and self.recursion_depth < 1:
            raise OptionError(f"the Avro record {printable(avro.name)} contains itself: {DEPTH_ADVICE}")
        if depth >= max(1, self.recursion_depth):
            return None
        inside = {**depths, avro.name: depth + 1}
        named = [(each, self.of(each.type, inside)) for each in avro.fields]
        return pa.struct(
            [pa.field(each.name, of, each.type.has_null) for each, of in named if of is not None]
        )

    def _union(self, avro: AvroType, depths: Mapping[str, int]) -> pa.DataType | None:
        if not avro.values:
            return pa.null()
        if avro.widened is not None:
            return avro.widened
        if len(avro.values) == 1:
            return self.of(avro.values[0], depths)
        members = [(f"member{index}", self.of(each, depths)) for index, each in enumerate(avro.values)]
        return pa.struct([pa.field(name, of, True) for name, of in members if of is not None])


def _leaf(avro: AvroType) -> pa.DataType:
    if avro.logical == "decimal":
        if avro.precision > PRECISION_MAX:
            raise OptionError(
                f"an Avro decimal has {avro.precision} digits, and Spark's have at most {PRECISION_MAX}: "
                "lower its precision in the schema"
            )
        return pa.decimal128(avro.precision, avro.scale)
    return _LOGICAL.get(avro.logical, _ARROW[avro.kind])
