"""Decoding of Avro messages to Arrow: the program that resolves a writer's schema to a reader's, and the
columns that it fills; and the fields of a writer's schema that a reader's schema does not have.

A program runs once where each message has one value in each column. With arrays or maps it runs twice: the
first run counts values and finds faults, the second one fills the columns.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafkawire.errors import OptionError, printable
from spark_kafkawire.records.arrays import Int64s, Uint8s, byte_array
from spark_kafkawire.records.compiler import expect

from ..column_types import dtype_of, sql_name
from ..column_types import inside as whole_path
from ..columns import Columns, Flags, Room, gather_spans, make_decoded, offsets_of
from ..payloads import Decoded, Fault, Payloads
from . import kernels as ops
from .kernels import DECIMAL_SIZE, DEPTH_MAX, decode_each, gather_decimals
from .schema import AvroField, AvroType, Branch, Schema, arrow_type_of, default_of

#: Instructions of a program: a hostile schema may double them with each level.
INSTRUCTIONS_MAX: Final = 200_000
#: Integers of a program's table, and bytes of its constants, for the same reason.
TABLE_MAX: Final = 1 << 22
#: Characters of a field's path.
_PATH_MAX: Final = 500


@dataclass(slots=True)
class Node:
    """A column: its first stream says if a row has a value, the next ones have values or places.

    ``sources`` are what the stream of values may have: integers, or the bits of floats (f4, f8). The third
    stream of numbers of several sources has the index of each value's source in ``SOURCES``.
    """

    type: pa.DataType
    number: int
    stream: int
    width: int
    children: tuple[Node, ...] = ()
    sources: set[str] = field(default_factory=set)


SOURCES: Final = ("integer", "f4", "f8")
_SOURCE_OF: Final = {"int": "integer", "long": "integer", "float": "f4", "double": "f8"}


@dataclass(slots=True)
class Program:
    """Instructions, their table, constants, the paths of fields, and the columns that are filled, the
    outermost one first.

    ``mixed`` are the columns of numbers that have several sources, by their numbers.
    """

    mixed: frozenset[int] = frozenset()
    code: list[int] = field(default_factory=list)
    table: list[int] = field(default_factory=list)
    constants: bytearray = field(default_factory=bytearray)
    nodes: list[Node] = field(default_factory=list)
    stream_count: int = 0
    paths: dict[str, int] = field(default_factory=dict)
    _enums: dict[tuple[int, int], int] = field(default_factory=dict)
    _skipped: dict[int, int] = field(default_factory=dict)
    _records: list[tuple[AvroType, list[int]]] = field(default_factory=list)
    _sealed: int = 0

    @property
    def cost(self) -> int:
        """Steps of all instructions, each taken once."""
        counts = zip(self.code[:: ops.WIDTH], self.code[3 :: ops.WIDTH], strict=True)
        return sum(1 + (count if op == ops.CONSTANT else 0) for op, count in counts)

    # Columns

    def node(self, of: pa.DataType) -> Node:
        """A column with streams of its own."""
        width, children = _shape(of)
        if pa.types.is_floating(of) and len(self.nodes) in self.mixed:
            width += 1
        node = Node(of, len(self.nodes), self.stream_count, width)
        self.nodes.append(node)
        self.stream_count += width
        node.children = tuple(self.node(item) for item in children)
        return node

    # Instructions

    def emit(self, op: int, a: int = -1, b: int = 0, c: int = 0, path: str = "") -> int:
        """Add an instruction; returns its place."""
        at = len(self.code) // ops.WIDTH
        if at >= INSTRUCTIONS_MAX or max(len(self.table), len(self.constants)) > TABLE_MAX:
            raise OptionError(
                f"the Avro schema takes more than {INSTRUCTIONS_MAX} instructions: remove fields from it"
            )
        index = self.paths.setdefault(path, len(self.paths)) if path else -1
        self.code += (op, a, b, c, index)
        return at

    def here(self) -> int:
        """The place of the next instruction, to which others jump."""
        self._sealed = len(self.code)
        return self._sealed // ops.WIDTH

    def aim(self, at: int) -> None:
        """Let an instruction jump to the next one."""
        self.code[at * ops.WIDTH + 2] = self.here()

    def constant(self, stream: int, *values: int) -> None:
        """Put values into streams, one after the other. Constants that follow each other are one."""
        last, location = len(self.code) - ops.WIDTH, len(self.table)
        self.table += values
        if last >= self._sealed and self.code[last] == ops.CONSTANT:
            _, a, b, c, _ = self.code[last:]
            if a + c == stream and b + c == location:
                self.code[last + 3] += len(values)
                return
        self.emit(ops.CONSTANT, stream, location, len(values))

    def span(self, content: bytes) -> tuple[int, int]:
        """The place of constant bytes, as ``gather`` knows it, and their size."""
        start = -1 - len(self.constants)
        self.constants += content
        return start, len(content)

    def null(self, node: Node) -> None:
        """Put a null into a column."""
        self.constant(node.stream, *[0] * node.width)
        if pa.types.is_struct(node.type):
            for child in node.children:
                self.null(child)

    def branches(self, union: AvroType, path: str, each_branch: Callable[[AvroType], None]) -> None:
        """Choose the instructions of a union's branch."""
        location = len(self.table)
        self.table += [0] * len(union.branches)
        self.emit(ops.UNION, b=location, c=len(union.branches), path=path)
        jumps = []
        for index, branch in enumerate(union.branches):
            self.table[location + index] = self.here()
            each_branch(branch)
            jumps.append(self.emit(ops.JUMP))
        for jump in jumps:
            self.aim(jump)

    def items(
        self, of: AvroType, stream: int, key_stream: int, path: str, each_item: Callable[[], None]
    ) -> None:
        """Repeat the instructions of an item of an array or a map."""
        self.emit(ops.OPEN, path=path)
        loop = self.here()
        self.emit(ops.NEXT, stream, path=path)
        if of.kind == "map":
            self.emit(ops.BYTES_OF, key_stream, 1, -1, path)
        each_item()
        self.emit(ops.JUMP, b=loop)
        self.aim(loop)

    def leaf(self, writer: AvroType, reader: AvroType, path: str, into: tuple[int, int, int]) -> None:
        """Take a number, a boolean, a text or bytes. ``into`` are its stream, the factor of an integer and
        the place of a decimal's bounds."""
        kind, (stream, factor, bounds) = writer.kind, into
        if kind in ("int", "long"):
            self.emit(ops.LONG, stream, factor, int(kind == "int"), path)
        elif kind in ("float", "double"):
            self.emit(ops.FIXED, stream, 4 if kind == "float" else 8, path=path)
        elif kind == "boolean":
            self.emit(ops.BOOLEAN, stream, path=path)
        elif kind == "fixed":
            self.emit(ops.SIZED, stream, writer.size, bounds, path)
        elif kind == "enum":
            self._enum(writer, reader, stream, path)
        else:
            self.emit(ops.BYTES_OF, stream, int("string" in (kind, reader.kind)), bounds, path)

    def _enum(self, writer: AvroType, reader: AvroType, stream: int, path: str) -> None:
        """Take a symbol, which becomes the reader's."""
        key = (id(writer), id(reader))
        if key not in self._enums:
            self._enums[key] = len(self.table)
            symbols = set(reader.symbols)
            for symbol in writer.symbols:
                known = symbol if symbol in symbols else reader.default
                self.table += (0, -1) if known is None else self.span(known.encode())
        self.emit(ops.ENUM, stream, self._enums[key], len(writer.symbols), path)

    # Skipped values

    def skip(self, writer: AvroType, path: str) -> None:
        """Pass over a value."""
        kind = writer.kind
        if kind == "union":
            self.branches(writer, path, lambda branch: self.skip(branch, path))
        elif kind == "record":
            index = self._skipped.setdefault(id(writer), len(self._records))
            if index == len(self._records):
                self._records.append((writer, []))
            self._records[index][1].append(self.emit(ops.CALL, path=path))
        elif kind in ("array", "map"):
            self.items(writer, -1, -1, path, lambda: self.skip(writer.item_type, path))
        elif kind != "null":
            self.leaf(writer, writer, path, (-1, 1, -1))

    def finish(self) -> None:
        """End the program, and add what skips its records."""
        self.emit(ops.END)
        starts = []
        for record, _ in self._records:  # grows on the way
            starts.append(self.here())
            for item in record.fields:
                self.skip(item.type, "")
            self.emit(ops.RETURN)
        for start, (_, calls) in zip(starts, self._records, strict=True):
            for call in calls:
                self.code[call * ops.WIDTH + 2] = start


