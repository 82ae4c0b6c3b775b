"""The nodes of an Arrow type, as the kernels need them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_kafkawire.errors import OptionError, printable
from spark_kafkawire.records.arrays import Int64s, Uint8s, byte_array

from ..type_names import sql_name
from . import nodes as ops
from .types import JsonType

_MICROS: Final = {"timestamp": 1000, "": 1_000_000}
_DOUBLE_LIMITS: Final = {
    # The largest exponent, and the digits half a place above the largest number.
    pa.float32(): (38, 3402823567797336616),
    pa.float64(): (308, 1797693134862315807),
}


@dataclass(slots=True, eq=False)
class Node:
    """A node: its index, its type, its children, and the names by which a fault is found."""

    index: int
    type: pa.DataType
    path: str
    is_repeated: bool
    children: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Layout:
    """The nodes of ``arrow_type``; ``reader`` adds which fields are required, and what texts and numbers are.

    Without a reader's schema, a string column takes any value, as the text of its JSON, as Spark's
    ``from_json`` does.
    """

    arrow_type: pa.DataType
    reader: JsonType | None
    nodes: list[Node] = field(default_factory=list)
    table: list[list[int]] = field(default_factory=list)
    fields: list[int] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    nulls: list[int] = field(default_factory=list)
    names: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        nullable = self.reader is None or self.reader.nullable
        self._add(self.arrow_type, nullable, self.reader, "", False)

    @property
    def tables(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """Nodes, fields, slots and nulls."""
        rows = [number for row in self.table for number in row]
        nodes, fields, slots, nulls = (
            np.array(each or [0], np.int64) for each in (rows, self.fields, self.slots, self.nulls)
        )
        return nodes, fields, slots, nulls

    @property
    def name_bytes(self) -> Uint8s:
        """The names of all fields, one after the other."""
        return byte_array(bytes(self.names) or b"\0")

    def _add(
        self, of: pa.DataType, nullable: bool, reader: JsonType | None, path: str, is_repeated: bool
    ) -> Node:
        node = Node(len(self.nodes), of, path, is_repeated)
        self.nodes.append(node)
        row = [0] * ops.NODE
        self.table.append(row)
        if pa.types.is_struct(of):
            self._struct(node, reader)
            row[0], row[6:] = ops.STRUCT, (len(self.fields), len(node.children))
            row[1:3] = self._names_of(node)
        elif pa.types.is_map(of):
            self._map(node, reader)
            row[0], row[6:] = ops.MAP, [child.index for child in node.children]
        elif pa.types.is_list(of):
            items = reader.items if reader is not None else None
            node.children.append(
                self._add(of.value_type, _may_be_null(of.value_field, items), items, path, True)
            )
            row[0], row[6] = ops.LIST, node.children[0].index
        else:
            row[:3] = _leaf(of, reader, path)
        row[3] = int(nullable)
        row[4] = len(self.nulls)
        self.nulls += [each.index for each in _null_with(node)]
        row[5] = len(self.nulls) - row[4]
        return node

    def _struct(self, node: Node, reader: JsonType | None) -> None:
        known = {each.name: each.type for each in reader.fields} if reader is not None else {}
        for column in node.type:
            given = known.get(column.name)
            nullable = column.nullable and (
                given is None or reader is None or reader.may_lack(column.name) or given.nullable
            )
            path = f"{node.path}.{column.name}" if node.path else column.name
            node.children.append(self._add(column.type, nullable, given, path, node.is_repeated))

    def _names_of(self, node: Node) -> tuple[int, int]:
        """Add the names of a struct's fields. Returns the place and the count of its slots."""
        # As names are in JSON; a message that escapes them in another way is odd.
        named = [
            (child, json.dumps(column.name, ensure_ascii=False))
            for child, column in zip(node.children, node.type, strict=True)
        ]
        # Python's json escapes all letters but those of ASCII.
        named += [(child, json.dumps(json.loads(name))) for child, name in named if not name.isascii()]
        place, count = len(self.slots), 1 << (2 * len(named)).bit_length()
        self.slots += [-1] * count
        for child, quoted in named:
            name = quoted[1:-1].encode()
            number = _hash(name)
            slot = number & (count - 1)
            while self.slots[place + slot] >= 0:
                slot = (slot + 1) & (count - 1)
            self.slots[place + slot] = len(self.fields)
            self.fields += (child.index, number, len(self.names), len(name))
            self.names += name
        return place, count

    def _map(self, node: Node, reader: JsonType | None) -> None:
        of = node.type
        if not pa.types.is_string(of.key_type):
            raise OptionError(
                f"{_named(node.path)}: keys of a JSON object are strings, not "
                f"{of.key_type}: name MAP<STRING, …> in .schema()"
            )
        values = reader.items if reader is not None else None
        node.children.append(self._add(of.key_type, False, None, node.path, True))
        node.children.append(
            self._add(of.item_type, _may_be_null(of.item_field, values), values, node.path, True)
        )


def _named(path: str) -> str:
    return f"column {printable(path)}" if path else "the column"


def _may_be_null(column: pa.Field, reader: JsonType | None) -> bool:
    return bool(column.nullable) and (reader is None or reader.nullable)


def _null_with(node: Node) -> Iterator[Node]:
    """The node, and the fields of a struct, which have a place where it is null."""
    yield node
    if pa.types.is_struct(node.type):
        for child in node.children:
            yield from _null_with(child)


def _hash(name: bytes) -> int:
    value = 0
    for byte in name:
        value = (value * ops.HASH_FACTOR + byte) & ops.HASH_BITS
    return value


def _leaf(of: pa.DataType, reader: JsonType | None, path: str) -> tuple[int, int, int]:
    logical = reader.logical if reader is not None else ""
    if pa.types.is_signed_integer(of):
        return ops.INTEGER, -(2 ** (of.bit_width - 1)), 2 ** (of.bit_width - 1) - 1
    if of in _DOUBLE_LIMITS:
        return ops.DOUBLE, *_DOUBLE_LIMITS[of]
    if pa.types.is_decimal128(of):
        return ops.DECIMAL, of.precision, of.scale
    if pa.types.is_string(of):
        is_text = reader is None or reader.kind != "string"
        return (ops.TEXT if is_text else ops.STRING), 0, 0
    if pa.types.is_timestamp(of) and of.unit == "us":
        return ops.TIMESTAMP, (0 if of.tz is None else _MICROS.get(logical, 0)), int(of.tz is not None)
    if pa.types.is_date32(of):
        return ops.DATE, int(logical == "date"), 0
    kinds: Any = {pa.null(): ops.EMPTY, pa.bool_(): ops.BOOLEAN, pa.binary(): ops.BINARY}
    if of not in kinds:
        raise OptionError(
            f"{_named(path)}: JSON has no values of {sql_name(of)}: name another type in "
            ".schema(), such as STRING"
        )
    return kinds[of], 0, 0
