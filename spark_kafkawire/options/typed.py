"""Options of typed keys and values: their formats, their schemas, and what bad records become."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..errors import LOG, OptionError, quote
from ..values.formats import BINARY, FORMAT_NAMES, FORMATS
from .connection import NetOptions
from .option import (
    BLANKS,
    READ,
    WRITE,
    Group,
    Option,
    RawOptions,
    bad_value,
    choice,
    file_bytes,
    flag,
    map_words,
    option,
    parse_string,
    word,
)
from .security import Registry

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
    f"valueFormat or keyFormat of {' or '.join(name for name, item in FORMATS.items() if item.has_depth)}"
)
_VERSIONS: Final = "a version of the subject (1 to 2147483647), latest, or id:N, the id of a schema"


class BadRecords(enum.Enum):
    """Treatment of bytes that cannot become rows: an error, a row with nulls, or no row."""

    FAIL = "fail"
    NULL = "null"
    DROP = "drop"


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
        raise bad_value(name, given, "the name of a message type, such as Order or com.example.Order")
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


def _depth(name: str, given: str) -> int:
    text = word(given)
    number = int(text) if _DEPTH.fullmatch(text) else -2
    if not -1 <= number <= _DEPTH_MAX:
        raise bad_value(name, given, f"a whole number from 1 to {_DEPTH_MAX}, or -1")
    return number


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
        return self.column == "key"

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


@dataclass(frozen=True)
class TypedOptions(Group):
    """Typed keys and values of a read or a write. ``registry`` is None without a schema registry.

    ``schema_id_from`` is a value of ``values.registry_frame.SchemaIdSource``. ``auto_register`` is of writes,
    ``bad_records`` and ``ends_on_new_fields`` (``avroSchemaEvolutionMode``) are of reads. ``query`` tells the
    streaming writes of a process apart; it is empty for a batch.
    """

    key: ColumnFormat
    value: ColumnFormat
    bad_records: Option[BadRecords] = option(
        "badRecords", map_words({item.value: item for item in BadRecords}), "fail", READ
    ).means(
        "bytes that cannot become rows, because the log is damaged or a key or value cannot be decoded, are "
        "an error; `null`: a row with nulls, and a column `_corrupt_record` with the bytes and the reason; "
        "`drop`: they are left out, counted, with a warning; see [Damaged "
        "records](data-loss.md#damaged-records)"
    )
    value_format = option("valueFormat", choice(*FORMAT_NAMES), BINARY).means(
        _FORMAT_MEANING.format("values")
    )
    key_format = option("keyFormat", choice(*FORMAT_NAMES), BINARY).means("the same of keys")
    value_schema = option("valueSchema", parse_string).means(_SCHEMA_MEANING.format("values"))
    key_schema = option("keySchema", parse_string).means("the same of keys")
    value_subject = option("valueSubject", _subject).means(_SUBJECT_MEANING.format("values"))
    key_subject = option("keySubject", _subject).means("the same of keys")
    value_version = option("valueSchemaVersion", _version).means(_VERSION_MEANING.format("values"))
    key_version = option("keySchemaVersion", _version).means("the same of keys")
    value_message = option("valueMessage", _message).means(
        "the message type of values in a Protobuf schema, by its full name or by that without the package "
        "(with `RecordName` strategies of a read: by its full name); by default the first of the schema"
    )
    key_message = option("keyMessage", _message).means("the same of keys")
    strategy: Option[str] = option(
        "subjectNameStrategy",
        map_words({name.lower(): name for name in ("TopicName", "RecordName", "TopicRecordName")}),
        "TopicName",
    ).means(
        "the subject of a schema: `TopicName` (`t-value`), `RecordName` (the name of the record or the "
        "message), `TopicRecordName` (`t-` and that name)"
    )
    schema_id_from: Option[str] = option(
        "schemaIdFrom", choice("auto", "prefix", "header", "none"), "auto"
    ).means(
        "the place of the id of a message's schema: `prefix` of the message, `header` of the record, "
        "`auto` for the header or else the prefix (writes: the prefix); `none`: messages have no id, and all "
        "have the schema of the options"
    )
    auto_register: Option[bool] = option("autoRegisterSchemas", flag, "false", WRITE).means(
        "`true`: register schemas that the schema registry does not have"
    )
    recursion_depth = option(
        "recursiveFieldMaxDepth",
        _depth,
        sides=READ,
        aliases=(
            option("recursive.fields.max.depth", _depth, sides=READ).means(
                "the name that Spark's `from_protobuf` has for `recursiveFieldMaxDepth`"
            ),
        ),
    ).means(
        "how often an Avro record or a Protobuf message has columns inside of itself, the outer one "
        "included (by default 3): deeper ones are left out; `-1`: such a schema is an error"
    )

    registry: RegistrySettings | None = None
    ends_on_new_fields: bool = False
    query: str = ""

    @property
    def columns(self) -> tuple[ColumnFormat, ColumnFormat]:
        """The formats of keys and values."""
        return self.key, self.value


class _Value:
    """The options of values."""

    name = "value"
    format, message = TypedOptions.value_format, TypedOptions.value_message
    schema, subject = TypedOptions.value_schema, TypedOptions.value_subject
    version = TypedOptions.value_version


class _Key(_Value):
    """The options of keys."""

    name = "key"
    format, message = TypedOptions.key_format, TypedOptions.key_message
    schema, subject = TypedOptions.key_schema, TypedOptions.key_subject
    version = TypedOptions.key_version


def parse_typed(options: RawOptions, net: NetOptions, *, read: bool) -> TypedOptions | None:
    """The formats of keys and values; None if both are binary. Raises ``OptionError`` (fatal)."""
    of = TypedOptions
    depth = options[of.recursion_depth]
    key, value = (_column(options, item, depth) for item in (_Key, _Value))
    if not key.has_depth and not value.has_depth:
        _refuse(options, of.recursion_depth, needed=_WITH_DEPTH)
    # These are checked also where nothing uses them.
    _, source = options[of.strategy], options[of.schema_id_from]
    _ = options[of.bad_records], options[of.auto_register]
    if not key.has_schemas and not value.has_schemas:
        _refuse(options, of.strategy, of.schema_id_from, of.auto_register, needed=_WITH_SCHEMAS)
        if unused := options.given(*Registry.options()):
            LOG.warning("without a format that has schemas, %s has no effect", ", ".join(unused))
    if key.format == value.format == BINARY:
        return None
    if source == "header" and not net.connection.generation.has_headers:
        raise OptionError(f"option {of.schema_id_from}: Kafka 0.7 has no headers; set prefix or none")
    registry = None
    if key.has_schemas or value.has_schemas:
        from .registry_settings import registry_settings  # few reads and writes have one

        registry = registry_settings(options, net)
    is_plain = registry is None and not key.needs_writer and not value.needs_writer
    if is_plain and not options.given(of.schema_id_from):  # as plain JSON is
        source = "none"
    for item in (key, value):
        if item.has_schemas and registry is None:
            _check_without_registry(options, item, source, read=read)
    if registry is None:
        _refuse(options, of.auto_register, needed=Registry.url.name)
    return of.parse(options, key=key, value=value, registry=registry, schema_id_from=source)


def _column(options: RawOptions, of: type[_Value], depth: int | None) -> ColumnFormat:
    result = options[of.format]
    if result != "protobuf":
        _refuse(options, of.message, needed=f"{of.format}=protobuf")
    if result not in FORMATS:
        _refuse(options, of.schema, of.subject, of.version, needed=f"{of.format}={' or '.join(FORMATS)}")
        return ColumnFormat(of.name, result)
    if len(given := options.given(of.schema, of.version)) > 1:
        raise OptionError(f"options {' and '.join(given)} both name a schema; set one of them")
    return ColumnFormat(
        *(of.name, result, _schema_text(options, of.schema)),
        *(options[of.subject], options[of.version], options[of.message]),
        recursion_depth=depth if FORMATS[result].has_depth else None,
    )


def _refuse(options: RawOptions, *useless: Option[Any], needed: str) -> None:
    if given := options.given(*useless):
        raise OptionError(
            f"option {given[0]} needs {needed}, which is not set; set it, or leave {given[0]} out"
        )


def _check_without_registry(options: RawOptions, column: ColumnFormat, source: str, *, read: bool) -> None:
    """Raise ``OptionError`` if the messages need a schema registry."""
    name, url = column.column, Registry.url.name
    if column.version is not None or column.subject is not None:
        of = _Key if column.is_key else _Value
        given = options.given(of.subject, of.version)
        raise OptionError(f"option {given[0]} names a schema of a registry, and {url} is not set; set it")
    has_schema = column.schema_text is not None or not read
    # Without the schemas of writers, planning knows if there is another one.
    if (source == "none" and has_schema) or (read and not column.needs_writer):
        return
    without = f"{TypedOptions.schema_id_from}=none" + (f" and {name}Schema" if read else "")
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
    data = file_bytes(f"option {of}: {quote(path)}", path, SCHEMA_BYTES_MAX, advice, advice)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise OptionError(f"option {of}: the file {quote(path)} is not UTF-8; {advice}") from None
