"""Descriptors of Protobuf schemas, as texts for the parser.

Some serializers register a ``FileDescriptorProto`` in base64, and some registries return it as it is. It
becomes the text that it was compiled from, without what has no influence on messages: the parser checks both
alike.

Source: https://github.com/protocolbuffers/protobuf/blob/main/src/google/protobuf/descriptor.proto
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final, NoReturn

from spark_kafkawire.errors import OptionError, quoted

from .types import DELIMITED, FIXED32, FIXED64, VARINT

_BASE64: Final = re.compile(r"\s*[A-Za-z0-9+/\s]+={0,2}\s*\Z")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_FULL_NAME: Final = re.compile(r"\.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*\Z")
_NUMBER: Final = re.compile(r"-?[A-Za-z0-9_.+-]+\Z")
_ESCAPED: Final = re.compile(r'(?:[^"\\\n]|\\.)*\Z')
_VARINT_BITS: Final = 64
#: Messages that may be declared inside of each other: the parser allows fewer.
_NESTED_MAX: Final = 50
_REQUIRED, _REPEATED = 2, 3
_STRING, _GROUP, _MESSAGE, _BYTES, _ENUM = 9, 10, 11, 12, 14
#: Scalar types by their numbers in descriptors.
_SCALARS: Final = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool",
    _STRING: "string", _BYTES: "bytes", 13: "uint32", 15: "sfixed32", 16: "sfixed64",
    17: "sint32", 18: "sint64",
}  # fmt: skip


def text_of(schema: str) -> str:
    """The text of a schema that is a descriptor in base64; any other text as it is.

    Raises ``OptionError`` (fatal) for bytes that are no descriptor.
    """
    if not _BASE64.match(schema):  # a text has braces or semicolons
        return schema
    try:
        data = base64.b64decode("".join(schema.split()), validate=True)
    except binascii.Error:
        return schema
    return _file(_Descriptor(data))


def _refuse(mistake: str) -> NoReturn:
    raise OptionError(
        f"the Protobuf schema is a descriptor in base64, and {mistake}; make it again with protoc "
        "--include_imports --descriptor_set_out=FILE, and give the base64 of FILE"
    )


class _Descriptor:
    """A message of ``descriptor.proto``: its values by the numbers of their fields."""

    def __init__(self, data: bytes) -> None:
        self._values: dict[int, list[int | bytes]] = {}
        for number, value in _values(data):
            self._values.setdefault(number, []).append(value)

    def integer(self, number: int) -> int:
        """An integer; 0 if it is not there."""
        value = self._values.get(number, [0])[-1]
        return value if isinstance(value, int) else _refuse(f"its field {number} is no integer")

    def has(self, number: int) -> bool:
        """True if the field is there."""
        return number in self._values

    def parts(self, number: int) -> list[bytes]:
        """The strings, bytes or messages of a field."""
        found = self._values.get(number, [])
        parts = [value for value in found if isinstance(value, bytes)]
        return parts if len(parts) == len(found) else _refuse(f"its field {number} is an integer")

    def inner(self, number: int) -> list[_Descriptor]:
        """The messages of a field."""
        return [_Descriptor(part) for part in self.parts(number)]

    def string(self, number: int, form: re.Pattern[str] | None = None) -> str:
        """A string of some form; empty if it is not there."""
        parts = self.parts(number)
        try:
            text = parts[-1].decode("utf-8") if parts else ""
        except UnicodeDecodeError:
            _refuse(f"its field {number} is not UTF-8")
        if form is not None and not form.match(text):
            _refuse(f"{quoted(text)} is no name or value in a schema")
        return text


def _values(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: numbers and values, without those of a fixed size."""
    pos = 0
    while pos < len(data):
        tag, pos = _varint(data, pos)
        wire = tag & 7
        if wire == VARINT:
            value, pos = _varint(data, pos)
            yield tag >> 3, value
        elif wire in (DELIMITED, FIXED32, FIXED64):
            size, pos = _varint(data, pos) if wire == DELIMITED else (4 if wire == FIXED32 else 8, pos)
            if size > len(data) - pos:
                _refuse("it ends inside of a field")
            if wire == DELIMITED:
                yield tag >> 3, data[pos : pos + size]
            pos += size
        else:
            _refuse(f"it has the wire type {wire}")


def _varint(data: bytes, pos: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, _VARINT_BITS, 7):
        if pos >= len(data):
            _refuse("it ends inside of a field")
        number |= (data[pos] & 0x7F) << shift
        pos += 1
        if data[pos - 1] < 0x80:
            return number, pos
    _refuse("it has an integer of more than 10 bytes")


def _file(file: _Descriptor) -> str:
    syntax = file.string(12) or "proto2"
    lines = [f"syntax = {_string(syntax.encode())};"]
    if file.string(2):
        lines.append(f"package {file.string(2, _FULL_NAME)};")
    lines += [f"import {_string(name)};" for name in file.parts(3)]
    lines += [_enum(each) for each in file.inner(5)]
    lines += [_message(each, syntax == "proto3", 0) for each in file.inner(4)]
    return "\n".join(lines)


def _string(content: bytes) -> str:
    return '"' + "".join(f"\\{byte:03o}" for byte in content) + '"'


