"""Parser of one Protobuf schema text, proto2 or proto3.

Options, services, extensions and reserved names do not change what messages contain, so they are passed over:
a field of an extension is an unknown field, as in Spark.

Source: https://protobuf.dev/reference/protobuf/proto2-spec/ and proto3-spec/
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spark_kafkawire.errors import quoted

from .tokens import Token, Tokens
from .types import SCALARS, Enum, Field, Message

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
    is_proto3: bool = False
    package: str = ""
    imports: list[str] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    names: dict[str, Message | Enum] = field(default_factory=dict)
    references: list[Reference] = field(default_factory=list)

    def add(self, named: Message | Enum, pos: int) -> None:
        """Add a message or an enum by its full name."""
        if len(named.name) > _FULL_NAME_MAX:
            self.tokens.refuse(f"the full name {quoted(named.name)} is too long", pos)
        if named.name in self.names:
            self.tokens.refuse(f"the type {quoted(named.name)} is declared twice", pos)
        self.names[named.name] = named


def parse_file(text: str, place: str) -> File:
    """Parse a text. Raises ``OptionError`` (fatal) that names the line of the mistake."""
    file = File(Tokens(text, place))
    _FileParser(file, file.tokens).run()
    return file


@dataclass(slots=True)
class _FileParser:
    file: File
    tokens: Tokens

    def run(self) -> None:
        self._syntax()
        while self.tokens.peek().kind != "end":
            if self.tokens.accept(";"):
                continue
            if self.tokens.accept("import"):
                self.tokens.accept("public", "weak")
                self.file.imports.append(self.tokens.string().decode("utf-8", "replace"))
                self.tokens.expect(";")
            elif self.tokens.accept("package"):
                self.file.package = self.tokens.name(dotted=True)
                self.tokens.expect(";")
            elif self.tokens.accept("message"):
                self.file.messages.append(
                    _MessageParser(self.file, self.tokens).message(self.file.package, 0)
                )
            elif self.tokens.accept("enum"):
                parse_enum(self.file, self.file.package)
            elif self.tokens.accept("option", "service", "extend"):
                self.tokens.skip_statement()
            else:
                self.tokens.expect("message", "enum", "import", "option")

    def _syntax(self) -> None:
        if self.tokens.accept("edition"):
            self.tokens.refuse("editions are not supported: use the syntax proto2 or proto3")
        if self.tokens.accept("syntax"):
            self.tokens.expect("=")
            syntax = self.tokens.string()
            if syntax not in (b"proto2", b"proto3"):
                self.tokens.refuse(f"the syntax {quoted(syntax.decode('utf-8', 'replace'))} is not supported")
            self.tokens.expect(";")
            self.file.is_proto3 = syntax == b"proto3"


def parse_enum(file: File, scope: str) -> None:
    """Parse an enum behind its keyword."""
    tokens = file.tokens
    pos = tokens.peek().pos
    enum = Enum(_inside(scope, tokens.name()), not file.is_proto3)
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
            tokens.refuse(f"the enum value {quoted(name)} is declared twice or is no int32")
        values[name] = number
        _options(tokens)
        tokens.expect(";")
    if not values:
        tokens.refuse(f"the enum {quoted(enum.name)} has no values", pos)
    enum.values = tuple(values.items())


@dataclass(slots=True)
class _MessageParser:
    file: File
    tokens: Tokens
    fields: list[Field] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    hidden: list[Message] = field(default_factory=list)
    #: The full name, and how many messages are around this one.
    name: str = ""
    depth: int = 0

    def message(self, scope: str, depth: int) -> Message:
        """Parse a message behind its keyword."""
        pos = self.tokens.peek().pos
        message = Message(_inside(scope, self.tokens.name()))
        self._body(message, depth, pos)
        return message

    def _body(self, message: Message, depth: int, pos: int) -> None:
        if depth >= _NESTED_MAX:
            self.tokens.refuse(f"more than {_NESTED_MAX} messages are declared inside of each other", pos)
        self.file.add(message, pos)
        self.name, self.depth = message.name, depth
        self.tokens.expect("{")
        while not self.tokens.accept("}"):
            self._statement()
        names, numbers = [each.name for each in self.fields], [each.number for each in self.fields]
        if len(set(names)) < len(names) or len(set(numbers)) < len(numbers):
            self.tokens.refuse(f"the message {quoted(message.name)} has a field or a number twice", pos)
        message.fields, message.messages = tuple(self.fields), tuple(self.messages)
        message.hidden = tuple(self.hidden)

    def _statement(self) -> None:
        if self.tokens.accept(";"):
            return
        if self.tokens.accept("message"):
            nested = _MessageParser(self.file, self.tokens).message(self.name, self.depth + 1)
            self.messages.append(nested)
            self.hidden.append(nested)
        elif self.tokens.accept("enum"):
            parse_enum(self.file, self.name)
        elif self.tokens.accept("option", "extensions", "reserved", "extend"):
            self.tokens.skip_statement()
        elif self.tokens.accept("oneof"):
            self._oneof()
        else:
            self._labelled()

    def _oneof(self) -> None:
        oneof = self.tokens.name()
        self.tokens.expect("{")
        while not self.tokens.accept("}"):
            if self.tokens.accept("option"):
                self.tokens.skip_statement()
            elif not self.tokens.accept(";"):
                self._field("", oneof)

    def _labelled(self) -> None:
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
        each = Field(name, number, kind, "" if label == "optional" else label, None, oneof, has_presence)
        options = _options(self.tokens)
        can_be_packed = label == "repeated" and kind not in ("string", "bytes", "group")
        each.is_packed = can_be_packed and self._is_packed(options)
        self.fields.append(each)
        if kind == "group":
            self._group(each, name, pos)
            return
        self.tokens.expect(";")
        self._refer(each, type_name, options.get("default"), pos)

    def _refer(self, each: Field, type_name: str, default: list[Token] | None, pos: int) -> None:
        if default and (self.file.is_proto3 or each.is_repeated):
            self.tokens.refuse("a field of proto3 and a repeated field have no default", pos)
        if default or not each.kind:
            looked_up = "" if each.kind else type_name
            self.file.references.append(Reference(each, looked_up, self.name, pos, default))

    def _is_packed(self, options: dict[str, list[Token]]) -> bool:
        if "packed" not in options:
            return self.file.is_proto3
        return [token.text for token in options["packed"]] == ["true"]

    def _group(self, each: Field, name: str, pos: int) -> None:
        each.name = name.lower()
        group = Message(_inside(self.name, name))
        _MessageParser(self.file, self.tokens)._body(group, self.depth + 1, pos)
        each.type = group
        self.hidden.append(group)

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
        entry = Message(_inside(self.name, f"{camel}Entry"), (key, value))
        self.file.add(entry, pos)
        self.hidden.append(entry)
        self.fields.append(Field(name, number, "message", "map", entry, has_presence=False))
        if not value.kind:
            self.file.references.append(Reference(value, type_name, self.name, pos))

    def _number(self) -> int:
        pos = self.tokens.peek().pos
        number = self.tokens.integer()
        if not 1 <= number <= _NUMBER_MAX:
            self.tokens.refuse(f"{quoted(number)} is no number of a field", pos)
        return number


def _inside(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


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
