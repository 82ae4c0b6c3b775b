"""Avro schemas: parsed from JSON, and derived from Arrow types; the Arrow types of their values, and
defaults of fields.

The Arrow types are those that Spark's ``from_avro`` has: ``timestamp-millis`` and ``timestamp-micros`` are
timestamps in UTC, their local forms timestamps without a zone, ``time-millis`` and ``time-micros`` integers,
``fixed`` and ``duration`` binary, enums strings. A union of null and another type is nullable; a union of
several others is a struct with the fields ``member0``, ``member1`` and so on, with a value in one of them.

Source: https://avro.apache.org/docs/1.12.0/specification/ and Spark's SchemaConverters.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from spark_kafkawire.errors import OptionError, printable, quote

from ..column_types import PRECISION_MAX, RECURSION_DEPTH, Nesting, inside, is_list, is_text, sql_name
from ..payloads import encode_integer

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")

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
        arrow_type = _ArrowTypes("the Avro schema", recursion_depth).of(root, {})
    except RecursionError:
        raise OptionError("the Avro schema is nested too deeply to be read: flatten it") from None
    if arrow_type is None:
        raise OptionError(
            f"the Avro type {printable(root.name)} contains itself and nothing else, so no column can hold "
            "it: add a field"
        )
    return arrow_type


class _ArrowTypes(Nesting):
    def of(self, avro: AvroType, depths: Mapping[str, int]) -> pa.DataType | None:
        """The type of a value that is not null; None where a record contains itself too often."""
        self.add()
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
        depths_inside = self.inside(avro.name, f"the Avro record {printable(avro.name)}", depths)
        if depths_inside is None:
            return None
        named = [(item, self.of(item.type, depths_inside)) for item in avro.fields]
        return pa.struct(
            [pa.field(item.name, of, item.type.has_null) for item, of in named if of is not None]
        )

    def _union(self, avro: AvroType, depths: Mapping[str, int]) -> pa.DataType | None:
        if not avro.values:
            return pa.null()
        if avro.widened is not None:
            return avro.widened
        if len(avro.values) == 1:
            return self.of(avro.values[0], depths)
        members = [(f"member{index}", self.of(item, depths)) for index, item in enumerate(avro.values)]
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
    """A schema, the JSON that it was parsed from, and how often a record may be inside of itself."""

    root: AvroType
    text: str
    recursion_depth: int = RECURSION_DEPTH

    @cached_property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of a value. Raises ``OptionError`` (fatal) for types that Spark does not have."""
        return arrow_type_of(self.root, self.recursion_depth)

    @property
    def name(self) -> str | None:
        """The full name of the root if it is a record, an enum or a fixed."""
        return self.root.name or None


def parse(text: str, references: Mapping[str, str] | None = None) -> Schema:
    """Parse a schema. ``references`` are texts of schemas, which define names that this one uses.

    Raises ``OptionError`` (fatal) that names the place of the mistake.
    """
    try:
        content = _json(text)
        root = _Parser(dict(references or {})).type_of(content, "", "the Avro schema")
        return Schema(root, json.dumps(content, separators=(",", ":")))
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
        full = name if "." in name else inside(namespace, name)
        for item in (full, name):
            if item in self.names:
                return self.names[item]
            if item in self.references:
                self._read_reference(item)
                if item in self.names:
                    return self.names[item]
        for item in list(self.references):  # a reference may have another name than the type in it
            self._read_reference(item)
            if full in self.names:
                return self.names[full]
        raise OptionError(f"{place}: the type {quote(name)} is not defined; define it, or correct the name")

    def _read_reference(self, name: str) -> None:
        text = self.references.pop(name, None)
        if text is not None:
            self.type_of(_json(text), "", f"the referenced schema {quote(name)}")

    def _union(self, content: list[Any], namespace: str, place: str) -> AvroType:
        branches = [self.type_of(item, namespace, f"{place}[{i}]") for i, item in enumerate(content)]
        seen: set[str] = set()
        for branch in branches:
            key = branch.name or branch.kind
            if branch.kind == "union":
                raise OptionError(f"{place}: a union contains a union; list the branches of both in one")
            if key in seen:
                raise OptionError(f"{place}: a union contains {quote(key)} twice; remove one")
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
            raise OptionError(f"{place}: the type {quote(name)} is defined twice; rename one")
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
        record.fields = tuple(self._field(item, inside, printable(record.name)) for item in fields)
        names = [item.name for item in record.fields]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise OptionError(f"{place}: the record has the field {quote(twice)} twice; rename one")
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
                f"{place}: the default {quote(default)} of an enum is not among its symbols; add it there"
            )
        enum.default = default
        return enum

    def _fixed(self, content: dict[str, Any], namespace: str, place: str) -> AvroType:
        fixed, _ = self._define(content, namespace, place)
        size = _member(content, "size", place)
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _FIXED_SIZE_MAX:
            raise OptionError(f"{place}: {quote(size)} is not a size of a fixed; give 0 to {_FIXED_SIZE_MAX}")
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
    if not isinstance(texts, list) or not all(isinstance(item, str) for item in texts):
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
    return avro.kind == "bytes" or precision <= count_fixed_digits(avro.size)


