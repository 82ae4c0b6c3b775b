"""Protobuf schemas: parsed from ``.proto`` texts, and derived from Arrow types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from spark_kafkawire.errors import OptionError, listed_some, printable, quoted

from ..type_names import sql_name
from .linking import linked
from .parsing import File
from .types import DURATION, RECURSION_DEPTH, Message, arrow_type_of

#: Place of the first message, which stands for the schema as a whole.
FIRST: Final = (0,)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True, eq=False)
class Schema:
    """A schema, the text that it was parsed from, and the texts that it imports by their names.

    ``indexes`` is the place of the message that a column has: the index among the text's messages, then among
    the messages declared inside of that one, and so on.
    """

    file: File = field(repr=False)
    text: str
    references: Mapping[str, str] = field(default_factory=dict)
    indexes: tuple[int, ...] = FIRST
    recursion_depth: int = RECURSION_DEPTH

    @cached_property
    def root(self) -> Message:
        """The message of ``indexes``."""
        message = _at(self.file, self.indexes)
        assert message is not None
        return message

    @property
    def name(self) -> str | None:
        """The full name of the message."""
        return self.root.name

    @cached_property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of a message. Raises ``OptionError`` (fatal) for types that Spark does not have."""
        return arrow_type_of(self.root, self.recursion_depth)

    def to_depth(self, recursion_depth: int) -> Schema:
        """The schema with another depth of messages that contain themselves."""
        return replace(self, recursion_depth=recursion_depth)

    def at(self, indexes: tuple[int, ...]) -> Schema | None:
        """The schema with the message of these indexes; None if it has none."""
        if indexes == self.indexes:
            return self
        return None if _at(self.file, indexes) is None else replace(self, indexes=indexes)

    def at_name(self, name: str) -> Schema:
        """The schema with the message of this name: a full one, or one without the package.

        Raises ``OptionError`` (fatal) if the text declares none, or only a reference does.
        """
        package = f"{self.file.package}." if self.file.package else ""
        places = _places(self.file)
        for full in (name.lstrip("."), package + name):
            if full in places:
                return replace(self, indexes=places[full])
        known = listed_some(list(places), 5, quoted)
        raise OptionError(
            f"the Protobuf schema has no message {quoted(name)}; it has {known}; name one of these"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # A message may contain itself: types travel as text.
        return parse, (self.text, dict(self.references), self.indexes, self.recursion_depth)


def parse(
    text: str,
    references: Mapping[str, str] | None = None,
    indexes: tuple[int, ...] = FIRST,
    recursion_depth: int = RECURSION_DEPTH,
) -> Schema:
    """Parse a schema. ``references`` are texts by the names with which they are imported.

    Raises ``OptionError`` (fatal) that names the line of the mistake.
    """
    file = linked(text, references or {})
    if _at(file, indexes) is None:
        raise OptionError(
            "the Protobuf schema declares no message: add one"
            if not file.messages
            else f"the Protobuf schema has no message at the indexes {list(indexes)}: is it theirs?"
        )
    return Schema(file, text, references or {}, indexes, recursion_depth)


def _at(file: File, indexes: tuple[int, ...]) -> Message | None:
    """The message at a place.

    Confluent's serializers in Java count declared messages. Those in Python and Go count groups and entries
    of maps, too, which shows only where an index is larger than the number of declared messages.
    """
    found: Message | None = None
    declared, all_of_them = file.messages, file.messages
    for index in indexes:
        inside = declared if 0 <= index < len(declared) else all_of_them
        if not 0 <= index < len(inside):
            return None
        found = inside[index]
        declared, all_of_them = list(found.messages), list(found.hidden)
    return found


def _places(file: File) -> dict[str, tuple[int, ...]]:
    """The place of each declared message by its full name."""
    places: dict[str, tuple[int, ...]] = {
        message.name: (index,) for index, message in enumerate(file.messages)
    }
    waiting = list(zip(file.messages, places.values(), strict=True))
    for message, place in waiting:  # grows in the loop
        for index, nested in enumerate(message.messages):
            places[nested.name] = (*place, index)
            waiting.append((nested, places[nested.name]))
    return places


def schema_of(arrow_type: pa.DataType, name: str = "topLevelRecord") -> Schema:
    """Derive the schema of a column's values: proto3, with ``optional`` for scalars that may be null.

    Raises ``OptionError`` (fatal) for a type that Protobuf does not have, or a name that it does not allow.
    """
    package, _, last = name.rpartition(".")
    if not all(map(_NAME.match, name.split("."))):
        raise OptionError(f"{quoted(name)} is no name in Protobuf: use letters, digits and underscores")
    if not pa.types.is_struct(arrow_type):
        raise OptionError(f"a Protobuf message is made of a struct, not of {arrow_type}: use struct(…)")
    derived = _Derived()
    lines = derived.message(last, arrow_type, "", last)
    imports = [f'import "google/protobuf/{each}.proto";' for each in sorted(derived.imports)]
    head = ['syntax = "proto3";', *([f"package {package};"] if package else []), *imports]
    return parse("\n".join([*head, *lines]) + "\n")


@dataclass(slots=True)
class _Derived:
    imports: set[str] = field(default_factory=set)

    def message(self, name: str, struct: pa.DataType, indent: str, path: str) -> list[str]:
        """The lines of a message; those inside of it come first."""
        inner: list[str] = []
        # Fields and the messages inside of a message share their names.
        mark = "_type"
        while any(column.name.endswith(mark) for column in struct):
            mark += "_"
        fields = [
            self.field(
                number,
                column,
                f"{column.name}{mark}",
                inner,
                f"{indent}  ",
                f"{path}.{column.name}",
            )
            for number, column in enumerate(struct, 1)
        ]
        return [f"{indent}message {name} {{", *inner, *fields, f"{indent}}}"]

    def field(
        self, number: int, column: pa.Field, message: str, inner: list[str], indent: str, path: str
    ) -> str:
        """The line of a field; lines of the message that it needs are added to ``inner``."""
        if not _NAME.match(column.name):
            raise OptionError(
                f"column {printable(path)}: {quoted(column.name)} is no name in Protobuf: rename it"
            )
        of = column.type
        if pa.types.is_map(of):
            key = self.scalar(of.key_type)
            if key in ("", "double", "float", "bytes", "google.protobuf.Timestamp"):
                raise OptionError(
                    f"column {printable(path)}: keys of a Protobuf map cannot be "
                    f"{sql_name(of.key_type)}: cast them to STRING"
                )
            value = self.value(of.item_type, message, inner, indent, path)
            return f"{indent}map<{key}, {value}> {column.name} = {number};"
        if pa.types.is_list(of) or pa.types.is_large_list(of):
            value = self.value(of.value_type, message, inner, indent, path)
            return f"{indent}repeated {value} {column.name} = {number};"
        value = self.value(of, message, inner, indent, path)
        is_scalar = self.scalar(of) != "" and "." not in value
        return f"{indent}{'optional ' * is_scalar}{value} {column.name} = {number};"

    def value(self, of: pa.DataType, message: str, inner: list[str], indent: str, path: str) -> str:
        scalar = self.scalar(of)
        if scalar:
            return scalar
        if not pa.types.is_struct(of):
            raise OptionError(
                f"column {printable(path)}: Protobuf has no type for {sql_name(of)} there: cast it to "
                "STRING, or wrap it in a struct"
            )
        inner += self.message(message, of, indent, path)
        return message

    def scalar(self, of: pa.DataType) -> str:
        """The type of a value that needs no message of its own; empty for others."""
        if pa.types.is_timestamp(of):
            self.imports.add("timestamp")
            return "google.protobuf.Timestamp"
        if of == DURATION:
            self.imports.add("duration")
            return "google.protobuf.Duration"
        return next((name for is_type, name in _DERIVED if is_type(of)), "")


_DERIVED: Final = (
    (pa.types.is_boolean, "bool"),
    (lambda of: of in (pa.int8(), pa.int16(), pa.int32()), "int32"),
    (lambda of: of == pa.int64(), "int64"),
    (lambda of: of == pa.float32(), "float"),
    (lambda of: of == pa.float64(), "double"),
    (lambda of: pa.types.is_string(of) or pa.types.is_large_string(of), "string"),
    (lambda of: of in (pa.binary(), pa.large_binary()), "bytes"),
)
