"""Schemas to which a read resolves its keys and values, fixed when it is planned."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Final

from ..errors import OptionError, UnknownSchemaError, counted, quote
from ..options import ColumnFormat, ReadOptions, SchemaVersion, Selection, TypedOptions
from ..registry import registry_of, subject_of
from ..values.formats import FORMATS, FixedSchema, Schema

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
        # All messages have the schema of the options.
        is_fixed = typed.schema_id_from == "none" and column.needs_writer
        if column.has_schemas and (named is None or (column.column in named and (is_named or is_fixed))):
            result[column.column] = _fix_schema(typed, column, options.selection)
    return result


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
    if typed.registry is None:
        raise OptionError(
            f"option {column.column}Format: {column.format} needs a schema: name the fields with .schema(), "
            f"or set {column.column}Schema, or schema.registry.url"
        )
    return request_schema(
        typed,
        column,
        lambda: _subject(typed, column, selection),
        f"set {column.column}Subject or {column.column}SchemaVersion, or give {column.column}Schema",
    )


def request_schema(
    typed: TypedOptions, column: ColumnFormat, subject: Callable[[], str], advice: str
) -> FixedSchema:
    """The version that the options set, by default the latest one of the subject.

    Raises ``OptionError`` (fatal) if its format is not that of the column, and the errors of the registry.
    ``advice`` is a part of the error if the subject or the version does not exist.
    """
    assert typed.registry is not None
    registry, version = registry_of(typed.registry), column.version or _LATEST
    try:
        if version.schema_id is not None:
            found = registry.schema(version.schema_id, column.subject)
        elif version.number is not None:
            found = registry.version(subject(), version.number)
        else:
            found = registry.latest(subject())
    except UnknownSchemaError as error:
        raise error.advise(advice) from error
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


def _subject(typed: TypedOptions, column: ColumnFormat, selection: Selection) -> str:
    """The subject of the options, or by the strategy, for a read of one topic."""
    if column.subject:
        return column.subject
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
