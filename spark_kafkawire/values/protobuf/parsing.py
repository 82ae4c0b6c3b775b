"""Parser of one Protobuf schema, proto2 or proto3: a text, or a descriptor that becomes a text first.

Options, services, extensions and reserved names do not change what messages contain, so they are passed over:
a field of an extension is an unknown field, as in Spark.

Some serializers register a ``FileDescriptorProto`` in base64, and some registries return it as it is. It
becomes the text that it was compiled from, without what has no influence on messages: the parser checks both
alike.

Source: https://protobuf.dev/reference/protobuf/proto2-spec/ and proto3-spec/, and
https://github.com/protocolbuffers/protobuf/blob/main/src/google/protobuf/descriptor.proto
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, NoReturn

from spark_kafkawire.errors import OptionError, quote

from ..column_types import inside
from .types import DELIMITED, FIXED32, FIXED64, SCALARS, VARINT, Enum, Field, Message

_TOKEN: Final = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/|\ufeff)
    |(?P<name>\.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
    |(?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<symbol>[{}()\[\]<>;:=,+/.-])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\(?:[xX]([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_SINGLE: Final = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_UNICODE_MAX: Final = 0x10FFFF
#: Digits of a number, in any notation: Python refuses to read long ones.
_DIGITS_MAX: Final = 400

#: A name is looked up in each scope around it, so their number is limited, and the size of a name.
_PARTS_MAX: Final = 32
_NAME_SIZE_MAX: Final = 500


class Token(NamedTuple):
    """A token: its kind (name, number, string, symbol, end), its text, and its place in the schema's text."""

    kind: str
    text: str
    pos: int


class Tokens:
    """The tokens of one text. ``place`` names it in errors."""

    def __init__(self, text: str, place: str, part: list[Token] | None = None) -> None:
        self._text = text
        self.place = place
        # Tokens are read when they are asked for: all of a large text take a hundred times its memory.
        self._others = (
            self._read() if part is None else iter([*part, Token("end", "the end of the value", 0)])
        )
        self._next = Token("end", "", 0)
        self._next = next(self._others)

    def part(self, tokens: list[Token]) -> Tokens:
        """Some of these tokens alone, with the same places."""
        return Tokens(self._text, self.place, tokens)

    def _read(self) -> Iterator[Token]:
        pos = 0
        while pos < len(self._text):
            match = _TOKEN.match(self._text, pos)
            if match is None:
                self.refuse(f"{quote(self._text[pos])} is not part of a schema", pos)
            if match.lastgroup != "blank":
                yield Token(str(match.lastgroup), match.group(), pos)
            pos = match.end()
        yield Token("end", "the end of the text", len(self._text))

    def refuse(self, mistake: str, pos: int | None = None) -> NoReturn:
        """Raise ``OptionError`` (fatal) with the line of a place, or of the next token."""
        line = self._text.count("\n", 0, self._next.pos if pos is None else pos) + 1
        raise OptionError(f"{self.place}, line {line}: {mistake}; correct the schema there")

    def peek(self) -> Token:
        """The next token, which stays the next one."""
        return self._next

    def next(self) -> Token:
        """The next token; the last one is of the kind ``end``, and never passed."""
        token = self._next
        self._next = next(self._others, token)
        return token

    def accept(self, *texts: str) -> str:
        """Pass one of these symbols or keywords; empty if another token comes."""
        token = self.peek()
        return self.next().text if token.kind in ("name", "symbol") and token.text in texts else ""

    def expect(self, *texts: str) -> str:
        """Pass one of these symbols or keywords."""
        return self.accept(*texts) or self.refuse(
            f"{' or '.join(map(quote, texts))} is expected, not {quote(self.peek().text)}"
        )

    def name(self, *, dotted: bool = False) -> str:
        """Pass a name."""
        token = self.peek()
        if token.kind != "name" or ("." in token.text and not dotted):
            self.refuse(f"a name is expected, not {quote(token.text)}")
        if token.text.count(".") > _PARTS_MAX or len(token.text) > _NAME_SIZE_MAX:
            self.refuse(f"the name {quote(token.text)} is too long")
        return self.next().text

    def integer(self) -> int:
        """Pass an integer, decimal, hexadecimal or octal, with or without a sign."""
        is_negative = bool(self.accept("-"))
        text = self.peek().text
        try:
            number = int(text[:_DIGITS_MAX], 8 if text.startswith("0") and text.isdigit() else 0)
        except ValueError:
            self.refuse(f"an integer is expected, not {quote(text)}")
        self.next()
        return -number if is_negative else number

    def number(self) -> float:
        """Pass a number of any kind, ``inf`` or ``nan``."""
        factor = -1.0 if self.accept("-") else 1.0
        text = self.peek().text
        try:
            number = float(int(text[:_DIGITS_MAX], 0)) if text[:2].lower() == "0x" else float(text)
        except (ValueError, OverflowError):
            self.refuse(f"a number is expected, not {quote(text)}")
        self.next()
        return factor * number

    def string(self) -> bytes:
        """Pass a string, or several one after the other, which are one."""
        if self.peek().kind != "string":
            self.refuse(f"a string is expected, not {quote(self.peek().text)}")
        content = bytearray()
        while self.peek().kind == "string":
            content += self._unescape(self.next())
        return bytes(content)

    def _unescape(self, token: Token) -> bytes:
        text, content, pos = token.text[1:-1], bytearray(), 0
        for match in _ESCAPE.finditer(text):
            content += text[pos : match.start()].encode("utf-8", "surrogatepass")
            hexadecimal, octal, short, long, single = match.groups()
            if single is None and not (short or long):
                content.append((int(hexadecimal, 16) if hexadecimal else int(octal, 8)) & 0xFF)
            elif single is None:
                code = min(int(short or long, 16), _UNICODE_MAX)
                content += chr(code).encode("utf-8", "surrogatepass")
            else:
                content += (
                    bytes([_SINGLE[single]]) if single in _SINGLE else single.encode("utf-8", "replace")
                )
            pos = match.end()
        return bytes(content + text[pos:].encode("utf-8", "surrogatepass"))

    def skip_statement(self) -> None:
        """Pass all up to the next semicolon, or up to the end of the next block in braces."""
        depth = 0
        while True:
            token = self.next()
            if token.kind == "end":
                self.refuse("the schema ends in the middle of a statement: add the rest of it")
            if token.kind == "symbol":
                depth += (token.text in "{[(") - (token.text in "}])")
                if depth < 0:
                    self.refuse(f"{quote(token.text)} closes nothing", token.pos)
                if depth == 0 and token.text in ";}":
                    return


