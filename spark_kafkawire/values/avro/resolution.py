"""Resolution of a writer's schema to a reader's: programs of ``kernels``, and the columns that they fill."""

from __future__ import annotations

import struct
from typing import Any, Final

import pyarrow as pa

from spark_kafkawire.errors import OptionError, printable

from ..faults import Fault
from ..type_names import sql_name
from . import kernels as ops
from .defaults import Branch, default_of
from .programs import SOURCES, Node, Program, inside
from .types import AvroField, AvroType, arrow_type_of

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


def program_of(writer: AvroType, reader: AvroType, arrow_type: pa.DataType) -> tuple[Program, Node]:
    """The program that reads a writer's values as a reader's, and the column that it fills.

    ``arrow_type`` may have fewer fields than the reader's. Raises ``OptionError`` (fatal) for a pair that has
    no program.
    """
    try:
        resolver = Resolver(arrow_type)
        resolver.resolve(writer, reader)
        mixed = frozenset(node.number for node in resolver.program.nodes if len(node.sources) > 1)
        if mixed:  # their columns have another stream, which is known only now
            resolver = Resolver(arrow_type, mixed)
            resolver.resolve(writer, reader)
    except RecursionError:
        raise OptionError("the Avro schemas are nested too deeply to be read: flatten them") from None
    return resolver.program, resolver.root


