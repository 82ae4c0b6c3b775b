"""Protobuf schemas: parsed from ``.proto`` texts, and derived from Arrow types.

Several texts become one set of types: imports, names that refer to types, and defaults. Every schema may
import ``WELL_KNOWN`` schemas without a reference.

Source: https://protobuf.dev/reference/protobuf/google.protobuf/, googleapis' ``google/type`` and Confluent's
``confluent/type/decimal.proto``. Types of descriptors and options are left out: no message contains them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from spark_kafkawire.errors import OptionError, list_some, printable, quote

from ..column_types import RECURSION_DEPTH, inside, is_list, sql_name
from .parsing import File, Reference, Tokens, parse_file, text_of
from .types import DURATION, Enum, Message, arrow_type_of

#: The declarations of each schema below the name with which it is imported: its folder is its package.
_DECLARED: Final = """
google/protobuf/any.proto
  message Any { string type_url = 1; bytes value = 2; }
google/protobuf/duration.proto
  message Duration { int64 seconds = 1; int32 nanos = 2; }
google/protobuf/timestamp.proto
  message Timestamp { int64 seconds = 1; int32 nanos = 2; }
google/protobuf/empty.proto
  message Empty {}
google/protobuf/field_mask.proto
  message FieldMask { repeated string paths = 1; }
google/protobuf/source_context.proto
  message SourceContext { string file_name = 1; }
google/protobuf/struct.proto
  message Struct { map<string, Value> fields = 1; }
  message Value { oneof kind { NullValue null_value = 1; double number_value = 2; string string_value = 3;
    bool bool_value = 4; Struct struct_value = 5; ListValue list_value = 6; } }
  enum NullValue { NULL_VALUE = 0; } message ListValue { repeated Value values = 1; }
google/protobuf/wrappers.proto
  message DoubleValue { double value = 1; } message FloatValue { float value = 1; }
  message Int64Value { int64 value = 1; } message UInt64Value { uint64 value = 1; }
  message Int32Value { int32 value = 1; } message UInt32Value { uint32 value = 1; }
  message BoolValue { bool value = 1; } message StringValue { string value = 1; }
  message BytesValue { bytes value = 1; }
google/protobuf/api.proto
  import "google/protobuf/source_context.proto"; import "google/protobuf/type.proto";
  message Api { string name = 1; repeated Method methods = 2; repeated Option options = 3;
    string version = 4; SourceContext source_context = 5; repeated Mixin mixins = 6; Syntax syntax = 7;
    string edition = 8; }
  message Method { string name = 1; string request_type_url = 2; bool request_streaming = 3;
    string response_type_url = 4; bool response_streaming = 5; repeated Option options = 6;
    Syntax syntax = 7; string edition = 8; }
  message Mixin { string name = 1; string root = 2; }
google/protobuf/type.proto
  import "google/protobuf/any.proto"; import "google/protobuf/source_context.proto";
  message Type { string name = 1; repeated Field fields = 2; repeated string oneofs = 3;
    repeated Option options = 4; SourceContext source_context = 5; Syntax syntax = 6; string edition = 7; }
  message Field { Kind kind = 1; Cardinality cardinality = 2; int32 number = 3; string name = 4;
    string type_url = 6; int32 oneof_index = 7; bool packed = 8; repeated Option options = 9;
    string json_name = 10; string default_value = 11; enum Kind { TYPE_UNKNOWN = 0; TYPE_DOUBLE = 1;
    TYPE_FLOAT = 2; TYPE_INT64 = 3; TYPE_UINT64 = 4; TYPE_INT32 = 5; TYPE_FIXED64 = 6; TYPE_FIXED32 = 7;
    TYPE_BOOL = 8; TYPE_STRING = 9; TYPE_GROUP = 10; TYPE_MESSAGE = 11; TYPE_BYTES = 12; TYPE_UINT32 = 13;
    TYPE_ENUM = 14; TYPE_SFIXED32 = 15; TYPE_SFIXED64 = 16; TYPE_SINT32 = 17; TYPE_SINT64 = 18; }
    enum Cardinality { CARDINALITY_UNKNOWN = 0; CARDINALITY_OPTIONAL = 1; CARDINALITY_REQUIRED = 2;
    CARDINALITY_REPEATED = 3; } }
  message Enum { string name = 1; repeated EnumValue enumvalue = 2; repeated Option options = 3;
    SourceContext source_context = 4; Syntax syntax = 5; string edition = 6; }
  message EnumValue { string name = 1; int32 number = 2; repeated Option options = 3; }
  message Option { string name = 1; Any value = 2; }
  enum Syntax { SYNTAX_PROTO2 = 0; SYNTAX_PROTO3 = 1; SYNTAX_EDITIONS = 2; }