def _shape(of: pa.DataType) -> tuple[int, Sequence[pa.DataType]]:
    """The count of a column's own streams, and its children."""
    if pa.types.is_struct(of):
        return 1, [item.type for item in of]
    if pa.types.is_map(of):
        return 2, [of.key_type, of.item_type]
    if pa.types.is_list(of):
        return 2, [of.value_type]
    if pa.types.is_null(of):
        return 1, []
    is_span = pa.types.is_string(of) or pa.types.is_binary(of) or pa.types.is_decimal(of)
    return 3 if is_span else 2, []


def inside(path: str, name: str) -> str:
    """The path of a field. A hostile schema has long names, deep down."""
    return whole_path(path, name)[:_PATH_MAX]


_PROMOTED: Final = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}
_WIDER: Final = ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))
_NANOS: Final = {"millis": 10**6, "micros": 10**3, "nanos": 1}
#: Logical types whose columns have another unit, microseconds.
_MILLIS: Final = ("timestamp-millis", "local-timestamp-millis")


def program_of(writer: AvroType, reader: AvroType, arrow_type: pa.DataType) -> Program:
    """The program that reads a writer's values as a reader's.

    ``arrow_type`` may have fewer fields than the reader's. Raises ``OptionError`` (fatal) for a pair that has
    no program.
    """
    try:
        program = Resolver().resolve(writer, reader, arrow_type)
        mixed = frozenset(node.number for node in program.nodes if len(node.sources) > 1)
        if mixed:  # their columns have another stream, which is known only now
            program = Resolver(mixed).resolve(writer, reader, arrow_type)
    except RecursionError:
        raise OptionError("the Avro schemas are nested too deeply to be read: flatten them") from None
    return program


