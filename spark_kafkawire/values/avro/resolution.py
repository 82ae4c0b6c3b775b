"""Resolution of a writer's schema to a reader's: programs of ``kernels``, and the columns that they fill."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from spark_kafkawire.errors import OptionError, printable

from ..faults import Fault
from . import kernels as ops
from .types import AvroType, arrow_type_of

#: Instructions of a program: a hostile schema may double them with each level.
INSTRUCTIONS_MAX: Final = 200_000

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
_MILLIS: Final = ("timestamp-millis", "local-timestamp-millis")


@dataclass(slots=True)
class Node:
    """A column: its first stream says if a row has a value, the next ones have values or places.

    ``source`` is what the streams have: an integer, the bits of a float (f4, f8), or a span of bytes.
    """

    type: pa.DataType
    stream: int
    width: int
    children: tuple[Node, ...] = ()
    source: str = ""


@dataclass(slots=True)
class Program:
    """Instructions, their table, constants, the paths of fields, and the column that is filled."""

    root: Node
    code: list[int] = field(default_factory=list)
    table: list[int] = field(default_factory=list)
    constants: bytearray = field(default_factory=bytearray)
    paths: list[str] = field(default_factory=list)
    stream_count: int = 0


class Resolver:
    """Compiler of a writer's and a reader's type; the Arrow type may have fewer fields than the reader's."""

    def __init__(self, arrow_type: pa.DataType) -> None:
        self.streams = 0
        self.path_indexes: dict[str, int] = {}
        self.skipped: dict[int, tuple[AvroType, list[int]]] = {}
        self.program = Program(self._node(arrow_type))
        self.program.stream_count = self.streams

    def compile(self, writer: AvroType, reader: AvroType) -> Program:
        """The program of this pair. Raises ``OptionError`` (fatal) for what has no program."""
        self._value(writer, reader, self.program.root, "")
        self._emit(ops.END)
        done = 0
        while done < len(self.skipped):
            record, calls = list(self.skipped.values())[done]
            for call in calls:
                self.program.code[call * ops.WIDTH + 2] = self._pc
            calls.append(-self._pc)  # calls that follow know their target
            for each in record.fields:
                self._skip(each.type, "")
            self._emit(ops.RETURN)
            done += 1
        self.program.paths = list(self.path_indexes)
        return self.program

    # Streams

    def _node(self, of: pa.DataType) -> Node:
        stream = self.streams
        if pa.types.is_struct(of):
            self.streams += 1
            return Node(of, stream, 1, tuple(self._node(each.type) for each in of))
        if pa.types.is_list(of) or pa.types.is_map(of):
            self.streams += 2
            inner = (of.key_type, of.item_type) if pa.types.is_map(of) else (of.value_type,)
            return Node(of, stream, 2, tuple(self._node(each) for each in inner))
        is_span = pa.types.is_string(of) or pa.types.is_binary(of)
        width = 1 if pa.types.is_null(of) else 3 if is_span else 2
        self.streams += width
        return Node(of, stream, width)

    # Instructions

    @property
    def _pc(self) -> int:
        return len(self.program.code) // ops.WIDTH

    def _emit(self, op: int, a: int = -1, b: int = 0, c: int = 0, path: str = "") -> int:
        if self._pc >= INSTRUCTIONS_MAX:
            raise OptionError(
                f"the Avro schema takes more than {INSTRUCTIONS_MAX} instructions: it is too large"
            )
        at = self._pc
        index = self.path_indexes.setdefault(path, len(self.path_indexes)) if path else -1
        self.program.code += (op, a, b, c, index)
        return at

    def _aim(self, at: int) -> None:
        self.program.code[at * ops.WIDTH + 2] = self._pc

    def _constant(self, stream: int, *values: int) -> None:
        self._emit(ops.CONSTANT, stream, len(self.program.table), len(values))
        self.program.table += values

    def _span(self, content: bytes) -> tuple[int, int]:
        start = -1 - len(self.program.constants)
        self.program.constants += content
        return start, len(content)

    def _null(self, node: Node) -> None:
        self._constant(node.stream, *[0] * node.width)
        if pa.types.is_struct(node.type):
            for child in node.children:
                self._null(child)

    # Values

    def _value(self, writer: AvroType, reader: AvroType, node: Node, path: str) -> None:
        if writer.kind == "union":
            self._branches(writer, path, lambda branch: self._value(branch, reader, node, path))
        elif reader.kind == "union":
            self._member(writer, reader, node, path)
        elif not resolves(writer, reader):
            self._emit(ops.FAIL, b=Fault.UNRESOLVABLE_SCHEMA, path=path)
        elif writer.kind == "null":
            self._null(node)
        elif writer.kind == "record":
            self._record(writer, reader, node, path)
        elif writer.kind in ("array", "map"):
            self._items(writer, reader, node, path)
        else:
            self._leaf(writer, reader, node, path)

    def _branches(self, writer: AvroType, path: str, each_branch: Any) -> None:
        place = len(self.program.table)
        self.program.table += [0] * len(writer.branches)
        self._emit(ops.UNION, b=place, c=len(writer.branches), path=path)
        jumps = []
        for index, branch in enumerate(writer.branches):
            self.program.table[place + index] = self._pc
            each_branch(branch)
            jumps.append(self._emit(ops.JUMP))
        for jump in jumps:
            self._aim(jump)

    def _member(self, writer: AvroType, reader: AvroType, node: Node, path: str) -> None:
        branch = matching_branch(writer, reader)
        if branch is None:
            self._emit(ops.FAIL, b=Fault.BAD_UNION_BRANCH, path=path)
        elif branch.kind == "null":
            self._null(node)
        elif not reader.has_members:
            self._value(writer, branch, node, path)
        else:
            self._require(pa.types.is_struct(node.type), node, path)
            self._constant(node.stream, 1)
            name = f"member{reader.values.index(branch)}"
            fields = list(node.type)
            for child, of in zip(node.children, fields, strict=True):
                if of.name == name:
                    self._value(writer, branch, child, path)
                else:
                    self._null(child)
            if name not in [of.name for of in fields]:
                self._skip(writer, path)

    def _record(self, writer: AvroType, reader: AvroType, node: Node, path: str) -> None:
        self._require(pa.types.is_struct(node.type), node, path)
        self._constant(node.stream, 1)
        wanted = {of.name: child for of, child in zip(node.type, node.children, strict=True)}
        unknown = [name for name in wanted if name not in [each.name for each in reader.fields]]
        if unknown:
            raise OptionError(
                f"the Avro record {printable(reader.name)} has no field {printable(unknown[0])}"
            )
        written = {each.name: each for each in writer.fields}
        sources = {}
        for each in reader.fields:
            known = [name for name in (each.name, *each.aliases) if name in written]
            if known:
                sources[known[0]] = each
            elif each.has_default:
                if each.name in wanted:
                    self._default(each.default, each.type, wanted[each.name], _inside(path, each.name))
            else:
                self._emit(ops.FAIL, b=Fault.MISSING_FIELD, path=_inside(path, each.name))
        for each in writer.fields:
            target = sources.get(each.name)
            if target is None or target.name not in wanted:
                self._skip(each.type, _inside(path, each.name))
            else:
                self._value(each.type, target.type, wanted[target.name], _inside(path, target.name))

    def _items(self, writer: AvroType, reader: AvroType, node: Node, path: str) -> None:
        is_type = pa.types.is_list if writer.kind == "array" else pa.types.is_map
        self._require(is_type(node.type), node, path)
        self._emit(ops.OPEN, path=path)
        loop = self._emit(ops.NEXT, node.stream, path=path)
        if writer.kind == "map":
            self._emit(ops.BYTES_OF, node.children[0].stream, 1, path=path)
        self._value(writer.item_type, reader.item_type, node.children[-1], path)
        self._emit(ops.JUMP, b=loop)
        self._aim(loop)

    def _leaf(self, writer: AvroType, reader: AvroType, node: Node, path: str) -> None:
        if pa.types.is_decimal(node.type):
            raise OptionError(
                f"the Avro field {printable(path or 'itself')} is a decimal, which cannot be decoded yet"
            )
        expected = arrow_type_of(reader)
        wider = (expected, node.type) in _WIDER
        self._require(node.type == expected or wider, node, path)
        is_time = pa.types.is_timestamp(node.type) or pa.types.is_date(node.type)
        if is_time and writer.logical != reader.logical:
            self._emit(ops.FAIL, b=Fault.UNRESOLVABLE_SCHEMA, path=path)
            return
        kind, stream = writer.kind, node.stream
        if kind in ("int", "long"):
            self._from(node, "integer", path)
            factor = 1000 if is_time and writer.logical in _MILLIS else 1
            self._emit(ops.LONG, stream, factor, int(kind == "int"), path)
        elif kind in ("float", "double"):
            self._from(node, "f4" if kind == "float" else "f8", path)
            self._emit(ops.FIXED, stream, 4 if kind == "float" else 8, path=path)
        elif kind == "boolean":
            self._emit(ops.BOOLEAN, stream, path=path)
        elif kind == "fixed":
            self._emit(ops.SIZED, stream, writer.size, path=path)
        elif kind == "enum":
            self._enum(writer, reader, stream, path)
        else:
            self._emit(
                ops.BYTES_OF, stream, int(pa.types.is_string(node.type) or kind == "string"), path=path
            )

    def _enum(self, writer: AvroType, reader: AvroType, stream: int, path: str) -> None:
        place = len(self.program.table)
        for symbol in writer.symbols:
            known = symbol if symbol in reader.symbols else reader.default
            self.program.table += (0, -1) if known is None else self._span(known.encode())
        self._emit(ops.ENUM, stream, place, len(writer.symbols), path)

    def _from(self, node: Node, source: str, path: str) -> None:
        if node.source not in ("", source):
            raise OptionError(
                f"the Avro field {printable(path or 'itself')} is a union of numbers of several types, which"
                " cannot be decoded to one type yet"
            )
        node.source = source

    def _require(self, fits: bool, node: Node, path: str) -> None:
        if not fits:
            raise OptionError(f"the Avro field {printable(path or 'itself')} cannot be read as {node.type}")

    # Defaults

    def _default(self, default: Any, reader: AvroType, node: Node, path: str) -> None:
        try:
            self._constants_of(default, reader, node, path)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError, struct.error):
            raise OptionError(
                f"the default of the Avro field {printable(path)} does not fit its type"
            ) from None

    def _constants_of(self, default: Any, reader: AvroType, node: Node, path: str) -> None:
        kind, stream = reader.kind, node.stream
        if kind == "union":
            first = reader.branches[0]
            if reader.has_members and first.kind != "null":
                raise OptionError(
                    f"the default of the Avro field {printable(path)} is that of a general union"
                )
            self._constants_of(default, first, node, path)
        elif kind == "null":
            self._null(node)
        elif kind == "record":
            self._constant(stream, 1)
            fields = {each.name: each for each in reader.fields}
            for of, child in zip(node.type, node.children, strict=True):
                each = fields[of.name]
                value = default[of.name] if of.name in default or not each.has_default else each.default
                self._constants_of(value, each.type, child, _inside(path, of.name))
        elif kind in ("array", "map"):
            if type(default) is not (list if kind == "array" else dict):
                raise TypeError
            for key in default:
                if kind == "map":
                    self._constant(node.children[0].stream, 1, *self._span(key.encode()))
                value = default[key] if kind == "map" else key
                self._constants_of(value, reader.item_type, node.children[-1], path)
            self._constant(stream, 1, len(default))
        elif reader.logical in ("decimal", *_MILLIS):
            raise OptionError(
                f"the default of the Avro field {printable(path)} is a {reader.logical}: give none"
            )
        elif kind == "boolean":
            if type(default) is not bool:
                raise TypeError
            self._constant(stream, 1, int(default))
        elif kind in ("int", "long"):
            bits = 31 if kind == "int" else 63
            if type(default) is not int or not -(2**bits) <= default < 2**bits:
                raise TypeError
            self._from(node, "integer", path)
            self._constant(stream, 1, default)
        elif kind in ("float", "double"):
            self._from(node, "f8", path)
            self._constant(stream, 1, struct.unpack("<q", struct.pack("<d", default))[0])
        else:
            content = default.encode("latin-1" if kind in ("bytes", "fixed") else "utf-8")
            if kind == "fixed" and len(content) != reader.size:
                raise ValueError
            self._constant(stream, 1, *self._span(content))

    # Skipped values

    def _skip(self, writer: AvroType, path: str) -> None:
        kind = writer.kind
        if kind == "union":
            self._branches(writer, path, lambda branch: self._skip(branch, path))
        elif kind == "record":
            _, calls = self.skipped.setdefault(id(writer), (writer, []))
            call = self._emit(ops.CALL, path=path)
            if calls and calls[-1] < 0:
                self.program.code[call * ops.WIDTH + 2] = -calls[-1]
            else:
                calls.append(call)
        elif kind in ("array", "map"):
            self._emit(ops.OPEN, path=path)
            loop = self._emit(ops.NEXT, path=path)
            if kind == "map":
                self._emit(ops.BYTES_OF, b=1, path=path)
            self._skip(writer.item_type, path)
            self._emit(ops.JUMP, b=loop)
            self._aim(loop)
        elif kind in ("int", "long"):
            self._emit(ops.LONG, b=1, c=int(kind == "int"), path=path)
        elif kind in ("float", "double"):
            self._emit(ops.FIXED, b=4 if kind == "float" else 8, path=path)
        elif kind == "boolean":
            self._emit(ops.BOOLEAN, path=path)
        elif kind == "fixed":
            self._emit(ops.SIZED, b=writer.size, path=path)
        elif kind == "enum":
            self._enum(writer, writer, -1, path)
        elif kind != "null":
            self._emit(ops.BYTES_OF, b=int(kind == "string"), path=path)


_WIDER: Final = ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))


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
    is_same = [
        each is writer or (each.kind, each.name) == (writer.kind, writer.name) for each in reader.branches
    ]
    if True in is_same:
        return reader.branches[is_same.index(True)]
    return next((each for each in reader.branches if resolves(writer, each)), None)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