#: Messages that may be declared inside of each other, as message indexes have places.
_NESTED_MAX: Final = 32
#: Characters of a full name: names are looked up in each scope.
_FULL_NAME_MAX: Final = 1_000
_NUMBER_MAX: Final = 2**29 - 1
_KEYS: Final = tuple(name for name in SCALARS if name not in ("float", "double", "bytes", "enum"))
_LABELS: Final = ("optional", "required", "repeated")


@dataclass(slots=True)
class Reference:
    """A field whose type or default is not known before all types are.

    ``type_name`` is to be looked up from the scope; it is empty for a scalar. ``default`` is made of tokens.
    """

    field: Field
    type_name: str
    scope: str
    pos: int
    default: list[Token] | None = None


@dataclass(slots=True)
class File:
    """A parsed text: its messages and enums, and the references between them."""

    tokens: Tokens
    is_proto3: bool
    package: str = ""
    imports: list[str] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    names: dict[str, Message | Enum] = field(default_factory=dict)
    references: list[Reference] = field(default_factory=list)

    def add(self, named: Message | Enum, pos: int) -> None:
        """Add a message or an enum by its full name."""
        if len(named.name) > _FULL_NAME_MAX:
            self.tokens.refuse(f"the full name {quote(named.name)} is too long", pos)
        if named.name in self.names:
            self.tokens.refuse(f"the type {quote(named.name)} is declared twice", pos)
        self.names[named.name] = named