class Resolver(Program):
    """Compiler of a writer's and a reader's type to the program of a column."""

    def resolve(self, writer: AvroType, reader: AvroType, arrow_type: pa.DataType) -> Program:
        """Compile. Raises ``OptionError`` (fatal) for what has no program."""
        self._value(writer, reader, self.node(arrow_type), "")
        self.finish()
        return self

    # Values

    def _value(self, writer: AvroType, reader: AvroType, node: Node, path: str) -> None:
        if writer.kind == "union":
            self.branches(writer, path, lambda branch: self._value(branch, reader, node, path))
        elif reader.kind == "union":
            self._member(writer, reader, node, path)
        elif not resolves(writer, reader):
            self._fail(Fault.UNRESOLVABLE_SCHEMA, path)
        elif writer.kind == "null":
            self.null(node)
        elif writer.kind == "record":
            self._record(writer, reader, node, path)
        elif writer.kind in ("array", "map"):
            _require(reader, node, path)
            key, item = node.children[0], node.children[-1]
            types = writer.item_type, reader.item_type
            self.items(writer, node.stream, key.stream, path, lambda: self._value(*types, item, path))
        else:
            self._leaf(writer, reader, node, path)

    def _fail(self, fault: Fault, path: str) -> None:
        self.emit(ops.FAIL, b=fault, path=path)

    def _member(self, writer: AvroType, reader: AvroType, node: Node, path: str) -> None:
        branch = matching_branch(writer, reader)
        if branch is None:
            self._fail(Fault.BAD_UNION_BRANCH, path)
        elif branch.kind == "null":
            self.null(node)
        elif not reader.has_members:
            self._value(writer, reader.read_as(branch), node, path)
        elif not self._members(
            branch, reader, node, path, lambda child: self._value(writer, branch, child, path)
        ):
            self.skip(writer, path)

    def _members(self, branch: AvroType, reader: AvroType, node: Node, path: str, each_value: Any) -> bool:
        """Fill the member of a branch, and the others with nulls. Returns False if it has no column."""
        _require(reader, node, path)
        self.constant(node.stream, 1)
        name = f"member{reader.values.index(branch)}"
        for child, of in zip(node.children, node.type, strict=True):
            if of.name == name:
                each_value(child)
            else:
                self.null(child)
        return name in [of.name for of in node.type]

    def _record(self, writer: AvroType, reader: AvroType, node: Node, path: str) -> None:
        _require(reader, node, path)
        self.constant(node.stream, 1)
        wanted = {of.name: child for of, child in zip(node.type, node.children, strict=True)}
        sources = self._sources(writer, reader, wanted, path)
        for item in writer.fields:
            target = sources.get(item.name)
            if target is None or target.name not in wanted:
                self.skip(item.type, inside(path, item.name))
            else:
                self._value(item.type, target.type, wanted[target.name], inside(path, target.name))

    def _sources(
        self, writer: AvroType, reader: AvroType, wanted: dict[str, Node], path: str
    ) -> dict[str, AvroField]:
        """The reader's fields by the names of the writer's. Fields that the writer lacks have defaults."""
        written = {item.name for item in writer.fields}
        taken = written & {item.name for item in reader.fields}
        sources = {}
        for item in reader.fields:
            location = inside(path, item.name)
            known = [name for name in item.aliases if name in written and name not in taken]
            if item.name in taken or known:
                source = item.name if item.name in taken else known[0]
                sources[source] = item
                taken.add(source)
            elif not item.has_default:
                self._fail(Fault.MISSING_FIELD, location)
            elif item.name in wanted:
                default = default_of(item.default, item.type, location)
                self._default(default, item.type, wanted[item.name], location)
        return sources

    def _leaf(self, writer: AvroType, reader: AvroType, node: Node, path: str) -> None:
        _require(reader, node, path)
        factor = _factor(writer, reader)
        if factor is None:
            self._fail(Fault.UNRESOLVABLE_SCHEMA, path)
            return
        self.leaf(writer, reader, path, (node.stream, factor, self._bounds(node)))
        if writer.kind in _SOURCE_OF:
            self._from(node, _SOURCE_OF[writer.kind])

    def _bounds(self, node: Node) -> int:
        """The place of a decimal's greatest and least number in the table; -1 for other types."""
        if not pa.types.is_decimal(node.type):
            return -1
        location = len(self.table)
        for bound in (10**node.type.precision - 1, 1 - 10**node.type.precision):
            self.table += bound.to_bytes(ops.DECIMAL_SIZE, "big", signed=True)
        return location

    def _from(self, node: Node, source: str) -> None:
        """Note the source of a number; in its third stream, if the column has several sources."""
        node.sources.add(source)
        if pa.types.is_floating(node.type) and node.width == 3:
            self.constant(node.stream + 2, SOURCES.index(source))

    # Defaults

    def _default(self, value: Any, reader: AvroType, node: Node, path: str) -> None:
        if isinstance(value, Branch):
            self._default_branch(value, reader, node, path)
        elif value is None:
            self.null(node)
        elif reader.kind == "record":
            _require(reader, node, path)
            self.constant(node.stream, 1)
            types = {each.name: each.type for each in reader.fields}
            for of, child in zip(node.type, node.children, strict=True):
                self._default(value[of.name], types[of.name], child, inside(path, of.name))
        elif reader.kind in ("array", "map"):
            _require(reader, node, path)
            for each in value:
                if reader.kind == "map":
                    self.constant(node.children[0].stream, 1, *self.span(each.encode()))
                item = value[each] if reader.kind == "map" else each
                self._default(item, reader.item_type, node.children[-1], path)
            self.constant(node.stream, 1, len(value))
        else:
            self._default_leaf(value, reader, node, path)

    def _default_branch(self, value: Branch, reader: AvroType, node: Node, path: str) -> None:
        branch = reader.branches[value.index]
        if branch.kind == "null":
            self.null(node)
        elif reader.has_members:
            self._members(
                branch, reader, node, path, lambda child: self._default(value.value, branch, child, path)
            )
        else:
            self._default(value.value, reader.read_as(branch), node, path)

    def _default_leaf(self, value: Any, reader: AvroType, node: Node, path: str) -> None:
        _require(reader, node, path)
        if isinstance(value, str | bytes):
            content = value if isinstance(value, bytes) else value.encode()
            number = int.from_bytes(content, "big", signed=True)
            if pa.types.is_decimal(node.type) and (not content or abs(number) >= 10**node.type.precision):
                raise OptionError(
                    f"the default of the Avro field {printable(path)} has more digits than its precision: "
                    "correct it"
                )
            self.constant(node.stream, 1, *self.span(content))
        elif reader.kind in ("float", "double"):
            self.constant(node.stream, 1, struct.unpack("<q", struct.pack("<d", value))[0])
            self._from(node, "f8")
        else:
            number = int(value) * (1000 if reader.logical in _MILLIS else 1)
            if not -(2**63) <= number < 2**63:
                raise OptionError(
                    f"the default of the Avro field {printable(path)} is out of the range of a long: correct "
                    "it"
                )
            self.constant(node.stream, 1, number)
            self._from(node, "integer")


