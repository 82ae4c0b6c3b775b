"""JSON schemas, drafts 4 to 2020-12: parsed, with their references (``$ref``), and derived from Arrow types;
the combination of several types, and the Arrow types of their values.

Types, required properties and enums of strings count. Other rules, such as ``minimum``, ``pattern`` or
``if``, are not checked. The formats ``date`` and ``date-time`` are strings, because no reader knows that all
writers follow them; a date or a timestamp in ``.schema(...)`` reads them as such. Hints of Kafka Connect make
numbers dates, timestamps and decimals.

Source: https://json-schema.org/draft-07/schema, and the class JsonSchemaData of Confluent's registry.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote, urljoin

import pyarrow as pa

from spark_kafkawire.errors import OptionError, printable, quote

from ..column_types import PRECISION_MAX, RECURSION_DEPTH, is_list, sql_name

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
    types. ``fields`` are an object's properties. ``required`` names properties, also without ``fields``.
    ``items`` is the type of an array's items and of a map's values. ``symbols`` are the texts that a string
    may be. ``logical`` and ``width`` come from the hints of Kafka Connect: timestamp, date, decimal or bytes,
    and ``connect.type``.
    """

    kind: str
    nullable: bool = False
    fields: Mapping[str, JsonType] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    items: JsonType | None = None
    symbols: tuple[str, ...] = ()
    logical: str = ""
    width: str = ""
    precision: int = 0
    scale: int = 0

    @property
    def item_type(self) -> JsonType:
        """The type of items; of a type that has none, ``ANY``."""
        return self.items or ANY

    @property
    def is_open(self) -> bool:
        """True if it says nothing of its values, but which properties are required."""
        return self.kind == "any" or (self.kind == "map" and self.item_type.kind == "any")


ANY: Final = JsonType("any", True)


