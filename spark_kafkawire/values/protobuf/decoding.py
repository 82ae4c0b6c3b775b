"""Decoding of Protobuf messages to Arrow: the program that resolves a writer's message to a reader's, and the
columns that its streams become.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafkawire.errors import OptionError, printable, quote
from spark_kafkawire.records.arrays import Int64s, Uint8s, byte_array
from spark_kafkawire.records.compiler import expect

from ..column_types import dtype_of, inside, sql_name
from ..columns import Columns, Flags, Room, check_offsets, gather_spans
from ..payloads import Decoded, Fault, Payloads
from . import kernels as ops
from .kernels import DEPTH_MAX, FRAME, decode_each
from .schema import Schema
from .types import (
    DELIMITED,
    DURATION,
    FIXED32,
    FIXED64,
    SCALARS,
    TIMESTAMP,
    Enum,
    Field,
    Message,
    name_of,
    unknown_name,
)

_OPS: Final = {"enum": ops.INT32, "bool": ops.BOOLEAN, "sint32": ops.SINT32, "sint64": ops.SINT64}
_OPS_OF_WIRE: Final = {FIXED32: ops.FIXED, FIXED64: ops.FIXED, DELIMITED: ops.SPAN}
#: Columns that a user may choose, besides those of the scalar's own Arrow type.
_WIDER: Final = {pa.int32(): pa.int64(), pa.float32(): pa.float64()}
_SECONDS: Final = Field("seconds", 1, "int64")
_NANOS: Final = Field("nanos", 2, "int32")


@dataclass(slots=True)
class Node:
    """A column, and where its parts are.

    ``kind`` is the field's, or ``repeated``, ``map``, ``struct``, ``time``. ``flag`` is the index of the
    flags that say if it is present, -1 where it always is. ``stream`` is the index of its first stream:
    values, or positions and then sizes, or the first items of lists. ``domain`` is that of a list's
    items. ``default`` replaces values that are not present, unless ``is_null`` then shows them as null.
    """

    kind: str
    type: pa.DataType
    flag: int = -1
    stream: int = -1
    domain: int = -1
    children: tuple[Node, ...] = ()
    enum: Enum | None = None
    default: Any = None
    is_null: bool = True


@dataclass(slots=True)
class Domain:
    """Slots of the rows, or of the items of one repeated field: what ``kernels`` needs to know of them."""

    streams: int = 0
    flags: list[int] = field(default_factory=list)
    #: Pairs of a stream and the domain that it refers to.
    lists: list[int] = field(default_factory=list)
    #: Triples, as ``kernels`` takes them.
    required: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Slot:
    """A field in the slots of a domain: its path, its flag and that of the message around it, -1 for none,
    the fields of its instruction, and what takes it away."""

    domain: int
    path: str = ""
    around: int = -1
    flag: int = -1
    instruction: list[int] = field(default_factory=list)
    cleared: list[int] = field(default_factory=list)


class Program:
    """The program of a writer's and a reader's message: ``arrays`` are code, scopes, domains and table as
    ``kernels`` takes them, ``root`` is the column that they fill, ``paths`` are those of fields.

    Raises ``OptionError`` (fatal) for what has no program.
    """

    def __init__(self, writer: Message, reader: Message, arrow_type: pa.DataType) -> None:
        self.domains = [Domain()]
        self.scopes: list[list[list[int]]] = [[]]
        self.table: list[int] = []
        self.paths: dict[str, int] = {}
        #: The domain of each stream and of each flag.
        self.streams: list[int] = []
        self.flags: list[int] = []
        if not pa.types.is_struct(arrow_type):
            raise OptionError(
                f"{name_of(reader)} cannot be read as {sql_name(arrow_type)}: name a "
                "struct in .schema(), or leave it out"
            )
        self.root = self._struct(writer, reader, arrow_type, _Slot(0))
        code: list[int] = []
        scopes: list[int] = []
        for scope in self.scopes:
            scopes += (len(code) // ops.WIDTH, len(scope))
            code += [item for instruction in sorted(scope) for item in instruction]
        domains = [item for domain in self.domains for item in self._numbers(domain)]
        self.arrays = tuple(np.array(item or [0], np.int64) for item in (code, scopes, domains, self.table))

    def _numbers(self, domain: Domain) -> tuple[int, ...]:
        """The integers of a domain; what they refer to goes into the table."""
        places = []
        for entries in (domain.flags, domain.lists, domain.required):
            places.append(len(self.table))
            self.table += entries
        (flags, lists, required), flag_count = places, len(domain.flags)
        size, list_count = flag_count + domain.streams, len(domain.lists) // 2
        return flags, flag_count, lists, list_count, size, required, len(domain.required) // 3

    # Parts of columns

    def _stream(self, domain: int, count: int = 1) -> int:
        self.streams += [domain] * count
        self.domains[domain].streams += count
        return len(self.streams) - count

    def _flag(self, domain: int) -> int:
        self.flags.append(domain)
        self.domains[domain].flags.append(len(self.flags) - 1)
        return len(self.flags) - 1

    def _instruction(self, each: Field, op: int) -> list[int]:
        instruction = [0] * ops.WIDTH
        instruction[ops.NUMBER], instruction[ops.OP], instruction[ops.WIRE] = each.number, op, each.wire_type
        instruction[ops.ITEMS] = instruction[ops.FLAG] = instruction[ops.STREAM] = instruction[ops.ANY] = -1
        instruction[ops.IMPLICIT] = int(not each.has_presence)
        return instruction

    # Messages

    def _struct(self, writer: Message, reader: Message, of: pa.DataType, slot: _Slot) -> Node:
        """A message in a slot, which collects what takes the message's fields away."""
        wanted = _columns(reader, of)
        scope: list[list[int]] = []
        self.scopes.append(scope)
        written = {item.number: item for item in writer.fields}
        nodes: dict[str, Node] = {}
        oneofs: dict[str, list[_Slot]] = {}
        for item in reader.fields:
            member = _Slot(slot.domain, inside(slot.path, item.name), slot.flag)
            if item.name in wanted:
                source = written.get(item.number, item)
                nodes[item.name] = self._field(source, item, wanted[item.name], member)
            elif item.label == "required" or item.oneof:
                self._unread(item, member)
            else:
                continue
            scope.append(member.instruction)
            slot.cleared += member.cleared
            if item.oneof:
                oneofs.setdefault(item.oneof, []).append(member)
        for members in oneofs.values():
            self._exclude(members, slot)
        return Node("struct", of, slot.flag, children=tuple(nodes[name] for name in wanted))

    def _exclude(self, members: list[_Slot], around: _Slot) -> None:
        """Let each member of a oneof take away the others."""
        flag, location = self._flag(around.domain), len(self.table)
        around.cleared += (flag, -1, -1)
        for member in members:
            self.table += member.cleared
        for member in members:
            member.instruction[ops.ANY] = flag
            member.instruction[ops.CLEARED] = location
            member.instruction[ops.CLEARED_COUNT] = (len(self.table) - location) // 3

    def _unread(self, each: Field, slot: _Slot) -> None:
        """A field without a column whose presence counts."""
        self._add_flag(slot)
        slot.instruction = self._instruction(each, ops.PRESENT)
        slot.instruction[ops.FLAG] = slot.flag
        slot.instruction[ops.PATH] = self._path(slot.path)
        self._require(each, slot)

    def _add_flag(self, slot: _Slot) -> None:
        slot.flag = self._flag(slot.domain)
        slot.cleared = [slot.flag, -1, -1]

    def _require(self, each: Field, slot: _Slot) -> None:
        if each.label == "required":
            self.domains[slot.domain].required += (slot.around, slot.flag, self._path(slot.path))

    def _path(self, path: str) -> int:
        return self.paths.setdefault(path, len(self.paths))

    # Fields

    def _field(self, writer: Field, reader: Field, of: pa.DataType, slot: _Slot) -> Node:
        if not reads(writer, reader):
            slot.instruction = self._instruction(reader, ops.FAIL)
            slot.instruction[ops.ARG] = Fault.UNRESOLVABLE_SCHEMA
            writer = reader
        if reader.is_repeated:
            return self._resolve_repeated(writer, reader, of, slot)
        self._add_flag(slot)
        node = self._value(writer, reader, of, slot)
        node.is_null = reader.default is None and reader.label != "required"
        node.default = reader.default
        self._require(reader, slot)
        return node

    def _resolve_repeated(self, writer: Field, reader: Field, of: pa.DataType, slot: _Slot) -> Node:
        is_type = pa.types.is_map if reader.label == "map" else pa.types.is_list
        _expect(is_type(of), reader, of, slot.path)
        stream = self._stream(slot.domain)
        self.domains.append(Domain())
        items = len(self.domains) - 1
        self.domains[slot.domain].lists += (stream, items)
        slot.cleared = [items, stream, -1]
        inside = _Slot(items, slot.path, instruction=slot.instruction)
        if reader.label == "map":
            pairs = pa.struct([pa.field("key", of.key_type), pa.field("value", of.item_type)])
            node = self._value(writer, reader, pairs, inside)
            for child in node.children:
                child.is_null = False
            children = node.children
        else:
            children = (self._value(writer, reader, of.value_type, inside),)
        # What is taken away with an item are domains: flags belong to slots that are taken away.
        slot.cleared += [
            entry if location % 3 < 2 or entry >= 0 else items
            for location, entry in enumerate(_domains_of(inside.cleared))
        ]
        slot.instruction = inside.instruction
        slot.instruction[ops.ITEMS] = items
        return Node(reader.label, of, stream=stream, domain=items, children=children)

    def _value(self, writer: Field, reader: Field, of: pa.DataType, slot: _Slot) -> Node:
        """One value in a slot; without a flag, the item of a repeated field."""
        if reader.is_message:
            node, op, arg = self._message(writer, reader, of, slot)
        else:
            node, op, arg = self._scalar(reader, of, slot)
        failing, instruction = slot.instruction, self._instruction(reader, op)
        instruction[ops.FLAG], instruction[ops.STREAM], instruction[ops.ARG] = slot.flag, node.stream, arg
        if op == ops.CLOSED_ENUM:
            numbers = sorted({number for _, number in reader.enum.values})
            instruction[ops.ARG], instruction[ops.ARG2] = len(self.table), len(numbers)
            self.table += numbers
        slot.instruction = failing or instruction
        slot.instruction[ops.PATH] = self._path(slot.path)
        return node

    def _message(self, writer: Field, reader: Field, of: pa.DataType, slot: _Slot) -> tuple[Node, int, int]:
        scope = len(self.scopes)
        wrote = writer.message if writer.is_message else reader.message
        if of not in (TIMESTAMP, DURATION):
            _expect(pa.types.is_struct(of), reader, of, slot.path)
            return self._struct(wrote, reader.message, of, slot), ops.MESSAGE, scope
        _expect(reader.message.time == of, reader, of, slot.path)
        self.scopes.append([])
        parts = []
        for part in (_SECONDS, _NANOS):
            inside = _Slot(slot.domain, slot.path, slot.flag)
            parts.append(self._field(part, part, SCALARS[part.kind][0], inside))
            parts[-1].is_null, parts[-1].default = False, 0
            slot.cleared += inside.cleared
            self.scopes[scope].append(inside.instruction)
        self.scopes[scope][0][ops.OP] = ops.SECONDS
        return Node("time", of, slot.flag, children=tuple(parts)), ops.MESSAGE, scope

    def _scalar(self, reader: Field, of: pa.DataType, slot: _Slot) -> tuple[Node, int, int]:
        kind = reader.kind
        own, wire_type, _ = SCALARS[kind]
        wider = pa.int32() if kind == "enum" else _WIDER.get(own)
        _expect(of in (own, wider), reader, of, slot.path)
        of_varint = _OPS.get(kind, ops.INT32 if own == pa.int32() else ops.INT64)
        op = _OPS_OF_WIRE.get(wire_type, of_varint)
        if kind == "enum" and reader.enum.is_closed:
            op = ops.CLOSED_ENUM
        stream = self._stream(slot.domain, 2 if op == ops.SPAN else 1)
        enum = reader.enum if kind == "enum" else None
        return Node(kind, of, slot.flag, stream, enum=enum), op, int(kind == "string")


