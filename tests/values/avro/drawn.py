"""Drawn Avro schemas, readers' schemas, and values, in the forms of fastavro and of Arrow.

Hypothesis draws the schemas; a seeded generator makes their values, so that a run of a million rows is short.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Context, Decimal
from itertools import count
from random import Random
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
from hypothesis import strategies as st

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
#: Logical types without a name.
LOGICAL: Final[list[dict[str, Any]]] = [
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "string", "logicalType": "uuid"},
]
_EPOCH: Final = datetime(1970, 1, 1)
_MICROS: Final = (
    (datetime(1, 1, 2) - _EPOCH) // timedelta(microseconds=1),
    (datetime(9999, 12, 30) - _EPOCH) // timedelta(microseconds=1),
)
_CHARACTERS: Final = "ab\0é€😀"
_EXACT: Final = Context(prec=100)


# Schemas


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> Any:
    """A schema; each named type has a name of its own, and is referred to inside of itself only."""
    return _drawn(draw, depth, count(), ())


def _drawn(draw: st.DrawFn, depth: int, names: Iterator[int], open_names: tuple[str, ...]) -> Any:
    simple = ["primitive", "primitive", "logical", "enum", "fixed", "decimal"]
    deep = ["nullable", "array", "map", "record", "record", "union"] if depth else []
    kind = draw(st.sampled_from(simple + deep))
    if kind == "primitive":
        return draw(st.sampled_from(PRIMITIVES[1:]))
    if kind == "logical":
        return dict(draw(st.sampled_from(LOGICAL)))
    if kind == "array":
        return {"type": "array", "items": _drawn(draw, depth - 1, names, open_names)}
    if kind == "map":
        return {"type": "map", "values": _drawn(draw, depth - 1, names, open_names)}
    if kind == "nullable":
        inner = _drawn(draw, depth - 1, names, open_names)
        return inner if isinstance(inner, list) else draw(st.sampled_from([["null", inner], [inner, "null"]]))
    if kind == "union":
        return _drawn_union(draw, depth, names, open_names)
    return _drawn_named(draw, kind, depth, names, open_names)


def _drawn_named(
    draw: st.DrawFn, kind: str, depth: int, names: Iterator[int], open_names: tuple[str, ...]
) -> Any:
    name = f"shop.T{next(names)}"
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": ["A", "B", "C"][: draw(st.integers(1, 3))]}
    if kind == "fixed":
        if draw(st.booleans()):
            return {"type": "fixed", "name": name, "size": 12, "logicalType": "duration"}
        return {"type": "fixed", "name": name, "size": draw(st.integers(0, 20))}
    if kind == "decimal":
        precision = draw(st.integers(1, 38))
        of = {"logicalType": "decimal", "precision": precision, "scale": draw(st.integers(0, precision))}
        if draw(st.booleans()):
            return {"type": "bytes", **of}
        return {"type": "fixed", "name": name, "size": draw(st.integers((precision + 3) // 2, 20)), **of}
    fields = [
        {"name": f"f{index}", "type": _drawn(draw, depth - 1, names, (*open_names, name))}
        for index in range(draw(st.integers(0, 4)))
    ]
    if draw(st.integers(0, 3)) == 0:
        again = draw(st.sampled_from([*open_names, name]))
        forms = [["null", again], {"type": "array", "items": again}, {"type": "map", "values": again}]
        fields.append({"name": "again", "type": draw(st.sampled_from(forms))})
    return {"type": "record", "name": name, "fields": fields}


def _drawn_union(draw: st.DrawFn, depth: int, names: Iterator[int], open_names: tuple[str, ...]) -> Any:
    """Branches that Python's types tell apart. The judge takes the first that fits: integers come first."""
    if draw(st.integers(0, 3)) == 0:  # read as one number
        return draw(st.sampled_from([["int", "long"], ["long", "null", "int"], ["float", "double", "null"]]))
    number: list[Any] = draw(st.sampled_from([["int"], ["long"], [LOGICAL[3]], []]))
    real = draw(st.sampled_from([["float"], ["double"], []]))
    text = draw(st.sampled_from([["string"], ["bytes"], []]))
    more = draw(st.sampled_from([["boolean"], []]))
    items = draw(st.sampled_from(["array", "map", "record", ""]))
    branches = [*number, *real, *text, *more]
    if items in ("array", "map"):
        key = "items" if items == "array" else "values"
        branches.append({"type": items, key: _drawn(draw, depth - 1, names, open_names)})
    elif items:
        branches.append(_drawn_named(draw, "record", depth, names, open_names))
    if draw(st.booleans()) or not branches:
        branches.insert(draw(st.integers(0, len(branches))), "null")
    return branches


# Schemas of readers