def _require(reader: AvroType, node: Node, path: str) -> None:
    """Raise ``OptionError`` (fatal) if a column does not have the type of its field."""
    of = node.type
    if reader.kind == "record" or reader.has_members:
        fits = pa.types.is_struct(of)
        names = {item.name for item in reader.fields} | {f"member{at}" for at in range(len(reader.branches))}
        for item in of if fits else ():
            if item.name not in names:
                of_type = f"{reader.kind} {printable(reader.name or path)}"
                raise OptionError(
                    f"the Avro {of_type} has no field {printable(item.name)}: remove that column from "
                    ".schema()"
                )
            names.remove(item.name)
    elif reader.kind == "array":
        fits = pa.types.is_list(of)
    elif reader.kind == "map":
        fits = pa.types.is_map(of) and pa.types.is_string(of.key_type)
    else:
        expected = arrow_type_of(reader)
        fits = of == expected or (expected, of) in _WIDER
    if not fits:
        raise OptionError(
            f"the Avro {f'field {printable(path)}' if path else 'value'} of type {reader.kind} cannot be "
            f"read as {printable(sql_name(of))}: name another type in .schema(), and cast the column"
        )


def _factor(writer: AvroType, reader: AvroType) -> int | None:
    """The factor from a writer's number to that of the reader's column, 1 for all that are no times; None for
    logical types that do not convert exactly.

    A writer without a logical type wrote the reader's, as Avro's own classes take it, and a reader without
    one takes the number or the bytes as they are. Times convert to finer units. Decimals match if precision
    and scale do.
    """
    written, read = writer.logical or reader.logical, reader.logical
    if read == "decimal":
        fits = writer.kind == reader.kind and written == read
        same = (writer.precision, writer.scale) == (reader.precision, reader.scale)
        return 1 if fits and (same or not writer.logical) else None
    name, _, unit = written.rpartition("-")
    of_column, _, target = read.rpartition("-")
    if not read or (written == read and read not in _MILLIS):
        return 1
    if name != of_column or unit not in _NANOS or target not in _NANOS:
        return None
    factor, rest = divmod(_NANOS[unit], _NANOS["micros" if read in _MILLIS else target])
    return None if rest else factor