def count_fixed_digits(size: int) -> int:
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
    return parse(json.dumps(_derive_type(arrow_type, last, namespace)))


def _derive_type(arrow_type: pa.DataType, name: str, namespace: str) -> Any:
    full = inside(namespace, name)
    if pa.types.is_struct(arrow_type):
        fields = [_derive_field(item, full) for item in arrow_type]
        return {"type": "record", "name": _check_name(full), "fields": fields}
    if pa.types.is_map(arrow_type):
        if not is_text(arrow_type.key_type):
            raise OptionError(
                f"column {printable(full)}: keys of an Avro map are strings, not "
                f"{sql_name(arrow_type.key_type)}: cast them to STRING"
            )
        return {"type": "map", "values": _nullable(arrow_type.item_field, name, namespace)}
    if is_list(arrow_type):
        return {"type": "array", "items": _nullable(arrow_type.value_field, name, namespace)}
    if pa.types.is_decimal(arrow_type):
        size = next(size for size in range(1, 33) if count_fixed_digits(size) >= arrow_type.precision)
        logical = {"logicalType": "decimal", "precision": arrow_type.precision, "scale": arrow_type.scale}
        return {"type": "fixed", "name": _check_name(f"{full}.fixed"), "size": size, **logical}
    derived = _DERIVED.get(sql_name(arrow_type))
    if derived is not None and not (pa.types.is_timestamp(arrow_type) and arrow_type.unit != "us"):
        return derived
    raise OptionError(
        f"column {printable(full)}: Avro has no type for {sql_name(arrow_type)}: cast it to STRING or BIGINT"
    )


def _derive_field(column: pa.Field, record: str) -> dict[str, Any]:
    if not _NAME.match(column.name):
        raise OptionError(
            f"column {quote(column.name)} of {printable(record)} is not a valid Avro name: rename the column"
        )
    derived = {"name": column.name, "type": _nullable(column, column.name, record)}
    return {**derived, "default": None} if column.nullable else derived


def _nullable(column: pa.Field, name: str, namespace: str) -> Any:
    derived = _derive_type(column.type, name, namespace)
    return ["null", derived] if column.nullable and derived != "null" else derived


def _check_name(full: str) -> str:
    if not all(map(_NAME.match, full.split("."))):
        raise OptionError(f"{quote(full)} is not a valid Avro name: use letters, digits and underscores")
    return full


_TIME: Final = {"type": "long", "logicalType": "time-micros"}
_DERIVED: Final[dict[str, Any]] = {
    "BOOLEAN": "boolean",
    "TINYINT": "int",
    "SMALLINT": "int",
    "INT": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "STRING": "string",
    "BINARY": "bytes",
    "VOID": "null",
    "DATE": {"type": "int", "logicalType": "date"},
    "time64[us]": _TIME,
    "time64[ns]": _TIME,
    "TIMESTAMP": {"type": "long", "logicalType": "timestamp-micros"},
    "TIMESTAMP_NTZ": {"type": "long", "logicalType": "local-timestamp-micros"},
}


#: Values in one default: records that are defaults of records double them with each level.
_VALUES_MAX: Final = 10_000
#: Bytes of all strings in one default, for the same reason.
_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Branch:
    """A value of a union: the branch that it belongs to, counted from 0."""

    index: int
    value: Any


