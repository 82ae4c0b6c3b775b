"""Types of Protobuf schemas, and the Arrow types of their values.

The Arrow types are those that Spark's ``from_protobuf`` has by default: unsigned integers become signed ones
of the same size, enums strings, ``google.protobuf.Timestamp`` a timestamp, ``google.protobuf.Duration`` a
duration (Spark's day-time interval), ``Any``, wrappers and all other messages structs. A repeated field is an
array without nulls, a map a map without nulls. A message without fields has no column.

Source: https://protobuf.dev/programming-guides/ and Spark's SchemaConverters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from spark_kafkawire.errors import OptionError, printable

from ..column_types import RECURSION_DEPTH, Nesting

#: Messages inside of each other: runtimes refuse messages that are nested more deeply.
DEPTH_MAX: Final = 100
#: Wire types: how a value is delimited.
VARINT, FIXED64, DELIMITED, START_GROUP, END_GROUP, FIXED32 = 0, 1, 2, 3, 4, 5

_INTEGER: Final = re.compile(r"-?[0-9]{1,10}\Z")
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
DURATION: Final = pa.duration("us")
_TIMES: Final = {"Timestamp": TIMESTAMP, "Duration": DURATION}
#: Scalar types: the Arrow type, the wire type, and a name that is equal for types that read each other.
SCALARS: Final[dict[str, tuple[pa.DataType, int, str]]] = {
    "int32": (pa.int32(), VARINT, "integer"),
    "int64": (pa.int64(), VARINT, "integer"),
    "uint32": (pa.int32(), VARINT, "integer"),
    "uint64": (pa.int64(), VARINT, "integer"),
    "bool": (pa.bool_(), VARINT, "integer"),
    "sint32": (pa.int32(), VARINT, "zigzag"),
    "sint64": (pa.int64(), VARINT, "zigzag"),
    "fixed32": (pa.int32(), FIXED32, "fixed32"),
    "sfixed32": (pa.int32(), FIXED32, "fixed32"),
    "fixed64": (pa.int64(), FIXED64, "fixed64"),
    "sfixed64": (pa.int64(), FIXED64, "fixed64"),
    "float": (pa.float32(), FIXED32, "float"),
    "double": (pa.float64(), FIXED64, "double"),
    "string": (pa.string(), DELIMITED, "bytes"),
    "bytes": (pa.binary(), DELIMITED, "bytes"),
    "enum": (pa.string(), VARINT, "integer"),
}


@dataclass(slots=True, eq=False)
class Enum:
    """An enum: names and their numbers, in the schema's order. Two names of one number are allowed.

    ``is_closed`` is true in proto2, where a number that the enum lacks counts as an unknown field.
    """

    name: str
    is_closed: bool
    values: tuple[tuple[str, int], ...] = ()


@dataclass(slots=True, eq=False)
class Message:
    """A message. It may contain itself, so types are compared by identity.

    ``messages`` are the messages that are declared inside of it, as message indexes count them: without the
    entries of maps and without groups. ``hidden`` are those with these, in the order of descriptors.
    """

    name: str
    fields: list[Field] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    hidden: list[Message] = field(default_factory=list)

    @property
    def time(self) -> pa.DataType | None:
        """The Arrow type of a timestamp or a duration, which are messages of seconds and nanos; else None."""
        if [item.name for item in self.fields] != ["seconds", "nanos"]:
            return None
        return _TIMES.get(self.name.rpartition(".")[2])


@dataclass(slots=True, eq=False)
class Field:
    """A field of a message.

    ``kind`` is a scalar type, ``enum``, ``message`` or ``group``. ``label`` is ``required``, ``repeated``,
    ``map`` (repeated entries with the fields ``key`` and ``value``) or empty. ``has_presence`` is false for a
    scalar of proto3 that cannot be told from its default. ``default`` is that of proto2: an integer (also of
    an enum and a bool), a float, or bytes.
    """

    name: str
    number: int
    kind: str
    label: str = ""
    type: Message | Enum | None = None
    oneof: str = ""
    has_presence: bool = True
    is_packed: bool = False
    default: Any = None

    @property
    def message(self) -> Message:
        """The type of a message or a group."""
        assert isinstance(self.type, Message)
        return self.type

    @property
    def enum(self) -> Enum:
        """The type of an enum."""
        assert isinstance(self.type, Enum)
        return self.type

    @property
    def is_message(self) -> bool:
        """True for a message and a group, and so for an entry of a map."""
        return self.kind in ("message", "group")

    @property
    def is_repeated(self) -> bool:
        """True for a repeated field and a map."""
        return self.label in ("repeated", "map")

    @property
    def wire_type(self) -> int:
        """The wire type of one value."""
        if self.is_message:
            return START_GROUP if self.kind == "group" else DELIMITED
        return SCALARS[self.kind][1]


def arrow_type_of(root: Message, recursion_depth: int = RECURSION_DEPTH) -> pa.DataType:
    """The Arrow type of a message. Raises ``OptionError`` (fatal) for one with too many columns."""
    return _ArrowTypes("the Protobuf schema", recursion_depth).struct(root, {root.name: 1}) or pa.struct([])


class _ArrowTypes(Nesting):
    def struct(self, message: Message, depths: Mapping[str, int]) -> pa.DataType | None:
        """The type of a message; None if it has no columns."""
        columns = [column for item in message.fields if (column := self.column(item, depths)) is not None]
        return pa.struct(columns) if columns else None

    def column(self, each: Field, depths: Mapping[str, int]) -> pa.Field | None:
        """The column of a field; None where a message contains itself too often."""
        self.add()
        if each.label == "map":
            key, value = (self.value(inner, depths) for inner in each.message.fields)
            of_map = None if value is None else pa.map_(key, pa.field("value", value, False))
            return None if of_map is None else pa.field(each.name, of_map)
        of = self.value(each, depths)
        if of is None:
            return None
        if each.is_repeated:
            return pa.field(each.name, pa.list_(pa.field("element", of, False)))
        return pa.field(each.name, of, each.label != "required")

    def value(self, each: Field, depths: Mapping[str, int]) -> pa.DataType | None:
        if not each.is_message:
            return SCALARS[each.kind][0]
        if each.message.time is not None:
            return each.message.time
        depths_inside = self.inside(each.message.name, name_of(each.message), depths)
        if depths_inside is None:
            return None
        if sum(depths.values()) >= DEPTH_MAX:
            raise OptionError(
                f"the Protobuf schema has messages that are nested more than {DEPTH_MAX} times: flatten it"
            )
        return self.struct(each.message, depths_inside)


def unknown_name(enum: Enum, number: int) -> str:
    """The name that Java's runtime, and so Spark, gives to a number that an enum lacks."""
    return f"UNKNOWN_ENUM_VALUE_{enum.name.rpartition('.')[2]}_{number}"


def unknown_number(enum: Enum, name: str) -> int | None:
    """The number of such a name; None for other names."""
    digits = name.rpartition("_")[2]
    if not _INTEGER.match(digits) or not -(2**31) <= int(digits) < 2**31:
        return None
    return int(digits) if unknown_name(enum, int(digits)) == name else None


def name_of(message: Message) -> str:
    """The name of a message for errors."""
    return f"the Protobuf message {printable(message.name)}"
