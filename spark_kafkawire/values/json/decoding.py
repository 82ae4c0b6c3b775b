"""Decoding of JSON messages to Arrow.

The kernels fill a column for each node of the type. Rare messages, with a key twice or with escapes in names
or numbers, are written again by Python's json, and then decoded as all others.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafkawire.errors import OptionError, printable
from spark_kafkawire.records.arrays import Int32s, Int64s, Uint8s, byte_array, room
from spark_kafkawire.records.compiler import expect

from ..column_types import dtype_of, inside, sql_name
from ..columns import Columns, Flags, Room, make_decoded, offsets_of
from ..payloads import Decoded, Payloads, payloads_of
from . import kernels as ops
from .kernels import DEPTH_MAX, FRAME, ODD, decode_each, gather
from .schema import ANY, JsonType, Schema

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

    Where that is ``ANY``, a string column takes any value, as the text of its JSON, as Spark's ``from_json``
    does.
    """

    arrow_type: pa.DataType
    reader: JsonType
    nodes: list[Node] = field(default_factory=list)
    table: list[list[int]] = field(default_factory=list)
    fields: list[int] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    nulls: list[int] = field(default_factory=list)
    names: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self._add(self.arrow_type, self.reader.nullable, self.reader, "", False)

    @property
    def tables(self) -> tuple[Int64s, ...]:
        """Nodes, fields, slots and nulls."""
        rows = [number for row in self.table for number in row]
        return tuple(np.array(item or [0], np.int64) for item in (rows, self.fields, self.slots, self.nulls))

    def _add(self, of: pa.DataType, nullable: bool, reader: JsonType, path: str, is_repeated: bool) -> Node:
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
            self._add_item(node, of.value_field, reader.item_type)
            row[0], row[6] = ops.LIST, node.children[0].index
        else:
            row[:3] = _leaf(of, reader, path)
        row[3] = int(nullable)
        row[4] = len(self.nulls)
        self.nulls += [item.index for item in _null_with(node)]
        row[5] = len(self.nulls) - row[4]
        return node

    def _add_item(self, node: Node, column: pa.Field, reader: JsonType) -> None:
        """Add the items of an array, or the values of a map."""
        nullable = column.nullable and reader.nullable
        node.children.append(self._add(column.type, nullable, reader, node.path, True))

    def _struct(self, node: Node, reader: JsonType) -> None:
        for column in node.type:
            given = reader.fields.get(column.name, ANY)
            nullable = column.nullable and (column.name not in reader.required or given.nullable)
            path = inside(node.path, column.name)
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
        location, count = len(self.slots), 1 << (2 * len(named)).bit_length()
        self.slots += [-1] * count
        for child, quoted in named:
            name = quoted[1:-1].encode()
            number = _hash(name)
            slot = number & (count - 1)
            while self.slots[location + slot] >= 0:
                slot = (slot + 1) & (count - 1)
            self.slots[location + slot] = len(self.fields)
            self.fields += (child.index, number, len(self.names), len(name))
            self.names += name
        return location, count

    def _map(self, node: Node, reader: JsonType) -> None:
        of = node.type
        if not pa.types.is_string(of.key_type):
            raise OptionError(
                f"{_name_path(node.path)}: keys of a JSON object are strings, not "
                f"{of.key_type}: name MAP<STRING, …> in .schema()"
            )
        node.children.append(self._add(of.key_type, False, ANY, node.path, True))
        self._add_item(node, of.item_field, reader.item_type)


def _name_path(path: str) -> str:
    return f"column {printable(path)}" if path else "the column"


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


def _leaf(of: pa.DataType, reader: JsonType, path: str) -> tuple[int, int, int]:
    if pa.types.is_signed_integer(of):
        return ops.INTEGER, -(2 ** (of.bit_width - 1)), 2 ** (of.bit_width - 1) - 1
    if of in _DOUBLE_LIMITS:
        return ops.DOUBLE, *_DOUBLE_LIMITS[of]
    if pa.types.is_decimal128(of):
        return ops.DECIMAL, of.precision, of.scale
    if pa.types.is_string(of):
        return (ops.STRING if reader.kind == "string" else ops.TEXT), 0, 0
    if pa.types.is_timestamp(of) and of.unit == "us":
        return ops.TIMESTAMP, (0 if of.tz is None else _MICROS.get(reader.logical, 0)), int(of.tz is not None)
    if pa.types.is_date32(of):
        return ops.DATE, int(reader.logical == "date"), 0
    kinds: Any = {pa.null(): ops.EMPTY, pa.bool_(): ops.BOOLEAN, pa.binary(): ops.BINARY}
    if of not in kinds:
        raise OptionError(
            f"{_name_path(path)}: JSON has no values of {sql_name(of)}: name another type in "
            ".schema(), such as STRING"
        )
    return kinds[of], 0, 0


