"""Schemas with which a write encodes its keys and values, fixed when it is planned.

valueSchema           that text; it is looked up, or registered with autoRegisterSchemas=true
valueSchemaVersion    that version of the subject
neither               the latest version of the subject; with autoRegisterSchemas=true the schema that
                      follows from the type of the column, which is registered
schemaIdFrom=none     the same without a subject: messages have no schema id
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ..clients.writing.typed_values import ColumnEncoding, encoder_of
from ..errors import OptionError, UnknownSchemaError, quote
from ..options import ColumnFormat, TypedOptions
from ..registry import Schema as RegistrySchema
from ..registry import registry_of, subject_of
from ..values.formats import FORMATS, FixedSchema, Schema
from ..values.registry_frame import id_prefix, message_indexes
from .schemas import request_schema, schema_in

if TYPE_CHECKING:
    import pyarrow as pa

#: Name of a record whose schema follows from the type of a column, as Spark's ``to_avro`` has it.
_RECORD: Final = "topLevelRecord"


def column_encodings(
    typed: TypedOptions | None, topic: str | None, types: Mapping[str, pa.DataType]
) -> tuple[ColumnEncoding, ...]:
    """The encodings of the columns that have schemas. ``types`` are the Arrow types of the rows' columns.

    Raises ``OptionError`` (fatal) that names the option or the field whose column does not fit, and the
    errors of the registry.
    """
    if typed is None:
        return ()
    result = []
    for column in typed.columns:
        if column.has_schemas:
            if column.column not in types:
                raise OptionError(
                    f"option {column.column}Format: the rows have no column {quote(column.column)}; leave "
                    "the option out"
                )
            result.append(column_encoding(typed, column, topic, types[column.column]))
    return tuple(result)


def column_encoding(
    typed: TypedOptions, column: ColumnFormat, topic: str | None, arrow_type: pa.DataType | None
) -> ColumnEncoding:
    """The encoding of a column, whose type is None if only its tasks know it. Raises as
    ``column_encodings`` does."""
    schema = _schema(typed, column, topic, arrow_type)
    try:
        if arrow_type is not None:
            encoder_of(column.format, schema, arrow_type)
    except OptionError as error:
        origin = f" with {schema.origin}" if schema.origin else ""
        raise error.locate(f"schema: column {quote(column.column)}{origin}") from error
    if typed.schema_id_from == "none":
        return ColumnEncoding(column.column, column.format, schema)
    frame = id_prefix(schema.schema_id)
    if FORMATS[column.format].has_indexes:
        frame += message_indexes(FORMATS[column.format].indexes(schema))
    return ColumnEncoding(column.column, column.format, schema, frame, typed.schema_id_from == "header")


def _schema(
    typed: TypedOptions, column: ColumnFormat, topic: str | None, arrow_type: pa.DataType | None
) -> FixedSchema:
    """The schema of a column, with its id unless messages have none."""
    derives = column.version is None and (typed.auto_register or typed.registry is None)
    derives = derives and arrow_type is not None
    if column.schema_text is None and not derives:
        return request_schema(
            typed,
            column,
            lambda: _subject(typed, column, topic, None),
            f"register a schema first, give {column.column}Schema, or set autoRegisterSchemas=true",
        )
    text = column.schema_text
    if text is None:
        text = FORMATS[column.format].schema_of(arrow_type, column.message or _RECORD).text
    fixed = FixedSchema(text, message=column.message)
    schema = schema_in(column, fixed)
    if typed.schema_id_from == "none":
        return fixed
    subject = _subject(typed, column, topic, schema)
    given = RegistrySchema(FORMATS[column.format].registered_as, text)
    assert typed.registry is not None
    registry = registry_of(typed.registry)
    try:
        number = (registry.register if typed.auto_register else registry.look_up)(subject, given)
    except UnknownSchemaError as error:
        raise error.advise("register it first, or set autoRegisterSchemas=true") from error
    return replace(fixed, schema_id=number, origin=f"schema id {number}")


def _subject(typed: TypedOptions, column: ColumnFormat, topic: str | None, schema: Schema | None) -> str:
    if column.subject is not None:
        return column.subject
    if typed.strategy != "RecordName" and topic is None:
        raise OptionError(
            f"option {column.column}Subject: rows of several topics have no one subject by "
            f"subjectNameStrategy; set the option topic, or {column.column}Subject"
        )
    record = column.message if schema is None else schema.name
    return subject_of(typed.strategy, topic or "", record, is_key=column.is_key)