#: Fields that a writer does not know. The judge gives their JSON as it is.
_NEW_FIELDS: Final[list[tuple[Any, Any]]] = [
    (["null", "int"], None),
    ("string", "é"),
    ("long", -(2**40)),
    ("double", 0.5),
    ("boolean", True),
    (["string", "null"], "x"),
    (["int", "string"], 7),
    ({"type": "array", "items": ["null", "long"]}, [1, None]),
    ({"type": "map", "values": "double"}, {"k": 1.5}),
]
_PROMOTED: Final = {
    "int": ["int", "long", "float", "double"],
    "long": ["long", "float", "double"],
    "float": ["float", "double"],
    "string": ["string", "bytes"],
    "bytes": ["bytes", "string"],
}


@st.composite
def readers(draw: st.DrawFn, writer: Any) -> Any:
    """A reader's schema, which most values of the writer's can be read as."""
    return _changed(draw, writer, count())


def _changed(draw: st.DrawFn, writer: Any, names: Iterator[int]) -> Any:
    if isinstance(writer, list):
        return _changed_union(draw, writer, names)
    if draw(st.integers(0, 9)) == 0:
        return ["null", _changed_value(draw, writer, names)]
    return _changed_value(draw, writer, names)


def _changed_value(draw: st.DrawFn, writer: Any, names: Iterator[int]) -> Any:
    if isinstance(writer, str):
        return draw(st.sampled_from(_PROMOTED.get(writer, [writer])))
    if writer["type"] == "array":
        return {"type": "array", "items": _changed(draw, writer["items"], names)}
    if writer["type"] == "map":
        return {"type": "map", "values": _changed(draw, writer["values"], names)}
    if writer["type"] == "enum":
        symbols = draw(st.permutations([*writer["symbols"], "D"]))[: draw(st.integers(1, 4))]
        default = {"default": symbols[0]} if draw(st.booleans()) else {}
        return {**writer, "symbols": symbols, **default}
    if writer["type"] == "record":
        return {**writer, "fields": _changed_fields(draw, writer["fields"], names)}
    return writer


def _changed_union(draw: st.DrawFn, writer: list[Any], names: Iterator[int]) -> Any:
    kinds = {item for item in writer if isinstance(item, str)}
    is_recursive = bool(kinds - set(PRIMITIVES))  # deep down it has no column, and no fault
    hows = ["same", "same", "more"]
    if LOGICAL[3] not in writer:  # which the judge takes for a date, whatever the reader has
        hows += ["fewer", "one", "number"]
    how = draw(st.sampled_from(hows))
    if how == "number" and kinds & {"int", "long", "float"}:
        return "double"
    if how == "one" and not is_recursive:
        return _changed_value(draw, draw(st.sampled_from(writer)), names)
    branches = [item if isinstance(item, str) else _changed_value(draw, item, names) for item in writer]
    if how == "fewer" and len(branches) > 1 and not is_recursive:
        branches.pop(draw(st.integers(0, len(branches) - 1)))
    is_number = kinds >= {"int", "long"} or kinds >= {"float", "double"}  # and more would be a struct
    if how == "more" and "boolean" not in kinds and not is_number:
        branches.append("boolean")
    return branches


def _changed_fields(draw: st.DrawFn, fields: list[Any], names: Iterator[int]) -> list[Any]:
    changed = []
    for item in fields:
        how = draw(st.sampled_from(["same", "same", "same", "dropped", "renamed"]))
        if how == "dropped":
            continue
        of = _changed(draw, item["type"], names)
        if how == "renamed":
            changed.append({"name": f"{item['name']}x", "type": of, "aliases": ["other", item["name"]]})
        else:
            changed.append({"name": item["name"], "type": of})
    for _ in range(draw(st.integers(0, 2))):
        of, default = draw(st.sampled_from(_NEW_FIELDS))
        changed.append({"name": f"new{next(names)}", "type": of, "default": default})
    return draw(st.permutations(changed))


# Values as fastavro has them


def named_types(schema: Any) -> dict[str, Any]:
    """The named types that a schema defines, by their names."""
    if isinstance(schema, list):
        return {name: of for branch in schema for name, of in named_types(branch).items()}
    if not isinstance(schema, dict):
        return {}
    result = {schema["name"]: schema} if "name" in schema else {}
    inner = [item["type"] for item in schema.get("fields", [])]
    inner += [schema[key] for key in ("items", "values") if key in schema]
    return result | {name: of for item in inner for name, of in named_types(item).items()}


class Values:
    """Values of a schema, in the form of fastavro."""

    def __init__(self, schema: Any, random: Random) -> None:
        self.schema, self.random, self.names = schema, random, named_types(schema)

    def next(self) -> Any:
        """Make a value."""
        return self._of(self.schema, 0)

    def _of(self, schema: Any, depth: int) -> Any:
        random = self.random
        if isinstance(schema, list):
            shallow = "null" in schema and (depth > 5 or random.random() < 0.2)
            return None if shallow else self._of(random.choice(schema), depth)
        if isinstance(schema, str) and schema not in PRIMITIVES:
            return self._of(self.names[schema], depth)
        of: dict[str, Any] = {"type": schema} if isinstance(schema, str) else schema
        if of["type"] == "record":
            return {item["name"]: self._of(item["type"], depth + 1) for item in of["fields"]}
        size = 0 if depth > 5 else random.choice((0, 1, 1, 2, 3))
        if of["type"] == "array":
            return [self._of(of["items"], depth + 1) for _ in range(size)]
        if of["type"] == "map":
            return {_text(random): self._of(of["values"], depth + 1) for _ in range(size)}
        return _leaf(of, random)


