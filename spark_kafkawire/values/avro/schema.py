"""Avro schemas: parsed from JSON, and derived from Arrow types."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from spark_kafkawire.errors import OptionError, printable, quoted

from ..type_names import sql_name
from .types import PRIMITIVES, RECURSION_DEPTH, AvroField, AvroType, arrow_type_of

_NAMED: Final = ("record", "enum", "fixed")
#: Logical types without parameters, and the types that may have them.
_LOGICAL_KINDS: Final = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "uuid": ("string", "fixed"),
    "duration": ("fixed",),
}
_LOGICAL_SIZES: Final = {"uuid": 16, "duration": 12}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_FIXED_SIZE_MAX: Final = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Schema:
    """A schema, the JSON that it was parsed from, and the schemas that it refers to by their names."""

    root: AvroType
    text: str
    references: Mapping[str, str] = field(default_factory=dict)
    recursion_depth: int = RECURSION_DEPTH

    @cached_property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of a value. Raises ``OptionError`` (fatal) for types that Spark does not have."""
        return arrow_type_of(self.root, self.recursion_depth)

    def to_depth(self, recursion_depth: int) -> Schema:
        """The schema with another depth of records that contain themselves."""
        return replace(self, recursion_depth=recursion_depth)

    @property
    def name(self) -> str | None:
        """The full name of the root if it is a record, an enum or a fixed."""
        return self.root.name or None

    def __reduce__(self) -> tuple[Any, ...]:
        # A record may contain itself: types travel as text.
        return parse, (self.text, dict(self.references), self.recursion_depth)


def parse(
    text: str, references: Mapping[str, str] | None = None, recursion_depth: int = RECURSION_DEPTH
) -> Schema:
    """Parse a schema. ``references`` are texts of schemas, which define names that this one uses.

    Raises ``OptionError`` (fatal) that names the place of the mistake.
    """
    try:
        content = _json(text)
        root = _Parser(dict(references or {})).type_of(content, "", "the Avro schema")
        return Schema(root, json.dumps(content, separators=(",", ":")), references or {}, recursion_depth)
    except RecursionError:
        raise OptionError("the Avro schema is nested too deeply to be read: flatten it") from None


def _json(text: str) -> Any:
    if text.strip() in PRIMITIVES:
        return text.strip()
    try:
        content = json.loads(text)
        json.dumps(content, ensure_ascii=False).encode()  # JSON's escapes can be halves of characters
        return content
    except ValueError as error:
        raise OptionError(f"the Avro schema is not JSON: {printable(error)}; correct it") from None