def _columns(message: Message, of: pa.DataType) -> dict[str, pa.DataType]:
    """The types of the columns that a message is read as, by the names of its fields."""
    known = {item.name for item in message.fields}
    for column in of:
        if column.name not in known:
            raise OptionError(
                f"{name_of(message)} has no field {printable(column.name)}: remove that column from .schema()"
            )
    return {column.name: column.type for column in of}


def reads(writer: Field, reader: Field) -> bool:
    """True if values of the writer's field mean the same to the reader."""
    if writer.is_packed and not reader.is_repeated:
        return False
    if writer.is_message and reader.is_message:
        return writer.wire_type == reader.wire_type
    kinds = {_describe_meaning(writer), _describe_meaning(reader)}
    return len(kinds) == 1 or (kinds == {"message", "bytes"} and "string" not in (writer.kind, reader.kind))


def _describe_meaning(each: Field) -> str:
    return each.kind if each.is_message else SCALARS[each.kind][2]


def _domains_of(cleared: list[int]) -> list[int]:
    """The entries of domains among entries of ``kernels.clear``."""
    entries = [cleared[location : location + 3] for location in range(0, len(cleared), 3)]
    return [item for entry in entries if entry[1] >= 0 for item in entry]


def _expect(fits: bool, each: Field, of: pa.DataType, path: str) -> None:
    if not fits:
        raise OptionError(
            f"the Protobuf field {printable(path)} of type {f'{each.label} {each.kind}'.strip()} cannot be "
            f"read as {sql_name(of)}: name another type in .schema(), and cast the column"
        )