def parse_file(text: str, place: str) -> File:
    """Parse a text. Raises ``OptionError`` (fatal) that names the line of the mistake."""
    tokens = Tokens(text, place)
    file = File(tokens, _is_proto3(tokens))
    while tokens.peek().kind != "end":
        if tokens.accept(";"):
            continue
        if tokens.accept("import"):
            tokens.accept("public", "weak")
            file.imports.append(tokens.string().decode("utf-8", "replace"))
            tokens.expect(";")
        elif tokens.accept("package"):
            file.package = tokens.name(dotted=True)
            tokens.expect(";")
        elif tokens.accept("message"):
            file.messages.append(_parse_message(file, file.package, 0))
        elif tokens.accept("enum"):
            _parse_enum(file, file.package)
        elif tokens.accept("option", "service", "extend"):
            tokens.skip_statement()
        else:
            tokens.expect("message", "enum", "import", "option")
    return file


def _is_proto3(tokens: Tokens) -> bool:
    if tokens.accept("edition"):
        tokens.refuse("editions are not supported: use the syntax proto2 or proto3")
    if not tokens.accept("syntax"):
        return False
    tokens.expect("=")
    syntax = tokens.string()
    if syntax not in (b"proto2", b"proto3"):
        tokens.refuse(f"the syntax {quote(syntax.decode('utf-8', 'replace'))} is not supported")
    tokens.expect(";")
    return syntax == b"proto3"


def _parse_enum(file: File, scope: str) -> None:
    """Parse an enum behind its keyword."""
    tokens = file.tokens
    pos = tokens.peek().pos
    enum = Enum(inside(scope, tokens.name()), not file.is_proto3)
    file.add(enum, pos)
    values: dict[str, int] = {}
    tokens.expect("{")
    while not tokens.accept("}"):
        if tokens.accept(";"):
            continue
        name = tokens.name()
        if name in ("option", "reserved") and tokens.peek().text != "=":
            tokens.skip_statement()
            continue
        tokens.expect("=")
        number = tokens.integer()
        if name in values or not -(2**31) <= number < 2**31:
            tokens.refuse(f"the enum value {quote(name)} is declared twice or is no int32")
        values[name] = number
        _options(tokens)
        tokens.expect(";")
    if not values:
        tokens.refuse(f"the enum {quote(enum.name)} has no values", pos)
    enum.values = tuple(values.items())


def _parse_message(file: File, scope: str, depth: int) -> Message:
    """Parse a message behind its keyword."""
    pos = file.tokens.peek().pos
    message = Message(inside(scope, file.tokens.name()))
    _MessageParser(file, file.tokens, message, depth).body(pos)
    return message


