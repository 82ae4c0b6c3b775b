"""Options of typed keys and values: their formats, their schemas, and what bad records become."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spark_kafkawire.regular_files import Unreadable, read_regular

from ..errors import LOG, OptionError, quoted
from ..values.formats import BINARY, FORMAT_NAMES, FORMATS
from . import schema_registry
from .connection import NetOptions
from .fetch import BAD_RECORDS, BadRecords
from .option import (
    BLANKS,
    READ,
    WRITE,
    Option,
    RawOptions,
    bad_value,
    choice,
    flag,
    mapped,
    option,
    string,
    word,
)

if TYPE_CHECKING:
    from ..registry import RegistrySettings

#: Longest file of a schema, bytes. Registries refuse schemas of more than 1 MB by default.
SCHEMA_BYTES_MAX: Final = 16 << 20
#: Texts that are a schema and no path: all have one of these signs, but for the primitive types of Avro.
_INLINE: Final = re.compile(r"""[{}\[\]"\n]""")
_PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NUMBER: Final = re.compile("[0-9]{1,10}")
_NUMBER_MAX: Final = (1 << 31) - 1
_DEPTH: Final = re.compile("-?[0-9]{1,3}")
#: Depth of recursive fields, as in Spark's ``from_avro``.
_DEPTH_MAX: Final = 15
_ID: Final = "id:"
_WITH_SCHEMAS: Final = f"valueFormat or keyFormat of {' or '.join(FORMATS)}"
_WITH_DEPTH: Final = (
    f"valueFormat or keyFormat of {' or '.join(name for name, each in FORMATS.items() if each.has_depth)}"
)
_VERSIONS: Final = "a version of the subject (1 to 2147483647), latest, or id:N, the id of a schema"


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A version of a subject by its number, or any schema by its id; the latest version without both."""

    number: int | None = None
    schema_id: int | None = None

    def __str__(self) -> str:
        if self.schema_id is not None:
            return f"{_ID}{self.schema_id}"
        return "latest" if self.number is None else str(self.number)


def _version(name: str, given: str) -> SchemaVersion:
    text = word(given)
    if text == "latest":
        return SchemaVersion()
    is_id = text.startswith(_ID)
    digits = text.removeprefix(_ID)
    number = int(digits) if _NUMBER.fullmatch(digits) else -1
    if not (0 if is_id else 1) <= number <= _NUMBER_MAX:
        raise bad_value(name, given, _VERSIONS)
    return SchemaVersion(schema_id=number) if is_id else SchemaVersion(number)


def _subject(name: str, given: str) -> str:
    subject = given.strip(BLANKS)
    if not subject:
        raise bad_value(name, given, "the name of a subject of the schema registry")
    return subject


def _message(name: str, given: str) -> str:
    message = given.strip(BLANKS).removeprefix(".")
    if not message:
        raise bad_value(name, given, "the name of a message type")
    return message


_FORMAT_MEANING: Final = (
    f"the format of {{}}: {', '.join(f'`{name}`' for name in FORMAT_NAMES)}; see "
    "[Typed keys and values](columns.md#typed-keys-and-values)"
)
_SCHEMA_MEANING: Final = (
    "the schema of {}, as text or as the path of a file on the driver: reads resolve all messages to it"
)
_SUBJECT_MEANING: Final = (
    "the subject of {} in the schema registry; by default that of the topic, see `subjectNameStrategy`"
)
_VERSION_MEANING: Final = (
    "the schema of {}: a version of the subject, `latest`, or `id:N`, a schema by its id; reads take "
    "`latest` unless they have another schema"
)

VALUE_FORMAT: Final = option(
    "valueFormat", choice(*FORMAT_NAMES), default=BINARY, meaning=_FORMAT_MEANING.format("values")
)
KEY_FORMAT: Final = option("keyFormat", choice(*FORMAT_NAMES), default=BINARY, meaning="the same of keys")
VALUE_SCHEMA: Final = option("valueSchema", string, meaning=_SCHEMA_MEANING.format("values"))
KEY_SCHEMA: Final = option("keySchema", string, meaning="the same of keys")
VALUE_SUBJECT: Final = option("valueSubject", _subject, meaning=_SUBJECT_MEANING.format("values"))
KEY_SUBJECT: Final = option("keySubject", _subject, meaning="the same of keys")
VALUE_SCHEMA_VERSION: Final = option(
    "valueSchemaVersion", _version, meaning=_VERSION_MEANING.format("values")
)
KEY_SCHEMA_VERSION: Final = option("keySchemaVersion", _version, meaning="the same of keys")
VALUE_MESSAGE: Final = option(
    "valueMessage",
    _message,
    meaning="the message type of values in a Protobuf schema, by its full name or by that without the "
    "package (with `RecordName` strategies of a read: by its full name); by default the first of the schema",
)
KEY_MESSAGE: Final = option("keyMessage", _message, meaning="the same of keys")
SUBJECT_NAME_STRATEGY: Final = option(
    "subjectNameStrategy",
    mapped({name.lower(): name for name in ("TopicName", "RecordName", "TopicRecordName")}),
    default="TopicName",
    meaning="the subject of a schema: `TopicName` (`t-value`), `RecordName` (the name of the record or the "
    "message), `TopicRecordName` (`t-` and that name)",
)
SCHEMA_ID_FROM: Final = option(
    "schemaIdFrom",
    choice("auto", "prefix", "header", "none"),
    default="auto",
    meaning="the place of the id of a message's schema: `prefix` of the message, `header` of the record, "
    "`auto` for the header or else the prefix (writes: the prefix); `none`: messages have no id, and all "
    "have the schema of the options",
)
AUTO_REGISTER_SCHEMAS: Final = option(
    "autoRegisterSchemas",
    flag,
    default="false",
    sides=WRITE,
    meaning="`true`: register schemas that the schema registry does not have",
)


def _depth(name: str, given: str) -> int:
    text = word(given)
    number = int(text) if _DEPTH.fullmatch(text) else -2
    if not -1 <= number <= _DEPTH_MAX:
        raise bad_value(name, given, f"a whole number from 1 to {_DEPTH_MAX}, or -1")
    return number


RECURSIVE_FIELD_MAX_DEPTH: Final = option(
    "recursiveFieldMaxDepth",
    _depth,
    sides=READ,
    aliases=(
        option(
            "recursive.fields.max.depth",
            _depth,
            sides=READ,
            meaning="the name that Spark's `from_protobuf` has for `recursiveFieldMaxDepth`",
        ),
    ),
    meaning="how often an Avro record or a Protobuf message has columns inside of itself, the outer one "
    "included (by default 3): deeper ones are left out; `-1`: such a schema is an error",
)


class _Column(NamedTuple):
    """The options of keys or of values."""

    name: str
    format: Option[str]
    schema: Option[str | None]
    subject: Option[str | None]
    version: Option[SchemaVersion | None]
    message: Option[str | None]

    @property
    def of_schemas(self) -> tuple[Option[Any], ...]:
        """The options that are about schemas of all formats."""
        return self.schema, self.subject, self.version


_KEY: Final = _Column("key", KEY_FORMAT, KEY_SCHEMA, KEY_SUBJECT, KEY_SCHEMA_VERSION, KEY_MESSAGE)
_VALUE: Final = _Column(
    "value", VALUE_FORMAT, VALUE_SCHEMA, VALUE_SUBJECT, VALUE_SCHEMA_VERSION, VALUE_MESSAGE
)


@dataclass(frozen=True, slots=True)
class ColumnFormat:
    """The format of keys or of values, and the schema that the options name: its ``schema_text``, or a
    ``version`` of ``subject``. Without a subject it is that of ``subjectNameStrategy``. ``message`` is the
    name of a message type in it, ``recursion_depth`` that of columns in types that contain themselves."""

    column: str
    format: str = BINARY
    schema_text: str | None = None
    subject: str | None = None
    version: SchemaVersion | None = None
    message: str | None = None
    recursion_depth: int | None = None

    @property
    def is_key(self) -> bool:
        """True for keys."""
        return self.column == _KEY.name

    @property
    def has_schemas(self) -> bool:
        """True if messages of the format have schemas."""
        return self.format in FORMATS

    @property
    def needs_writer(self) -> bool:
        """True if messages of the format cannot be decoded without the schema that they were written with."""
        return self.has_schemas and FORMATS[self.format].needs_writer

    @property
    def has_depth(self) -> bool:
        """True if types of the format may contain themselves, and have columns to a depth."""
        return self.has_schemas and FORMATS[self.format].has_depth

    @property
    def option(self) -> str:
        """The option that names the schema, for errors."""
        return f"{self.column}{'Schema' if self.schema_text is not None else 'SchemaVersion'}"


@dataclass(frozen=True, slots=True)
class TypedOptions:
    """Typed keys and values of a read or a write. ``registry`` is None without a schema registry.

    ``schema_id_from`` is a value of ``values.registry_frame.SchemaIdSource``. ``auto_register`` is of writes,
    ``bad_records`` and ``ends_on_new_fields`` (``avroSchemaEvolutionMode``) are of reads. ``query`` tells the
    streaming writes of a process apart; it is empty for a batch.
    """

    key: ColumnFormat
    value: ColumnFormat
    strategy: str = SUBJECT_NAME_STRATEGY.value
    registry: RegistrySettings | None = None
    schema_id_from: str = SCHEMA_ID_FROM.value
    bad_records: BadRecords = BAD_RECORDS.value
    auto_register: bool = AUTO_REGISTER_SCHEMAS.value
    ends_on_new_fields: bool = False
    query: str = ""

    @property
    def columns(self) -> tuple[ColumnFormat, ColumnFormat]:
        """The formats of keys and values."""
        return self.key, self.value


def parse_typed(options: RawOptions, net: NetOptions, *, read: bool) -> TypedOptions | None:
    """The formats of keys and values; None if both are binary. Raises ``OptionError`` (fatal)."""
    depth = options[RECURSIVE_FIELD_MAX_DEPTH]
    key, value = (_with_depth(_column(options, each), depth) for each in (_KEY, _VALUE))
    if not key.has_depth and not value.has_depth:
        _refuse(options, RECURSIVE_FIELD_MAX_DEPTH, needed=_WITH_DEPTH)
    strategy, source = options[SUBJECT_NAME_STRATEGY], options[SCHEMA_ID_FROM]
    bad_records, auto_register = options[BAD_RECORDS], options[AUTO_REGISTER_SCHEMAS]
    if not key.has_schemas and not value.has_schemas:
        _refuse(options, SUBJECT_NAME_STRATEGY, SCHEMA_ID_FROM, AUTO_REGISTER_SCHEMAS, needed=_WITH_SCHEMAS)
        if unused := options.given(*schema_registry.OPTIONS):
            LOG.warning("without a format that has schemas, %s has no effect", ", ".join(unused))
    if key.format == value.format == BINARY:
        return None
    if source == "header" and not net.connection.generation.has_headers:
        raise OptionError(f"option {SCHEMA_ID_FROM.name}: Kafka 0.7 has no headers; set prefix or none")
    registry = _registry(options, net) if key.has_schemas or value.has_schemas else None
    is_plain = registry is None and not key.needs_writer and not value.needs_writer
    if is_plain and not options.given(SCHEMA_ID_FROM):  # as plain JSON is
        source = "none"
    for each in (key, value):
        if each.has_schemas and registry is None:
            _check_without_registry(options, each, source, read=read)
    if registry is None:
        _refuse(options, AUTO_REGISTER_SCHEMAS, needed=schema_registry.URL.name)
    return TypedOptions(key, value, strategy, registry, source, bad_records, auto_register)


def _registry(options: RawOptions, net: NetOptions) -> RegistrySettings | None:
    """The schema registry. Its deadlines and retries are those of brokers."""
    from .registry_settings import registry_settings  # few reads and writes have one

    return registry_settings(options, net)


def _column(options: RawOptions, of: _Column) -> ColumnFormat:
    found = options[of.format]
    if found != "protobuf":
        _refuse(options, of.message, needed=f"{of.format.name}=protobuf")
    if found not in FORMATS:
        _refuse(options, *of.of_schemas, needed=f"{of.format.name}={' or '.join(FORMATS)}")
        return ColumnFormat(of.name, found)
    if len(given := options.given(of.schema, of.version)) > 1:
        raise OptionError(f"options {' and '.join(given)} both name a schema; set one of them")
    text = _schema_text(options, of.schema)
    return ColumnFormat(of.name, found, text, options[of.subject], options[of.version], options[of.message])


def _with_depth(column: ColumnFormat, depth: int | None) -> ColumnFormat:
    return replace(column, recursion_depth=depth) if column.has_depth else column


def _refuse(options: RawOptions, *useless: Option[Any], needed: str) -> None:
    if given := options.given(*useless):
        raise OptionError(
            f"option {given[0]} needs {needed}, which is not set; set it, or leave {given[0]} out"
        )


def _check_without_registry(options: RawOptions, column: ColumnFormat, source: str, *, read: bool) -> None:
    """Raise ``OptionError`` if the messages need a schema registry."""
    name, url = column.column, schema_registry.URL.name
    if column.version is not None or column.subject is not None:
        given = options.given(*(_KEY if column.is_key else _VALUE).of_schemas[1:])
        raise OptionError(f"option {given[0]} names a schema of a registry, and {url} is not set; set it")
    has_schema = column.schema_text is not None or not read
    # Without the schemas of writers, planning knows if there is another one.
    if (source == "none" and has_schema) or (read and not column.needs_writer):
        return
    without = f"{SCHEMA_ID_FROM.name}=none" + (f" and {name}Schema" if read else "")
    raise OptionError(
        f"option {name}Format: {column.format} needs {url}, the schema registry; for messages without the id "
        f"of a schema set {without}"
    )


def _schema_text(options: RawOptions, of: Option[str | None]) -> str | None:
    """The text of a schema: the option's value, or the content of the file that it names."""
    given = options[of]
    if given is None or _INLINE.search(given) or word(given) in _PRIMITIVES:
        return given
    advice = "give the text of a schema, or the path of a file on the driver that holds it"
    path = given.strip(BLANKS)
    try:
        return read_regular(path, SCHEMA_BYTES_MAX, "on the driver", advice, advice).decode("utf-8")
    except UnicodeDecodeError:
        raise OptionError(f"option {of.name}: the file {quoted(path)} is not UTF-8; {advice}") from None
    except Unreadable as error:
        raise OptionError(f"option {of.name}: {quoted(path)} {error}") from error