class _Columns(Columns):
    """Columns of messages, from the streams and the flags that the loop wrote."""

    def __init__(
        self, data: Uint8s, streams: Room, flags: Room, counts: Int64s, root: Node, is_null: Flags
    ) -> None:
        self._data, self._stream, self._flags, self._counts = data, streams.of, flags.of, counts
        self._root, self._is_null = root, is_null

    def of(self, node: Any, rows: int) -> pa.Array:
        if node.enum is None or not pa.types.is_string(node.type):
            return super().of(node, rows)
        return _names(node.enum, self._values(node, rows), self.is_null(node, rows))

    def is_null(self, node: Node, rows: int) -> Flags | None:
        if node is self._root:
            return self._is_null
        return self._is_absent(node, rows) if node.is_null else None

    def _is_absent(self, node: Node, rows: int) -> Flags | None:
        return None if node.flag < 0 else self._flags(node.flag, rows) == 0

    def offsets(self, node: Node, rows: int, _is_null: Any) -> Int64s:
        return check_offsets(np.append(self._stream(node.stream, rows), self._counts[node.domain]))

    def spans(self, node: Node, rows: int, is_null: Flags | None) -> tuple[Int64s, Uint8s]:
        starts, sizes = self._stream(node.stream, rows), self._stream(node.stream + 1, rows)
        default = b"" if node.default is None else bytes(node.default)
        is_absent = is_null if node.is_null else self._is_absent(node, rows)
        if is_absent is not None:
            starts = np.where(is_absent, -1, starts)
            sizes = np.where(is_absent, 0 if node.is_null else len(default), sizes)
        return gather_spans(self._data, byte_array(default), starts, sizes)

    def numbers(self, node: Node, rows: int, is_null: Flags | None) -> npt.NDArray[Any]:
        if node.kind != "time":
            return _numbers(node, self._values(node, rows))
        seconds, nanos = (
            np.where(self._flags(part.flag, rows) != 0, self._stream(part.stream, rows), 0)
            for part in node.children
        )
        micros = seconds * 1_000_000 + np.trunc(nanos / 1000).astype(np.int64)
        is_absent = is_null if node.is_null else self._is_absent(node, rows)
        return micros if is_absent is None else np.where(is_absent, 0, micros)

    def _values(self, node: Node, rows: int) -> Int64s:
        values = self._stream(node.stream, rows)
        is_absent = None if node.is_null else self._is_absent(node, rows)
        return values if is_absent is None else np.where(is_absent, _bits(node), values)