@dataclass(slots=True)
class _MessageParser:
    """Parser of a message. ``depth`` is how many are around it."""

    file: File
    tokens: Tokens
    message: Message
    depth: int

    def body(self, pos: int) -> None:
        message = self.message
        if self.depth >= _NESTED_MAX:
            self.tokens.refuse(f"more than {_NESTED_MAX} messages are declared inside of each other", pos)
        self.file.add(message, pos)
        self.tokens.expect("{")
        while not self.tokens.accept("}"):
            self._statement()
        names, numbers = [item.name for item in message.fields], [item.number for item in message.fields]
        if len(set(names)) < len(names) or len(set(numbers)) < len(numbers):
            self.tokens.refuse(f"the message {quote(message.name)} has a field or a number twice", pos)

    def _statement(self) -> None:
        if self.tokens.accept(";"):
            return
        if self.tokens.accept("message"):
            nested = _parse_message(self.file, self.message.name, self.depth + 1)
            self.message.messages.append(nested)
            self.message.hidden.append(nested)
        elif self.tokens.accept("enum"):
            _parse_enum(self.file, self.message.name)
        elif self.tokens.accept("option", "extensions", "reserved", "extend"):
            self.tokens.skip_statement()
        elif self.tokens.accept("oneof"):
            self._oneof()
        else:
            self._parse_label()

    def _oneof(self) -> None:
        oneof = self.tokens.name()
        self.tokens.expect("{")
        while not self.tokens.accept("}"):
            if self.tokens.accept("option"):
                self.tokens.skip_statement()
            elif not self.tokens.accept(";"):
                self._field("", oneof)

    def _parse_label(self) -> None:
        label = self.tokens.accept(*_LABELS)
        if label == "required" and self.file.is_proto3:
            self.tokens.refuse("proto3 has no required fields")
        if not label and not self.file.is_proto3 and self.tokens.peek().text != "map":
            self.tokens.expect(*_LABELS)
        self._field(label, "")

    def _field(self, label: str, oneof: str) -> None:
        pos = self.tokens.peek().pos
        type_name = self.tokens.name(dotted=True)
        if type_name == "map" and self.tokens.accept("<"):
            if label or oneof:
                self.tokens.refuse("a map has no label and is in no oneof", pos)
            self._map()
            return
        name = self.tokens.name()
        self.tokens.expect("=")
        number = self._number()
        kind = type_name if type_name in (*SCALARS, "group") and type_name != "enum" else ""
        has_presence = label != "repeated" and bool(not self.file.is_proto3 or label or oneof)
        item = Field(name, number, kind, "" if label == "optional" else label, None, oneof, has_presence)
        options = _options(self.tokens)
        can_be_packed = label == "repeated" and kind not in ("string", "bytes", "group")
        item.is_packed = can_be_packed and self._is_packed(options)
        self.message.fields.append(item)
        if kind == "group":
            self._group(item, name, pos)
            return
        self.tokens.expect(";")
        self._refer(item, type_name, options.get("default"), pos)

    def _refer(self, each: Field, type_name: str, default: list[Token] | None, pos: int) -> None:
        if default and (self.file.is_proto3 or each.is_repeated):
            self.tokens.refuse("a field of proto3 and a repeated field have no default", pos)
        if default or not each.kind:
            looked_up = "" if each.kind else type_name
            self.file.references.append(Reference(each, looked_up, self.message.name, pos, default))

    def _is_packed(self, options: dict[str, list[Token]]) -> bool:
        if "packed" not in options:
            return self.file.is_proto3
        return [token.text for token in options["packed"]] == ["true"]

    def _group(self, each: Field, name: str, pos: int) -> None:
        each.name = name.lower()
        group = Message(inside(self.message.name, name))
        _MessageParser(self.file, self.tokens, group, self.depth + 1).body(pos)
        each.type = group
        self.message.hidden.append(group)

    def _map(self) -> None:
        pos = self.tokens.peek().pos
        key = Field("key", 1, self.tokens.expect(*_KEYS))
        self.tokens.expect(",")
        type_name = self.tokens.name(dotted=True)
        self.tokens.expect(">")
        value = Field("value", 2, type_name if type_name in SCALARS and type_name != "enum" else "")
        name = self.tokens.name()
        self.tokens.expect("=")
        number = self._number()
        _options(self.tokens)
        self.tokens.expect(";")
        camel = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
        entry = Message(inside(self.message.name, f"{camel}Entry"), [key, value])
        self.file.add(entry, pos)
        self.message.hidden.append(entry)
        self.message.fields.append(Field(name, number, "message", "map", entry, has_presence=False))
        if not value.kind:
            self.file.references.append(Reference(value, type_name, self.message.name, pos))

    def _number(self) -> int:
        pos = self.tokens.peek().pos
        number = self.tokens.integer()
        if not 1 <= number <= _NUMBER_MAX:
            self.tokens.refuse(f"{quote(number)} is no number of a field", pos)
        return number


def _options(tokens: Tokens) -> dict[str, list[Token]]:
    """Pass the options of a field or an enum's value. Returns the tokens of each one's value."""
    options: dict[str, list[Token]] = {}
    if not tokens.accept("["):
        return options
    depth, name = 1, ""
    value: list[Token] = []
    while depth:
        token = tokens.next()
        if token.kind == "end":
            tokens.refuse("the schema ends in the middle of options: add the closing ]")
        is_symbol = token.kind == "symbol"
        depth += is_symbol and ((token.text in "{[(") - (token.text in "}])"))
        if depth == 0 or (depth == 1 and is_symbol and token.text == ","):
            options[name] = value
            name, value = "", []
        elif depth == 1 and is_symbol and token.text == "=" and not name:
            name, value = value[0].text if len(value) == 1 else "(custom)", []
        else:
            value.append(token)
    return options