def resolves(writer: AvroType, reader: AvroType) -> bool:
    """True if a value of the writer's type can be one of the reader's, as far as their first level shows."""
    if writer is reader or (writer.kind, reader.kind) in _PROMOTED:
        return True
    if writer.kind != reader.kind:
        return False
    if writer.kind not in ("record", "enum", "fixed"):
        return True
    names = [_last(name) for name in (reader.name, *reader.aliases)]
    return _last(writer.name) in names and writer.size == reader.size


def matching_branch(writer: AvroType, reader: AvroType) -> AvroType | None:
    """The branch of the writer's own type in a reader's union, or the first that it resolves to."""
    for item in reader.branches:
        if item is writer or (item.kind, item.name) == (writer.kind, writer.name):
            return item
    return next((item for item in reader.branches if resolves(writer, item)), None)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def new_field(writer: Schema, reader: Schema) -> str | None:
    """The dotted path of the first field of ``writer`` that ``reader`` lacks by its name and its aliases."""
    return _new_field(writer.root, reader.root, "", set())


def _new_field(writer: AvroType, reader: AvroType, path: str, seen: set[tuple[int, int]]) -> str | None:
    if (id(writer), id(reader)) in seen:  # a record may contain itself
        return None
    seen.add((id(writer), id(reader)))
    pairs: list[tuple[AvroType, AvroType, str]] = []
    if writer.kind == "union":
        pairs = [(branch, reader, path) for branch in writer.branches]
    elif reader.kind == "union":
        branch = matching_branch(writer, reader)
        pairs = [] if branch is None else [(writer, branch, path)]
    elif not resolves(writer, reader):
        return None
    elif writer.kind == "record":
        known = {name: item for item in reader.fields for name in (item.name, *item.aliases)}
        for item in writer.fields:
            location = whole_path(path, item.name)
            if item.name not in known:
                return location
            pairs.append((item.type, known[item.name].type, location))
    elif writer.kind in ("array", "map"):
        pairs = [(writer.item_type, reader.item_type, path)]
    result = (_new_field(*pair, seen) for pair in pairs)
    return next((item for item in result if item is not None), None)