def _bits(node: Node) -> int:
    """The default as its stream has it."""
    if node.enum is not None and node.default is None:
        return node.enum.values[0][1]
    if node.default is None:
        return 0
    if node.kind == "float":
        return int(np.float32(node.default).view(np.int32))
    if node.kind == "double":
        return int(np.float64(node.default).view(np.int64))
    return int(node.default)


def _numbers(node: Node, values: Int64s) -> npt.NDArray[Any]:
    if node.kind == "double":
        return values.view(np.float64)
    if node.kind == "float":
        return values.astype(np.uint32).view(np.float32).astype(node.type.to_pandas_dtype(), copy=False)
    if node.type == pa.int64() and node.kind in ("uint32", "fixed32"):
        return values & 0xFFFFFFFF
    if node.type == pa.int64() and node.kind == "sfixed32":
        return values.astype(np.int32).astype(np.int64)
    return values.astype(dtype_of(node.type), copy=False)


def _names(enum: Enum, values: Int64s, is_null: Flags | None) -> pa.Array:
    """Names of an enum's numbers, as Java's runtime has them: also for numbers that the enum lacks."""
    first_names: dict[int, str] = {}
    for name, number in enum.values:
        first_names.setdefault(number, name)
    numbers = np.array(sorted(first_names), np.int64)
    names = [first_names[number] for number in numbers.tolist()]
    if is_null is not None:
        values = np.where(is_null, numbers[0], values)
    indexes = np.minimum(np.searchsorted(numbers, values), len(numbers) - 1)
    is_unknown = numbers[indexes] != values
    if is_unknown.any():
        unknown, which = np.unique(values[is_unknown], return_inverse=True)
        indexes[is_unknown] = len(names) + which.ravel()
        names += [unknown_name(enum, number) for number in unknown.tolist()]
    return pa.array(names, pa.string()).take(pa.array(indexes, mask=is_null))