_BASE64: Final = re.compile(r"\s*[A-Za-z0-9+/\s]+={0,2}\s*\Z")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_FULL_NAME: Final = re.compile(r"\.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*\Z")
_NUMBER: Final = re.compile(r"-?[A-Za-z0-9_.+-]+\Z")
_ESCAPED: Final = re.compile(r'(?:[^"\\\n]|\\.)*\Z')
_VARINT_BITS: Final = 64
#: Messages that may be declared inside of each other: the parser allows fewer.
_DEPTH_MAX: Final = 50
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
        result = self._values.get(number, [])
        parts = [value for value in result if isinstance(value, bytes)]
        return parts if len(parts) == len(result) else _refuse(f"its field {number} is an integer")

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
            _refuse(f"{quote(text)} is no name or value in a schema")
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
    lines = [f"syntax = {_encode_string(syntax.encode())};"]
    if file.string(2):
        lines.append(f"package {file.string(2, _FULL_NAME)};")
    lines += [f"import {_encode_string(name)};" for name in file.parts(3)]
    lines += [_enum(item) for item in file.inner(5)]
    lines += [_message(item, syntax == "proto3", 0) for item in file.inner(4)]
    return "\n".join(lines)


def _encode_string(content: bytes) -> str:
    return '"' + "".join(f"\\{byte:03o}" for byte in content) + '"'


def _enum(enum: _Descriptor) -> str:
    values = []
    for item in enum.inner(2):
        number = item.integer(2)
        values.append(f"{item.string(1, _NAME)} = {number - (1 << 64) if number >= 1 << 63 else number};")
    return f"enum {enum.string(1, _NAME)} {{ {' '.join(values)} }}"


def _message(message: _Descriptor, is_proto3: bool, depth: int) -> str:
    return f"message {message.string(1, _NAME)} {_body(message, is_proto3, depth)}"


def _body(message: _Descriptor, is_proto3: bool, depth: int) -> str:
    if depth > _DEPTH_MAX:
        _refuse(f"more than {_DEPTH_MAX} messages are declared inside of each other, which is not supported")
    return "{\n" + "\n".join(_Body(message, is_proto3, depth).lines()) + "\n}"


class _Body:
    """Declarations inside of a message. Fields and nested messages keep their orders."""

    def __init__(self, message: _Descriptor, is_proto3: bool, depth: int) -> None:
        self._is_proto3, self._depth = is_proto3, depth
        self._nested = {item.string(1, _NAME): item for item in message.inner(3)}
        self._entries = {
            name
            for name, item in self._nested.items()
            if any(options.integer(7) for options in item.inner(7))
        }
        self._places = {name: location for location, name in enumerate(self._nested)}
        self._oneofs = [item.string(1, _NAME) for item in message.inner(8)]
        self._enums = [_enum(item) for item in message.inner(4)]
        self._fields = message.inner(2)

    def lines(self) -> list[str]:
        """All declarations.

        A nested message that a map or a group declares is declared by its field, and others before the first
        field that follows them in the order of nested messages: the indexes of messages count all of them.
        """
        lines, names, start = self._enums, list(self._nested), 0
        by_fields = [name for item in self._fields if (name := self._declares(item))]
        in_field = set(by_fields)
        if len(in_field) < len(by_fields):  # in each level twice as many
            _refuse("two of its fields declare the same message")
        oneof = ""
        for item in self._fields:
            declared, of = self._declares(item), self._oneof(item)
            if oneof and of != oneof:
                lines.append("}")
            if of != oneof:
                lines += [f"oneof {of} {{"] if of else []
            oneof = of
            location = self._places[declared] if declared and not of else -1
            if location >= start:
                lines += [self._message(name) for name in names[start:location] if name not in in_field]
                start = location + 1
            lines.append(self._field(item, of))
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
                _refuse(f"the entries of the map {quote(name)} are no key and value")
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


def _type(each: _Descriptor) -> str:
    kind = each.integer(5)
    if kind in _SCALARS:
        return _SCALARS[kind]
    return each.string(6, _FULL_NAME) if kind in (0, _MESSAGE, _ENUM) else _refuse(f"it has the type {kind}")


def _default(each: _Descriptor) -> str:
    kind = each.integer(5)
    if kind == _STRING:
        return _encode_string(each.parts(7)[-1])
    if kind == _BYTES:
        return f'"{each.string(7, _ESCAPED)}"'
    return each.string(7, _NUMBER)