#: Steps that each byte of a message pays for, at most: one byte may be an item that fills many columns.
_STEPS_OF_BYTE_MAX: Final = 4096
_STEPS_MIN: Final = 256
_NO_ROOM: Final = Room(np.zeros(0, np.int64), np.int64)


class Decoder:
    """Decoder of messages of one writer's schema to an Arrow type.

    ``reader`` is the schema that values are resolved to, with its defaults and aliases; without one it is the
    writer's. ``arrow_type`` is the reader's own or has fewer fields; fields that it lacks are skipped. Of
    equal keys in a map the last one stays, as in Spark's ``from_avro``. Raises ``OptionError`` (fatal) for a
    pair that has no program.
    """

    def __init__(
        self, writer: Schema, reader: Schema | None = None, arrow_type: pa.DataType | None = None
    ) -> None:
        target = reader or writer
        self.arrow_type = target.arrow_type if arrow_type is None else arrow_type
        self.program = program_of(writer.root, target.root, self.arrow_type)
        self._cost = self.program.cost
        self._has_items = any(
            pa.types.is_list(node.type) or pa.types.is_map(node.type) for node in self.program.nodes
        )
        self._code = np.array(self.program.code, np.int64)
        self._table = np.array(self.program.table or [0], np.int64)

    def decode(self, payloads: Payloads) -> Decoded:
        """The messages' values. Rows of tombstones and of faults are null, and do not influence others."""
        expect(len(payloads))
        present = np.flatnonzero(~payloads.is_null)
        messages = payloads if len(present) == len(payloads) else payloads.taken(present)
        if self._has_items:
            counts, result, fields = self._run(messages, None)
            good = present[result == 0]
            streams = Room(counts, np.int64)
            self._run(payloads.taken(good), streams, checking=False)
        else:
            streams = Room(np.full(self.program.stream_count, len(present)), np.int64)
            counts, result, fields = self._run(messages, streams)
            good = present[result == 0]
        constants = byte_array(bytes(self.program.constants))
        column = _Columns(payloads.data, constants, streams, counts).of(self.program.nodes[0], len(good))
        return make_decoded(
            len(payloads), [(column, good)], present, result, fields, tuple(self.program.paths)
        )

    def _run(
        self, payloads: Payloads, target: Room | None, *, checking: bool = True
    ) -> tuple[Int64s, Uint8s, Any]:
        rows = len(payloads)
        counts = np.zeros(self.program.stream_count, np.int64)
        faults, fields = np.zeros(rows, np.uint8), np.zeros(rows, np.int32)
        streams = target or _NO_ROOM
        if rows:
            starts, stops = map(np.ascontiguousarray, (payloads.starts, payloads.stops))
            written = counts, np.zeros_like(counts), streams.bases, streams.arrays[0]
            found = np.zeros(2 * DEPTH_MAX, np.int64), faults, fields
            steps = self._cost + _STEPS_MIN, min(self._cost, _STEPS_OF_BYTE_MAX)
            flags = int(checking), int(target is not None), int(not self._has_items)
            decode_each(
                payloads.data, starts, stops, self._code, self._table, *written, *found, *steps, *flags
            )
        return counts, faults, fields