def _enum(enum: _Descriptor) -> str:
    values = [f"{each.string(1, _NAME)} = {_int32(each.integer(2))};" for each in enum.inner(2)]
    return f"enum {enum.string(1, _NAME)} {{ {' '.join(values)} }}"


def _int32(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


def _message(message: _Descriptor, is_proto3: bool, depth: int) -> str:
    return f"message {message.string(1, _NAME)} {_body(message, is_proto3, depth)}"


def _body(message: _Descriptor, is_proto3: bool, depth: int) -> str:
    if depth > _NESTED_MAX:
        _refuse(f"more than {_NESTED_MAX} messages are declared inside of each other, which is not supported")
    return "{\n" + "\n".join(_Body(message, is_proto3, depth).lines()) + "\n}"


class _Body:
    """Declarations inside of a message. Fields and nested messages keep their orders."""

    def __init__(self, message: _Descriptor, is_proto3: bool, depth: int) -> None:
        self._is_proto3, self._depth = is_proto3, depth
        self._nested = {each.string(1, _NAME): each for each in message.inner(3)}
        self._entries = {name for name, each in self._nested.items() if _is_entry(each)}
        self._places = {name: place for place, name in enumerate(self._nested)}
        self._oneofs = [each.string(1, _NAME) for each in message.inner(8)]
        self._enums = [_enum(each) for each in message.inner(4)]
        self._fields = message.inner(2)

    def lines(self) -> list[str]:
        """All declarations.

        A nested message that a map or a group declares is declared by its field, and others before the first
        field that follows them in the order of nested messages: the indexes of messages count all of them.
        """
        lines, names, start = self._enums, list(self._nested), 0
        by_fields = [name for each in self._fields if (name := self._declares(each))]
        in_field = set(by_fields)
        if len(in_field) < len(by_fields):  # in each level twice as many
            _refuse("two of its fields declare the same message")
        oneof = ""
        for each in self._fields:
            declared, of = self._declares(each), self._oneof(each)
            if oneof and of != oneof:
                lines.append("}")
            if of != oneof:
                lines += [f"oneof {of} {{"] if of else []
            oneof = of
            place = self._places[declared] if declared and not of else -1
            if place >= start:
                lines += [self._message(name) for name in names[start:place] if name not in in_field]
                start = place + 1
            lines.append(self._field(each, of))
        lines += ["}"] if oneof else []
        return lines + [self._message(name) for name in names[start:] if name not in in_field]

    def _message(self, name: str) -> str:
        return _message(self._nested[name], self._is_proto3, self._depth + 1)

    def _oneof(self, each: _Descriptor) -> str:
        """The oneof of a field; empty for none, and for that of an ``optional`` field of proto3."""
        if not each.has(9) or each.integer(17):
            return ""
        index = each.integer(9)
        return self._oneofs[index] if index < len(self._oneofs) else _refuse(f"it has no oneof {index}")

    def _declares(self, each: _Descriptor) -> str:
        """The name of the nested message that a map or a group declares; empty for other fields."""
        name = each.string(6).rpartition(".")[2]
        kind = each.integer(5)
        is_map = kind == _MESSAGE and name in self._entries
        return name if is_map or (kind == _GROUP and name in self._nested) else ""

    def _field(self, each: _Descriptor, oneof: str) -> str:
        name, number, nested = each.string(1, _NAME), each.integer(3), self._declares(each)
        if nested and each.integer(5) == _MESSAGE:
            inner = {entry.integer(3): entry for entry in self._nested[nested].inner(2)}
            if set(inner) != {1, 2}:
                _refuse(f"the entries of the map {quoted(name)} are no key and value")
            return f"map<{_type(inner[1])}, {_type(inner[2])}> {name} = {number};"
        label = "" if oneof else self._label(each)
        if nested:
            return f"{label}group {nested} = {number} {_body(self._nested[nested], False, self._depth + 1)}"
        options = []
        if each.has(7):
            options.append(f"default = {_default(each)}")
        options += [
            f"packed = {'true' if of.integer(2) else 'false'}" for of in each.inner(8)[-1:] if of.has(2)
        ]
        listed = f" [{', '.join(options)}]" if options else ""
        return f"{label}{_type(each)} {name} = {number}{listed};"

    def _label(self, each: _Descriptor) -> str:
        label = each.integer(4)
        if label in (_REQUIRED, _REPEATED):
            return "required " if label == _REQUIRED else "repeated "
        return "" if self._is_proto3 and not each.integer(17) else "optional "


def _is_entry(message: _Descriptor) -> bool:
    return any(options.integer(7) for options in message.inner(7))


def _type(each: _Descriptor) -> str:
    kind = each.integer(5)
    if kind in _SCALARS:
        return _SCALARS[kind]
    return each.string(6, _FULL_NAME) if kind in (0, _MESSAGE, _ENUM) else _refuse(f"it has the type {kind}")


def _default(each: _Descriptor) -> str:
    kind = each.integer(5)
    if kind == _STRING:
        return _string(each.parts(7)[-1])
    if kind == _BYTES:
        return f'"{each.string(7, _ESCAPED)}"'
    return each.string(7, _NUMBER)