def _leaf(of: dict[str, Any], random: Random) -> Any:
    kind, logical = of["type"], of.get("logicalType", "")
    if logical == "decimal":
        digits = random.choice((1, of["precision"], random.randint(1, of["precision"])))
        return Decimal(random.randint(1 - 10**digits, 10**digits - 1)).scaleb(-of["scale"], _EXACT)
    if logical == "uuid":
        return UUID(int=random.getrandbits(128))
    if logical:
        return _time(logical, random)
    if kind in ("int", "long"):
        bits = 31 if kind == "int" else 63
        return random.choice((0, -1, -(2**bits), 2**bits - 1, random.getrandbits(random.randint(1, bits))))
    if kind in ("float", "double"):
        number = random.choice((0.0, -0.5, 1e300, float("inf"), random.gauss(0, 1e6)))
        return _single(min(number, 3e38)) if kind == "float" else number
    if kind == "enum":
        return random.choice(of["symbols"])
    if kind == "string":
        return _text(random)
    if kind == "boolean":
        return random.random() < 0.5
    return None if kind == "null" else random.randbytes(of.get("size", random.randint(0, 5)))


def _time(logical: str, random: Random) -> Any:
    moment = random.choice((-1, 0, random.randint(*_MICROS), random.randint(-(10**12), 10**12)))
    if logical == "date":
        return (_EPOCH + timedelta(microseconds=moment)).date()
    if logical.endswith("millis"):
        moment = moment // 1000 * 1000
    at = _EPOCH + timedelta(microseconds=moment)
    if logical == "duration":
        return random.randbytes(12)
    if logical.startswith("time-"):
        return at.time()
    return at if logical.startswith("local") else at.replace(tzinfo=timezone.utc)


def _text(random: Random) -> str:
    return "".join(random.choices(_CHARACTERS, k=random.randint(0, 4)))


def _single(number: float) -> float:
    single: float = struct.unpack("<f", struct.pack("<f", number))[0]
    return single


# Values as Arrow has them


class ArrowForm:
    """Values of fastavro as Arrow has them: general unions are structs of members, times integers."""

    def __init__(self, schema: Any, arrow_type: pa.DataType) -> None:
        self.schema, self.arrow_type, self.names = schema, arrow_type, named_types(schema)

    def of(self, value: Any) -> Any:
        """The value in Arrow's form."""
        return self._of(value, self.schema, self.arrow_type)

    def _of(self, value: Any, schema: Any, arrow: pa.DataType) -> Any:
        if value is None:
            return None
        if isinstance(schema, list):
            return self._union(value, schema, arrow)
        if isinstance(schema, str) and schema in self.names:
            schema = self.names[schema]
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind == "record":
            types = {item["name"]: item["type"] for item in schema["fields"]}
            return {item.name: self._of(value[item.name], types[item.name], item.type) for item in arrow}
        if kind == "array":
            return [self._of(item, schema["items"], arrow.value_type) for item in value]
        if kind == "map":
            return [(key, self._of(item, schema["values"], arrow.item_type)) for key, item in value.items()]
        if isinstance(value, UUID):
            return str(value)
        if isinstance(value, time):
            micros = (datetime.combine(_EPOCH, value) - _EPOCH) // timedelta(microseconds=1)
            return micros // 1000 if arrow == pa.int32() else micros
        return _single(value) if arrow == pa.float32() else value

    def _union(self, value: Any, schema: list[Any], arrow: pa.DataType) -> Any:
        values = [branch for branch in schema if branch != "null"]
        kinds = [_kind(branch, self.names) for branch in values]
        if len(values) == 1:
            return self._of(value, values[0], arrow)
        if set(kinds) in ({"int", "long"}, {"float", "double"}):
            return value
        index = next(index for index, kind in enumerate(kinds) if kind in _kinds_of(value))
        names = [(f"member{location}", item) for location, item in enumerate(values)]
        wanted = {item.name: item.type for item in arrow}
        return {
            name: self._of(value, item, wanted[name]) if name == f"member{index}" else None
            for name, item in names
            if name in wanted
        }


def _kind(schema: Any, names: dict[str, Any]) -> str:
    if isinstance(schema, dict):
        return str(schema["type"])
    return str(names[schema]["type"]) if schema in names else str(schema)


def _kinds_of(value: Any) -> tuple[str, ...]:
    if isinstance(value, bool):
        return ("boolean",)
    if isinstance(value, int | date | datetime | time):
        return ("int", "long")
    if isinstance(value, float):
        return ("float", "double")
    if isinstance(value, str | UUID):
        return ("string", "enum")
    if isinstance(value, bytes | Decimal):
        return ("bytes", "fixed")
    return ("array",) if isinstance(value, list) else ("map", "record")