#: Values of repeated nodes that there is room for at first, for each row.
_ITEMS_PER_ROW: Final = 2


class Decoder:
    """Decoder of messages to an Arrow type, by the names of its fields.

    ``reader`` says which fields are required, and how numbers and texts are read; without one it is the
    writer's. ``arrow_type`` is the reader's own, or has other fields; fields that it lacks are skipped.
    Without any schema, values are read as Spark's ``from_json`` reads them, but wrong ones are faults. Raises
    ``OptionError`` (fatal) for a type that JSON cannot have.
    """

    def __init__(
        self, writer: Schema | None, reader: Schema | None = None, arrow_type: pa.DataType | None = None
    ) -> None:
        target = reader or writer
        assert target is not None or arrow_type is not None
        self.arrow_type = target.arrow_type if arrow_type is None and target is not None else arrow_type
        self._layout = Layout(self.arrow_type, ANY if target is None else target.root)
        self._tables, self._names = self._layout.tables, byte_array(bytes(self._layout.names) or b"\0")
        self._paths = tuple(node.path for node in self._layout.nodes)
        self._has_path = np.array([bool(path) for path in self._paths])

    def decode(self, payloads: Payloads) -> Decoded:
        """The messages' values. Rows of tombstones and of faults are null, and do not influence others."""
        expect(len(payloads))
        present = np.flatnonzero(~payloads.is_null)
        column, result, fields = self._run(payloads.taken(present), final=False)
        columns = [(column, present[result == 0])]
        odd = present[result == ODD]
        if len(odd):
            spans = zip(payloads.starts[odd].tolist(), payloads.stops[odd].tolist(), strict=True)
            plain = [_plain(payloads.data[start:stop].tobytes()) for start, stop in spans]
            written = payloads_of(pa.array(plain, pa.binary()))
            column, odd_found, odd_fields = self._run(written, final=True)
            fields[result == ODD] = odd_fields
            result[result == ODD] = odd_found
            columns.append((column, odd[odd_found == 0]))
        # The root has no name, and neither have its items.
        fields = np.where(self._has_path[fields], fields, -1)
        return make_decoded(len(payloads), columns, present, result, fields, self._paths)

    def _run(self, payloads: Payloads, *, final: bool) -> tuple[pa.Array, Uint8s, Int32s]:
        rows, row = len(payloads), 0
        faults, places = np.zeros(rows, np.uint8), np.zeros(rows, np.int32)
        starts, stops = np.ascontiguousarray(payloads.starts), np.ascontiguousarray(payloads.stops)
        nodes = self._layout.nodes
        sizes = np.array([rows * _ITEMS_PER_ROW if node.is_repeated else rows for node in nodes], np.int64)
        values, counts = Room(sizes, np.uint8, np.int64, np.int64), np.zeros(len(nodes), np.int64)
        needed, stamps = np.zeros(len(nodes), np.int64), np.zeros(len(nodes) + 1, np.int64)
        stack = np.zeros(FRAME * DEPTH_MAX, np.int64)
        messages = payloads.data, starts, stops, self._tables, self._names
        while row < rows:
            room_for = values.bases, counts, needed, stamps, stack, values.arrays
            row = decode_each(*messages, *room_for, faults, places, row, int(final))
            if row < rows:  # room for what one message needs, and for as much again where more follow
                ahead = (needed * min(rows / (row + 1), 2.0)).astype(np.int64)
                sizes = np.where(needed > sizes, ahead, sizes)
                values = values.widened(sizes, counts)
        return _Columns(payloads.data, values, counts).of(nodes[0], int(counts[0])), faults, places


