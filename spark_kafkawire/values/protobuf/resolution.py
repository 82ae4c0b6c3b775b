"""Resolution of a writer's message to a reader's: programs of ``kernels``, and the columns that they fill."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_kafkawire.errors import OptionError, printable

from ..column_types import inside, sql_name
from ..payloads import Fault
from . import kernels as ops
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