def arrow_type_of(of: JsonType) -> pa.DataType:
    """The Arrow type of a value."""
    if of.kind == "object":
        return pa.struct(
            [
                pa.field(name, arrow_type_of(item), name not in of.required or item.nullable)
                for name, item in of.fields.items()
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
    nullable = any(item.nullable or item.kind == "null" for item in given)
    values = [item for item in given if item.kind != "null"]
    if not values:
        return JsonType("null", True)
    common = values[0]
    for item in values[1:]:
        common = _either(common, item)
    return replace(common, nullable=nullable or common.nullable)


def _either(one: JsonType, other: JsonType) -> JsonType:
    if {one.kind, other.kind} == {"integer", "number"}:
        return JsonType("number") if not (one.logical or other.logical) else ANY
    if one.kind != other.kind or one.logical != other.logical or (one.scale != other.scale):
        return ANY
    if one.kind == "object":
        fields = {**one.fields}
        for name, of in other.fields.items():
            fields[name] = union([fields[name], of]) if name in fields else of
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
    fields = {**one.fields}
    for name, of in other.fields.items():
        common = both(fields[name], of) if name in fields else of
        if common is None:
            return None
        fields[name] = common
    return JsonType("object", nullable, fields, required)


_DEFINITIONS: Final = ("definitions", "$defs")


class Documents:
    """A schema, whose name is empty, and those that it refers to by their names."""

    def __init__(self, root: Any, references: Mapping[str, str]) -> None:
        self._named = {
            name: parse_json(text, f"the reference {printable(name)}") for name, text in references.items()
        }
        self._named[""] = root
        self._by_id: dict[str, tuple[str, Any]] = {}
        for name, document in self._named.items():
            own = _id_of(document)
            for content in (document, *_definitions(document)):
                if _id_of(content):
                    self._by_id.setdefault(urljoin(own, _id_of(content)), (name, content))

    def resolve(self, ref: Any, document: str, place: str) -> tuple[str, Any]:
        """The name of the document in which a reference ends, and the content there."""
        if not isinstance(ref, str):
            raise OptionError(f"{place}: a $ref is not a text; correct the schema")
        base, _, fragment = ref.partition("#")
        name, content = self._document(base, document, place) if base else (document, self._named[document])
        for token in fragment.split("/")[1:]:
            token = unquote(token).replace("~1", "/").replace("~0", "~")
            if isinstance(content, dict) and token in content:
                content = content[token]
            elif isinstance(content, list) and token.isdecimal() and int(token) < len(content):
                content = content[int(token)]
            else:
                raise OptionError(f"{place}: the schema has no {quote(ref)}; add it, or correct the $ref")
        if fragment and not fragment.startswith("/"):
            content = _find_anchored(content, fragment)
            if content is None:
                raise OptionError(f"{place}: the schema has no {quote(ref)}; add it, or correct the $ref")
        return name, content

    def _document(self, base: str, document: str, place: str) -> tuple[str, Any]:
        full = urljoin(_id_of(self._named[document]), base)
        for name in (base, full):
            if name and name in self._named:
                return name, self._named[name]
        for known in (base, full):
            if known in self._by_id:
                return self._by_id[known]
        raise OptionError(
            f"{place}: the schema refers to {quote(base)}, which is not in its references; add it there"
        )


def parse_json(text: str, place: str) -> Any:
    """The JSON of a schema. Raises ``OptionError`` (fatal)."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise OptionError(f"{place} is not JSON: {printable(error)}; correct it") from None
    if not isinstance(content, (dict, bool)):
        raise OptionError(f"{place} is not a JSON schema: it is neither an object nor true; correct it")
    return content


def _id_of(content: Any) -> str:
    result = content.get("$id", "") if isinstance(content, dict) else ""
    return result.removesuffix("#") if isinstance(result, str) else ""


def _definitions(document: Any) -> list[Any]:
    places = [document.get(key) for key in _DEFINITIONS] if isinstance(document, dict) else []
    return [content for location in places if isinstance(location, dict) for content in location.values()]


def _find_anchored(document: Any, name: str) -> Any:
    for content in (document, *_definitions(document)):
        if isinstance(content, dict) and (content.get("$anchor") == name or content.get("$id") == f"#{name}"):
            return content
    return None


#: Types that a schema may have: in a hostile schema each level doubles them.
TYPES_MAX: Final = 20_000

_KINDS: Final = ("null", "boolean", "integer", "number", "string", "array", "object")
_OF_OBJECTS: Final = ("properties", "additionalProperties", "patternProperties", "required")
_OF_ARRAYS: Final = ("items", "prefixItems")
_CONNECT: Final = "org.apache.kafka.connect.data."
_PRECISION: Final = "connect.decimal.precision"


@dataclass(frozen=True, eq=False)
class Schema:
    """A schema, its title or ``$id``, and the JSON that it was parsed from."""

    root: JsonType
    name: str | None
    text: str

    @cached_property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of a value."""
        return arrow_type_of(self.root)


def parse(text: str, references: Mapping[str, str] | None = None) -> Schema:
    """Parse a schema. ``references`` are texts of schemas by the names that ``$ref`` has for them.

    ``name`` of the schema is its title, or its ``$id``. Raises ``OptionError`` (fatal) that names the place
    of the mistake.
    """
    try:
        content = parse_json(text, "the JSON schema")
        root = _Parser(Documents(content, references or {})).type_of(content, _Place("the JSON schema"))
        if root is None:
            raise OptionError(
                "the JSON schema contains itself and nothing else, so no column can hold it: add a property"
            )
        texts = [content.get(key) for key in ("title", "$id")] if isinstance(content, dict) else []
        name = next((item for item in texts if isinstance(item, str) and item), None)
        return Schema(root, name, json.dumps(content, separators=(",", ":")))
    except RecursionError:
        raise OptionError("the JSON schema is nested too deeply to be read: flatten it") from None


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a type: for errors, its document, and how often it is inside of each reference."""

    name: str
    document: str = ""
    depths: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def inside(self, name: str) -> _Place:
        return replace(self, name=f"{self.name}.{printable(name)}")


@dataclass(slots=True)
class _Parser:
    documents: Documents
    count: int = 0

    def type_of(self, content: Any, place: _Place) -> JsonType | None:
        """The type at a place; None where a schema contains itself too often."""
        self.count += 1
        if self.count > TYPES_MAX:
            raise OptionError(f"the JSON schema has more than {TYPES_MAX} types: remove properties from it")
        if content is True:
            return ANY
        if not isinstance(content, dict):
            raise OptionError(
                f"{place.name}: a type is an object or true, not {printable(json.dumps(content))}; correct it"
            )
        parts = [self._own(content, place)]
        if "$ref" in content:
            parts.append(self._follow_reference(content, place))
        for index, item in enumerate(_list(content, "allOf", place)):
            parts.append(self.type_of(item, place.inside(f"allOf.{index}")))
        for key in ("oneOf", "anyOf"):
            branches = _list(content, key, place)
            types = [self.type_of(item, place.inside(f"{key}.{at}")) for at, item in enumerate(branches)]
            if types:
                parts.append(union(item for item in types if item is not None))
        return self._all(parts, place)

    def _all(self, parts: list[JsonType | None], place: _Place) -> JsonType | None:
        result = ANY
        for item in parts:
            if item is None:
                return None
            common = both(result, item)
            if common is None:
                raise OptionError(
                    f"{place.name}: the schema asks for a value that is both {result.kind} and {item.kind}; "
                    "correct it"
                )
            result = common
        return result

    def _follow_reference(self, content: dict[str, Any], place: _Place) -> JsonType | None:
        document, target = self.documents.resolve(content["$ref"], place.document, place.name)
        key = document, id(target)
        depth = place.depths.get(key, 0)
        if depth >= RECURSION_DEPTH:
            return None
        return self.type_of(target, _Place(place.name, document, {**place.depths, key: depth + 1}))

    def _own(self, content: dict[str, Any], place: _Place) -> JsonType | None:
        """The type without references and branches."""
        kinds = content.get("type", [])
        kinds = kinds if isinstance(kinds, list) else [kinds]
        unknown = [item for item in kinds if item not in _KINDS]
        if unknown:
            raise OptionError(
                f"{place.name}: {quote(unknown[0])} is no type of JSON; write one of {', '.join(_KINDS)}"
            )
        if not kinds:
            kinds = _infer_types(content)
        types = [self._parse_kind(kind, content, place) for kind in kinds]
        if None in types:
            return None
        result = union(item for item in types if item is not None) if types else ANY
        values = content["enum"] if "enum" in content else [content["const"]] if "const" in content else None
        if values is not None:
            result = _type_of_enumerated(result, values, place)
        return replace(result, nullable=True) if content.get("nullable") is True else result

    def _parse_kind(self, kind: str, content: dict[str, Any], place: _Place) -> JsonType | None:
        if kind == "object":
            return self._object(content, place)
        if kind == "array":
            items: Any = content.get("items", True)
            is_tuple = isinstance(items, list) or "prefixItems" in content
            inner = self.type_of(True if is_tuple else items, place.inside("items"))
            return None if inner is None else JsonType("array", items=inner)
        return _leaf(kind, content, place)

    def _object(self, content: dict[str, Any], place: _Place) -> JsonType | None:
        properties = content.get("properties", {})
        if not isinstance(properties, dict):
            raise OptionError(f"{place.name}: properties are not an object; write them in {{ }}")
        required = content.get("required", [])
        listed = required if isinstance(required, list) else []
        names = frozenset(item for item in listed if isinstance(item, str))
        if not properties:
            items = self._values(content, place)
            return None if items is None else JsonType("map", items=items, required=names)
        types = {name: self.type_of(item, place.inside(name)) for name, item in properties.items()}
        indexes: dict[str, Any] = {
            name: item.get("connect.index") if isinstance(item, dict) else None
            for name, item in properties.items()
        }
        if all(type(index) is int for index in indexes.values()):
            types = {name: types[name] for name in sorted(types, key=lambda name: indexes[name])}
        fields = {name: of for name, of in types.items() if of is not None}
        return JsonType("object", fields=fields, required=names)

    def _values(self, content: dict[str, Any], place: _Place) -> JsonType | None:
        """The type of a map's values."""
        patterns = content.get("patternProperties")
        given = list(patterns.values()) if isinstance(patterns, dict) else []
        more = content.get("additionalProperties", not given)
        if more is not False or not given:
            given.append(more or True)
        types = [self.type_of(item, place.inside("values")) for item in given]
        return None if None in types else union(item for item in types if item is not None)


def _list(content: dict[str, Any], key: str, place: _Place) -> list[Any]:
    result = content.get(key, [])
    if not isinstance(result, list):
        raise OptionError(f"{place.name}: {key} is not a list; write it in [ ]")
    return result


def _infer_types(content: dict[str, Any]) -> list[str]:
    """The types that a schema without ``type`` speaks of."""
    if any(key in content for key in _OF_OBJECTS):
        return ["object"]
    return ["array"] if any(key in content for key in _OF_ARRAYS) else []


def _leaf(kind: str, content: dict[str, Any], place: _Place) -> JsonType:
    title, width = content.get("title"), content.get("connect.type")
    result = JsonType(kind, kind == "null", width=width if isinstance(width, str) else "")
    if kind == "string" and (width == "bytes" or content.get("contentEncoding") == "base64"):
        return replace(result, logical="bytes")
    if kind == "integer" and title == f"{_CONNECT}Timestamp":
        return replace(result, logical="timestamp")
    if kind == "integer" and title == f"{_CONNECT}Date":
        return replace(result, logical="date")
    if kind == "number" and title == f"{_CONNECT}Decimal":
        return _decimal(result, content, place)
    return result


def _decimal(result: JsonType, content: dict[str, Any], place: _Place) -> JsonType:
    parameters = content.get("connect.parameters")
    given = parameters if isinstance(parameters, dict) else {}
    try:
        scale, precision = int(given["scale"]), int(given.get(_PRECISION, PRECISION_MAX))
    except (KeyError, TypeError, ValueError):
        return result  # a number without a scale
    if not 0 <= scale <= precision <= PRECISION_MAX or precision < 1:
        raise OptionError(
            f"{place.name}: a decimal of {precision} digits, {scale} of them after the point, does not "
            f"exist in Spark; give at most {PRECISION_MAX} digits"
        )
    return replace(result, logical="decimal", precision=precision, scale=scale)


def _type_of_enumerated(result: JsonType, values: Any, place: _Place) -> JsonType:
    """The type of listed values, as far as they have ``found``."""
    if not isinstance(values, list):
        raise OptionError(f"{place.name}: an enum is not a list; write it in [ ]")
    types = union(JsonType(_kind_of(item), item is None) for item in values)
    symbols = tuple(item for item in values if isinstance(item, str))
    if result.kind == "any":
        result = types
    if result.kind == "string" and types.kind == "string":
        result = replace(result, symbols=symbols)
    return replace(result, nullable=result.nullable and types.nullable)


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    kinds = {str: "string", int: "integer", float: "number", type(None): "null"}
    return kinds.get(type(value), "any")


def schema_of(arrow_type: pa.DataType, name: str = "topLevelRecord") -> Schema:
    """Derive the schema of a column's values, of draft 7, with Kafka Connect's hints.

    A nullable field is not required, and may be null. Dates and timestamps are strings with a format.

    Raises ``OptionError`` (fatal) for a type that JSON does not have.
    """
    derived = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": name,
        **_derive_type(arrow_type, name),
    }
    return parse(json.dumps(derived))


def _derive_type(of: pa.DataType, place: str) -> dict[str, Any]:
    if pa.types.is_struct(of):
        properties = {
            item.name: {**_nullable(item, f"{place}.{item.name}"), "connect.index": index}
            for index, item in enumerate(of)
        }
        if len(properties) < of.num_fields:
            raise OptionError(f"column {printable(place)}: a field is there twice: rename one")
        required = [item.name for item in of if not item.nullable]
        return {"type": "object", "properties": properties, **({"required": required} if required else {})}
    if pa.types.is_map(of):
        values = _nullable(of.item_field, f"{place}.value")
        return {"type": "object", "connect.type": "map", "additionalProperties": values}
    if is_list(of):
        return {"type": "array", "items": _nullable(of.value_field, f"{place}.element")}
    if pa.types.is_decimal128(of):
        parameters = {"scale": str(of.scale), _PRECISION: str(of.precision)}
        title = {"title": f"{_CONNECT}Decimal", "connect.type": "bytes", "connect.parameters": parameters}
        return {"type": "number", **title}
    derived = _DERIVED.get(sql_name(of))
    if derived is not None:
        return derived
    raise OptionError(
        f"column {printable(place)}: JSON has no values of {sql_name(of)}: cast it to STRING or BIGINT"
    )


def _nullable(column: pa.Field, place: str) -> dict[str, Any]:
    derived = _derive_type(column.type, place)
    return (
        {"oneOf": [{"type": "null"}, derived]} if column.nullable and derived["type"] != "null" else derived
    )


_DERIVED: Final[dict[str, dict[str, Any]]] = {
    "BOOLEAN": {"type": "boolean"},
    "TINYINT": {"type": "integer", "connect.type": "int8"},
    "SMALLINT": {"type": "integer", "connect.type": "int16"},
    "INT": {"type": "integer", "connect.type": "int32"},
    "BIGINT": {"type": "integer", "connect.type": "int64"},
    "FLOAT": {"type": "number", "connect.type": "float32"},
    "DOUBLE": {"type": "number", "connect.type": "float64"},
    "STRING": {"type": "string"},
    "BINARY": {"type": "string", "contentEncoding": "base64", "connect.type": "bytes"},
    "DATE": {"type": "string", "format": "date"},
    "TIMESTAMP": {"type": "string", "format": "date-time"},
    "TIMESTAMP_NTZ": {"type": "string", "format": "date-time"},
    "VOID": {"type": "null"},
}