google/type/calendar_period.proto
  enum CalendarPeriod { CALENDAR_PERIOD_UNSPECIFIED = 0; DAY = 1; WEEK = 2; FORTNIGHT = 3; MONTH = 4;
    QUARTER = 5; HALF = 6; YEAR = 7; }
google/type/color.proto
  import "google/protobuf/wrappers.proto";
  message Color { float red = 1; float green = 2; float blue = 3; google.protobuf.FloatValue alpha = 4; }
google/type/datetime.proto
  import "google/protobuf/duration.proto";
  message DateTime { int32 year = 1; int32 month = 2; int32 day = 3; int32 hours = 4; int32 minutes = 5;
    int32 seconds = 6; int32 nanos = 7; oneof time_offset { google.protobuf.Duration utc_offset = 8;
    TimeZone time_zone = 9; } }
  message TimeZone { string id = 1; string version = 2; }
google/type/dayofweek.proto
  enum DayOfWeek { DAY_OF_WEEK_UNSPECIFIED = 0; MONDAY = 1; TUESDAY = 2; WEDNESDAY = 3; THURSDAY = 4;
    FRIDAY = 5; SATURDAY = 6; SUNDAY = 7; }
google/type/decimal.proto
  message Decimal { string value = 1; }
google/type/expr.proto
  message Expr { string expression = 1; string title = 2; string description = 3; string location = 4; }
google/type/fraction.proto
  message Fraction { int64 numerator = 1; int64 denominator = 2; }
google/type/interval.proto
  import "google/protobuf/timestamp.proto";
  message Interval { google.protobuf.Timestamp start_time = 1; google.protobuf.Timestamp end_time = 2; }
google/type/localized_text.proto
  message LocalizedText { string text = 1; string language_code = 2; }
google/type/month.proto
  enum Month { MONTH_UNSPECIFIED = 0; JANUARY = 1; FEBRUARY = 2; MARCH = 3; APRIL = 4; MAY = 5; JUNE = 6;
    JULY = 7; AUGUST = 8; SEPTEMBER = 9; OCTOBER = 10; NOVEMBER = 11; DECEMBER = 12; }
google/type/phone_number.proto
  message PhoneNumber { message ShortCode { string region_code = 1; string number = 2; } oneof kind {
    string e164_number = 1; ShortCode short_code = 2; } string extension = 3; }
google/type/postal_address.proto
  message PostalAddress { int32 revision = 1; string region_code = 2; string language_code = 3;
    string postal_code = 4; string sorting_code = 5; string administrative_area = 6; string locality = 7;
    string sublocality = 8; repeated string address_lines = 9; repeated string recipients = 10;
    string organization = 11; }
google/type/quaternion.proto
  message Quaternion { double x = 1; double y = 2; double z = 3; double w = 4; }
google/type/date.proto
  message Date { int32 year = 1; int32 month = 2; int32 day = 3; }
google/type/latlng.proto
  message LatLng { double latitude = 1; double longitude = 2; }
google/type/money.proto
  message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }
google/type/timeofday.proto
  message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }
confluent/type/decimal.proto
  message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