class _Columns(Columns):
    """Streams of a run as Arrow arrays."""

    def __init__(self, data: Uint8s, constants: Uint8s, streams: Room, counts: Int64s) -> None:
        self.data, self.constants, self.streams, self.counts = data, constants, streams, counts.tolist()

    def stream(self, index: int) -> Any:
        return self.streams.of(index, self.counts[index])

    def is_null(self, node: Node, _rows: int) -> Flags:
        is_null: Flags = self.stream(node.stream) == 0
        return is_null

    def offsets(self, node: Node, _rows: int, _is_null: Any) -> Int64s:
        return offsets_of(self.stream(node.stream + 1))

    def spans(self, node: Node, _rows: int, _is_null: Any) -> tuple[Int64s, Uint8s]:
        first = node.stream
        return gather_spans(self.data, self.constants, self.stream(first + 1), self.stream(first + 2))

    def numbers(self, node: Node, rows: int, _is_null: Any) -> npt.NDArray[Any]:
        values = self.stream(node.stream + 1)
        more = self.stream(node.stream + 2) if node.width == 3 else None
        if not pa.types.is_decimal(node.type):
            return _numbers(node, values, more)
        content = np.empty(max(1, rows * DECIMAL_SIZE), np.uint8)
        if rows:
            gather_decimals(self.data, self.constants, values, more, content)
        return content


def _numbers(node: Node, values: Int64s, sources: Int64s | None) -> npt.NDArray[Any]:
    dtype = dtype_of(node.type)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        if sources is None:
            return _from_source(values, next(iter(node.sources), "integer")).astype(dtype, copy=False)
        numbers = np.empty(len(values), dtype)
        for index, source in enumerate(SOURCES):
            is_of = sources == index
            numbers[is_of] = _from_source(values[is_of], source)
        return numbers


def _from_source(values: Int64s, source: str) -> npt.NDArray[Any]:
    if source == "f8":
        return values.view(np.float64)
    return values.astype(np.uint32).view(np.float32) if source == "f4" else values
