"""Types of the columns ``key`` and ``value`` of a read that has formats, and what its tasks need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.types import DataType, StringType, StructType

from ..errors import OptionError
from ..options import ReadOptions
from ..values.formats import FORMATS, STRING, FixedSchema
from .schema import read_schema
from .worker import Packed

if TYPE_CHECKING:
    import pyarrow as pa

    from ..clients.reading.typed_values import TypedTask

#: Schemas by the columns that have them. ``schema()`` fixes those of a query, and its reader has the same.
Schemas = Mapping[str, FixedSchema]


def planned_columns(options: ReadOptions) -> tuple[StructType, Schemas]:
    """All columns of a read, and the schemas that are fixed for it.

    Raises ``OptionError`` (fatal), and the errors of the registry.
    """
    if options.typed is None:
        return read_schema(options), {}
    from ..planner.schemas import fixed_schemas

    schemas = fixed_schemas(options)
    return read_schema(options, _types(options, schemas)), schemas


def _types(options: ReadOptions, schemas: Schemas) -> dict[str, DataType]:
    """The types of the columns ``key`` and ``value`` that are not binary."""
    from ..planner.schemas import schema_in
    from .spark_versions import spark_type

    types: dict[str, DataType] = {}
    for column in options.typed.columns if options.typed is not None else ():
        if column.format == STRING:
            types[column.column] = StringType()
        elif column.column in schemas:
            types[column.column] = spark_type(schema_in(column, schemas[column.column]).arrow_type)
    return types


def typed_task(
    options: ReadOptions, schema: StructType, columns: pa.Schema, schemas: Schemas | None
) -> Packed[TypedTask] | None:
    """Formats and schemas for the tasks of a read; None if keys and values are binary.

    ``schemas`` are None where the user gave ``schema``, so that none was fixed before. ``columns`` is
    ``schema`` in Arrow's types. Raises ``OptionError`` (fatal) for a column that cannot have its type, and
    the errors of the registry.
    """
    if options.typed is None:
        return None
    from ..clients.reading.typed_values import TypedTask
    from ..planner.schemas import check_schemas, fixed_schemas, schema_in

    names = schema.fieldNames()
    if schemas is None:
        schemas = fixed_schemas(options, names)
    check_schemas(options.typed, schemas, names)
    for column in options.typed.columns:
        if not column.has_schemas or column.column not in names:
            continue
        form, fixed = FORMATS[column.format], schemas.get(column.column)
        reader = None if fixed is None else schema_in(column, fixed)
        if reader is not None or not form.needs_writer:
            try:
                form.decoder(reader if form.needs_writer else None, reader, columns.field(column.column).type)
            except OptionError as error:
                raise error.located(f"schema: column '{column.column}'") from error
    return Packed(TypedTask(options.typed, dict(schemas)))