"""
#: The text of each schema by the name with which it is imported.
WELL_KNOWN: Final[Mapping[str, str]] = MappingProxyType(
    {
        path: f'syntax = "proto3"; package {path.rpartition("/")[0].replace("/", ".")};{declared}'
        for path, declared in re.findall(r"^(\S+)((?:\n  .*)+)", _DECLARED, re.MULTILINE)
    }
)
#: Characters of all texts together, and texts: more come from no build that people maintain.
_CHARACTERS_MAX: Final = 2 << 20
_FILES_MAX: Final = 1_000


def link(text: str, references: Mapping[str, str]) -> File:
    """Parse a text and those that it imports, and connect fields with their types.

    An import is looked up in ``references``, then among Protobuf's own. One that is found in neither is an
    error only if a type is missing: many schemas import options, which have no influence on messages.
    """
    _expect_few(len(text), 1)
    text = text_of(text)
    _expect_few(len(text), 1)
    root = parse_file(text, "the Protobuf schema")
    files, missing = _import_files(root, references, len(text))
    names: dict[str, Message | Enum] = {}
    for file in files:
        for name, named in file.names.items():
            if name in names:
                raise OptionError(
                    f"{file.tokens.place}: the type {quote(name)} is declared in another file, too: remove "
                    "one"
                )
            names[name] = named
    for file in files:
        for item in file.references:
            _connect(item, file, names, missing)
    return root


def _import_files(root: File, references: Mapping[str, str], size: int) -> tuple[list[File], list[str]]:
    files, missing, seen = [root], [], set()
    for file in files:  # grows in the loop
        for name in file.imports:
            if name in seen:
                continue
            seen.add(name)
            text = references.get(name, WELL_KNOWN.get(name))
            if text is None:
                missing.append(name)
                continue
            _expect_few(size + len(text), len(files) + 1)
            text = text_of(text)
            size += len(text)
            _expect_few(size, len(files) + 1)
            files.append(parse_file(text, f"the Protobuf schema {quote(name)}"))
    return files, missing


def _expect_few(size: int, count: int) -> None:
    remedy = "leave out imports that the message does not use"
    if count > _FILES_MAX:
        raise OptionError(f"the Protobuf schema imports more than {_FILES_MAX - 1} files: {remedy}")
    if size > _CHARACTERS_MAX:
        raise OptionError(
            f"the Protobuf schema has with its imports more than {_CHARACTERS_MAX} characters: {remedy}"
        )


def _connect(
    reference: Reference, file: File, names: Mapping[str, Message | Enum], missing: list[str]
) -> None:
    item = reference.field
    if reference.type_name:
        result = _find_type(reference, names)
        if result is None:
            hint = (
                f"; imports that are not among its references: {list_some(missing, 3, quote)}"
                if missing
                else ""
            )
            file.tokens.refuse(f"the type {quote(reference.type_name)} is unknown{hint}", reference.pos)
        item.type = result
        item.kind = "enum" if isinstance(result, Enum) else "message"
        item.has_presence |= item.kind == "message" and not item.is_repeated
        item.is_packed &= item.kind == "enum"
    if reference.default is not None:
        item.default = _default(reference, file.tokens.part(reference.default))


def _find_type(reference: Reference, names: Mapping[str, Message | Enum]) -> Message | Enum | None:
    """The type that a name means: the innermost one around the field."""
    if reference.type_name.startswith("."):
        return names.get(reference.type_name[1:])
    scope = reference.scope
    while True:
        result = names.get(inside(scope, reference.type_name))
        if result is not None or not scope:
            return result
        scope = scope.rpartition(".")[0]


def _default(reference: Reference, tokens: Tokens) -> Any:
    item = reference.field
    if item.kind == "enum":
        numbers = dict(item.enum.values)
        name = tokens.name()
        value: Any = numbers.get(name)
        if value is None:
            tokens.refuse(f"{quote(name)} is no value of the enum {quote(item.enum.name)}", reference.pos)
    elif item.kind == "bool":
        value = int(tokens.expect("true", "false") == "true")
    elif item.kind in ("string", "bytes"):
        value = tokens.string()
    elif item.kind in ("float", "double"):
        value = tokens.number()
    elif item.is_message:
        tokens.refuse("a field of a message type cannot have a default: remove it", reference.pos)
    else:
        value = _sign(item.kind, tokens.integer(), tokens, reference.pos)
    if tokens.peek().kind != "end":
        tokens.refuse("the default has more than one value", reference.pos)
    return value


def _sign(kind: str, number: int, tokens: Tokens, pos: int) -> int:
    """The integer as a column has it: unsigned ones become negative where their first bit is set."""
    bits = 32 if kind.endswith("32") else 64
    is_unsigned = kind in ("uint32", "uint64", "fixed32", "fixed64")
    low, high = (0, 2**bits) if is_unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    if not low <= number < high:
        tokens.refuse(f"{quote(number)} is no {kind}", pos)
    return number - 2**bits if number >= 2 ** (bits - 1) else number


_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True, eq=False)
class Schema:
    """A schema, and the text that it was parsed from.

    ``indexes`` is the place of the message that a column has: the index among the text's messages, then among
    the messages declared inside of that one, and so on. The first message represents the whole schema.
    ``recursion_depth`` is how often a message may be inside of itself.
    """

    file: File = field(repr=False)
    text: str
    indexes: tuple[int, ...] = (0,)
    recursion_depth: int = RECURSION_DEPTH

    @cached_property
    def root(self) -> Message:
        """The message of ``indexes``."""
        message = _find_message(self.file, self.indexes)
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

    def at(self, indexes: tuple[int, ...]) -> Schema | None:
        """The schema with the message of these indexes; None if it has none."""
        if indexes == self.indexes:
            return self
        return None if _find_message(self.file, indexes) is None else replace(self, indexes=indexes)

    def find_message_type(self, name: str) -> Schema:
        """The schema with the message of this name: a full one, or one without the package.

        Raises ``OptionError`` (fatal) if the text declares none, or only a reference does.
        """
        package = f"{self.file.package}." if self.file.package else ""
        places = _places(self.file)
        for full in (name.lstrip("."), package + name):
            if full in places:
                return replace(self, indexes=places[full])
        known = list_some(list(places), 5, quote)
        raise OptionError(
            f"the Protobuf schema has no message {quote(name)}; it has {known}; name one of these"
        )


def parse(text: str, references: Mapping[str, str] | None = None) -> Schema:
    """Parse a schema. ``references`` are texts by the names with which they are imported.

    Raises ``OptionError`` (fatal) that names the line of the mistake.
    """
    file = link(text, references or {})
    if not file.messages:
        raise OptionError("the Protobuf schema declares no message: add one")
    return Schema(file, text)


def _find_message(file: File, indexes: tuple[int, ...]) -> Message | None:
    """The message at a place.

    Confluent's serializers in Java count declared messages. Those in Python and Go count groups and entries
    of maps, too, which shows only where an index is larger than the number of declared messages.
    """
    result: Message | None = None
    declared, all_of_them = file.messages, file.messages
    for index in indexes:
        inside = declared if 0 <= index < len(declared) else all_of_them
        if not 0 <= index < len(inside):
            return None
        result = inside[index]
        declared, all_of_them = result.messages, result.hidden
    return result


def _places(file: File) -> dict[str, tuple[int, ...]]:
    """The place of each declared message by its full name."""
    places: dict[str, tuple[int, ...]] = {
        message.name: (index,) for index, message in enumerate(file.messages)
    }
    waiting = list(zip(file.messages, places.values(), strict=True))
    for message, location in waiting:  # grows in the loop
        for index, nested in enumerate(message.messages):
            places[nested.name] = (*location, index)
            waiting.append((nested, places[nested.name]))
    return places


def schema_of(arrow_type: pa.DataType, name: str = "topLevelRecord") -> Schema:
    """Derive the schema of a column's values: proto3, with ``optional`` for scalars that may be null.

    Raises ``OptionError`` (fatal) for a type that Protobuf does not have, or a name that it does not allow.
    """
    package, _, last = name.rpartition(".")
    if not all(map(_NAME.match, name.split("."))):
        raise OptionError(f"{quote(name)} is no name in Protobuf: use letters, digits and underscores")
    if not pa.types.is_struct(arrow_type):
        raise OptionError(f"a Protobuf message is made of a struct, not of {arrow_type}: use struct(…)")
    derived = _Derived()
    lines = derived.message(last, arrow_type, "", last)
    imports = [f'import "google/protobuf/{item}.proto";' for item in sorted(derived.imports)]
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
            self.field(number, column, f"{column.name}{mark}", inner, f"{indent}  ", f"{path}.{column.name}")
            for number, column in enumerate(struct, 1)
        ]
        return [f"{indent}message {name} {{", *inner, *fields, f"{indent}}}"]

    def field(
        self, number: int, column: pa.Field, message: str, inner: list[str], indent: str, path: str
    ) -> str:
        """The line of a field; lines of the message that it needs are added to ``inner``."""
        if not _NAME.match(column.name):
            raise OptionError(
                f"column {printable(path)}: {quote(column.name)} is no name in Protobuf: rename it"
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
        if is_list(of):
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
        return _DERIVED.get(sql_name(of), "")


_DERIVED: Final = {
    "BOOLEAN": "bool",
    "TINYINT": "int32",
    "SMALLINT": "int32",
    "INT": "int32",
    "BIGINT": "int64",
    "FLOAT": "float",
    "DOUBLE": "double",
    "STRING": "string",
    "BINARY": "bytes",
}
