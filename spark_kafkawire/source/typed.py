"""Types of the columns ``key`` and ``value`` of a read that has formats, and what its tasks need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.types import DataType, StringType, StructType

from ..errors import OptionError
from ..options import ReadOptions
from ..values.formats import FORMATS, STRING, FixedSchema
from .worker import Packed

if TYPE_CHECKING:
    import pyarrow as pa

    from ..clients.reading.typed_values import TypedTask

#: Schemas by the columns that have them. ``schema()`` fixes those of a query, and its reader has the same.
Schemas = Mapping[str, FixedSchema]


def column_types(options: ReadOptions, schemas: Schemas) -> dict[str, DataType]:
    """The types of the columns ``key`` and ``value`` that are not binary. Raises ``OptionError`` (fatal)."""
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
    """What tasks need to decode keys and values; None if both are binary.

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
        if column.column in schemas and column.column in names:
            reader = schema_in(column, schemas[column.column])
            try:
                FORMATS[column.format].decoder(reader, reader, columns.field(column.column).type)
            except OptionError as error:
                raise error.located(f"schema: column '{column.column}'") from error
    return Packed(TypedTask(options.typed, dict(schemas)))