def default_of(default: Any, avro: AvroType, path: str) -> Any:
    """The value that a default has: a number, a str, bytes, a list, a dict, a ``Branch`` of a union.

    A record has a value for each of its fields. Of a union's branches the first one that the default fits
    has it. Raises ``OptionError`` (fatal) for a default that does not fit its type.
    """
    try:
        return _Defaults().of(default, avro)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, struct.error):
        raise OptionError(
            f"the default of the Avro field {printable(path)} does not fit its type: correct it"
        ) from None
    except (RecursionError, MemoryError):
        raise OptionError(
            f"the default of the Avro field {printable(path)} is too large: shorten it"
        ) from None


@dataclass(slots=True)
class _Defaults:
    count: int = 0
    size: int = 0

    def of(self, default: Any, avro: AvroType) -> Any:
        self.count += 1
        if self.count > _VALUES_MAX or self.size > _BYTES_MAX:
            raise MemoryError
        if avro.kind == "union":
            return self._branch(default, avro)
        if avro.kind == "record":
            given = {item.name: item.default for item in avro.fields if item.has_default} | {**default}
            return {item.name: self.of(given[item.name], item.type) for item in avro.fields}
        if avro.kind == "array":
            if type(default) is not list:
                raise TypeError
            return [self.of(item, avro.item_type) for item in default]
        if avro.kind == "map":
            self.size += sum(len(key.encode()) for key in default)
            return {key: self.of(item, avro.item_type) for key, item in default.items()}
        value = _leaf_value(default, avro)
        self.size += len(value) if isinstance(value, str | bytes) else 0
        return value

    def _branch(self, default: Any, avro: AvroType) -> Branch:
        for index, branch in enumerate(avro.branches):
            try:
                return Branch(index, self.of(default, branch))
            except (TypeError, ValueError, KeyError, AttributeError, OverflowError, struct.error):
                continue
        raise TypeError


def _leaf_value(default: Any, avro: AvroType) -> Any:
    of = type(default)
    if avro.kind == "null" and default is None:
        return None
    if avro.kind == "boolean" and of is bool:
        return default
    if avro.kind in ("int", "long") and of is int:
        bits = 31 if avro.kind == "int" else 63
        if -(2**bits) <= default < 2**bits:
            return default
    if avro.kind in ("float", "double") and of in (int, float):
        return struct.unpack("<f" if avro.kind == "float" else "<d", _pack_number(default, avro))[0]
    if avro.kind in ("string", "enum") and of is str:
        default.encode()
        if avro.kind == "string" or default in avro.symbols:
            return default
    if avro.kind in ("bytes", "fixed") and of is str:
        content = default.encode("latin-1")
        if avro.kind == "bytes" or len(content) == avro.size:
            return content
    raise TypeError


def _pack_number(number: float, avro: AvroType) -> bytes:
    return struct.pack("<f" if avro.kind == "float" else "<d", number)


def encode_default(value: Any, avro: AvroType) -> bytes:
    """The value that ``default_of`` gave, as Avro."""
    if isinstance(value, Branch):
        return encode_integer(value.index) + encode_default(value.value, avro.branches[value.index])
    if avro.kind == "record":
        return b"".join(encode_default(value[item.name], item.type) for item in avro.fields)
    if avro.kind in ("array", "map"):
        items = [
            (encode_bytes(item.encode()) + encode_default(value[item], avro.item_type))
            if avro.kind == "map"
            else encode_default(item, avro.item_type)
            for item in value
        ]
        return (encode_integer(len(items)) + b"".join(items) if items else b"") + b"\0"
    if avro.kind == "enum":
        return encode_integer(avro.symbols.index(value))
    if avro.kind in ("int", "long"):
        return encode_integer(value)
    if avro.kind in ("float", "double"):
        return _pack_number(value, avro)
    if avro.kind == "fixed":
        return bytes(value)
    if avro.kind in ("bytes", "string"):
        return encode_bytes(value if isinstance(value, bytes) else value.encode())
    return b"" if value is None else bytes([value])


def encode_bytes(content: bytes) -> bytes:
    """Bytes or a string with its size before it."""
    return encode_integer(len(content)) + content