class Resolver:
    """Compiler of a writer's and a reader's type to the program of a column."""

    def __init__(self, arrow_type: pa.DataType, mixed: frozenset[int] = frozenset()) -> None:
        self.program = Program(mixed)
        self.root = self.program.node(arrow_type)

    def resolve(self, writer: AvroType, reader: AvroType) -> None:
        """Compile. Raises ``OptionError`` (fatal) for what has no program."""
        self._value(writer, reader, self.root, "")
        self.program.finish()

    # Values

    def _value(self, writer: AvroType, reader: AvroType, node: Node, path: str) -> None:
        if writer.kind == "union":
            self.program.branches(writer, path, lambda branch: self._value(branch, reader, node, path))
        elif reader.kind == "union":
            self._member(writer, reader, node, path)
        elif not resolves(writer, reader):
            self._fail(Fault.UNRESOLVABLE_SCHEMA, path)
        elif writer.kind == "null":
            self.program.null(node)
        elif writer.kind == "record":
            self._record(writer, reader, node, path)
        elif writer.kind in ("array", "map"):
            _require(reader, node, path)
            key_stream = node.children[0].stream
            self.program.items(
                writer,
                node.stream,
                key_stream,
                path,
                lambda: self._value(writer.item_type, reader.item_type, node.children[-1], path),
            )
        else:
            self._leaf(writer, reader, node, path)

    def _fail(self, fault: Fault, path: str) -> None:
        self.program.emit(ops.FAIL, b=fault, path=path)

    def _member(self, writer: AvroType, reader: AvroType, node: Node, path: str) -> None:
        branch = matching_branch(writer, reader)
        if branch is None:
            self._fail(Fault.BAD_UNION_BRANCH, path)
        elif branch.kind == "null":
            self.program.null(node)
        elif not reader.has_members:
            self._value(writer, reader.read_as(branch), node, path)
        elif not self._members(
            branch, reader, node, path, lambda child: self._value(writer, branch, child, path)
        ):
            self.program.skip(writer, path)

    def _members(self, branch: AvroType, reader: AvroType, node: Node, path: str, each_value: Any) -> bool:
        """Fill the member of a branch, and the others with nulls. Returns False if it has no column."""
        _require(reader, node, path)
        self.program.constant(node.stream, 1)
        name = f"member{reader.values.index(branch)}"
        for child, of in zip(node.children, node.type, strict=True):
            if of.name == name:
                each_value(child)
            else:
                self.program.null(child)
        return name in [of.name for of in node.type]

    def _record(self, writer: AvroType, reader: AvroType, node: Node, path: str) -> None:
        _require(reader, node, path)
        self.program.constant(node.stream, 1)
        wanted = {of.name: child for of, child in zip(node.type, node.children, strict=True)}
        sources = self._sources(writer, reader, wanted, path)
        for each in writer.fields:
            target = sources.get(each.name)
            if target is None or target.name not in wanted:
                self.program.skip(each.type, inside(path, each.name))
            else:
                self._value(each.type, target.type, wanted[target.name], inside(path, target.name))

    def _sources(
        self, writer: AvroType, reader: AvroType, wanted: dict[str, Node], path: str
    ) -> dict[str, AvroField]:
        """The reader's fields by the names of the writer's. Fields that the writer lacks have defaults."""
        written = {each.name for each in writer.fields}
        taken = written & {each.name for each in reader.fields}
        sources = {}
        for each in reader.fields:
            place = inside(path, each.name)
            known = [name for name in each.aliases if name in written and name not in taken]
            if each.name in taken or known:
                source = each.name if each.name in taken else known[0]
                sources[source] = each
                taken.add(source)
            elif not each.has_default:
                self._fail(Fault.MISSING_FIELD, place)
            elif each.name in wanted:
                default = default_of(each.default, each.type, place)
                self._default(default, each.type, wanted[each.name], place)
        return sources

    def _leaf(self, writer: AvroType, reader: AvroType, node: Node, path: str) -> None:
        _require(reader, node, path)
        factor = _factor(writer, reader)
        if factor is None:
            self._fail(Fault.UNRESOLVABLE_SCHEMA, path)
            return
        program, kind, stream = self.program, writer.kind, node.stream
        bounds = self._bounds(node)
        if kind in ("int", "long"):
            program.emit(ops.LONG, stream, factor, int(kind == "int"), path)
            self._from(node, "integer")
        elif kind in ("float", "double"):
            program.emit(ops.FIXED, stream, 4 if kind == "float" else 8, path=path)
            self._from(node, "f4" if kind == "float" else "f8")
        elif kind == "boolean":
            program.emit(ops.BOOLEAN, stream, path=path)
        elif kind == "fixed":
            program.emit(ops.SIZED, stream, writer.size, bounds, path)
        elif kind == "enum":
            program.enum(writer, reader, stream, path)
        else:
            is_text = pa.types.is_string(node.type) or kind == "string"
            program.emit(ops.BYTES_OF, stream, int(is_text), bounds, path)

    def _bounds(self, node: Node) -> int:
        """The place of a decimal's greatest and least number in the table; -1 for other types."""
        if not pa.types.is_decimal(node.type):
            return -1
        place = len(self.program.table)
        for bound in (10**node.type.precision - 1, 1 - 10**node.type.precision):
            self.program.table += bound.to_bytes(ops.DECIMAL_SIZE, "big", signed=True)
        return place

    def _from(self, node: Node, source: str) -> None:
        """Note the source of a number; in its third stream, if the column has several sources."""
        node.sources.add(source)
        if pa.types.is_floating(node.type) and node.width == 3:
            self.program.constant(node.stream + 2, SOURCES.index(source))

    # Defaults

    def _default(self, value: Any, reader: AvroType, node: Node, path: str) -> None:
        program, stream = self.program, node.stream
        if isinstance(value, Branch):
            self._default_branch(value, reader, node, path)
        elif value is None:
            program.null(node)
        elif reader.kind == "record":
            _require(reader, node, path)
            program.constant(stream, 1)
            types = {each.name: each.type for each in reader.fields}
            for of, child in zip(node.type, node.children, strict=True):
                self._default(value[of.name], types[of.name], child, inside(path, of.name))
        elif reader.kind in ("array", "map"):
            _require(reader, node, path)
            for each in value:
                if reader.kind == "map":
                    program.constant(node.children[0].stream, 1, *program.span(each.encode()))
                item = value[each] if reader.kind == "map" else each
                self._default(item, reader.item_type, node.children[-1], path)
            program.constant(stream, 1, len(value))
        else:
            self._default_leaf(value, reader, node, path)

    def _default_branch(self, value: Branch, reader: AvroType, node: Node, path: str) -> None:
        branch = reader.branches[value.index]
        if branch.kind == "null":
            self.program.null(node)
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
            self.program.constant(node.stream, 1, *self.program.span(content))
        elif reader.kind in ("float", "double"):
            self.program.constant(node.stream, 1, struct.unpack("<q", struct.pack("<d", value))[0])
            self._from(node, "f8")
        else:
            number = int(value) * (1000 if reader.logical in _MILLIS else 1)
            if not -(2**63) <= number < 2**63:
                raise OptionError(
                    f"the default of the Avro field {printable(path)} is out of the range of a long: correct "
                    "it"
                )
            self.program.constant(node.stream, 1, number)
            self._from(node, "integer")


def _require(reader: AvroType, node: Node, path: str) -> None:
    """Raise ``OptionError`` (fatal) if a column does not have the type of its field."""
    of = node.type
    if reader.kind == "record" or reader.has_members:
        fits = pa.types.is_struct(of)
        names = {each.name for each in reader.fields} | {f"member{at}" for at in range(len(reader.branches))}
        for each in of if fits else ():
            if each.name not in names:
                of_type = f"{reader.kind} {printable(reader.name or path)}"
                raise OptionError(
                    f"the Avro {of_type} has no field {printable(each.name)}: remove that column from "
                    ".schema()"
                )
            names.remove(each.name)
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
    for each in reader.branches:
        if each is writer or (each.kind, each.name) == (writer.kind, writer.name):
            return each
    return next((each for each in reader.branches if resolves(writer, each)), None)


def _last(name: str) -> str:
    return name.rpartition(".")[2]
