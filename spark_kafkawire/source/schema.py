"""The columns of the source, and what a user's own schema may ask for."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ..errors import OptionError

#: Spark's own Kafka columns, then what names a place in a 0.7 log.
READ_SCHEMA: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField("broker", IntegerType()),
        StructField("index", IntegerType()),
        StructField("nextOffset", LongType()),
    ]
)


def check_read_schema(schema: StructType) -> None:
    """A user's schema is a projection: some of the columns, in any order, each with its type.

    Raises ``OptionError`` (fatal) naming the column.
    """
    types = {field.name: field.dataType for field in READ_SCHEMA.fields}
    names = schema.fieldNames()
    for field in schema.fields:
        if field.name not in types:
            raise OptionError(f"schema: there is no column {field.name!r}; there are {', '.join(types)}")
        if field.dataType != types[field.name]:
            expected, given = types[field.name].simpleString(), field.dataType.simpleString()
            raise OptionError(
                f"schema: column {field.name!r} is {expected}, not {given}; cast it after load()"
            )
        if names.count(field.name) > 1:
            raise OptionError(f"schema: column {field.name!r} is named twice")
