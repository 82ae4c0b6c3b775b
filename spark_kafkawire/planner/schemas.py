"""Schemas to which a read resolves its keys and values, fixed when it is planned."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Final

from ..errors import OptionError, UnknownSchemaError, counted, quote
from ..options import ColumnFormat, ReadOptions, SchemaVersion, Selection, TypedOptions
from ..registry import subject_of
from ..values.formats import FORMATS, FixedSchema, Schema

if TYPE_CHECKING:
    from ..registry import RegisteredSchema, Registry

#: The version that a read takes unless its options say another one.
_LATEST: Final = SchemaVersion()


def fix_schemas(options: ReadOptions, named: Container[str] | None = None) -> dict[str, FixedSchema]:
    """The schemas of the columns ``key`` and ``value`` that have some, by the names of the columns.

    ``named`` are the columns of a user's own schema, whose types need no schema unless the options name one;
    None where there is no such schema. Raises ``OptionError`` (fatal), and the errors of the registry.
    """
    typed = options.typed
    result: dict[str, FixedSchema] = {}
    for column in typed.columns if typed is not None else ():
        assert typed is not None
        is_named = (column.schema_text, column.version, column.message) != (None, None, None)
        if column.has_schemas and (
            named is None or (column.column in named and (is_named or _is_fixed(typed, column)))
        ):
            result[column.column] = _fix_schema(typed, column, options.selection)
    return result


def _is_fixed(typed: TypedOptions, column: ColumnFormat) -> bool:
    """True if all messages have the schema of the options."""
    return typed.schema_id_from == "none" and column.needs_writer


def schema_in(column: ColumnFormat, fixed: FixedSchema) -> Schema:
    """The parsed schema of a column, whose Arrow type exists. Raises ``OptionError`` (fatal) that names the
    option."""
    try:
        schema = FORMATS[column.format].parsed(fixed)
        _ = schema.arrow_type
    except OptionError as error:
        origin = f": {fixed.origin}" if fixed.origin else ""
        raise error.locate(f"option {column.option}{origin}") from error
    return schema


def _fix_schema(typed: TypedOptions, column: ColumnFormat, selection: Selection) -> FixedSchema:
    if column.schema_text is not None:
        return FixedSchema(column.schema_text, message=column.message, recursion_depth=column.recursion_depth)
    from ..registry import registry_of  # few reads have one

    if typed.registry is None:
        raise OptionError(
            f"option {column.column}Format: {column.format} needs a schema: name the fields with .schema(), "
            f"or set {column.column}Schema, or schema.registry.url"
        )
    version = column.version or _LATEST
    try:
        result = _request_schema(registry_of(typed.registry), typed, column, version, selection)
    except UnknownSchemaError as error:
        raise error.advise(
            f"set {column.column}Subject or {column.column}SchemaVersion, or give {column.column}Schema"
        ) from error
    return fix_registered_schema(column, result)


def fix_registered_schema(column: ColumnFormat, found: RegisteredSchema) -> FixedSchema:
    """A schema of the registry. Raises ``OptionError`` (fatal) if it has another format than the column."""
    origin = (
        f"schema id {found.id}"
        if found.subject is None
        else f"version {found.version} of subject {quote(found.subject)}"
    )
    registered_as = FORMATS[column.format].registered_as
    if found.format != registered_as:
        raise OptionError(
            f"option {column.column}Format: {column.format} is set, and {origin} in the schema registry is "
            f"{found.format}; set that format"
        )
    return FixedSchema(
        found.text, found.dependencies, found.id, origin, column.message, column.recursion_depth
    )


def _request_schema(
    registry: Registry,
    typed: TypedOptions,
    column: ColumnFormat,
    version: SchemaVersion,
    selection: Selection,
) -> RegisteredSchema:
    if version.schema_id is not None:
        return registry.schema(version.schema_id, column.subject)
    subject = column.subject or _subject(typed, column, selection)
    if version.number is not None:
        return registry.version(subject, version.number)
    return registry.latest(subject)


def _subject(typed: TypedOptions, column: ColumnFormat, selection: Selection) -> str:
    """The subject by the strategy, for a read of one topic."""
    topics = {*selection.subscribe, *(tp.topic for tp in selection.assign)}
    if typed.strategy != "RecordName" and len(topics) != 1:
        count = counted(len(topics), "topic") if topics else "the topics of a pattern"
        raise OptionError(
            f"option {column.column}Subject: {count} have no one schema by subjectNameStrategy; set the "
            f"subject, or give {column.column}Schema, or name the fields with .schema()"
        )
    return subject_of(typed.strategy, next(iter(topics), ""), column.message, is_key=column.is_key)


def check_schemas(typed: TypedOptions, schemas: Mapping[str, FixedSchema], names: Container[str]) -> None:
    """Raise ``OptionError`` (fatal) for ``avroSchemaEvolutionMode=restart`` where the next start would have
    the same schema."""
    if not typed.ends_on_new_fields:
        return
    for column in typed.columns:
        fixed = schemas.get(column.column)
        is_latest = fixed is not None and column.schema_text is None and column.version in (None, _LATEST)
        if column.format == "avro" and column.column in names and not is_latest:
            raise OptionError(
                f"option avroSchemaEvolutionMode: restart is for the latest version of a subject; leave "
                f"{column.column}Schema, {column.column}SchemaVersion and .schema() out"
            )
