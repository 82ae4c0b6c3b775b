"""The columns of the source, and what a user's own schema may ask for."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ..errors import OptionError
from ..model import OffsetUnit
from ..options import ReadOptions

#: The columns of Spark's own Kafka connector.
MODERN_SCHEMA: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
#: Its column with ``includeHeaders``: null, not empty, where a record has no headers.
HEADERS_FIELD: Final = StructField(
    "headers",
    ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
)
#: The same, and what names a place in a 0.7 log.
V07_SCHEMA: Final = StructType(
    [
        *MODERN_SCHEMA.fields,
        StructField("broker", IntegerType()),
        StructField("index", IntegerType()),
        StructField("nextOffset", LongType()),
    ]
)


_SCHEMAS: Final = {OffsetUnit.BYTES: V07_SCHEMA, OffsetUnit.RECORDS: MODERN_SCHEMA}


def read_schema(options: ReadOptions) -> StructType:
    """All columns of a read."""
    schema = _SCHEMAS[options.discovery.dialect.offset_unit]
    return StructType([*schema.fields, HEADERS_FIELD]) if options.include_headers else schema


def check_read_schema(schema: StructType, columns: StructType) -> None:
    """A user's schema is a projection: some of the columns, in any order, each with its type.

    Raises ``OptionError`` (fatal) naming the column.
    """
    types = {field.name: field.dataType for field in columns.fields}
    names = schema.fieldNames()
    for field in schema.fields:
        if field.name not in types:
            hint = (
                "set includeHeaders=true"
                if field.name == HEADERS_FIELD.name
                else f"there are {', '.join(types)}"
            )
            raise OptionError(f"schema: there is no column {field.name!r}; {hint}")
        if field.dataType != types[field.name]:
            expected, given = types[field.name].simpleString(), field.dataType.simpleString()
            raise OptionError(
                f"schema: column {field.name!r} is {expected}, not {given}; cast it after load()"
            )
        if names.count(field.name) > 1:
            raise OptionError(f"schema: column {field.name!r} is named twice")
