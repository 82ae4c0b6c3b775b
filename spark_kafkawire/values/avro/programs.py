"""Programs of ``kernels``: their instructions, the columns that they fill, and what skips values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from spark_kafkawire.errors import OptionError

from . import kernels as ops
from .types import AvroType

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


@dataclass(slots=True)
class Program:
    """Instructions, their table, constants, the paths of fields, and the column that is filled.

    ``mixed`` are the columns of numbers that have several sources, by their numbers.
    """

    mixed: frozenset[int] = frozenset()
    code: list[int] = field(default_factory=list)
    table: list[int] = field(default_factory=list)
    constants: bytearray = field(default_factory=bytearray)
    nodes: list[Node] = field(default_factory=list)
    stream_count: int = 0
    _paths: dict[str, int] = field(default_factory=dict)
    _enums: dict[tuple[int, int], int] = field(default_factory=dict)
    _skipped: dict[int, int] = field(default_factory=dict)
    _records: list[tuple[AvroType, list[int]]] = field(default_factory=list)
    _sealed: int = 0

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of fields, by the indexes that instructions have."""
        return tuple(self._paths)

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
        node.children = tuple(self.node(each) for each in children)
        return node

    # Instructions

    def emit(self, op: int, a: int = -1, b: int = 0, c: int = 0, path: str = "") -> int:
        """Add an instruction; returns its place."""
        at = len(self.code) // ops.WIDTH
        if at >= INSTRUCTIONS_MAX or max(len(self.table), len(self.constants)) > TABLE_MAX:
            raise OptionError(
                f"the Avro schema takes more than {INSTRUCTIONS_MAX} instructions: remove fields from it"
            )
        index = self._paths.setdefault(path, len(self._paths)) if path else -1
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
        last, place = len(self.code) - ops.WIDTH, len(self.table)
        self.table += values
        if last >= self._sealed and self.code[last] == ops.CONSTANT:
            _, a, b, c, _ = self.code[last:]
            if a + c == stream and b + c == place:
                self.code[last + 3] += len(values)
                return
        self.emit(ops.CONSTANT, stream, place, len(values))

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
        place = len(self.table)
        self.table += [0] * len(union.branches)
        self.emit(ops.UNION, b=place, c=len(union.branches), path=path)
        jumps = []
        for index, branch in enumerate(union.branches):
            self.table[place + index] = self.here()
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

    def enum(self, writer: AvroType, reader: AvroType, stream: int, path: str) -> None:
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
        elif kind in ("int", "long"):
            self.emit(ops.LONG, b=1, c=int(kind == "int"), path=path)
        elif kind in ("float", "double"):
            self.emit(ops.FIXED, b=4 if kind == "float" else 8, path=path)
        elif kind == "boolean":
            self.emit(ops.BOOLEAN, path=path)
        elif kind == "fixed":
            self.emit(ops.SIZED, b=writer.size, c=-1, path=path)
        elif kind == "enum":
            self.enum(writer, writer, -1, path)
        elif kind != "null":
            self.emit(ops.BYTES_OF, b=int(kind == "string"), c=-1, path=path)

    def finish(self) -> None:
        """End the program, and add what skips its records."""
        self.emit(ops.END)
        starts = []
        for record, _ in self._records:  # grows on the way
            starts.append(self.here())
            for each in record.fields:
                self.skip(each.type, "")
            self.emit(ops.RETURN)
        for start, (_, calls) in zip(starts, self._records, strict=True):
            for call in calls:
                self.code[call * ops.WIDTH + 2] = start


def _shape(of: pa.DataType) -> tuple[int, Sequence[pa.DataType]]:
    """The count of a column's own streams, and its children."""
    if pa.types.is_struct(of):
        return 1, [each.type for each in of]
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
    return (f"{path}.{name}" if path else name)[:_PATH_MAX]