@dataclass(slots=True)
class _Parser:
    """The named types that were read so far, by their full names."""

    references: dict[str, str]
    names: dict[str, AvroType] = field(default_factory=dict)

    def type_of(self, content: Any, namespace: str, place: str) -> AvroType:
        if isinstance(content, str):
            return self._named(content, namespace, place)
        if isinstance(content, list):
            return self._union(content, namespace, place)
        if not isinstance(content, dict) or "type" not in content:
            raise OptionError(
                f"{place}: a type is a name, a list or an object with the key type; correct the schema"
            )
        kind = content["type"]
        if kind in ("record", "error"):
            return self._record(content, namespace, place)
        if kind == "enum":
            return self._enum(content, namespace, place)
        if kind == "fixed":
            return self._fixed(content, namespace, place)
        if kind in ("array", "map"):
            key = "items" if kind == "array" else "values"
            items = self.type_of(_member(content, key, place), namespace, f"{place}.{key}")
            return AvroType(kind, items=items)
        if isinstance(kind, str) and kind in PRIMITIVES:
            return _with_logical(AvroType(kind), content)
        return self.type_of(kind, namespace, place)

    def _named(self, name: str, namespace: str, place: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        for each in (full, name):
            if each in self.names:
                return self.names[each]
            if each in self.references:
                self._read_reference(each)
                if each in self.names:
                    return self.names[each]
        for each in list(self.references):  # a reference may have another name than the type in it
            self._read_reference(each)
            if full in self.names:
                return self.names[full]
        raise OptionError(f"{place}: the type {quoted(name)} is not defined; define it, or correct the name")

    def _read_reference(self, name: str) -> None:
        text = self.references.pop(name, None)
        if text is not None:
            self.type_of(_json(text), "", f"the referenced schema {quoted(name)}")

    def _union(self, content: list[Any], namespace: str, place: str) -> AvroType:
        branches = [self.type_of(each, namespace, f"{place}[{i}]") for i, each in enumerate(content)]
        seen: set[str] = set()
        for branch in branches:
            key = branch.name or branch.kind
            if branch.kind == "union":
                raise OptionError(f"{place}: a union contains a union; list the branches of both in one")
            if key in seen:
                raise OptionError(f"{place}: a union contains {quoted(key)} twice; remove one")
            seen.add(key)
        if not branches:
            raise OptionError(f"{place}: a union has no branches; list one at least")
        return AvroType("union", branches=tuple(branches))

    def _define(self, content: dict[str, Any], namespace: str, place: str) -> tuple[AvroType, str]:
        """A named type without its content, and the namespace inside of it."""
        name = _text(content, "name", place)
        if "." in name:
            inside = name.rpartition(".")[0]
        else:
            given = content.get("namespace", namespace)
            inside = given if isinstance(given, str) else ""
            name = f"{inside}.{name}" if inside else name
        if name in self.names:
            raise OptionError(f"{place}: the type {quoted(name)} is defined twice; rename one")
        aliases = tuple(
            a if "." in a or not inside else f"{inside}.{a}" for a in _texts(content, "aliases", place)
        )
        kind = "record" if content["type"] == "error" else content["type"]
        defined = self.names[name] = AvroType(kind, name, aliases)
        return defined, inside

    def _record(self, content: dict[str, Any], namespace: str, place: str) -> AvroType:
        record, inside = self._define(content, namespace, place)
        fields = _member(content, "fields", place)
        if not isinstance(fields, list):
            raise OptionError(f"{place}: the fields of a record are not a list; write them in [ ]")
        record.fields = tuple(self._field(each, inside, printable(record.name)) for each in fields)
        names = [each.name for each in record.fields]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise OptionError(f"{place}: the record has the field {quoted(twice)} twice; rename one")
        return record

    def _field(self, content: Any, namespace: str, place: str) -> AvroField:
        if not isinstance(content, dict):
            raise OptionError(f'{place}: a field is not an object; write it as {{"name": …, "type": …}}')
        name = _text(content, "name", place)
        of = self.type_of(_member(content, "type", place), namespace, f"{place}.{printable(name)}")
        aliases = tuple(_texts(content, "aliases", place))
        return AvroField(name, of, aliases, content.get("default"), "default" in content)

    def _enum(self, content: dict[str, Any], namespace: str, place: str) -> AvroType:
        enum, _ = self._define(content, namespace, place)
        enum.symbols = tuple(_texts(content, "symbols", place))
        default = content.get("default")
        if default is not None and default not in enum.symbols:
            raise OptionError(
                f"{place}: the default {quoted(default)} of an enum is not among its symbols; add it there"
            )
        enum.default = default
        return enum

    def _fixed(self, content: dict[str, Any], namespace: str, place: str) -> AvroType:
        fixed, _ = self._define(content, namespace, place)
        size = _member(content, "size", place)
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _FIXED_SIZE_MAX:
            raise OptionError(f"{place}: {quoted(size)} is no size of a fixed; give 0 to {_FIXED_SIZE_MAX}")
        fixed.size = size
        return _with_logical(fixed, content)


def _member(content: dict[str, Any], key: str, place: str) -> Any:
    if key not in content:
        raise OptionError(f"{place}: the key {key} is missing; add it to the schema")
    return content[key]


def _text(content: dict[str, Any], key: str, place: str) -> str:
    text = _member(content, key, place)
    if not isinstance(text, str) or not text:
        raise OptionError(f"{place}: the key {key} is not a text; correct the schema")
    return text


def _texts(content: dict[str, Any], key: str, place: str) -> list[str]:
    texts = content.get(key, [])
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise OptionError(f"{place}: the key {key} is not a list of texts; correct the schema")
    return texts


def _with_logical(avro: AvroType, content: dict[str, Any]) -> AvroType:
    """The type with its logical type. One that does not fit is ignored, as Avro asks for."""
    logical = content.get("logicalType")
    if not isinstance(logical, str):
        return avro
    if logical == "decimal":
        precision: Any = content.get("precision")
        scale: Any = content.get("scale", 0)
        if avro.kind in ("bytes", "fixed") and _is_decimal(avro, precision, scale):
            avro.logical, avro.precision, avro.scale = logical, precision, scale
    elif avro.kind in _LOGICAL_KINDS.get(logical, ()) and (
        avro.kind != "fixed" or avro.size == _LOGICAL_SIZES[logical]
    ):
        avro.logical = logical
    return avro


def _is_decimal(avro: AvroType, precision: Any, scale: Any) -> bool:
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or precision < 1:
        return False
    return avro.kind == "bytes" or precision <= fixed_digits(avro.size)


def fixed_digits(size: int) -> int:
    """Decimal digits that every number of ``size`` bytes can have."""
    # Beyond 127 bytes the digits are more than any decimal of Spark has.
    return len(str(2 ** (8 * min(size, 127) - 1) - 1)) - 1 if size > 0 else 0


def schema_of(arrow_type: pa.DataType, name: str = "topLevelRecord") -> Schema:
    """Derive the schema of a column's values, as Spark's ``to_avro`` does.

    A nullable field is a union of null and its type, with the default null: its readers may have the field
    before its writers do.

    Raises ``OptionError`` (fatal) for a type that Avro does not have, or a name that Avro does not allow.
    """
    namespace, _, last = name.rpartition(".")
    return parse(json.dumps(_derived(arrow_type, last, namespace)))


def _derived(arrow_type: pa.DataType, name: str, namespace: str) -> Any:
    full = f"{namespace}.{name}" if namespace else name
    if pa.types.is_struct(arrow_type):
        fields = [_derived_field(each, full) for each in arrow_type]
        return {"type": "record", "name": _checked(full), "fields": fields}
    if pa.types.is_map(arrow_type):
        if not _is_text(arrow_type.key_type):
            raise OptionError(
                f"column {printable(full)}: keys of an Avro map are strings, not "
                f"{sql_name(arrow_type.key_type)}: cast them to STRING"
            )
        return {"type": "map", "values": _nullable(arrow_type.item_field, name, namespace)}
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return {"type": "array", "items": _nullable(arrow_type.value_field, name, namespace)}
    if pa.types.is_decimal(arrow_type):
        size = next(size for size in range(1, 33) if fixed_digits(size) >= arrow_type.precision)
        logical = {"logicalType": "decimal", "precision": arrow_type.precision, "scale": arrow_type.scale}
        return {"type": "fixed", "name": _checked(f"{full}.fixed"), "size": size, **logical}
    for is_type, derived in _DERIVED:
        if is_type(arrow_type):
            return derived
    if pa.types.is_timestamp(arrow_type) and arrow_type.unit == "us":
        logical_type = "local-timestamp-micros" if arrow_type.tz is None else "timestamp-micros"
        return {"type": "long", "logicalType": logical_type}
    raise OptionError(
        f"column {printable(full)}: Avro has no type for {sql_name(arrow_type)}: cast it to STRING or BIGINT"
    )


def _derived_field(column: pa.Field, record: str) -> dict[str, Any]:
    if not _NAME.match(column.name):
        raise OptionError(
            f"column {quoted(column.name)} of {printable(record)} is no name in Avro: rename it"
        )
    derived = {"name": column.name, "type": _nullable(column, column.name, record)}
    return {**derived, "default": None} if column.nullable else derived


def _nullable(column: pa.Field, name: str, namespace: str) -> Any:
    derived = _derived(column.type, name, namespace)
    return ["null", derived] if column.nullable and derived != "null" else derived


def _checked(full: str) -> str:
    if not all(map(_NAME.match, full.split("."))):
        raise OptionError(f"{quoted(full)} is no name in Avro: use letters, digits and underscores")
    return full


def _is_text(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type))


_DERIVED: Final = (
    (pa.types.is_boolean, "boolean"),
    (lambda of: of in (pa.int8(), pa.int16(), pa.int32()), "int"),
    (lambda of: of == pa.int64(), "long"),
    (lambda of: of == pa.float32(), "float"),
    (lambda of: of == pa.float64(), "double"),
    (_is_text, "string"),
    (lambda of: of in (pa.binary(), pa.large_binary()), "bytes"),
    (pa.types.is_null, "null"),
    (lambda of: of == pa.date32(), {"type": "int", "logicalType": "date"}),
    (pa.types.is_time64, {"type": "long", "logicalType": "time-micros"}),
)