class _Columns(Columns):
    """Values of the nodes as Arrow arrays: marks, and two integers."""

    KEEPS_PLACES = True

    def __init__(self, data: Uint8s, values: Room, counts: Int64s) -> None:
        self.data, self.values, self.counts = data, values, counts.tolist()

    def of_node(self, node: Node) -> tuple[Any, ...]:
        index, count, of = node.index, self.counts[node.index], self.values.of
        return of(index, count), of(index, count, 1), of(index, count, 2)

    def is_null(self, node: Node, rows: int) -> Flags:
        is_null: Flags = self.values.of(node.index, rows) == ops.ABSENT
        return is_null

    def offsets(self, node: Node, rows: int, is_null: Flags | None) -> Int64s:
        sizes = self.values.of(node.index, rows, 1)
        return offsets_of(sizes if is_null is None else np.where(is_null, 0, sizes))

    def spans(self, node: Node, _rows: int, _is_null: Any) -> tuple[Int64s, Uint8s]:
        offsets, content = self._gather(*self.of_node(node))
        return _from_base64(content, offsets) if pa.types.is_binary(node.type) else (offsets, content)

    def _gather(self, marks: Uint8s, firsts: Int64s, sizes: Int64s) -> tuple[Int64s, Uint8s]:
        sizes = np.where(marks == ops.ABSENT, 0, sizes)
        offsets = offsets_of(sizes)
        content = room(max(1, int(offsets[-1])), np.uint8)
        if len(marks):
            firsts, sizes = np.ascontiguousarray(firsts), np.ascontiguousarray(sizes)
            gather(self.data, firsts, sizes, np.ascontiguousarray(marks), offsets, content)
        return offsets, content

    def numbers(self, node: Node, _rows: int, _is_null: Any) -> npt.NDArray[Any]:
        marks, firsts, seconds = self.of_node(node)
        numbers: npt.NDArray[Any] = firsts
        if pa.types.is_decimal(node.type):
            numbers = np.stack([firsts, seconds], axis=1)
        elif pa.types.is_floating(node.type):
            numbers = self._doubles(marks, firsts, seconds)
        return numbers.astype(dtype_of(node.type), copy=False)

    def _doubles(self, marks: Uint8s, firsts: Int64s, seconds: Int64s) -> npt.NDArray[np.float64]:
        is_exact = marks == ops.VALUE
        digits, exponents = np.where(is_exact, firsts, 0), np.where(is_exact, seconds, 0)
        powers = _POWERS[np.abs(exponents)]
        doubles: npt.NDArray[np.float64] = np.where(exponents < 0, digits / powers, digits * powers)
        for mark in (ops.LONG_NUMBER, ops.TINY_NUMBER):
            rows = np.flatnonzero(marks == mark)
            if len(rows):
                offsets, content = self._gather(marks[rows], firsts[rows], seconds[rows])
                doubles[rows] = _parse_content(content, offsets, is_tiny=mark == ops.TINY_NUMBER)
        is_special = marks == ops.SPECIAL
        if is_special.any():
            doubles[is_special] = _SPECIALS[firsts[is_special] + 1]
        return doubles


_POWERS: Final = np.array([float(10**exponent) for exponent in range(23)])
_SPECIALS: Final = np.array([-np.inf, np.nan, np.inf])


def _parse_content(content: Uint8s, offsets: Int64s, *, is_tiny: bool) -> Any:
    texts = pa.Array.from_buffers(
        pa.string(), len(offsets) - 1, [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(content)]
    )
    if is_tiny:  # some versions of Arrow refuse what is too small
        return [float(text) for text in texts.to_pylist()]
    return texts.cast(pa.float64()).to_numpy()


def _from_base64(content: Uint8s, offsets: Int64s) -> tuple[Int64s, Uint8s]:
    """Decode texts that follow each other, each with its padding."""
    content = content[: offsets[-1]]
    padding = np.zeros(len(content) + 1, np.int64)
    np.cumsum(content == ord("="), out=padding[1:])
    filled = np.where(content == ord("="), ord("A"), content).astype(np.uint8)
    plain = np.frombuffer(binascii.a2b_base64(filled.data), np.uint8)
    # Each padding has become the last bytes of its text.
    sizes = np.diff(offsets) // 4 * 3
    extra = np.diff(padding[offsets])
    ends = np.repeat(np.cumsum(sizes), extra)
    location = np.arange(len(ends)) - np.repeat(np.cumsum(extra) - extra, extra)
    return offsets_of(sizes - extra), np.delete(plain, ends - 1 - location)


class _Number(str):
    """The text of a number."""

    __slots__ = ()


def _plain(message: bytes) -> bytes:
    """A message in which each key is there once, with its last value, and nothing is escaped needlessly."""
    return _write_value(
        json.loads(message, parse_int=_Number, parse_float=_Number, parse_constant=_Number)
    ).encode()


def _write_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join([f"{_quote(key)}:{_write_value(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([_write_value(item) for item in value]) + "]"
    if isinstance(value, _Number):
        return str(value)
    return _quote(value) if isinstance(value, str) else json.dumps(value)


def _quote(text: str) -> str:
    # A surrogate by itself has no other form than its escape.
    has_surrogate = any("\ud800" <= letter <= "\udfff" for letter in text)
    return json.dumps(text, ensure_ascii=has_surrogate)