#: Slots of a domain at first: one item for each row.
_SLOTS_MIN: Final = 64
_SLOTS_MAX: Final = 2**31 - 1


class Decoder:
    """Decoder of messages of one writer's schema to an Arrow type.

    ``indexes`` is the place of the messages' type in the writer's schema, if it is not the schema's own.
    ``reader`` is the schema whose message they are read as, by the numbers of fields; without one it is the
    writer's. ``arrow_type`` is the reader's own or has fewer fields; fields that it lacks are skipped.
    Items of a message in a oneof need their required fields also where a later member replaces it. Raises
    ``OptionError`` (fatal) for a pair that has no program, and for indexes that the writer's schema does not
    have.
    """

    def __init__(
        self,
        writer: Schema,
        reader: Schema | None = None,
        arrow_type: pa.DataType | None = None,
        indexes: tuple[int, ...] | None = None,
    ) -> None:
        source = writer if indexes is None else writer.at(indexes)
        if source is None:
            raise OptionError(
                f"the Protobuf schema has no message at the indexes {list(indexes or ())}, which the "
                "record names: it was written with another schema; give that one"
            )
        target = source if reader is None or reader is writer else reader
        _expect_same(source, target)
        self.arrow_type = target.arrow_type if arrow_type is None else arrow_type
        self.program = Program(source.root, target.root, self.arrow_type)
        self._of_streams = np.array(self.program.streams, np.int64)
        self._of_flags = np.array(self.program.flags, np.int64)
        self._paths = tuple(self.program.paths)

    def decode(self, payloads: Payloads) -> Decoded:
        """The messages' values. Rows of tombstones and of faults are null, and do not influence others."""
        expect(len(payloads))
        program, rows, row = self.program, len(payloads), 0
        starts, stops = map(np.ascontiguousarray, (payloads.starts, payloads.stops))
        counts, saved, cut = (np.zeros(len(program.domains), np.int64) for _ in range(3))
        slots = np.full(len(counts), max(rows, _SLOTS_MIN), np.int64)
        streams, flags = Room(slots[self._of_streams], np.int64), Room(slots[self._of_flags], np.uint8)
        stack = np.zeros(FRAME * DEPTH_MAX, np.int64)
        faults, fields = np.zeros(rows, np.uint8), np.full(rows, -1, np.int32)
        while row < rows:
            written = streams.bases, flags.bases, *streams.arrays, *flags.arrays
            state: tuple[Any, ...] = (*program.arrays, counts, saved, cut, slots, *written, stack)
            row = decode_each(*(payloads.data, starts, stops, row, *state, faults, fields))
            if row < rows:
                slots[cut[0]] = _more(int(slots[cut[0]]), (row + 1) / rows)
                streams = streams.widened(slots[self._of_streams], counts[self._of_streams])
                flags = flags.widened(slots[self._of_flags], counts[self._of_flags])
        root, is_null = program.root, payloads.is_null | (faults != 0)
        column = _Columns(payloads.data, streams, flags, counts, root, is_null).of(root, rows)
        return Decoded(column, faults, fields, self._paths)


def _more(slots: int, share: float) -> int:
    """Slots for the items of all rows, if the others are like the share that is done."""
    more = max(2 * slots, int(min(slots / share, 64 * slots)))
    if more > 2 * _SLOTS_MAX:
        raise OptionError(f"a repeated field has more than {_SLOTS_MAX} items: read fewer rows at once")
    return more


def _expect_same(source: Schema, target: Schema) -> None:
    """Refuse to read a message as another one that the reader's schema has besides."""
    if source.name == target.name:
        return
    try:
        target.find_message_type(str(source.name))
    except OptionError:
        return  # it has another name in the reader's schema
    raise OptionError(
        f"the messages are of the type {quote(source.name)}, and the column is of {quote(target.name)}: "
        "set valueMessage to the first"
    )
